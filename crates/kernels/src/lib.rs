//! The CUDA primitives of `cuda/`, one safe function each.

#![deny(unsafe_code)]
