//! The functions that the fuzz targets call.

#![forbid(unsafe_code)]

pub mod readers;
