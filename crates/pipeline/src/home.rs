//! Data homes.
