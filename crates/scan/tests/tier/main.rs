//! Chunks that reach a device decode to the values of the table, whatever tier they come from.

mod caching;
mod decompressing;
mod fixture;
mod prefetching;
mod texts;
