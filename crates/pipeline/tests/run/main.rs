//! Plans run on the host target, against the same computed row by row.

#[path = "../home/fixture.rs"]
#[allow(dead_code)]
mod fixture;

mod aggregates;
mod columns;
mod joins;
mod oracle;
