//! Experiments: workloads, runner, result format.
