//! The files of `tests/slt` under every configuration: a test each, so that a failure names its configuration.

use std::path::Path;

use pelton_engine::MemoryTest;
use pelton_io::IoMode;
use pelton_sqltest::{Config, Engine, run_files};

/// A disk, for direct I/O.
const DISK: &str = env!("CARGO_TARGET_TMPDIR");
/// Compiled kernels, for all configurations and the next run.
const PROGRAMS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/programs");
/// Where waiting for a disk to sync costs nothing.
const MEMORY: &str = "/dev/shm";

fn hold(engine: Engine, scratch: &str) {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let scratch = if Path::new(scratch).is_dir() { scratch } else { DISK };
    match run_files(&engine, &files, Path::new(scratch)) {
        Ok(count) => assert!(count > 0, "no record was run"),
        Err(error) => panic!("{error}"),
    }
}

macro_rules! configurations {
    ($($name:ident => $config:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let change: fn(Config) -> Config = $config;
                hold(Engine::pelton(change(Config::new(stringify!($name)))), MEMORY);
            }
        )*
    };
}

configurations! {
    default => |config| config;
    one_row_batches => |config| config.batch_rows(1).own_tables();
    tiny_batches => |config| config.batch_rows(7).own_tables();
    tiny_row_groups => |config| config.row_groups(7, 1024).own_tables();
    small_row_groups_in_snappy => |config| config.row_groups(64, 1024).codec("snappy");
    small_pages_in_zstd => |config| config.row_groups(8192, 1024).codec("zstd");
    plain_values => |config| config.encoding("plain");
    dictionary_values_in_deflate => |config| config.encoding("dict+bitpack").codec("deflate");
    run_length_values => |config| config.encoding("dict+rle").row_groups(100, 1024).own_tables();
    symbols => |config| config.encoding("fsst+plain");
    symbols_in_small_row_groups => |config| config.encoding("fsst+plain").codec("lz4").row_groups(64, 1024);
    no_skipping => |config| config.no_skipping().own_tables();
    no_join_order => |config| config.no_join_order().own_tables();
    positioned_reads_of_plain_bytes => |config| config.io(IoMode::Buffered, false).codec("none");
    one_thread_and_lz4 => |config| config.threads(1).codec("lz4").own_tables();
    kernels => |config| config.kernels(PROGRAMS);
    kernels_in_little_memory => |config| config.kernels(PROGRAMS).device_memory_limit(1 << 20).row_groups(7, 1024);
    kernels_on_three_devices => |config| config.kernels(PROGRAMS).devices(3).row_groups(7, 1024);
    kernels_refused_memory => |config| config.kernels(PROGRAMS).memory_test(MemoryTest::RefuseOnce).row_groups(64, 1024);
    kernels_that_spill => |config| config.kernels(PROGRAMS).memory_test(MemoryTest::SpillAlways).row_groups(64, 1024);
    kernels_that_spill_tables => |config| config.kernels(PROGRAMS).memory_test(MemoryTest::SpillTables).row_groups(64, 1024);
}

#[test]
fn direct_io() {
    hold(Engine::pelton(Config::new("direct_io").io(IoMode::Direct, true)), DISK);
}

/// The expected rows are not Pelton's own opinion.
#[test]
fn datafusion() {
    hold(Engine::DataFusion, MEMORY);
}
