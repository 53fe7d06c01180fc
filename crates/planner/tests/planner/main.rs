//! The two rules within a session: which orders come out, and that results stay the same.

mod estimates;
mod order;
mod results;
mod support;
