//! Plans run on a GPU, or the host target without one, against the same computed row by row.

#[path = "../../../scan/tests/tier/fixture.rs"]
#[allow(dead_code)]
mod fixture;

mod aggregates;
mod cancelling;
mod checks;
mod columns;
mod doubles;
mod groups;
mod groups_out;
mod growth;
mod joins;
mod memory;
mod oracle;
mod order;
mod overflow;
mod skipping;
mod text_extremes;
mod text_order;
mod text_reference;
mod texts;
mod top;
mod workers;

use tempfile as _; // of the fixture, whose file is another crate's
