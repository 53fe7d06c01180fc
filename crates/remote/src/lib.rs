//! Objects by URL.

#![forbid(unsafe_code)]
