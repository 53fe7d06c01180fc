//! SQL as text, where no grammar is needed: its tokens, where statements end, which place an error is about, and how
//! that is shown. What the shell and the server tell their users about a statement is the same because both tell it
//! with this.
//!
//! DataFusion parses and plans; what is here only has to agree with it on quotes and comments.

#![forbid(unsafe_code)]

mod distance;
mod drawing;
mod find;
mod lex;
mod literal;
mod pieces;
mod place;
mod width;

pub use distance::nearest;
pub use drawing::{Part, drawn};
pub use lex::{Kind, Token, tokens};
pub use pieces::{GrowingScript, Piece, is_complete, is_word_of_shell, pieces};
pub use place::{Complaint, complaint};
pub use width::{clipped, columns};
