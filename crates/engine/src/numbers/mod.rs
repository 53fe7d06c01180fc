//! Numbers as the SQL standard has them: exact decimals, and an error instead of a wrong number.
//!
//! ```text
//!   SQL text ── literals ──▶ 1.5 is a DECIMAL, 1.5e0 a DOUBLE, columns of VALUES of both are DOUBLE
//!       │                    sum, avg, percentile_cont: ours, exact
//!       │                    row_number, rank, dense_rank, ntile: ours, BIGINT
//!       ▼
//!   logical plan ── types ──▶ decimals beside doubles and texts, division of decimals
//!       │      DataFusion brings operands to one type
//!       ├── overflow ──▶ + - * and unary minus become checked functions
//!       ├── linear ────▶ sums of one column plus constants become one sum
//!       ├── doubles ───▶ decimals of many digits become the nearest double, not one beside it
//!       ▼
//!   optimizer, physical plan: constants are folded, and rows computed, by the same checked code
//! ```
//!
//! The rules and why they are so: `docs/decisions/0009-numbers.md`.

mod avg;
mod checked;
mod columns;
mod decimals;
mod distinct;
mod doubles;
mod ints;
mod linear;
mod literals;
mod name;
mod overflow;
mod percentile;
mod sum;
mod total;
mod types;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::AggregateUDF;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::optimizer::{Analyzer, AnalyzerRule, OptimizerRule};

use crate::window_functions::ranks;
pub(crate) use avg::{average, is_avg, is_exact, unit_of};
pub(crate) use checked::{Checked, CheckedOp};
pub(crate) use columns::write_columns;
pub(crate) use doubles::{INTEGER_MAX, NEAREST_DOUBLE, POWER_MAX};
pub(crate) use literals::write_doubles;
pub(crate) use sum::{is_sum, sum};
pub(crate) use total::{Summand, Total, for_summand, sum_type, too_large, totals_as};

/// Adds the rules of numbers to a session that is being built: its option `parse_float_as_decimal` is set, `sum`, `avg` and
/// `percentile_cont` are replaced, `row_number`, `rank`, `dense_rank` and `ntile` give BIGINT, and the analyzer checks
/// arithmetic.
pub fn with_numbers(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let config = builder.config().take().unwrap_or_default();
    let config = config.set_bool("datafusion.sql_parser.parse_float_as_decimal", true);
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.push(sum());
    aggregates.push(Arc::new(AggregateUDF::from(avg::Avg::new())));
    aggregates.push(Arc::new(AggregateUDF::from(percentile::PercentileCont::new())));
    builder.window_functions().get_or_insert_default().extend(ranks());
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(types::DecimalDivision));
    let mut analyzer = builder.analyzer().take().unwrap_or_default();
    add_rules(&mut analyzer);
    let mut optimizer = builder.optimizer().take().unwrap_or_default();
    keep_types(&mut optimizer);
    *builder.analyzer() = Some(analyzer);
    *builder.optimizer() = Some(optimizer);
    builder.with_config(config)
}

/// One rule before types are coerced and three after.
fn add_rules(analyzer: &mut Analyzer) {
    let types: Arc<dyn AnalyzerRule + Send + Sync> = Arc::new(types::NumberTypes);
    let is_coercion = |rule: &Arc<dyn AnalyzerRule + Send + Sync>| rule.name() == "type_coercion";
    let coercion = analyzer.rules.iter().position(is_coercion).unwrap_or(analyzer.rules.len());
    analyzer.rules.insert(coercion, types);
    analyzer.rules.push(Arc::new(overflow::CheckedArithmetic));
    analyzer.rules.push(Arc::new(linear::LinearSums));
    analyzer.rules.push(Arc::new(doubles::NearestDoubles));
}

fn keep_types(optimizer: &mut Optimizer) {
    let ours: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(distinct::DistinctKeepsTypes::default());
    for rule in &mut optimizer.rules {
        if rule.name() == ours.name() {
            *rule = Arc::clone(&ours);
        }
    }
}
