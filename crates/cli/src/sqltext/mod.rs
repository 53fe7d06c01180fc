//! SQL as text, where no grammar is needed: its tokens, where statements end, and which place an error is about.
//!
//! DataFusion parses and plans; what is here only has to agree with it on quotes and comments.

mod distance;
mod find;
mod lex;
mod pieces;
mod place;

pub(crate) use distance::nearest;
pub(crate) use lex::{Kind, Token, tokens};
pub(crate) use pieces::{Piece, is_complete, is_word_of_shell, pieces};
pub(crate) use place::{Complaint, complaint};
