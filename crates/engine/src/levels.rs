//! ROLLUP and CUBE from the groups of the next finer level.
//!
//! ```text
//!   GROUP BY ROLLUP(a, b)                      Union
//!                                                a, b, sum            ◀─ Aggregate a, b  ◀─ rows   } the same groups,
//!   each row goes into three groups   ─▶         a, NULL, sum         ◀─ Aggregate a ◀── Aggregate a, b } made once
//!                                                NULL, NULL, sum      ◀─ Aggregate ◀──── Aggregate a    } (shared.rs)
//! ```
//!
//! DataFusion puts each row into one group for each level. Here only the finest groups see rows, and each other level is made
//! of the smallest level that has all its keys. That is possible for what can be put together from parts: sums, counts,
//! averages, least and greatest values, and the like. A level without keys has one row, also where there are no rows at all.
//!
//! Gray et al., "Data Cube: A Relational Aggregation Operator Generalizing Group-By, Cross-Tab, and Sub-Totals", 1997, section 5;
//! Harinarayan, Rajaraman, Ullman, "Implementing Data Cubes Efficiently", SIGMOD 1996, section 3.

mod average;
mod parts;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::{COUNT_STAR_EXPANSION, grouping_set_to_exprlist, powerset};
use datafusion::logical_expr::{Aggregate, AggregateUDF, Expr, LogicalPlan, Projection, Union, lit};

use self::parts::Parts;
use crate::shared::at_places;
use crate::spilling::Count;

/// Levels of the largest cube that is taken apart: all are planned.
const LEVELS_MAX: usize = 32;

/// `plan` with levels in place of grouping sets, where that is possible.
pub(crate) fn rewritten(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_sets = false;
    plan.apply_with_subqueries(|node| {
        has_sets |= matches!(node, LogicalPlan::Aggregate(aggregate) if sets_of(aggregate).is_some());
        Ok(if has_sets { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_sets {
        return Ok(plan);
    }
    let rewritten = plan.transform_up_with_subqueries(|node| match &node {
        LogicalPlan::Aggregate(aggregate) => match Levels::of(aggregate)? {
            Some(levels) => levels.plan().map(Transformed::yes),
            None => Ok(Transformed::no(node)),
        },
        _ => Ok(Transformed::no(node)),
    })?;
    Ok(rewritten.data)
}

fn sets_of(aggregate: &Aggregate) -> Option<&GroupingSet> {
    match &aggregate.group_expr[..] {
        [Expr::GroupingSet(sets)] => Some(sets),
        _ => None,
    }
}

/// Which keys a level has.
type Keys = Vec<bool>;

/// An aggregate over grouping sets, one of which has all keys.
struct Levels<'a> {
    aggregate: &'a Aggregate,
    keys: Vec<Expr>,
    /// From the finest.
    levels: Vec<Keys>,
    parts: Parts,
}

impl<'a> Levels<'a> {
    /// `None` where DataFusion's way stays.
    fn of(aggregate: &'a Aggregate) -> Result<Option<Self>> {
        let Some(sets) = sets_of(aggregate) else { return Ok(None) };
        let keys: Vec<Expr> = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
        let Some(mut levels) = levels(sets, &keys)? else { return Ok(None) };
        levels.sort_by_key(|level| std::cmp::Reverse(count(level)));
        let has_all_keys = levels.first().is_some_and(|level| count(level) == keys.len());
        // Groups of a set that is named twice are there twice, with other numbers.
        let has_twice = (1..levels.len()).any(|at| levels[..at].contains(&levels[at]));
        if levels.len() < 2 || !has_all_keys || has_twice || keys.iter().any(Expr::is_volatile) {
            return Ok(None);
        }
        let Some(parts) = Parts::of(aggregate)? else { return Ok(None) };
        Ok(Some(Self { aggregate, keys, levels, parts }))
    }

    fn plan(&self) -> Result<LogicalPlan> {
        let sources: Vec<usize> = (1..self.levels.len()).map(|number| self.source_of(number)).collect();
        let (mut outputs, mut uses) = (Vec::with_capacity(self.levels.len()), Vec::new());
        for (number, level) in self.levels.iter().enumerate() {
            let plan = match number {
                0 => self.finest()?,
                _ => {
                    let source: &mut Vec<LogicalPlan> = &mut uses[sources[number - 1]];
                    self.from(source.pop().expect("a use for each level"), level)?
                }
            };
            let count = 1 + sources.iter().filter(|source| **source == number).count();
            let mut places = at_places(plan, count);
            outputs.push(Arc::new(self.output(places.swap_remove(0), level)?));
            uses.push(places);
        }
        let schema = Arc::clone(&self.aggregate.schema);
        Ok(LogicalPlan::Union(Union { inputs: outputs, schema }))
    }

    /// The groups by all keys.
    fn finest(&self) -> Result<LogicalPlan> {
        let keys = self.keys.iter().enumerate();
        let keys = keys.map(|(number, key)| key.clone().alias(key_name(number))).collect();
        let input = Arc::clone(&self.aggregate.input);
        Ok(LogicalPlan::Aggregate(Aggregate::try_new(input, keys, self.parts.of_rows())?))
    }

    /// The smallest of the levels before level `number` that has all its keys.
    fn source_of(&self, number: usize) -> usize {
        let has_keys_of = |level: &Keys, of: &Keys| of.iter().zip(level).all(|(of, has)| *has || !of);
        let level = &self.levels[number];
        let sources = (0..number).filter(|&source| has_keys_of(&self.levels[source], level));
        sources.min_by_key(|&source| (count(&self.levels[source]), source)).unwrap_or(0)
    }

    /// The groups of `level`, from those of `source`.
    fn from(&self, source: LogicalPlan, level: &Keys) -> Result<LogicalPlan> {
        let keys: Vec<Expr> = kept(level).map(|number| column(&key_name(number))).collect();
        let mut parts = self.parts.of_parts();
        if keys.is_empty() && parts.is_empty() {
            // One row that no column is asked of; an aggregate has to compute something.
            parts
                .push(AggregateUDF::from(Count::new()).call(vec![lit(COUNT_STAR_EXPANSION)]).alias("groups"));
        }
        let aggregate = Aggregate::try_new(Arc::new(source), keys.clone(), parts)?;
        let groups = Arc::new(LogicalPlan::Aggregate(aggregate));
        // Sums of sums are of wider types.
        match self.parts.narrowed(groups.schema(), keys.is_empty())? {
            Some(parts) => {
                let exprs = keys.into_iter().chain(parts).collect();
                Ok(LogicalPlan::Projection(Projection::try_new(exprs, groups)?))
            }
            None => Ok(Arc::unwrap_or_clone(groups)),
        }
    }

    /// The rows that `level` gives, as those of the aggregate.
    fn output(&self, groups: LogicalPlan, level: &Keys) -> Result<LogicalPlan> {
        let schema = &self.aggregate.schema;
        let mut exprs = Vec::with_capacity(schema.fields().len());
        for (number, is_kept) in level.iter().enumerate() {
            exprs.push(match is_kept {
                true => column(&key_name(number)),
                false => lit(ScalarValue::try_from(schema.field(number).data_type())?),
            });
        }
        let id = level.iter().fold(0_u64, |id, is_kept| id << 1 | u64::from(!is_kept));
        exprs.push(lit(id_of(id, schema.field(level.len()).data_type())));
        exprs.extend(self.parts.results());
        let named = exprs
            .into_iter()
            .zip(schema.iter())
            .map(|(expr, (qualifier, field))| expr.alias_qualified(qualifier.cloned(), field.name().clone()));
        Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(groups))?))
    }
}

/// The keys of each of `sets`; `None` where there are too many.
fn levels(sets: &GroupingSet, keys: &[Expr]) -> Result<Option<Vec<Keys>>> {
    let level = |set: &[&Expr]| keys.iter().map(|key| set.contains(&key)).collect::<Keys>();
    let all = match sets {
        GroupingSet::Rollup(exprs) => {
            let exprs: Vec<&Expr> = exprs.iter().collect();
            (0..=exprs.len()).map(|length| level(&exprs[..length])).collect()
        }
        GroupingSet::Cube(exprs) if exprs.len() <= LEVELS_MAX.ilog2() as usize => {
            powerset(exprs)?.into_iter().map(|set| level(&set)).collect()
        }
        GroupingSet::Cube(_) => return Ok(None),
        GroupingSet::GroupingSets(sets) => {
            sets.iter().map(|set| level(&set.iter().collect::<Vec<&Expr>>())).collect::<Vec<Keys>>()
        }
    };
    Ok(Some(all).filter(|all| all.len() <= LEVELS_MAX))
}

fn count(level: &Keys) -> usize {
    level.iter().filter(|is_kept| **is_kept).count()
}

/// The numbers of the keys that `level` has.
fn kept(level: &Keys) -> impl Iterator<Item = usize> {
    level.iter().enumerate().filter_map(|(number, is_kept)| is_kept.then_some(number))
}

fn key_name(number: usize) -> String {
    format!("key {number}")
}

/// The column of that very name.
fn column(name: &str) -> Expr {
    Expr::Column(Column::new(None::<TableReference>, name))
}

/// As the column that tells levels apart has it.
fn id_of(id: u64, data_type: &DataType) -> ScalarValue {
    match data_type {
        DataType::UInt8 => ScalarValue::UInt8(Some(id as u8)),
        DataType::UInt16 => ScalarValue::UInt16(Some(id as u16)),
        DataType::UInt32 => ScalarValue::UInt32(Some(id as u32)),
        _ => ScalarValue::UInt64(Some(id)),
    }
}
