#![no_main]

use std::sync::LazyLock;

use pelton_fuzz::readers::PatchedTable;

static TABLE: LazyLock<PatchedTable> = LazyLock::new(|| PatchedTable::new(&std::env::temp_dir()));

libfuzzer_sys::fuzz_target!(|data: &[u8]| TABLE.table(data));
