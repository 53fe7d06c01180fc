//! Random plans: hash tables of stored tables and host inputs, pipelines that probe them, a result.

use std::sync::Arc;

use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Bounds, Column, CompareOp, Expr, Literal, Op, Pipeline, Plan, ProbeKind,
    Sink, Source, TableScan, TopK, Type,
};

use super::expressions::{Expressions, INTEGERS, Known, Made, literal};
use super::interpret::reads_only;
use super::random::Random;
use super::recipe::{Domain, Recipe};
use super::tables::Tables;

/// A plan and what its host inputs look like.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) plan: Plan,
    pub(crate) host_inputs: Vec<Vec<Recipe>>,
    /// The values of its parameters.
    pub(crate) parameters: Vec<Literal>,
}

/// A hash table of the plan.
struct Built {
    keys: Vec<(Type, Option<Domain>)>,
    payload: Vec<Known>,
}

struct Generator<'g> {
    random: &'g mut Random,
    tables: &'g Tables,
    built: Vec<Built>,
    host_inputs: Vec<Vec<Recipe>>,
    is_wild: bool,
}

/// Plan number `turn` of `seed` over `tables`; a wild one computes with large numbers as with small ones.
pub(crate) fn generate(seed: u64, turn: u64, is_wild: bool, tables: &Tables) -> Draft {
    let random = &mut Random::new(seed, 4 + turn);
    let build_count = *random.pick(&[0, 0, 1, 1, 2]);
    let mut generator = Generator { random, tables, built: Vec::new(), host_inputs: Vec::new(), is_wild };
    let mut pipelines: Vec<Pipeline> = (0..build_count).map(|table| generator.build(table)).collect();
    pipelines.push(generator.last());
    let host_inputs = generator.host_inputs;
    let plan = Plan {
        pipelines,
        table_count: build_count,
        host_input_count: host_inputs.len(),
        unique_tables: Vec::new(),
    };
    Draft { plan, host_inputs, parameters: Vec::new() }
}

/// The same plan with other constants, where those are arguments of kernels: ranges of columns.
pub(crate) fn vary(plan: &Plan, random: &mut Random) -> Plan {
    let mut plan = plan.clone();
    for pipeline in &mut plan.pipelines {
        let count = pipeline.columns.len();
        for op in &mut pipeline.ops {
            match op {
                Op::Filter(condition) if reads_only(condition, count) => vary_condition(condition, random),
                _ => {}
            }
        }
    }
    plan
}

fn vary_condition(condition: &mut Expr, random: &mut Random) {
    let is_column = |expr: &Expr| match expr {
        Expr::Column(_) => true,
        Expr::Cast { input, .. } => matches!(&**input, Expr::Column(_)),
        _ => false,
    };
    match condition {
        Expr::And(inputs) => inputs.iter_mut().for_each(|input| vary_condition(input, random)),
        Expr::Compare { op, left, right } if *op != CompareOp::Ne => {
            if !is_column(left) && !is_column(right) {
                return;
            }
            let constant = if is_column(left) { right } else { left };
            let (ty, value) = match &**constant {
                Expr::Literal(Literal::I32(value)) => (Type::I32, i128::from(*value)),
                Expr::Literal(Literal::I64(value)) => (Type::I64, i128::from(*value)),
                _ => return,
            };
            let reach = value.abs() / 2 + 3;
            **constant = literal(ty, random.between(value - reach, value + reach));
        }
        _ => {}
    }
}

impl Generator<'_> {
    fn build(&mut self, table: usize) -> Pipeline {
        let (source, columns, known) = self.source(true);
        let (ops, known) = self.ops(known, true);
        let key_count = if self.random.percent(70) { 1 } else { 2 };
        let mut keys = Vec::new();
        let mut built = Built { keys: Vec::new(), payload: Vec::new() };
        for _ in 0..key_count {
            let (key, domain) = self.join_key(&known);
            built.keys.push((key.ty, domain));
            keys.push(key.expr);
        }
        let mut payload = Vec::new();
        for _ in 0..self.random.below(4) {
            let made = self.output(&known);
            built.payload.push(match made.expr {
                Expr::Column(column) => known[column].clone(),
                _ => Known::made(&made),
            });
            payload.push(made.expr);
        }
        self.built.push(built);
        let sink = Sink::Build { table, keys, payload };
        Pipeline { name: format!("build {table}"), source, columns, ops, sink }
    }

    fn last(&mut self) -> Pipeline {
        let (source, columns, known) = self.source(false);
        let (ops, known) = self.ops(known, false);
        let sink = if self.random.percent(50) { self.aggregate(&known) } else { self.materialize(&known) };
        Pipeline { name: "last".into(), source, columns, ops, sink }
    }

    fn source(&mut self, is_build: bool) -> (Source, Vec<Column>, Vec<Known>) {
        if self.random.percent(if is_build { 50 } else { 15 }) {
            let recipes = Recipe::of_host_input(self.random, super::check::HOST_ROWS_MAX);
            self.host_inputs.push(recipes.clone());
            let (columns, known) = self.columns(&recipes);
            return (Source::HostInput(self.host_inputs.len() - 1), columns, known);
        }
        // The largest tables come first, and are read most.
        let number = *self.random.pick(&[0, 0, 0, 0, 1, 1, 2, 2, 2, 3]);
        let table = &self.tables.relations[number].table;
        let all = &self.tables.recipes[number];
        let mut chosen: Vec<usize> = Vec::new();
        for _ in 0..2 + self.random.below(6) {
            // Keys are wanted more often than others.
            let keys_only = self.random.percent(35);
            let column = self.random.below(if keys_only { 3 } else { all.len() as u64 }) as usize;
            if !chosen.contains(&column) {
                chosen.push(column);
            }
        }
        if self.random.one_in(60) {
            chosen.clear();
        }
        let recipes: Vec<Recipe> = chosen.iter().map(|column| all[*column].clone()).collect();
        let is_part = self.random.one_in(5);
        let groups = 0..table.row_group_count() as u32;
        let row_groups = groups.filter(|_| !is_part || self.random.percent(60)).collect();
        let (columns, known) = self.columns(&recipes);
        let uses_runtime_filters = self.random.percent(80);
        let scan = TableScan { table: Arc::clone(table), columns: chosen, row_groups, uses_runtime_filters };
        (Source::Table(scan), columns, known)
    }

    /// Bounds that hold, more or less tight, or none.
    fn columns(&mut self, recipes: &[Recipe]) -> (Vec<Column>, Vec<Known>) {
        let column = |recipe: &Recipe| {
            let is_integer = INTEGERS.contains(&recipe.ty);
            let (low, high) = (recipe.low, recipe.high);
            let is_known = is_integer && self.random.percent(90);
            let slack = if self.random.one_in(4) { self.random.between(0, high / 8 - low / 8) } else { 0 };
            let (least, most) = match recipe.ty {
                Type::I32 => (i32::MIN.into(), i32::MAX.into()),
                Type::I64 => (i64::MIN.into(), i64::MAX.into()),
                _ => (-super::evaluate::DECIMAL_MAX, super::evaluate::DECIMAL_MAX),
            };
            let bounds = Bounds { min: (low - slack).max(least), max: (high + slack).min(most) };
            let is_nullable = recipe.has_nulls() || self.random.one_in(6);
            let name = recipe.name.clone();
            let bounds = is_known.then_some(bounds);
            let column = Column { name, ty: recipe.ty, is_nullable, bounds, text: None };
            (column, Known::of(recipe, is_known || recipe.ty == Type::I32))
        };
        recipes.iter().map(column).unzip()
    }

    fn expressions<'e>(&'e mut self, columns: &'e [Known]) -> Expressions<'e> {
        Expressions { random: self.random, columns, is_wild: self.is_wild }
    }

    fn ops(&mut self, mut known: Vec<Known>, is_build: bool) -> (Vec<Op>, Vec<Known>) {
        let mut ops = Vec::new();
        let mut unprobed: Vec<usize> = (0..self.built.len()).collect();
        let count = self.random.below(if is_build { 3 } else { 5 });
        for _ in 0..count {
            match self.random.below(10) {
                0..=3 => ops.push(Op::Filter(self.filter(&known))),
                4..=5 => ops.push(self.compute(&mut known)),
                _ if !unprobed.is_empty() && (!is_build || self.random.one_in(3)) => {
                    let at = self.random.below(unprobed.len() as u64) as usize;
                    let table = unprobed.remove(at);
                    ops.push(self.probe(table, &mut known));
                }
                _ => {}
            }
        }
        // Tables are built to be probed.
        for table in unprobed.into_iter().filter(|_| !is_build) {
            ops.push(self.probe(table, &mut known));
            if self.random.one_in(3) {
                ops.push(Op::Filter(self.filter(&known)));
            }
        }
        (ops, known)
    }

    fn filter(&mut self, known: &[Known]) -> Expr {
        let is_range = self.random.percent(55);
        let count = 1 + self.random.below(2);
        let mut expressions = self.expressions(known);
        let ranges: Vec<Expr> = (0..count).filter_map(|_| expressions.range()).collect();
        match ranges.len() {
            _ if !is_range => expressions.condition(3).expr,
            1 => ranges.into_iter().next().expect("one"),
            _ => Expr::And(ranges),
        }
    }

    fn compute(&mut self, known: &mut Vec<Known>) -> Op {
        let ty = *self.random.pick(&[Type::I32, Type::I64, Type::I128, Type::F64, Type::Bool]);
        let made = self.expressions(known).of(ty, 3);
        let made = if made.bits > 126 { Made { bits: 126, ..made } } else { made };
        known.push(Known::made(&made));
        Op::Compute { name: "computed".into(), value: made.expr }
    }

    /// An integer that other tables have too.
    fn join_key(&mut self, known: &[Known]) -> (Made, Option<Domain>) {
        let domain = *self.random.pick(&[Domain::Id, Domain::Id, Domain::Small]);
        let is_wild = self.random.one_in(10);
        let mut expressions = self.expressions(known);
        let column = expressions.column(|column| column.domain == Some(domain) && column.is_bounded);
        let (made, domain) = match column {
            Some(made) if !is_wild => (made, Some(domain)),
            _ => (expressions.integer(Type::I32, 1), None),
        };
        (made, domain)
    }

    fn probe(&mut self, table: usize, known: &mut Vec<Known>) -> Op {
        let wanted = self.built[table].keys.clone();
        let mut keys = Vec::new();
        for (ty, domain) in wanted {
            let mut expressions = self.expressions(known);
            let same = |column: &Known| column.domain.is_some() && column.domain == domain;
            let made = match expressions.column(same) {
                Some(made) => made,
                None => expressions.integer(ty, 1),
            };
            let is_same = made.ty == ty;
            keys.push(if is_same { made.expr } else { Expr::Cast { input: Box::new(made.expr), to: ty } });
        }
        use ProbeKind::{Anti, Inner, Outer, Semi};
        let kind = *self.random.pick(&[Inner, Inner, Outer, Outer, Semi, Anti]);
        if matches!(kind, Inner | Outer) {
            known.extend(self.built[table].payload.iter().cloned());
        }
        Op::Probe { table, keys, kind, residual: None }
    }

    /// A column, or something computed.
    fn output(&mut self, known: &[Known]) -> Made {
        let is_column = self.random.percent(60);
        let mut expressions = self.expressions(known);
        let column = expressions.column(|_| true).filter(|_| is_column);
        column.unwrap_or_else(|| expressions.any(2))
    }

    fn group_key(&mut self, known: &[Known]) -> Expr {
        let choice = self.random.below(10);
        let mut expressions = self.expressions(known);
        let is_small = |column: &Known| {
            matches!(column.ty, Type::Bool | Type::Text)
                || (column.is_bounded && INTEGERS.contains(&column.ty) && column.high - column.low < 1 << 20)
        };
        match (choice, expressions.column(is_small)) {
            (0, _) => expressions.condition(1).expr,
            (1, _) => {
                let input = Box::new(expressions.integer(Type::I64, 2).expr);
                Expr::Modulo { input, by: expressions.random.between(1, 3000) as i64 }
            }
            (2, _) => expressions.integer(Type::I32, 2).expr,
            (_, Some(column)) => column.expr,
            (_, None) => expressions.condition(0).expr,
        }
    }

    fn aggregate(&mut self, known: &[Known]) -> Sink {
        let key_count = *self.random.pick(&[0, 0, 1, 1, 1, 2, 3]);
        let keys = (0..key_count).map(|_| self.group_key(known)).collect();
        let count = self.random.below(4) + u64::from(key_count == 0);
        let aggregates = (0..count).map(|_| self.one_aggregate(known)).collect();
        let expected = self.random.one_in(3).then(|| self.random.below(5000));
        Sink::Aggregate { keys, aggregates, expected }
    }

    fn one_aggregate(&mut self, known: &[Known]) -> Aggregate {
        use AggregateFunction::{Count, Max, Min, Sum};
        let function = *self.random.pick(&[Sum, Sum, Sum, Count, Min, Max]);
        if function == Count && self.random.one_in(2) {
            return Aggregate { function, input: None };
        }
        let ty = match function {
            Sum => *self.random.pick(&[Type::I32, Type::I64, Type::I128, Type::I128, Type::F64]),
            Min | Max => *self.random.pick(&[Type::I32, Type::I64]),
            Count => *self.random.pick(&[Type::Bool, Type::Text, Type::F64, Type::I32]),
        };
        let is_column = self.random.one_in(2);
        let mut expressions = self.expressions(known);
        let column = expressions.column(|column| column.ty == ty).filter(|_| is_column);
        let made = column.unwrap_or_else(|| expressions.of(ty, 2));
        Aggregate { function, input: Some(made.expr) }
    }

    /// Rows; of a top-k with their key behind everything else, to check them by.
    fn materialize(&mut self, known: &[Known]) -> Sink {
        let count = 1 + self.random.below(4);
        let mut columns: Vec<Expr> = (0..count).map(|_| self.output(known).expr).collect();
        if self.random.percent(65) {
            return Sink::Materialize { columns, top: None };
        }
        let is_column = self.random.percent(75);
        let row_count = *self.random.pick(&[0, 1, 2, 10, 100, 1000, u64::MAX]);
        let (is_descending, keeps_ties) = (self.random.one_in(2), self.random.one_in(2));
        let mut expressions = self.expressions(known);
        let column = expressions.column(|column| INTEGERS.contains(&column.ty)).filter(|_| is_column);
        let key = column.unwrap_or_else(|| expressions.integer(Type::I64, 2)).expr;
        columns.push(key.clone());
        Sink::Materialize { columns, top: Some(TopK { key, is_descending, keeps_ties, row_count }) }
    }
}
