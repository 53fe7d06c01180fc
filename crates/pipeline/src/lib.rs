//! Query pipelines over column chunks, on GPUs and on the host.

#![deny(unsafe_code)]

pub mod ir;

mod rows;
mod text;

mod home;
mod program;

pub use rows::{RowColumn, RowValues, Rows};
pub use text::{Dictionary, TextSource};
