//! The shell as a user meets it: the built command on a pseudo-terminal, keys in, a screen out; and with a pipe.

mod cancel;
mod commands;
mod editing;
mod errors;
mod output;
mod piped;
mod terminal;
