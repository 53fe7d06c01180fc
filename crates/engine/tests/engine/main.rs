//! Sessions on the CPU, and what they have in common with those of a device: one program, since each takes some time to link.

#[path = "../common/mod.rs"]
mod common;

mod aggregates;
mod beside;
mod counted;
mod distinct;
mod eager;
mod embed;
mod empty_values;
mod estimates;
mod filter_order;
mod guards;
mod intervals;
mod kept;
mod lateral;
mod levels;
mod names;
mod numbers;
mod orders;
mod outer_keys;
mod planning;
mod profile;
mod recursion;
mod reuse;
mod same;
mod shared;
mod similar;
mod skipping;
mod spellings;
mod standard;
mod three_valued;
mod titles;
mod using;
mod windows;
mod zones;
