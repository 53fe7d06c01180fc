//! Who builds and who probes.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, JoinOnRef, NestedLoopJoinExec};
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{CONSTANT_KEY_ROWS_MAX, Expr, Literal, ProbeKind};

use super::super::arithmetic;
use super::super::builder::Flow;
use super::super::value::{Value, is_text};
use super::SideColumn;
use crate::error::from_datafusion;
use crate::scan::PeltonScanExec;

/// The most rows that the right side of an inner join builds a table of in order to let the larger scan probe: 16 bytes
/// each, it then fits the second-level cache of a data-centre GPU (50 MB). A guess.
const RIGHT_BUILD_ROWS_MAX: f64 = 3e6;
/// A larger one does so where it has at most so many times the rows that are left of the other: a table of those would be far
/// too, and their keys may repeat. A guess.
const RIGHT_BUILD_TIMES_LEFT: f64 = 4.0;

/// A join of the plan, of whichever operator.
pub(in super::super) struct Join<'a> {
    left: &'a Arc<dyn ExecutionPlan>,
    right: &'a Arc<dyn ExecutionPlan>,
    /// Pairs of expressions that are equal; none where every row meets every other one.
    on: JoinOnRef<'a>,
    join_type: JoinType,
    pub(super) filter: Option<&'a JoinFilter>,
    projection: Option<&'a [usize]>,
    /// Whether NULL keys match each other.
    pub(super) null_matches_null: bool,
    /// `NOT IN`: a NULL on either side decides about rows without a match.
    pub(super) is_not_in: bool,
}

impl<'a> Join<'a> {
    /// The join that `plan` is, if it is one that kernels may have.
    pub(in super::super) fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some(Self {
                left: join.left(),
                right: join.right(),
                on: join.on(),
                join_type: *join.join_type(),
                filter: join.filter(),
                projection: join.projection.as_deref(),
                null_matches_null: join.null_equality() == NullEquality::NullEqualsNull,
                is_not_in: join.null_aware,
            });
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return Some(Self {
                filter: join.filter(),
                projection: join.projection().as_deref(),
                ..Self::of_all(join.left(), join.right(), *join.join_type())
            });
        }
        let join = plan.downcast_ref::<CrossJoinExec>()?;
        Some(Self::of_all(join.left(), join.right(), JoinType::Inner))
    }

    /// Every row meets every other one.
    fn of_all(
        left: &'a Arc<dyn ExecutionPlan>,
        right: &'a Arc<dyn ExecutionPlan>,
        join_type: JoinType,
    ) -> Self {
        let (filter, projection) = (None, None);
        Self {
            left,
            right,
            on: &[],
            join_type,
            filter,
            projection,
            null_matches_null: false,
            is_not_in: false,
        }
    }

    /// Where each output column comes from.
    pub(super) fn output_columns(&self) -> Vec<SideColumn> {
        let of = |side: JoinSide, plan: &Arc<dyn ExecutionPlan>| {
            (0..plan.schema().fields().len()).map(|column| (side, column)).collect::<Vec<SideColumn>>()
        };
        let (left, right) = (of(JoinSide::Left, self.left), of(JoinSide::Right, self.right));
        let mark = vec![(JoinSide::None, 0)];
        let all = match self.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => left,
            JoinType::RightSemi | JoinType::RightAnti => right,
            JoinType::LeftMark => [left, mark].concat(),
            JoinType::RightMark => [right, mark].concat(),
            _ => [left, right].concat(),
        };
        match self.projection {
            Some(projection) => projection.iter().map(|&column| all[column]).collect(),
            None => all,
        }
    }

    /// True where the left side of an inner join probes: it scans the larger table, and the right one makes a small one.
    fn left_should_probe(&self) -> bool {
        let rows = pelton_planner::estimated_rows;
        if self.on.is_empty() {
            return rows(self.left).is_none_or(|left| rows(self.right).is_some_and(|right| right < left));
        }
        let left = rows(self.left).unwrap_or(0.0);
        let rows_max = RIGHT_BUILD_ROWS_MAX.max(RIGHT_BUILD_TIMES_LEFT * left);
        largest_scan_rows(self.left) > largest_scan_rows(self.right)
            && rows(self.right).is_some_and(|rows| rows <= rows_max)
    }
}

/// Rows of the row groups that the largest scan below `plan` goes through.
fn largest_scan_rows(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    match plan.downcast_ref::<PeltonScanExec>() {
        Some(scan) => scan.rows_left(),
        None => plan.children().into_iter().map(largest_scan_rows).max().unwrap_or(0),
    }
}

/// Who builds, who probes, by what.
pub(super) struct Roles<'a> {
    pub(super) build: &'a Arc<dyn ExecutionPlan>,
    pub(super) probe: &'a Arc<dyn ExecutionPlan>,
    pub(super) build_side: JoinSide,
    pub(super) kind: ProbeKind,
    pub(super) build_keys: Vec<&'a Arc<dyn PhysicalExpr>>,
    pub(super) probe_keys: Vec<&'a Arc<dyn PhysicalExpr>>,
}

impl<'a> Roles<'a> {
    pub(super) fn of(join: &Join<'a>) -> Result<Self> {
        let (build_side, kind) = match join.join_type {
            JoinType::Inner if join.left_should_probe() => (JoinSide::Right, ProbeKind::Inner),
            JoinType::Inner => (JoinSide::Left, ProbeKind::Inner),
            JoinType::Right => (JoinSide::Left, ProbeKind::Outer),
            JoinType::RightSemi => (JoinSide::Left, ProbeKind::Semi),
            JoinType::RightAnti => (JoinSide::Left, ProbeKind::Anti),
            JoinType::RightMark => (JoinSide::Left, ProbeKind::Mark),
            JoinType::Left => (JoinSide::Right, ProbeKind::Outer),
            JoinType::LeftSemi => (JoinSide::Right, ProbeKind::Semi),
            JoinType::LeftAnti => (JoinSide::Right, ProbeKind::Anti),
            JoinType::LeftMark => (JoinSide::Right, ProbeKind::Mark),
            JoinType::Full => return Err(Error::unsupported("kernels have no Full join")),
        };
        let left_keys = join.on.iter().map(|(left, _)| left).collect();
        let right_keys = join.on.iter().map(|(_, right)| right).collect();
        let roles = match build_side {
            JoinSide::Left => Self {
                build: join.left,
                probe: join.right,
                build_side,
                kind,
                build_keys: left_keys,
                probe_keys: right_keys,
            },
            _ => Self {
                build: join.right,
                probe: join.left,
                build_side,
                kind,
                build_keys: right_keys,
                probe_keys: left_keys,
            },
        };
        match pelton_planner::estimated_rows(roles.build) {
            Some(rows) if rows <= CONSTANT_KEY_ROWS_MAX as f64 => Ok(roles),
            _ if !join.on.is_empty() => Ok(roles),
            _ => Err(Error::unsupported("every row would look at each of very many others")),
        }
    }

    /// Both sides' keys, pair by pair of one type: of texts their hashes. Where nothing is equal, the key of all rows is one
    /// constant.
    pub(super) fn keys(&self, build: &mut Flow, probe: &mut Flow) -> Result<(Vec<Value>, Vec<Value>)> {
        if self.build_keys.is_empty() {
            return Ok((vec![constant_key()], vec![constant_key()]));
        }
        let (build_schema, probe_schema) = (self.build.schema(), self.probe.schema());
        let (mut build_keys, mut probe_keys) = (Vec::new(), Vec::new());
        for (build_key, probe_key) in self.build_keys.iter().zip(&self.probe_keys) {
            let (mut built, mut probed) = (build.exprs(&build_schema), probe.exprs(&probe_schema));
            let (built, probed) = match is_text(&build_key.data_type(&build_schema).map_err(from_datafusion)?)
            {
                true => (built.hash_of(build_key)?, probed.hash_of(probe_key)?),
                false => arithmetic::to_one_type(built.lower(build_key)?, probed.lower(probe_key)?)?,
            };
            build_keys.push(built);
            probe_keys.push(probed);
        }
        Ok((build_keys, probe_keys))
    }

    /// Columns of the build side whose value a matching row has already: its key.
    pub(super) fn columns_equal_to_probe_keys(
        &self,
        build: &[Value],
        probe: &[Value],
    ) -> BTreeMap<usize, Value> {
        if self.kind != ProbeKind::Inner {
            return BTreeMap::new();
        }
        let schema = self.build.schema();
        let pairs = self.build_keys.iter().zip(build.iter().zip(probe));
        let equal = pairs.filter_map(|(expr, (built, probed))| {
            let column = expr.downcast_ref::<Column>()?.index();
            // Of two doubles that are equal one may be -0.0, and of texts the hashes are looked up, which groups have as
            // a column.
            let is_same = built.data_type == probed.data_type
                && built.data_type != DataType::Float64
                && !is_text(schema.field(column).data_type())
                && probed.as_column().is_some();
            is_same.then(|| (column, probed.clone()))
        });
        equal.collect()
    }
}

/// The key of all rows of a table in which every row is a match.
pub(super) fn constant_key() -> Value {
    Value {
        expr: Expr::Literal(Literal::I32(0)),
        data_type: DataType::Int32,
        is_nullable: false,
        bounds: None,
        late: None,
    }
}
