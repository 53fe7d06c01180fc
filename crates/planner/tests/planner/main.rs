//! The two rules within a session: which orders come out, and that results stay the same.

mod order;
mod results;
mod support;
