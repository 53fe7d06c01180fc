//! Tests of the chunk's contract through its public face.

mod columns;
mod corrupt;
mod decompress;
mod from_spec;
mod golden;
mod round_trip;
