//! Joins: one side ends in a table, the other probes it.
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
//!   RightMark      left     right    goes on with whether it has one
//!   LeftMark       right    left     likewise
//! ```
//!
//! The side whose rows are kept probes, so that a table never has to remember which of its rows were met. The sides of
//! an inner join change roles where the left one scans the larger table and the right one is small enough for a table:
//! so the fact table of a star probes all dimensions in one pipeline, and finished tables rule out its row groups, however
//! few of its rows are estimated to be left. Where nothing is equal, all rows of the table have one key, and every
//! probing row looks at each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::JoinSide;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Expr, ProbeKind};

use super::builder::{Flow, PipelineBuilder};
use super::lower::{Lowering, Needed, columns_of};
use super::value::Value;

mod joined;
mod nulls;
mod roles;

use joined::{Joined, SideColumn, extremes_asked, filter_columns};
use nulls::nulls_as_keys;
pub(super) use roles::Join;
use roles::Roles;

/// The most rows of a build side that the CPU computes as a host input. A guess.
const BUILD_HOST_INPUT_ROWS_MAX: f64 = 8e6;
/// The most probing rows that the CPU computes as a host input. A guess.
const PROBE_HOST_INPUT_ROWS_MAX: f64 = 1e6;

impl Lowering<'_> {
    /// The rows of a join.
    ///
    /// # Errors
    ///
    /// `Unsupported` for joins, keys and filters that kernels do not have.
    pub(super) fn join(&mut self, join: &Join<'_>, needed: &Needed) -> Result<Flow> {
        let roles = Roles::of(join)?;
        let outputs = join.output_columns();
        let mut used: Vec<SideColumn> = needed.iter().map(|&index| outputs[index]).collect();
        used.extend(join.filter.into_iter().flat_map(filter_columns));
        let (mut build, mut probe) = self.sides(&roles, &used)?;
        let (mut build_keys, mut probe_keys) = roles.keys(&mut build, &mut probe)?;
        if join.is_not_in {
            if join.filter.is_some() {
                return Err(Error::unsupported("kernels have no NOT IN with a further condition"));
            }
            self.without_unknown(&roles, &build_keys[0], &mut probe, &probe_keys[0])?;
        }
        let built = roles.columns_equal_to_probe_keys(&build_keys, &probe_keys);
        let build_keys_by_column = built.keys().filter_map(|&column| {
            let value = build.output(column).ok()?;
            Some((column, value.as_column()?))
        });
        let build_keys_by_column: BTreeMap<usize, usize> = build_keys_by_column.collect();
        if join.null_matches_null {
            (build_keys, probe_keys) = nulls_as_keys(&build_keys, &probe_keys)?;
        }
        let payload_columns: Needed = used
            .iter()
            .filter(|(side, column)| *side == roles.build_side && !built.contains_key(column))
            .map(|(_, column)| *column)
            .collect();
        let payload = payload_columns.iter().map(|&column| build.output(column).cloned());
        let payload = payload.collect::<Result<Vec<Value>>>()?;
        let probe_keys: Vec<Expr> = probe_keys.into_iter().map(|key| key.expr).collect();
        if !roles.kind.brings_payload() {
            let joined = Joined { probe, built, build_side: roles.build_side, mark: None };
            let matched =
                Matched { keys: (build_keys, probe_keys), kind: roles.kind, payload, payload_columns };
            return self.tested(build.builder, joined, matched, join.filter)?.into_flow(&outputs, needed);
        }
        let table = self.build(build.builder, &build_keys, &payload)?;
        let looked_up = probe_keys.iter().map(column_number).collect::<Option<Vec<usize>>>();
        let first = probe.builder.column_count();
        let numbers = columns_after(&payload, first, &built, &build_keys_by_column);
        let mut joined = Joined { probe, built, build_side: roles.build_side, mark: None };
        let residual = match (join.filter, roles.kind) {
            (Some(filter), ProbeKind::Outer) => {
                Some(joined.residual(filter, &payload_columns, &payload, first)?)
            }
            _ => None,
        };
        // On a further condition rows of one key have a match and none: no row is then not a row whose text is NULL.
        let looked_up = looked_up.filter(|_| residual.is_none());
        let mut brought = joined.probe.builder.probe(table, probe_keys, roles.kind, payload, residual);
        for value in &mut brought {
            value.late = value.late.take().map(|late| {
                let mut late = late.renumbered(|column| numbers.get(&column).copied());
                late.brought_by.extend(looked_up.clone().map(|columns| (table, columns)));
                late
            });
        }
        joined.built.extend(payload_columns.into_iter().zip(brought));
        if let (Some(filter), ProbeKind::Inner) = (join.filter, roles.kind) {
            joined.filter(filter)?;
        }
        joined.into_flow(&outputs, needed)
    }

    /// Rows of which is only asked whether they have a match that fulfils `filter`.
    fn tested(
        &mut self,
        build: PipelineBuilder,
        mut joined: Joined,
        matched: Matched,
        filter: Option<&JoinFilter>,
    ) -> Result<Joined> {
        let Matched { keys: (build_keys, probe_keys), kind, payload, payload_columns } = matched;
        let functions = filter.and_then(|filter| extremes_asked(filter, joined.build_side, &payload));
        let (table, payloads) = match functions {
            Some(functions) => {
                let extremes = self.extremes(build, &build_keys, &payload[0], &functions)?;
                let table = self.build(extremes.builder, &extremes.keys, &extremes.values)?;
                (table, extremes.values.into_iter().map(|value| vec![value]).collect())
            }
            None => (self.build(build, &build_keys, &payload)?, vec![payload]),
        };
        let first = joined.probe.builder.column_count();
        let mut conditions = Vec::with_capacity(payloads.len());
        let mut next = first;
        for payload in payloads {
            if let Some(filter) = filter {
                conditions.push(joined.residual(filter, &payload_columns, &payload, next)?);
            }
            next += payload.len();
        }
        let residual = match conditions.len() {
            0 | 1 => conditions.pop(),
            _ => Some(Expr::Or(conditions)),
        };
        joined.probe.builder.probe(table, probe_keys, kind, Vec::new(), residual);
        joined.mark = (kind == ProbeKind::Mark).then_some(first);
        Ok(joined)
    }

    /// Both sides' rows, with the columns that keys, filter and outputs use.
    fn sides(&mut self, roles: &Roles<'_>, used: &[SideColumn]) -> Result<(Flow, Flow)> {
        let of_side = |is_build: bool, keys: &[&Arc<dyn PhysicalExpr>]| {
            let mut needed = columns_of(keys.iter().copied());
            let is_of_it = |side: JoinSide| side != JoinSide::None && (side == roles.build_side) == is_build;
            let outputs = used.iter().filter(|(side, _)| is_of_it(*side));
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

/// What is looked for, in which rows.
struct Matched {
    /// Of both sides.
    keys: (Vec<Value>, Vec<Expr>),
    kind: ProbeKind,
    /// What the condition sees of the build side, and which columns of it that is.
    payload: Vec<Value>,
    payload_columns: Needed,
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
