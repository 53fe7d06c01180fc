//! Sessions over damaged, changing and crowded tables, in this process: a panic or a hang is seen at once.

// Used by the fuzz targets' readers, which `readers` includes by path.
use pelton_chunk as _;
use xxhash_rust as _;

mod damage;
mod flips;
mod harness;
mod memory;
mod readers;
mod snapshot;
