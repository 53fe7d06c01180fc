//! Chunks that reach a device decode to the values of the table, whatever tier they come from.

mod feeding;
mod fixture;
mod keeping;
mod texts;
mod unpacking;
