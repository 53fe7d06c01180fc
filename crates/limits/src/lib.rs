//! What a process may take of its machine, and what it has taken: memory, and disk space to spill to.
//!
//! ```text
//!   machine ── what machine, control group and ulimit leave ──▶ MemoryLimit: 80 % of that unless told otherwise
//!   Heap    ── the global allocator, which counts ──▶ bytes in use: of the process, and large ones of each Account
//!   huge pages ── not for what a process begins with
//!   watcher ── compares both every few milliseconds ──▶ the Account that holds the most is over, and its query fails
//!   SpillSpace ── files without a name, counted against a limit
//!   check_threads ── that the system starts as many threads as a pool needs
//!   NewFile    ── a file that has its name only once it is complete
//! ```
//!
//! An allocation that is refused ends a Rust program, so nothing here refuses one: work asks [`Account::check_room`]
//! before it makes something large, and what did not ask is stopped by the watcher. The last resort is in
//! [`set_last_resort`]: past it, the process ends with a line that says why, before the kernel kills it or another.

#![deny(unsafe_code)]

mod account;
mod code;
mod heap;
mod huge_pages;
mod machine;
mod memory_limit;
mod new_file;
mod size;
mod spill;
mod threads;
mod watcher;

pub use account::{Account, Entered, Excess, NoRoom, process_room};
pub use code::let_code_go;
pub use heap::{Heap, heap_bytes, set_last_resort, set_purge_delay};
pub use huge_pages::{begin_with_small_pages, go_on_with_huge_pages};
pub use machine::{Available, available_memory};
pub use memory_limit::{DEFAULT_PERCENT, MemoryLimit, SLACK_BYTES, ceiling_bytes};
pub use new_file::NewFile;
pub use size::{bytes_text, parse_size};
pub use spill::{
    SpillFile, SpillFolder, SpillLimit, SpillOptions, SpillReader, SpillSpace, default_spill_dir,
};
pub use threads::check_threads;
pub use watcher::set_process_limit;
