//! Cost-based join order for DataFusion plans.
//!
//! DataFusion joins tables in the order of the query and chooses only build sides. The two physical
//! optimizer rules here put inner joins into the cheapest order they find and settle build sides by the
//! same estimates; they work on any plan whose scans know their row counts.
//!
//! ```text
//!   plan ─ region ─► graph ─ enumerate ─► order ─ rebuild ─► plan ─ JoinSelection ─ sides ─► plan
//!                      ▲
//!        profile, selectivity, cardinality, estimate
//! ```
//!
//! Read in this order: what is known of rows and columns (`profile`), what predicates keep
//! (`selectivity`), what joins make of it (`cardinality`), walked over a plan (`estimate`); the joins of
//! a query as a graph (`graph`, cut from a plan by `region` and `classify`), the search (`enumerate`), the way back
//! (`rebuild`); the rules (`rule`, `sides`) and the plan in print (`annotate`, `quoted`).
//!
//! ```
//! # use std::sync::Arc;
//! # use datafusion::execution::session_state::SessionStateBuilder;
//! # use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
//! let rules = pelton_planner::install(PhysicalOptimizer::new().rules);
//! let state = SessionStateBuilder::new()
//!     .with_default_features()
//!     .with_physical_optimizer_rules(rules)
//!     .build();
//! # assert_eq!(state.physical_optimizers()[2].name(), "pelton_join_order");
//! ```
#![forbid(unsafe_code)]

mod annotate;
mod cardinality;
mod classify;
mod enumerate;
mod estimate;
mod graph;
mod profile;
mod quoted;
mod rebuild;
mod region;
mod rule;
mod selectivity;
mod sides;

pub use annotate::annotate;
pub use estimate::{Estimates, StandsFor, estimated_rows};
pub use quoted::quoted;
pub use rule::{JoinOrder, install};
pub use selectivity::{AS_IS, predicate_selectivity};
pub use sides::{JoinSides, keys_are_words};
