//! Plans of joins whose merged columns are columns of their own, beside those of both sides.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinConstraint, JoinType, NullEquality, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::utils::expand_wildcard;
use datafusion::logical_expr::{EmptyRelation, Expr, Join, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::sql::sqlparser::ast::{self, TableFactor, TableWithJoins};
use pelton_error::Error;

use super::{is_ours, merging};
use crate::error::to_datafusion;

/// Plans the relations that `statement.rs` names.
#[derive(Debug)]
pub(crate) struct MergedJoins;

impl RelationPlanner for MergedJoins {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let plan = match relation {
            TableFactor::NestedJoin { table_with_joins, alias: Some(alias) }
                if is_ours(&alias.name.value) =>
            {
                planned(*table_with_joins, &alias.name.value, context)?
            }
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// The last join of `table`, with the columns that it merges as those of the relation `name`; without joins, the rows of
/// `table` with each merged column once.
fn planned(
    mut table: TableWithJoins,
    name: &str,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let Some(join) = table.joins.pop() else { return without_sides(context.plan(table.relation)?) };
    let Some((join_type, constraint)) = merging(&join.join_operator) else {
        return Err(to_datafusion(Error::invalid_input(format!(
            "\"{name}\" is no name for a join: give it another"
        ))));
    };
    let left = match table.joins.is_empty() {
        true => context.plan(table.relation)?,
        false => context.plan(TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None })?,
    };
    let right = context.plan(join.relation)?;
    let keys = match constraint {
        ast::JoinConstraint::Using(names) => {
            names.iter().map(|name| key(name, context)).collect::<Result<Vec<Column>>>()?
        }
        _ => in_common(left.schema(), right.schema()),
    };
    if keys.is_empty() {
        return LogicalPlanBuilder::from(left).join_on(right, join_type, Vec::<Expr>::new())?.build();
    }
    let joined = LogicalPlanBuilder::from(left).join_using(right, join_type, keys.clone())?.build()?;
    merged(joined, join_type, &keys, name)
}

/// What `*` means of `plan`.
fn without_sides(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = expand_wildcard(plan.schema(), &plan, None)?;
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

fn key(name: &ast::ObjectName, context: &dyn RelationPlannerContext) -> Result<Column> {
    let part = match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    };
    let part = part.ok_or_else(|| {
        to_datafusion(Error::invalid_input(format!("USING ({name}): write the column without its table")))
    })?;
    Ok(Column::from_name(context.normalize_ident(part.clone())))
}

/// The names of columns that both have, in the order of `left`.
fn in_common(left: &DFSchema, right: &DFSchema) -> Vec<Column> {
    let mut keys: Vec<Column> = Vec::new();
    for name in left.fields().iter().map(|field| field.name()) {
        let is_new = !keys.iter().any(|key| key.name == *name);
        if is_new && right.has_column_with_unqualified_name(name) {
            keys.push(Column::from_name(name));
        }
    }
    keys
}

/// `joined` by `keys` with the column of each key as one of the relation `name`, under its tag.
fn merged(joined: LogicalPlan, join_type: JoinType, keys: &[Column], name: &str) -> Result<LogicalPlan> {
    let pairs = match &joined {
        LogicalPlan::Join(join) if join.join_type == join_type && join.on.len() == keys.len() => {
            join.on.clone()
        }
        _ => return Err(cannot_compare(keys)),
    };
    let relation = TableReference::bare(name);
    let values = keys.iter().zip(pairs).map(|(key, (left, right))| {
        let value = match join_type {
            JoinType::Full => coalesce(vec![left, right]),
            JoinType::Right => right,
            _ => left,
        };
        value.alias_qualified(Some(relation.clone()), &key.name)
    });
    let values: Vec<Expr> = values.collect();
    let is_key = |column: &Column| keys.iter().any(|key| key.name == column.name);
    // A column that a side has merged already is part of the new one.
    let is_part = |column: &Column| {
        is_key(column) && column.relation.as_ref().is_some_and(|relation| is_ours(relation.table()))
    };
    let mut sides = joined.schema().columns();
    sides.retain(|column| !is_part(column));
    let mut meanings = Vec::new();
    for side in sides.iter().filter(|side| is_key(side)) {
        let column = Column::new(Some(relation.clone()), &side.name);
        if *side < column {
            return Err(sorts_before(side));
        }
        meanings.push((Expr::Column(column), Expr::Column(side.clone())));
    }
    let columns = values.into_iter().chain(sides.into_iter().map(Expr::Column)).collect();
    let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(joined))?);
    Ok(tagged(plan, meanings))
}

/// `plan` under a tag that says which of its columns mean the same where no table is written.
fn tagged(plan: LogicalPlan, meanings: Vec<(Expr, Expr)>) -> LogicalPlan {
    let nothing = EmptyRelation { produce_one_row: false, schema: Arc::new(DFSchema::empty()) };
    LogicalPlan::Join(Join {
        schema: Arc::clone(plan.schema()),
        left: Arc::new(plan),
        right: Arc::new(LogicalPlan::EmptyRelation(nothing)),
        on: meanings,
        filter: None,
        join_type: JoinType::LeftSemi,
        join_constraint: JoinConstraint::Using,
        null_equality: NullEquality::NullEqualsNothing,
        null_aware: false,
    })
}

fn cannot_compare(keys: &[Column]) -> DataFusionError {
    let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
    let (names, first) = (names.join(", "), names[0]);
    to_datafusion(Error::unsupported(format!(
        "USING and NATURAL cannot compare {names}: a column of that type is no key of a join; write ON, and \
         COALESCE(…) AS {first} for the column of both sides"
    )))
}

/// Of columns that mean the same, `*` shows the one that sorts first.
fn sorts_before(column: &Column) -> DataFusionError {
    let relation = column.relation.as_ref().map(ToString::to_string).unwrap_or_default();
    to_datafusion(Error::unsupported(format!(
        "a table called \"{relation}\" beside USING or NATURAL: give it an alias that begins with a letter"
    )))
}
