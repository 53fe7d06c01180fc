//! Pelton tables in DataFusion.
