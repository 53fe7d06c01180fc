//! Hash joins: one side ends in a table, the other probes it.
//!
//! ```text
//!   join           builds   probes   what becomes of a probing row
//!   Inner          left     right    one row a match
//!   Right          left     right    one row a match, or one with NULLs
//!   Left           right    left     likewise
//!   RightSemi      left     right    goes on if it has a match
//!   LeftSemi       right    left     likewise
//!   RightAnti      left     right    goes on if it has none
//!   LeftAnti       right    left     likewise
//! ```
//!
//! The side whose rows are kept probes, so that a table never has to remember which of its rows were met. The sides of
//! an inner join change roles where the left one scans the larger table and the right one is small enough for a table
//! (see [`RIGHT_BUILD_ROWS_MAX`]): so the fact table of a star probes all dimensions in one pipeline, and finished
//! tables rule out its row groups, however few of its rows are estimated to be left.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{AggregateFunction, Expr, ProbeKind, Type};

use super::arithmetic;
use super::builder::Flow;
use super::expr::Exprs;
use super::lower::{Lowering, Needed, columns_of};
use super::value::{Value, kernel_type};
use crate::scan::PeltonScanExec;

/// The most rows of a build side that the CPU computes as a host input. A guess.
const BUILD_HOST_INPUT_ROWS_MAX: f64 = 8e6;
/// The most probing rows that the CPU computes as a host input. A guess.
const PROBE_HOST_INPUT_ROWS_MAX: f64 = 1e6;

/// The most rows that the right side of an inner join builds a table of in order to let the larger scan probe: 16 bytes
/// each, it then fits the second-level cache of a data-centre GPU (50 MB). A guess.
const RIGHT_BUILD_ROWS_MAX: f64 = 3e6;

/// Who builds, who probes, by what.
struct Roles<'a> {
    build: &'a Arc<dyn ExecutionPlan>,
    probe: &'a Arc<dyn ExecutionPlan>,
    build_side: JoinSide,
    kind: ProbeKind,
    build_keys: Vec<&'a Arc<dyn PhysicalExpr>>,
    probe_keys: Vec<&'a Arc<dyn PhysicalExpr>>,
}

/// A column of one side.
type SideColumn = (JoinSide, usize);

impl Lowering<'_> {
    /// The rows of a join.
    ///
    /// # Errors
    ///
    /// `Unsupported` for joins, keys and filters that kernels do not have.
    pub(super) fn join(&mut self, join: &HashJoinExec, needed: &Needed) -> Result<Flow> {
        let roles = Roles::of(join)?;
        let outputs = output_columns(join);
        let mut used: Vec<SideColumn> = needed.iter().map(|&index| outputs[index]).collect();
        used.extend(join.filter().into_iter().flat_map(filter_columns));
        let (mut build, mut probe) = self.sides(&roles, &used)?;
        let (build_keys, probe_keys) = roles.keys(&mut build, &mut probe)?;
        if join.null_equality() == NullEquality::NullEqualsNull {
            no_key_is_null(&build_keys)?;
            no_key_is_null(&probe_keys)?;
        }

        let mut built = roles.columns_equal_to_probe_keys(&build_keys, &probe_keys);
        let build_keys_by_column = built.keys().filter_map(|&column| {
            let value = build.output(column).ok()?;
            Some((column, value.as_column()?))
        });
        let build_keys_by_column: BTreeMap<usize, usize> = build_keys_by_column.collect();
        let payload_columns: Needed = used
            .iter()
            .filter(|(side, column)| *side == roles.build_side && !built.contains_key(column))
            .map(|(_, column)| *column)
            .collect();
        let payload = payload_columns.iter().map(|&column| build.output(column).cloned());
        let payload = payload.collect::<Result<Vec<Value>>>()?;
        let probe_keys: Vec<Expr> = probe_keys.into_iter().map(|key| key.expr).collect();
        if let (Some(filter), ProbeKind::Semi | ProbeKind::Anti) = (join.filter(), roles.kind) {
            let mut joined = Joined { probe, built, build_side: roles.build_side };
            let functions = extremes_asked(filter, roles.build_side, &payload);
            let (table, payloads) = match functions {
                Some(functions) => {
                    let extremes = self.extremes(build.builder, &build_keys, &payload[0], &functions)?;
                    let table = self.build(extremes.builder, &extremes.keys, &extremes.values);
                    (table, extremes.values.into_iter().map(|value| vec![value]).collect())
                }
                None => (self.build(build.builder, &build_keys, &payload), vec![payload]),
            };
            let matched = Matched { table, keys: probe_keys, kind: roles.kind };
            joined.probe_where(matched, &payload_columns, payloads, filter)?;
            return joined.into_flow(&outputs, needed);
        }
        let table = self.build(build.builder, &build_keys, &payload);
        let looked_up = probe_keys.iter().map(column_number).collect::<Option<Vec<usize>>>();
        let numbers = columns_after(&payload, probe.builder.column_count(), &built, &build_keys_by_column);
        let mut brought = probe.builder.probe(table, probe_keys, roles.kind, payload);
        for value in &mut brought {
            value.late = value.late.take().map(|late| {
                let mut late = late.renumbered(|column| numbers.get(&column).copied());
                late.brought_by.extend(looked_up.clone().map(|columns| (table, columns)));
                late
            });
        }
        built.extend(payload_columns.into_iter().zip(brought));

        let mut joined = Joined { probe, built, build_side: roles.build_side };
        if let Some(filter) = join.filter() {
            joined.filter(filter)?;
        }
        joined.into_flow(&outputs, needed)
    }

    /// Both sides' rows, with the columns that keys, filter and outputs use.
    fn sides(&mut self, roles: &Roles<'_>, used: &[SideColumn]) -> Result<(Flow, Flow)> {
        let of_side = |is_build: bool, keys: &[&Arc<dyn PhysicalExpr>]| {
            let mut needed = columns_of(keys.iter().copied());
            let outputs = used.iter().filter(|(side, _)| (*side == roles.build_side) == is_build);
            needed.extend(outputs.map(|(_, column)| *column));
            needed
        };
        let build_needed = of_side(true, &roles.build_keys);
        let probe_needed = of_side(false, &roles.probe_keys);
        let build = self.flow_or_host_input(roles.build, &build_needed, BUILD_HOST_INPUT_ROWS_MAX)?;
        let probe = self.flow_or_host_input(roles.probe, &probe_needed, PROBE_HOST_INPUT_ROWS_MAX)?;
        Ok((build, probe))
    }
}

impl<'a> Roles<'a> {
    fn of(join: &'a HashJoinExec) -> Result<Self> {
        let refused = |what: &str| Err(Error::unsupported(format!("kernels have no {what}")));
        if join.null_aware {
            return refused("NOT IN over values that may be NULL");
        }
        let (build_side, kind) = match join.join_type() {
            JoinType::Inner if left_should_probe(join) => (JoinSide::Right, ProbeKind::Inner),
            JoinType::Inner => (JoinSide::Left, ProbeKind::Inner),
            JoinType::Right => (JoinSide::Left, ProbeKind::Outer),
            JoinType::RightSemi => (JoinSide::Left, ProbeKind::Semi),
            JoinType::RightAnti => (JoinSide::Left, ProbeKind::Anti),
            JoinType::Left => (JoinSide::Right, ProbeKind::Outer),
            JoinType::LeftSemi => (JoinSide::Right, ProbeKind::Semi),
            JoinType::LeftAnti => (JoinSide::Right, ProbeKind::Anti),
            other => return refused(&format!("{other} join")),
        };
        let left_keys = join.on().iter().map(|(left, _)| left).collect();
        let right_keys = join.on().iter().map(|(_, right)| right).collect();
        if join.filter().is_some() && kind == ProbeKind::Outer {
            return refused(&format!("{} join with a further condition", join.join_type()));
        }
        Ok(match build_side {
            JoinSide::Left => Self {
                build: join.left(),
                probe: join.right(),
                build_side,
                kind,
                build_keys: left_keys,
                probe_keys: right_keys,
            },
            _ => Self {
                build: join.right(),
                probe: join.left(),
                build_side,
                kind,
                build_keys: right_keys,
                probe_keys: left_keys,
            },
        })
    }

    /// Both sides' keys, pair by pair of one type.
    fn keys(&self, build: &mut Flow, probe: &mut Flow) -> Result<(Vec<Value>, Vec<Value>)> {
        let (build_schema, probe_schema) = (self.build.schema(), self.probe.schema());
        let (mut build_keys, mut probe_keys) = (Vec::new(), Vec::new());
        for (build_key, probe_key) in self.build_keys.iter().zip(&self.probe_keys) {
            let built = build.exprs(&build_schema).lower(build_key)?;
            let probed = probe.exprs(&probe_schema).lower(probe_key)?;
            let (built, probed) = arithmetic::to_one_type(built, probed)?;
            match kernel_type(&built.data_type)? {
                Type::I32 | Type::I64 | Type::I128 => {}
                _ => return Err(Error::unsupported(format!("{} as the key of a join", built.data_type))),
            }
            build_keys.push(built);
            probe_keys.push(probed);
        }
        Ok((build_keys, probe_keys))
    }

    /// Columns of the build side whose value a matching row has already: its key.
    fn columns_equal_to_probe_keys(&self, build: &[Value], probe: &[Value]) -> BTreeMap<usize, Value> {
        if self.kind != ProbeKind::Inner {
            return BTreeMap::new();
        }
        let pairs = self.build_keys.iter().zip(build.iter().zip(probe));
        let equal = pairs.filter_map(|(expr, (built, probed))| {
            let column = expr.downcast_ref::<Column>()?.index();
            let is_same = built.data_type == probed.data_type && probed.as_column().is_some();
            is_same.then(|| (column, probed.clone()))
        });
        equal.collect()
    }
}

fn column_number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => Some(*column),
        _ => None,
    }
}

/// What columns of the build side's pipeline are in the probing one, where `payload` comes from column `first` on and
/// the keys in `built`, by column of the plan, are columns of the probing side anyway.
fn columns_after(
    payload: &[Value],
    first: usize,
    built: &BTreeMap<usize, Value>,
    build_keys: &BTreeMap<usize, usize>,
) -> BTreeMap<usize, usize> {
    let brought =
        payload.iter().enumerate().filter_map(|(index, value)| Some((value.as_column()?, first + index)));
    let keys =
        built.iter().filter_map(|(column, value)| Some((*build_keys.get(column)?, value.as_column()?)));
    brought.chain(keys).collect()
}

/// True where the left side of an inner join scans the larger table and the right one makes a small one.
fn left_should_probe(join: &HashJoinExec) -> bool {
    let is_small = |rows: f64| rows <= RIGHT_BUILD_ROWS_MAX;
    largest_scan_rows(join.left()) > largest_scan_rows(join.right())
        && pelton_planner::estimated_rows(join.right()).is_some_and(is_small)
}

/// Rows of the row groups that the largest scan below `plan` goes through.
fn largest_scan_rows(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    match plan.downcast_ref::<PeltonScanExec>() {
        Some(scan) => {
            let rows_of = |&row_group: &u32| u64::from(scan.table().row_group(row_group as usize).row_count);
            scan.row_groups().iter().map(rows_of).sum()
        }
        None => plan.children().into_iter().map(largest_scan_rows).max().unwrap_or(0),
    }
}

/// A probing pipeline and the columns that its matches brought.
struct Joined {
    probe: Flow,
    built: BTreeMap<usize, Value>,
    build_side: JoinSide,
}

impl Joined {
    fn value(&self, (side, column): SideColumn) -> Result<Value> {
        if side != self.build_side {
            return self.probe.output(column).cloned();
        }
        let missing = || Error::unsupported(format!("column {column} of the build side is not at hand"));
        self.built.get(&column).cloned().ok_or_else(missing)
    }

    fn filter(&mut self, filter: &JoinFilter) -> Result<()> {
        let inputs = filter_columns(filter).map(|column| self.value(column).map(Some));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let schema = filter.schema();
        for conjunct in datafusion::physical_expr::split_conjunction(filter.expression()) {
            let mut exprs = Exprs { builder: &mut self.probe.builder, inputs: &inputs, schema };
            let condition = exprs.condition(conjunct)?;
            self.probe.builder.filter(condition);
        }
        Ok(())
    }

    /// Looks rows up, of which only those that fulfil `filter` match, with one of `payloads` as these columns of the
    /// build side.
    fn probe_where(
        &mut self,
        matched: Matched,
        columns: &Needed,
        payloads: Vec<Vec<Value>>,
        filter: &JoinFilter,
    ) -> Result<()> {
        let Matched { table, keys, kind } = matched;
        let first = self.probe.builder.column_count();
        let mut next = first;
        let mut conditions = Vec::with_capacity(payloads.len());
        for payload in payloads {
            let numbers = next..;
            next += payload.len();
            let values = numbers.zip(payload).map(|(number, value)| Value {
                expr: Expr::Column(number),
                // The bytes of a text are in the pipeline that builds.
                late: value.late.map(|late| late.renumbered(|_| None)),
                ..value
            });
            self.built = columns.iter().copied().zip(values).collect();
            let inputs = filter_columns(filter).map(|column| self.value(column).map(Some));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            let schema = filter.schema();
            let mut exprs = Exprs { builder: &mut self.probe.builder, inputs: &inputs, schema };
            conditions.push(exprs.condition(filter.expression())?);
        }
        if self.probe.builder.column_count() != first {
            return Err(Error::unsupported(format!("{kind:?} join whose condition computes a text")));
        }
        self.built.clear();
        let residual = match conditions.len() {
            1 => conditions.swap_remove(0),
            _ => Expr::Or(conditions),
        };
        self.probe.builder.probe_where(table, keys, kind, residual);
        Ok(())
    }

    fn into_flow(self, columns: &[SideColumn], needed: &Needed) -> Result<Flow> {
        let mut outputs = vec![None; columns.len()];
        for &index in needed {
            outputs[index] = Some(self.value(columns[index])?);
        }
        Ok(Flow { builder: self.probe.builder, outputs })
    }
}

/// A table that is probed for whether there is a match.
struct Matched {
    table: usize,
    keys: Vec<Expr>,
    kind: ProbeKind,
}

/// Where `filter` compares the one column of the build side with a value of the probing side: the extremes of the
/// column that tell whether any of its values will do. Of `b < p` the least does, of `b <> p` the least or the greatest.
fn extremes_asked(
    filter: &JoinFilter,
    build_side: JoinSide,
    payload: &[Value],
) -> Option<Vec<AggregateFunction>> {
    let [value] = payload else { return None };
    if value.late.is_some() || !matches!(kernel_type(&value.data_type), Ok(Type::I32 | Type::I64)) {
        return None;
    }
    let comparison = filter.expression().downcast_ref::<BinaryExpr>()?;
    let is_build = |column: usize| filter.column_indices()[column].side == build_side;
    let build_column = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Column>().is_some_and(|column| is_build(column.index()))
    };
    let is_of_probe = |expr: &Arc<dyn PhysicalExpr>| !columns_of([expr]).into_iter().any(is_build);
    let (left, right) = (comparison.left(), comparison.right());
    let op = match (build_column(left) && is_of_probe(right), build_column(right) && is_of_probe(left)) {
        (true, _) => *comparison.op(),
        (_, true) => comparison.op().swap()?,
        _ => return None,
    };
    match op {
        Operator::Lt | Operator::LtEq => Some(vec![AggregateFunction::Min]),
        Operator::Gt | Operator::GtEq => Some(vec![AggregateFunction::Max]),
        Operator::NotEq => Some(vec![AggregateFunction::Min, AggregateFunction::Max]),
        _ => None,
    }
}

/// Where each output column of the join comes from.
fn output_columns(join: &HashJoinExec) -> Vec<SideColumn> {
    let of = |side: JoinSide, plan: &Arc<dyn ExecutionPlan>| {
        (0..plan.schema().fields().len()).map(|column| (side, column)).collect::<Vec<SideColumn>>()
    };
    let (left, right) = (of(JoinSide::Left, join.left()), of(JoinSide::Right, join.right()));
    let all = match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti => left,
        JoinType::RightSemi | JoinType::RightAnti => right,
        _ => [left, right].concat(),
    };
    match join.projection.as_ref() {
        Some(projection) => projection.iter().map(|&column| all[column]).collect(),
        None => all,
    }
}

fn filter_columns(filter: &JoinFilter) -> impl Iterator<Item = SideColumn> + '_ {
    filter.column_indices().iter().map(|column| (column.side, column.index))
}

fn no_key_is_null(keys: &[Value]) -> Result<()> {
    match keys.iter().any(|key| key.is_nullable) {
        true => Err(Error::unsupported("kernels have no join in which NULL matches NULL")),
        false => Ok(()),
    }
}
