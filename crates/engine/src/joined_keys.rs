//! The key of one side of a join is no key of groups that have other columns as well.
//!
//! ```text
//!   SELECT DISTINCT a FROM (SELECT g.a, u.c FROM (SELECT a FROM t GROUP BY a) AS g JOIN u ON u.x = g.a GROUP BY g.a, u.c)
//!
//!   Distinct  a                            an a for each c, for the DISTINCT was left out
//!     Projection  a
//!       Aggregate  g.a, u.c
//!         Join  u.x = g.a           ─▶       Projection  as_is(g.a) AS a, u.c
//!           Aggregate  a                       Join  u.x = g.a
//!             Scan t                             …
//!           Scan u
//! ```
//!
//! What a key decides before a join it decides after it, too, though rows come several times then. DataFusion 55 takes such a key
//! for one of all groups that have it among their columns: `a` alone for one of `a, c`. So it leaves out DISTINCT, and keys of
//! ORDER BY and GROUP BY behind `a`; and joins with such groups. Of a call it knows no key.
//!
//! What depends on a key is added to GROUP BY when a statement is planned, before any rule runs. Where groups stand above such
//! groups, Pelton's sessions plan the statement once more (`subqueries/unnested.rs`); a plan of another planner is left as it is
//! there. Groups that DISTINCT becomes are looked at when it does.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Dependency, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::orders::as_is;
use crate::planning;
use crate::subqueries::groups_unnested;

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// `rules` with the one of this file in place of DataFusion's that makes groups of DISTINCT.
pub(crate) fn install(mut rules: Rules) -> Rules {
    let ours = DistinctGroups::default();
    let theirs = rules.iter().position(|rule| rule.name() == ours.name());
    let place = theirs.expect("DataFusion makes groups of DISTINCT by another rule now");
    rules[place] = Arc::new(ours);
    rules
}

/// Runs before types are coerced, which computes all schemas anew.
#[derive(Debug)]
pub(crate) struct JoinedKeys;

impl AnalyzerRule for JoinedKeys {
    fn name(&self) -> &str {
        "pelton_joined_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !planning::is_ours() && groups_unnested(&plan)? {
            return Ok(plan);
        }
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) => without_false_keys(aggregate),
            other => Ok(Transformed::no(other)),
        });
        Ok(rewritten?.data)
    }
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug, Default)]
struct DistinctGroups {
    theirs: ReplaceDistinctWithAggregate,
}

impl OptimizerRule for DistinctGroups {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.theirs.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_looked_at = matches!(plan, LogicalPlan::Distinct(_)) || planning::is_ours();
        self.theirs.rewrite(plan, config)?.transform_data(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) if is_looked_at => without_false_keys(aggregate),
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Whether DataFusion takes some columns of `aggregate` for keys that are none.
pub(crate) fn has_false_keys(aggregate: &Aggregate) -> bool {
    !false_keys(aggregate).is_empty()
}

/// `aggregate` over calls in place of the columns that are taken for its keys.
pub(crate) fn without_false_keys(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let keys = false_keys(&aggregate);
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let columns = aggregate.input.schema().columns().into_iter().enumerate();
    let columns = columns.map(|(place, column)| match keys.contains(&place) {
        true => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            as_is(Expr::Column(column)).alias_qualified(relation, name)
        }
        false => Expr::Column(column),
    });
    let input = Projection::try_new(columns.collect(), Arc::clone(&aggregate.input))?;
    let input = Arc::new(LogicalPlan::Projection(input));
    let groups = Aggregate::try_new(input, aggregate.group_expr, aggregate.aggr_expr)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(groups)))
}

/// The columns below `aggregate` that are taken for keys of its groups, though these have other columns that do not depend on
/// them.
fn false_keys(aggregate: &Aggregate) -> HashSet<usize> {
    let schema = aggregate.input.schema();
    let dependencies = schema.functional_dependencies();
    if dependencies.is_empty() {
        return HashSet::new();
    }
    let (keys, columns) = (&aggregate.group_expr, schema.field_names());
    // DataFusion looks for them by name.
    let names: HashSet<String> = keys.iter().map(|key| key.schema_name().to_string()).collect();
    let read = keys.iter().flat_map(|key| key.column_refs());
    let read: HashSet<usize> = read.filter_map(|column| schema.maybe_index_of_column(column)).collect();
    let is_volatile = keys.iter().any(Expr::is_volatile);
    let taken = dependencies.iter().filter(|dependency| {
        let (sources, targets) = (&dependency.source_indices, &dependency.target_indices);
        let decides_all =
            !is_volatile && read.iter().all(|place| sources.contains(place) || targets.contains(place));
        // What is of one row alone decides all others.
        dependency.mode == Dependency::Multi
            && !decides_all
            && sources.iter().all(|source| names.contains(&columns[*source]))
    });
    taken.flat_map(|dependency| dependency.source_indices.iter().copied()).collect()
}
