//! Floats that are one value to SQL and differ in their bits: -0.0 and 0.0, and all the NaNs.
//!
//! For SQL, -0.0 equals 0.0, NaN equals NaN, and NaN is greater than all numbers, in every place where values are
//! compared, as in PostgreSQL and DuckDB. DataFusion and arrow compare bits: most places fold -0.0 into 0.0 first, some
//! do not, and none folds NaNs, of which processors make one with a sign (0.0 / 0.0 on x86), which sorts first.
//!
//! One mechanism: `float_key(x)` is x with one zero and one NaN, the values whose order by bits is SQL's. `rule.rs` puts
//! it around operands where that can make a difference:
//!
//! ```text
//!   place                                        what DataFusion does            float_key unless
//!   IN lists, IN (subquery), CASE x WHEN         compares bits                   no zero and no NaN is stored
//!   x = y between columns: keys of joins         runtime filters compare bits    no zero and no NaN is stored
//!   count(DISTINCT x), mode, windows, sorts      compares bits                   no zero and no NaN is stored
//!   = <> < <= > >=, BETWEEN, IS DISTINCT FROM    folds zeros                     no NaN is stored
//!   GROUP BY, DISTINCT, UNION, min, max          folds zeros                     no NaN is stored
//!   greatest, least, median, percentile_…        by bits                         no NaN is stored
//! ```
//!
//! What is stored in a Pelton table its metadata tells; of what a query computes, or reads from a file, nothing is
//! known. A result shows values as they are: `SELECT -0.0` is -0. Zone maps and Bloom filters treat the two zeros and all
//! NaNs alike, so they are asked about the column inside (`predicate.rs`).

mod extreme;
mod function;
mod nested;
mod origin;
mod rule;

pub(crate) use function::NAME;
pub(crate) use rule::FloatKeyRule;
