//! Deterministic generators: Star Schema Benchmark, TPC-H, taxi trips.
