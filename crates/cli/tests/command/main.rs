//! The `pelton` command as a user meets it: what it prints, with what exit status, and what it leaves behind
//! when it is interrupted, killed, or out of room.

mod bounds;
mod console;
mod golap;
mod harness;
mod interrupt;
mod kill;
mod layer;
mod limits;
mod load;
mod memory;
mod profile;
mod spill;
mod sql;
mod substrait;
