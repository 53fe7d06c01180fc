//! `pelton serve` as its clients meet it: right answers under load and under a small memory limit, nothing left of
//! queries that end early, errors for whatever is malformed, and an orderly end.

mod bounds;
mod ends;
mod harness;
mod load;
mod malformed;
mod starts;
