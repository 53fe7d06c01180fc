//! Data files as one relation: listed, held to one schema, cut into parts, read.
//!
//! ```text
//!   names, globs, folders, URLs ──files──▶ list ──sources──▶ schema of all ◀──agree── what each tells, or its text shows
//!                                              │                                           parquet, ipc │ infer: csv, json
//!                                              ▼
//!                                   parts, read on any thread as the columns and types that a view asks for
//! ```
//!
//! Loading a file and querying it in place are the same here, so that both see the same columns, types and rows.
//!
//! Invariants: columns go by name; a value that a column's type does not hold exactly is an error that names file, line,
//! column and value, never another value; what is inferred does not depend on threads or timing. Deliberately absent:
//! tables, SQL, and threads but those that look at text.

#![forbid(unsafe_code)]

mod options;
mod types;

mod files;
mod folders;
mod object;
mod place;

mod decode;
mod text;

mod column;
mod seen;
mod values;

mod csv;
mod ipc;
mod json;
mod parquet;

mod agree;
mod infer;
mod sources;

pub use crate::parquet::check_layout;
pub use agree::union_of;
pub use files::{FileStamp, Listed, has_files, list, list_found};
pub use options::{
    Encoding, InferRows, InputFormat, TextOptions, parse_char, parse_column_types, parse_optional_char,
};
pub use sources::{OpenOptions, Part, Parts, Sources, View};
pub use text::TextBlock;
pub use types::{parse_type, type_name};
