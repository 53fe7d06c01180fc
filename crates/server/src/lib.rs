//! Arrow Flight SQL over a Pelton session.

#![forbid(unsafe_code)]
