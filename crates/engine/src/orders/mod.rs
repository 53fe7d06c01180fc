//! Orders and constants that DataFusion takes for known though they are not.
//!
//! DataFusion leaves out sorts, and keys of sorts, groups and windows, where it knows that rows come in their order or have one
//! value of them. DataFusion 55 is wrong about some:
//!
//! ```text
//!   rows in the order of ts, ORDER BY CAST(ts AS TIME)     not sorted: casts of temporal types are taken to keep it
//!   ORDER BY x OR NULL,  ORDER BY log(0.5, x)              not sorted: likewise
//!   WHERE CAST(x AS INTEGER) = 3 ORDER BY x, k             sorted by k: x is taken for 3, since the cast is
//!   WHERE i / 10 = 1 ORDER BY i                            not sorted: i is taken for 10
//!   a window over rows WHERE CAST(t AS DECIMAL) = 1        an error: that the cast is constant is forgotten later
//!   GROUP BY CUBE (k, 'a')                                 groups come twice: the second key is taken for 'a', never NULL
//!   (… ORDER BY ts LIMIT 3) ORDER BY date_trunc('day', ts) the first 3 by their days alone
//!   a LEFT JOIN (SELECT 7 AS c, …) ORDER BY c, id          sorted by id: c is taken for 7, though it is NULL, too
//!   GROUP BY ROLLUP (m), by m in order; joins of two orders not sorted: what holds of the input is taken to hold above
//!   PARTITION BY length(t) > 1                             an error: what is just sorted is not recognised as that
//! ```
//!
//! One mechanism for most: `as_is(x)` is x, of which nothing is known. `casts.rs` puts it, in logical plans, into
//! casts that change the order, which by the way keeps DataFusion from skipping row groups of Parquet files by the casts of
//! their bounds. `filters.rs` puts it, just before sorts are added and left out, into conditions that several values meet where
//! DataFusion finds one; scans have their filters by then. Kernels (`gpu/expr.rs`) and estimates look through it. For the
//! window, `pushed.rs` leaves projections where they are; `limits.rs` keeps limits of subqueries with their orders, and
//! `distinct.rs` takes those of DISTINCT from groups in an order. `claims.rs` puts it below joins and into groups of which more is said than holds, `keys.rs` into keys that compare.

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;

mod casts;
mod claims;
mod distinct;
mod filters;
mod function;
mod keys;
mod limits;
mod pushed;

pub(crate) use casts::OrderlessCasts;
pub(crate) use function::{AS_IS, any_of, as_is};
pub(crate) use keys::ComparedKeys;

/// DataFusion's rules with these among them.
pub(crate) fn install(rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
    pushed::install(rules);
    let arranging = claims::SoundOrders::new();
    // A session of somebody's own may have left the rule out.
    if let Some(place) = rules.iter().position(|rule| rule.name() == arranging.name()) {
        rules[place] = Arc::new(arranging);
        rules.insert(place, Arc::new(limits::LimitsOfSorts));
        rules.insert(place, Arc::new(filters::ManyValues));
        rules.push(Arc::new(distinct::LimitsOfDistinct));
    }
}
