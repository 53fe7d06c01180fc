//! How many cores this process may use.

use std::sync::OnceLock;

/// Cores that this process may use, at least 1, as it was when somebody first asked: the system answers from some ten files,
/// which planning a query would read for each of its tables.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, Into::into))
}
