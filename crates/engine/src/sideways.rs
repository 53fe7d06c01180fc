//! Dimension predicates skip row groups of the fact table before any join runs.
//!
//! ```text
//!   lineorder ──lo_custkey = c_custkey──▶ customer, c_region = 'ASIA'
//!       │
//!       └─ each row group of lineorder carries zone maps of c_region over the customers its rows
//!          reference: where 'ASIA' cannot be among them, the row group is not read
//! ```
//!
//! A physical rule. It walks the plan and collects *links*: column a of scan A must equal column b of scan
//! B, or else a row of A cannot reach the result. A link holds where a join drops unmatched rows of A's
//! side and every operator between that join and A's scan handles rows one by one, so that dropping a row
//! at the scan drops just its descendants. Where the links of a declared path (fact → dimension → …) are
//! all there, the last dimension's own predicate is tested on the fact's sideways zone maps.
//!
//! Follows Boeschen, Ziegler, Binnig, "GOLAP: A GPU-in-Data-Path Architecture", 2024, section 4.3, extended
//! to paths over several tables and to every join type.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use pelton_store::SidewaysColumn;
use pelton_zone::Predicate;

use crate::scan::{PeltonScanExec, SidewaysFilter};

/// Attaches dimension predicates to scans of fact tables.
#[derive(Debug, Default)]
pub(crate) struct SidewaysRule;

impl PhysicalOptimizerRule for SidewaysRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut found = Findings::default();
        found.visit(&plan);
        if !found.scans.iter().any(|scan| scan.has_sideways_metadata()) {
            return Ok(plan);
        }
        let mut position = 0;
        let rewritten = plan.transform_down(|node| {
            let Some(scan) = node.downcast_ref::<PeltonScanExec>() else { return Ok(Transformed::no(node)) };
            let scan_id = position;
            position += 1;
            let (filters, notes) = found.filters_for(scan_id);
            if filters.is_empty() && notes.is_empty() {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(scan.with_sideways(filters, notes)?) as Arc<dyn ExecutionPlan>))
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &str {
        "pelton_sideways"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A column of a scan, by the scan's position in a pre-order walk and the table's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    scan: usize,
    column: usize,
}

/// What is known of an operator's output.
struct Output {
    /// Where each output column comes from, if straight from a scan.
    origins: Vec<Option<Origin>>,
    /// Scans whose rows may be dropped where a parent would drop all that descends from them.
    droppable: BTreeSet<usize>,
}

/// Rows of `from.scan` reach the result only if `from` equals some value of `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link {
    from: Origin,
    to: Origin,
}

#[derive(Default)]
struct Findings {
    scans: Vec<PeltonScanExec>,
    links: Vec<Link>,
}

impl Findings {
    fn visit(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Output {
        if let Some(scan) = plan.downcast_ref::<PeltonScanExec>() {
            return self.visit_scan(scan);
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return self.visit_join(join);
        }
        let children: Vec<Output> = plan.children().into_iter().map(|child| self.visit(child)).collect();
        let column_count = plan.schema().fields().len();
        let unknown = || Output { origins: vec![None; column_count], droppable: BTreeSet::new() };
        let [child] = <[Output; 1]>::try_from(children).unwrap_or_else(|_| [unknown()]);
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let exprs = projection.expr().iter();
            let origins = exprs.map(|projected| origin_of(&projected.expr, &child.origins)).collect();
            return Output { origins, ..child };
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let origins = match filter.projection().as_ref() {
                Some(columns) => columns.iter().map(|&column| child.origins[column]).collect(),
                None => child.origins,
            };
            let droppable = if filter.fetch().is_none() { child.droppable } else { BTreeSet::new() };
            return Output { origins, droppable };
        }
        let row_by_row = plan.is::<RepartitionExec>()
            || plan.is::<CooperativeExec>()
            || plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|node| node.fetch().is_none())
            || plan.downcast_ref::<SortExec>().is_some_and(|node| node.fetch().is_none());
        if row_by_row && child.origins.len() == column_count { child } else { unknown() }
    }

    fn visit_scan(&mut self, scan: &PeltonScanExec) -> Output {
        let scan_id = self.scans.len();
        self.scans.push(scan.clone());
        let origins =
            scan.projection().iter().map(|&column| Some(Origin { scan: scan_id, column })).collect();
        let droppable = if scan.fetch_rows().is_none() { BTreeSet::from([scan_id]) } else { BTreeSet::new() };
        Output { origins, droppable }
    }

    fn visit_join(&mut self, join: &HashJoinExec) -> Output {
        let left = self.visit(join.left());
        let right = self.visit(join.right());
        // Where NULL keys match each other, metadata of a dimension's keys says nothing of the rows without one.
        let nulls_match = join.null_equality() == NullEquality::NullEqualsNull;
        // NOT IN asks of the other side whether it has rows at all, and one whose key is NULL.
        let (drops_left, drops_right) = match nulls_match || join.null_aware {
            true => (false, false),
            false => drops_unmatched(join.join_type()),
        };
        for (left_key, right_key) in join.on() {
            let (left_key, right_key) =
                (origin_of(left_key, &left.origins), origin_of(right_key, &right.origins));
            let (Some(left_key), Some(right_key)) = (left_key, right_key) else { continue };
            if drops_left && left.droppable.contains(&left_key.scan) {
                self.links.push(Link { from: left_key, to: right_key });
            }
            if drops_right && right.droppable.contains(&right_key.scan) {
                self.links.push(Link { from: right_key, to: left_key });
            }
        }
        let mut origins = match join.join_type() {
            JoinType::LeftSemi | JoinType::LeftAnti => left.origins,
            JoinType::RightSemi | JoinType::RightAnti => right.origins,
            JoinType::LeftMark => left.origins.into_iter().chain([None]).collect(),
            JoinType::RightMark => right.origins.into_iter().chain([None]).collect(),
            _ => left.origins.into_iter().chain(right.origins).collect::<Vec<_>>(),
        };
        if let Some(columns) = join.projection.as_ref() {
            origins = columns.iter().map(|&column| origins[column]).collect();
        }
        // A preserved side's row appears once without the other side, and dropping a row of the other side
        // may turn a match into a NULL-extended row: only sides that cannot are passed on.
        let mut droppable = BTreeSet::new();
        if matches!(
            join.join_type(),
            JoinType::Inner | JoinType::LeftSemi | JoinType::Left | JoinType::LeftAnti
        ) {
            droppable.extend(left.droppable);
        }
        if matches!(
            join.join_type(),
            JoinType::Inner | JoinType::RightSemi | JoinType::Right | JoinType::RightAnti
        ) {
            droppable.extend(right.droppable);
        }
        Output { origins, droppable }
    }

    /// The predicates of other scans that hold for all rows of scan `scan_id` that matter.
    fn filters_for(&self, scan_id: usize) -> (Vec<SidewaysFilter>, Vec<String>) {
        let fact = &self.scans[scan_id];
        let (mut filters, mut notes) = (Vec::new(), Vec::new());
        if !fact.has_sideways_metadata() || !fact.options().sideways {
            return (filters, notes);
        }
        for (dimension_id, dimension) in self.scans.iter().enumerate() {
            if dimension_id == scan_id || !dimension.is_filtered() {
                continue;
            }
            let mut stale = false;
            let predicate = map_columns(dimension.zone_predicate(), &mut |column: usize| {
                let position = self.sideways_position(scan_id, dimension_id, column)?;
                let is_current = self.is_current(&fact.table().sideways()[position]);
                stale |= !is_current;
                is_current.then_some(position)
            });
            if stale {
                let name = dimension.table().name();
                notes.push(format!(
                    "a dimension on the way to '{name}' changed since '{}' was loaded: its sideways metadata is \
                     ignored; load '{}' again to use it",
                    fact.table().name(),
                    fact.table().name()
                ));
            }
            if tests_something(&predicate) {
                let text = format!("{}: {}", dimension.table().name(), dimension.predicate_text());
                filters.push(SidewaysFilter { text, predicate });
            }
        }
        (filters, notes)
    }

    /// Where `fact` keeps zone maps of `column` of the table of `dimension`, reached over the query's joins.
    fn sideways_position(&self, fact: usize, dimension: usize, column: usize) -> Option<usize> {
        let table = self.scans[dimension].table();
        let name = &table.schema().columns[column].name;
        self.scans[fact]
            .table()
            .sideways()
            .iter()
            .position(|sideways| &sideways.column == name && self.path_leads_to(fact, sideways, dimension))
    }

    /// True where the query's joins follow the declared path from `fact` and end at `dimension`.
    fn path_leads_to(&self, fact: usize, sideways: &SidewaysColumn, dimension: usize) -> bool {
        let mut reached = BTreeSet::from([fact]);
        for hop in &sideways.path {
            let next = self.links.iter().filter(|link| {
                reached.contains(&link.from.scan)
                    && self.is_column(link.from, &hop.fact_column)
                    && self.scans[link.to.scan].table().name() == hop.dimension_table
                    && self.is_column(link.to, &hop.dimension_key)
            });
            reached = next.map(|link| link.to.scan).collect();
        }
        reached.contains(&dimension)
    }

    fn is_column(&self, origin: Origin, name: &str) -> bool {
        self.scans[origin.scan].table().schema().columns[origin.column].name == name
    }

    /// True where this query reads the very dimensions that the metadata was made from.
    fn is_current(&self, sideways: &SidewaysColumn) -> bool {
        sideways.path.iter().zip(&sideways.dimension_ids).all(|(hop, id)| {
            self.scans
                .iter()
                .filter(|scan| scan.table().name() == hop.dimension_table)
                .all(|scan| scan.table().id() == *id)
        })
    }
}

/// Which sides' rows vanish when they find no match.
fn drops_unmatched(join_type: &JoinType) -> (bool, bool) {
    match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => (false, true),
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => (true, false),
        JoinType::Full => (false, false),
    }
}

fn origin_of(expr: &Arc<dyn PhysicalExpr>, origins: &[Option<Origin>]) -> Option<Origin> {
    origins.get(expr.downcast_ref::<Column>()?.index()).copied().flatten()
}

/// False for predicates that can never skip anything.
fn tests_something(predicate: &Predicate<usize>) -> bool {
    match predicate {
        Predicate::And(parts) => parts.iter().any(tests_something),
        Predicate::Or(parts) => !parts.is_empty() && parts.iter().all(tests_something),
        Predicate::Test { .. } => true,
        Predicate::Unknown => false,
    }
}

/// The predicate over other columns; a test of a column that has no counterpart becomes `Unknown`.
fn map_columns(
    predicate: Predicate<usize>,
    counterpart: &mut impl FnMut(usize) -> Option<usize>,
) -> Predicate<usize> {
    match predicate {
        Predicate::And(parts) => {
            Predicate::And(parts.into_iter().map(|part| map_columns(part, counterpart)).collect())
        }
        Predicate::Or(parts) => {
            Predicate::Or(parts.into_iter().map(|part| map_columns(part, counterpart)).collect())
        }
        Predicate::Test { column, test } => match counterpart(column) {
            Some(column) => Predicate::Test { column, test },
            None => Predicate::Unknown,
        },
        Predicate::Unknown => Predicate::Unknown,
    }
}
