//! Pelton tables in DataFusion: table provider, skipping, statistics, join order, EXPLAIN.
