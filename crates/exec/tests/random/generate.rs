//! Random plans: hash tables of stored tables and host inputs, pipelines that probe them, a result.

use std::sync::Arc;

use pelton_chunk::Layout;
use pelton_pipeline::ir::{
    Bounds, Column, Expr, Op, Pipeline, Plan, ProbeKind, Sink, Source, TableScan, Type,
};
use pelton_pipeline::{Dictionary, TextSource};

use super::expressions::{Expressions, INTEGERS, Known, Made};
use super::parameter::Parameter;
use super::random::Random;
use super::recipe::{Domain, Recipe};
use super::sinks::as_column;
use super::tables::Tables;
use super::text::TextForm;

/// A plan and what its host inputs look like.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) plan: Plan,
    pub(crate) host_inputs: Vec<Vec<Recipe>>,
    pub(crate) parameters: Vec<Parameter>,
}

/// A hash table of the plan.
struct Built {
    keys: Vec<(Type, Option<Domain>)>,
    payload: Vec<Known>,
}

/// The groups of a pipeline of the plan.
pub(crate) struct Grouped {
    pipeline: usize,
    columns: Vec<Known>,
    is_read: bool,
}

/// What a plan is made of, so far.
pub(crate) struct Generator<'g> {
    pub(crate) random: &'g mut Random,
    tables: &'g Tables,
    pipelines: Vec<Pipeline>,
    built: Vec<Built>,
    unique_tables: Vec<usize>,
    groups: Vec<Grouped>,
    host_inputs: Vec<Vec<Recipe>>,
    parameters: Vec<Parameter>,
    /// Rows of the pipeline that is being made have numbers.
    has_row_numbers: bool,
    is_wild: bool,
}

/// Plan number `turn` of `seed` over `tables`; a wild one computes with large numbers as with small ones.
pub(crate) fn generate(seed: u64, turn: u64, is_wild: bool, tables: &Tables) -> Draft {
    let random = &mut Random::new(seed, 4 + turn);
    let (mut builds, mut groups) = (*random.pick(&[0, 0, 1, 1, 2]), *random.pick(&[0, 0, 0, 0, 1, 1, 2]));
    let mut generator = Generator {
        random,
        tables,
        pipelines: Vec::new(),
        built: Vec::new(),
        unique_tables: Vec::new(),
        groups: Vec::new(),
        host_inputs: Vec::new(),
        parameters: Vec::new(),
        has_row_numbers: false,
        is_wild,
    };
    while builds + groups > 0 {
        match generator.random.below(builds + groups) < builds {
            true => (builds, _) = (builds - 1, generator.build(false)),
            false => (groups, _) = (groups - 1, generator.group()),
        }
    }
    // All groups are read, the last ones by the last pipeline.
    while generator.groups.iter().filter(|groups| !groups.is_read).count() > 1 {
        generator.build(true);
    }
    generator.last();
    let Generator { pipelines, built, unique_tables, host_inputs, parameters, .. } = generator;
    let (table_count, host_input_count) = (built.len(), host_inputs.len());
    let plan = Plan { pipelines, table_count, host_input_count, unique_tables };
    Draft { plan, host_inputs, parameters }
}

impl Generator<'_> {
    /// A table; of groups that nobody has read, where it `must_read` some.
    fn build(&mut self, must_read: bool) {
        let table = self.built.len();
        let (source, columns, known) = self.source(true, must_read);
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
            built.payload.push(as_column(&made, &known));
            payload.push(made.expr);
        }
        self.built.push(built);
        if self.random.one_in(10) {
            self.unique_tables.push(table);
        }
        let sink = Sink::Build { table, keys, payload };
        self.pipelines.push(Pipeline { name: format!("build {table}"), source, columns, ops, sink });
    }

    /// Groups that later pipelines read.
    fn group(&mut self) {
        let pipeline = self.pipelines.len();
        let (source, columns, known) = self.source(false, false);
        let (ops, known) = self.ops(known, true);
        let (sink, known) = self.aggregate(&known);
        self.groups.push(Grouped { pipeline, columns: known, is_read: false });
        self.pipelines.push(Pipeline { name: format!("group {pipeline}"), source, columns, ops, sink });
    }

    fn last(&mut self) {
        let (source, columns, known) = self.source(false, true);
        let (ops, known) = self.ops(known, false);
        let is_aggregate = self.random.percent(50);
        let sink = if is_aggregate { self.aggregate(&known).0 } else { self.materialize(&known) };
        self.pipelines.push(Pipeline { name: "last".into(), source, columns, ops, sink });
    }

    /// Groups of an earlier pipeline, those that nobody has read first.
    fn groups(&mut self, must_read: bool) -> Option<(Source, Vec<Column>, Vec<Known>)> {
        let unread = self.groups.iter().position(|groups| !groups.is_read);
        let is_wanted = must_read || self.random.one_in(2);
        let any = self.groups.len().checked_sub(1).filter(|_| self.random.one_in(4));
        let at =
            unread.filter(|_| is_wanted).or(any.map(|last| self.random.below(last as u64 + 1) as usize))?;
        let groups = &mut self.groups[at];
        groups.is_read = true;
        // What is known of them replaces what is said here.
        let column = |known: &Known| Column {
            name: "group".into(),
            ty: known.ty,
            is_nullable: true,
            bounds: None,
            text: None,
        };
        let columns = groups.columns.iter().map(column).collect();
        Some((Source::Groups(groups.pipeline), columns, groups.columns.clone()))
    }

    fn source(&mut self, is_build: bool, must_read: bool) -> (Source, Vec<Column>, Vec<Known>) {
        self.has_row_numbers = false;
        if let Some(groups) = self.groups(must_read) {
            return groups;
        }
        if self.random.percent(if is_build { 50 } else { 15 }) {
            let recipes = Recipe::of_host_input(self.random, super::check::HOST_ROWS_MAX);
            self.host_inputs.push(recipes.clone());
            let (columns, known) = self.columns(&recipes, false);
            return (Source::HostInput(self.host_inputs.len() - 1), columns, known);
        }
        self.has_row_numbers = true;
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
        let (columns, known) = self.columns(&recipes, true);
        let uses_runtime_filters = self.random.percent(80);
        let scan = TableScan { table: Arc::clone(table), columns: chosen, row_groups, uses_runtime_filters };
        (Source::Table(scan), columns, known)
    }

    /// Bounds that hold, more or less tight, or none. Texts of tables are read by dictionary or as views; what has no
    /// dictionary as views.
    fn columns(&mut self, recipes: &[Recipe], is_table: bool) -> (Vec<Column>, Vec<Known>) {
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
            let is_text = is_table && recipe.ty == Type::Text;
            let is_view = is_text && (recipe.encoding.layout == Layout::Plain || self.random.one_in(3));
            // Which dictionary it is the run knows.
            let text = (is_text && !is_view).then(|| Arc::new(Dictionary::default()) as Arc<dyn TextSource>);
            let column = Column { name, ty: recipe.ty, is_nullable, bounds, text };
            let known = Known::of(recipe, is_known || recipe.ty == Type::I32);
            (column, Known { text: if is_view { TextForm::View } else { TextForm::Numbers }, ..known })
        };
        recipes.iter().map(column).unzip()
    }

    pub(crate) fn expressions<'e>(&'e mut self, columns: &'e [Known]) -> Expressions<'e> {
        let Self { has_row_numbers, is_wild, .. } = *self;
        let (random, parameters) = (&mut *self.random, &mut self.parameters);
        Expressions { random, columns, parameters, has_row_numbers, is_wild }
    }

    fn ops(&mut self, mut known: Vec<Known>, is_build: bool) -> (Vec<Op>, Vec<Known>) {
        let mut ops = Vec::new();
        let mut unprobed: Vec<usize> = (0..self.built.len()).collect();
        let count = self.random.below(if is_build { 3 } else { 5 });
        for _ in 0..count {
            match self.random.below(10) {
                0..=3 => ops.push(Op::Filter(self.filter(&known))),
                4..=5 => ops.push(self.compute(&mut known)),
                6 if self.random.one_in(3) => {
                    let count = 1 + self.random.below(3);
                    known.push(Known::made(&Made { expr: Expr::RowNumber, ty: Type::I32, bits: 2 }));
                    ops.push(Op::Repeat { count: count as u32 });
                }
                _ if !unprobed.is_empty() && (!is_build || self.random.one_in(3)) => {
                    let at = self.random.below(unprobed.len() as u64) as usize;
                    // Now and then one is probed twice.
                    let table = if self.random.one_in(8) { unprobed[at] } else { unprobed.remove(at) };
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
        let ty = *self.random.pick(&[Type::I32, Type::I64, Type::I128, Type::F64, Type::Bool, Type::Text]);
        let made = self.expressions(known).of(ty, 3);
        let made = if made.bits > 126 { Made { bits: 126, ..made } } else { made };
        let column = match made.expr {
            Expr::Column(at) => Known { text: known[at].text, ..Known::made(&made) },
            _ => Known::made(&made),
        };
        known.push(column);
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
        use ProbeKind::{Anti, Inner, Mark, Outer, Semi};
        let kind = *self.random.pick(&[Inner, Inner, Outer, Outer, Semi, Anti, Mark]);
        let mut residual = None;
        if kind != Inner && self.random.percent(if kind == Outer { 40 } else { 70 }) {
            let seen = [known.as_slice(), &self.built[table].payload].concat();
            residual = Some(self.expressions(&seen).condition(2).expr);
        }
        match kind {
            Inner | Outer => known.extend(self.built[table].payload.iter().cloned()),
            Mark => known.push(Known::mark()),
            Semi | Anti => {}
        }
        Op::Probe { table, keys, kind, residual }
    }
}
