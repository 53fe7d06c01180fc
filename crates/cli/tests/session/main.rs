//! Sessions over damaged, changing and crowded tables, in this process: a panic or a hang is seen at once.

mod damage;
mod flips;
mod harness;
mod memory;
mod readers;
mod snapshot;
