//! Random data and naive reference operators for tests; never a normal dependency.
