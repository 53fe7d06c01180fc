//! Cost-based join order for DataFusion plans.
