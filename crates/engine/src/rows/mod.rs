//! Rows as text: what `--output`, COPY and INSERT write alike.

mod delimited;
mod json;

pub use delimited::Delimited;
pub use json::NonFinite;
