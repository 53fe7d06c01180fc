//! Plans, row by row: what a run of one must give, and when it may or must answer that something overflows instead.
//!
//! Which conditions come first is free, in SQL and in kernels, so that two rules bracket what a run may say:
//!
//! * it *must* end with an overflow where an expression overflows that the result depends on, for a row that no
//!   condition and no probe drops, in whatever order;
//! * it *may* where an expression overflows for a row that conditions before it in the plan have not dropped, or, if it
//!   reads source columns alone, for any row, because kernels move such conditions and probes to the front. (Sums may
//!   where partial ones could leave 128 bits.)

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Expr, Literal, Op, Pipeline, Plan, ProbeKind, Sink, Source, TableScan, Type,
};
use pelton_store::Table;

use super::cell::{Cell, Row};
use super::evaluate::Scope;

/// Rows that a pipeline may go through before its plan is taken for too large to test.
const ROWS_MAX: usize = 100_000;

/// A stored table and its rows.
pub(crate) struct Relation {
    pub(crate) table: Arc<Table>,
    pub(crate) rows: Vec<Row>,
}

/// What plans read.
pub(crate) struct Data<'d> {
    pub(crate) relations: &'d [Relation],
    pub(crate) host_inputs: &'d [Vec<Row>],
    pub(crate) parameters: &'d [Literal],
}

/// What a run must give.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Of the last pipeline; with a top-k all that there are.
    pub(crate) rows: Vec<Row>,
    /// Rows that came to the last sink.
    pub(crate) ended: usize,
    /// The run must end with an overflow.
    pub(crate) must_overflow: bool,
    /// The run may end with an overflow.
    pub(crate) may_overflow: bool,
    /// The run must refuse: a key repeats in a table that must have none twice.
    pub(crate) must_refuse: bool,
    /// There are too many rows.
    pub(crate) is_too_large: bool,
}

/// A hash table.
struct Built {
    rows: HashMap<Vec<i128>, Vec<Row>>,
    payload: Vec<Type>,
}

pub(crate) fn interpret(plan: &Plan, data: &Data<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut tables: Vec<Option<Built>> = (0..plan.table_count).map(|_| None).collect();
    // By pipeline.
    let mut groups: Vec<Vec<Row>> = Vec::new();
    for pipeline in &plan.pipelines {
        let rows = match &pipeline.source {
            Source::HostInput(number) => numbered(&data.host_inputs[*number]),
            Source::Groups(from) => numbered(&groups[*from]),
            Source::Table(scan) => table_rows(scan, data),
        };
        let mut walk = Walk::new(pipeline, &tables, data.parameters);
        for (number, row) in &rows {
            walk.scope.row_number.set(*number);
            walk.before_all(row);
            walk.step(0, row.clone(), false);
        }
        outcome.is_too_large |= walk.is_full();
        outcome.ended = walk.ended.len();
        let (ended, types) = (walk.finish(&mut outcome), walk.scope.types);
        let mut held = Vec::new();
        match &pipeline.sink {
            Sink::Build { table, keys, payload } => {
                let scope = Scope::new(types, data.parameters);
                let payload = payload.iter().map(|expr| scope.type_of(expr)).collect();
                let rows = by_key(ended, keys.len());
                let repeats = rows.values().any(|rows| rows.len() > 1);
                outcome.must_refuse |= repeats && plan.unique_tables.contains(table);
                tables[*table] = Some(Built { rows, payload });
            }
            Sink::Aggregate { .. } | Sink::Materialize { .. } => {
                held.clone_from(&ended);
                outcome.rows = ended;
            }
        }
        groups.push(held);
    }
    outcome
}

fn numbered(rows: &[Row]) -> Vec<(usize, Row)> {
    rows.iter().cloned().enumerate().collect()
}

/// The rows that `scan` reads, with their numbers in the table.
fn table_rows(scan: &TableScan, data: &Data<'_>) -> Vec<(usize, Row)> {
    let relation = data.relations.iter().find(|relation| relation.table.id() == scan.table.id());
    let relation = relation.expect("plans read these tables");
    let (mut rows, mut first) = (Vec::new(), 0);
    for group in 0..scan.table.row_group_count() {
        let count = scan.table.row_group(group).row_count as usize;
        if scan.row_groups.contains(&(group as u32)) {
            let read = |row: &Row| scan.columns.iter().map(|at| row[*at].clone()).collect();
            rows.extend((first..first + count).map(|number| (number, read(&relation.rows[number]))));
        }
        first += count;
    }
    rows
}

fn by_key(rows: Vec<Row>, key_count: usize) -> HashMap<Vec<i128>, Vec<Row>> {
    let mut table: HashMap<Vec<i128>, Vec<Row>> = HashMap::new();
    for mut row in rows {
        let payload = row.split_off(key_count);
        if let Some(key) = key_of(&row) {
            table.entry(key).or_default().push(payload);
        }
    }
    table
}

/// The key that `cells` are; `None` where one is NULL.
fn key_of(cells: &[Cell]) -> Option<Vec<i128>> {
    let number = |cell: &Cell| if let Cell::Int(value) = cell { Some(*value) } else { None };
    cells.iter().map(number).collect()
}

/// The rows of one pipeline on their way to its sink.
struct Walk<'p> {
    pipeline: &'p Pipeline,
    tables: &'p [Option<Built>],
    scope: Scope<'p>,
    /// Those that came to the sink, as what it evaluates.
    ended: Vec<Row>,
    is_certain: bool,
}

impl<'p> Walk<'p> {
    fn new(pipeline: &'p Pipeline, tables: &'p [Option<Built>], parameters: &'p [Literal]) -> Self {
        let mut scope = Scope::new(pipeline.columns.iter().map(|column| column.ty).collect(), parameters);
        for op in &pipeline.ops {
            match op {
                Op::Compute { value, .. } => scope.types.push(scope.type_of(value)),
                Op::Repeat { .. } => scope.types.push(Type::I32),
                Op::Probe { table, kind, .. } if kind.brings_payload() => {
                    scope.types.extend(&tables[*table].as_ref().expect("built before").payload);
                }
                Op::Probe { kind: ProbeKind::Mark, .. } => scope.types.push(Type::Bool),
                _ => {}
            }
        }
        Self { pipeline, tables, scope, ended: Vec::new(), is_certain: false }
    }

    /// The scope with the columns of a table behind those that there are so far.
    fn scope_with(&self, payload: &[Type], column_count: usize) -> Scope<'p> {
        let mut types = self.scope.types.clone();
        types.truncate(column_count);
        types.extend(payload);
        let scope = Scope::new(types, self.scope.parameters);
        scope.row_number.set(self.scope.row_number.get());
        scope.is_noted.set(self.scope.is_noted.get());
        scope
    }

    fn is_full(&self) -> bool {
        self.ended.len() > ROWS_MAX
    }

    fn evaluate(&self, exprs: &[Expr], row: &Row) -> Vec<Cell> {
        exprs.iter().map(|expr| self.scope.evaluate(expr, row)).collect()
    }

    /// Evaluates what kernels may evaluate before anything else.
    fn before_all(&self, row: &Row) {
        for op in &self.pipeline.ops {
            match op {
                Op::Filter(condition) if reads_only(condition, row.len()) => {
                    self.scope.evaluate(condition, row);
                }
                Op::Probe { keys, .. } if keys.iter().all(|key| reads_only(key, row.len())) => {
                    self.evaluate(keys, row);
                }
                _ => {}
            }
        }
    }

    /// Whether a part of a conjunction that does not overflow rules `row` out: then nobody asks what overflows beside it.
    fn never_holds(&self, condition: &Expr, row: &Row) -> bool {
        match condition {
            Expr::And(parts) => parts.iter().any(|part| self.never_holds(part, row)),
            part => matches!(self.scope.evaluate(part, row), Cell::Null | Cell::Int(0)),
        }
    }

    /// Whether the keys of a finished table may rule a row out before its key overflows.
    fn may_be_ruled_out(&self, kind: ProbeKind) -> bool {
        let is_filtered = match &self.pipeline.source {
            Source::Table(scan) => scan.uses_runtime_filters,
            _ => false,
        };
        is_filtered && matches!(kind, ProbeKind::Inner | ProbeKind::Semi)
    }

    /// Takes `row` through the ops from `index` on. `is_tainted`: a condition or a key of it has overflowed.
    fn step(&mut self, index: usize, mut row: Row, is_tainted: bool) {
        if self.is_full() {
            return;
        }
        let pipeline = self.pipeline;
        let Some(op) = pipeline.ops.get(index) else { return self.end(&row, is_tainted) };
        match op {
            Op::Filter(condition) => match self.scope.evaluate(condition, &row) {
                Cell::Int(1) => self.step(index + 1, row, is_tainted),
                Cell::Poison if !self.never_holds(condition, &row) => self.step(index + 1, row, true),
                _ => {}
            },
            Op::Compute { value, .. } => {
                row.push(self.scope.evaluate(value, &row));
                self.step(index + 1, row, is_tainted);
            }
            Op::Repeat { count } => {
                for turn in 0..*count {
                    let row = [row.as_slice(), &[Cell::Int(turn.into())]].concat();
                    self.step(index + 1, row, is_tainted);
                }
            }
            Op::Probe { table, keys, kind, residual } => {
                let built = self.tables[*table].as_ref().expect("tables are built before they are probed");
                let keys = self.evaluate(keys, &row);
                let mut is_unknown = keys.iter().any(Cell::is_poison) && !keys.iter().any(Cell::is_null);
                if is_unknown && keys.len() == 1 && self.may_be_ruled_out(*kind) {
                    return;
                }
                let rows = key_of(&keys).and_then(|key| built.rows.get(&key));
                let mut matches: Vec<&Row> = rows.into_iter().flatten().collect();
                let with = |more: &[Cell]| [row.as_slice(), more].concat();
                let nothing = |cell: Cell| with(&vec![cell; kind.added_columns(built.payload.len())]);
                if let Some(residual) = residual {
                    let scope = self.scope_with(&built.payload, row.len());
                    let holds = matches.iter().map(|payload| scope.evaluate(residual, &with(payload)));
                    let holds: Vec<Cell> = holds.collect();
                    self.scope.is_noted.set(scope.is_noted.get());
                    let is_enough = *kind != ProbeKind::Outer && holds.contains(&Cell::Int(1));
                    is_unknown |= !is_enough && holds.iter().any(Cell::is_poison);
                    let mut holds = holds.into_iter();
                    matches.retain(|_| holds.next() == Some(Cell::Int(1)));
                }
                match (kind, matches.is_empty()) {
                    _ if is_unknown => self.step(index + 1, nothing(Cell::Poison), true),
                    (ProbeKind::Inner | ProbeKind::Outer, false) => {
                        for payload in matches {
                            self.step(index + 1, with(payload), is_tainted);
                        }
                    }
                    (ProbeKind::Outer, true) => self.step(index + 1, nothing(Cell::Null), is_tainted),
                    (ProbeKind::Mark, is_empty) => {
                        self.step(index + 1, with(&[Cell::Int(i128::from(!is_empty))]), is_tainted);
                    }
                    (ProbeKind::Semi, false) | (ProbeKind::Anti, true) => {
                        self.step(index + 1, row, is_tainted);
                    }
                    (ProbeKind::Inner | ProbeKind::Semi, true) | (ProbeKind::Anti, false) => {}
                }
            }
        }
    }

    /// Evaluates what the sink takes of `row`.
    fn end(&mut self, row: &Row, is_tainted: bool) {
        let mut ended = Vec::new();
        match &self.pipeline.sink {
            Sink::Build { keys, payload, .. } => {
                ended.extend(self.evaluate(keys, row));
                if ended.iter().any(Cell::is_null) {
                    return;
                }
                ended.extend(self.evaluate(payload, row));
            }
            Sink::Aggregate { keys, aggregates, .. } => {
                ended.extend(self.evaluate(keys, row).into_iter().map(Cell::with_one_zero));
                // A count of rows counts any value.
                let rows = Expr::Literal(Literal::Bool(true));
                let inputs = aggregates.iter().map(|aggregate| aggregate.input.as_ref().unwrap_or(&rows));
                ended.extend(inputs.map(|input| self.scope.evaluate(input, row)));
            }
            Sink::Materialize { columns, top, .. } => {
                ended.extend(self.evaluate(columns, row));
                let is_beyond = top.is_some() && (is_tainted || ended.iter().any(Cell::is_poison));
                if is_beyond {
                    // Unless it lies beyond what is wanted, where nobody looks at it.
                    return;
                }
            }
        }
        self.is_certain |= is_tainted || ended.iter().any(Cell::is_poison);
        self.ended.push(ended);
    }

    /// The rows of the result, or of the table.
    fn finish(&mut self, outcome: &mut Outcome) -> Vec<Row> {
        let mut ended = std::mem::take(&mut self.ended);
        if let Sink::Aggregate { keys, aggregates, .. } = &self.pipeline.sink {
            // Nobody sees what an overflow leaves of them.
            ended.retain(|row| !row.iter().any(Cell::is_poison));
            ended = self.groups(&ended, keys.len(), aggregates, outcome);
        }
        outcome.must_overflow |= self.is_certain;
        outcome.may_overflow |= self.is_certain || self.scope.is_noted.get();
        ended
    }

    fn groups(
        &self,
        rows: &[Row],
        key_count: usize,
        aggregates: &[Aggregate],
        outcome: &mut Outcome,
    ) -> Vec<Row> {
        let mut groups: BTreeMap<Row, Vec<&Row>> = BTreeMap::new();
        if key_count == 0 {
            groups.insert(Vec::new(), Vec::new());
        }
        for row in rows {
            groups.entry(row[..key_count].to_vec()).or_default().push(row);
        }
        let of_group = |(key, rows): (Row, Vec<&Row>)| {
            let mut row = key;
            for (index, aggregate) in aggregates.iter().enumerate() {
                let values = rows.iter().map(|row| &row[key_count + index]);
                let values: Vec<&Cell> = values.filter(|cell| !cell.is_null()).collect();
                row.push(aggregated(aggregate.function, &values, outcome));
            }
            row
        };
        groups.into_iter().map(of_group).collect()
    }
}

fn aggregated(function: AggregateFunction, values: &[&Cell], outcome: &mut Outcome) -> Cell {
    match (function, values) {
        (AggregateFunction::Count, _) => Cell::Int(values.len() as i128),
        (_, []) => Cell::Null,
        (AggregateFunction::Min, [Cell::Float(_), ..]) => {
            Cell::Float(doubles(values).min_by(f64::total_cmp).expect("there is one"))
        }
        (AggregateFunction::Max, [Cell::Float(_), ..]) => {
            Cell::Float(doubles(values).max_by(f64::total_cmp).expect("there is one"))
        }
        (AggregateFunction::Min, _) => (*values.iter().min().expect("there is one")).clone(),
        (AggregateFunction::Max, _) => (*values.iter().max().expect("there is one")).clone(),
        (AggregateFunction::Sum, [Cell::Float(_), ..]) => sum_of_doubles(values),
        (AggregateFunction::Sum, _) => sum_of_integers(values, outcome),
    }
}

fn doubles(values: &[&Cell]) -> impl Iterator<Item = f64> {
    values.iter().map(|cell| match cell {
        Cell::Float(value) => *value,
        other => panic!("a double among {other:?}"),
    })
}

fn sum_of_doubles(values: &[&Cell]) -> Cell {
    let numbers: Vec<f64> = doubles(values).collect();
    let sizes: f64 = numbers.iter().map(|number| number.abs()).sum();
    // What is not finite decides alone; finite numbers may leave the range in one order and not in another.
    let is_finite = numbers.iter().all(|number| number.is_finite());
    Cell::About(numbers.iter().sum(), if is_finite { sizes * 1e-9 } else { 0.0 })
}

fn sum_of_integers(values: &[&Cell], outcome: &mut Outcome) -> Cell {
    let (mut high, mut low, mut sizes) = (0i128, 0i128, 0f64);
    for cell in values {
        let Cell::Int(value) = cell else { panic!("an integer among {cell:?}") };
        high += value >> 64;
        low += value & i128::from(u64::MAX);
        sizes += value.unsigned_abs() as f64;
    }
    outcome.may_overflow |= sizes > 2f64.powi(126);
    let high = high + (low >> 64);
    if i64::try_from(high).is_err() {
        outcome.must_overflow = true;
        return Cell::Poison;
    }
    Cell::Int(high << 64 | low & i128::from(u64::MAX))
}

/// True where `expr` reads no column but the first `count`.
pub(crate) fn reads_only(expr: &Expr, count: usize) -> bool {
    let all = |inputs: &[Expr]| inputs.iter().all(|input| reads_only(input, count));
    match expr {
        Expr::Column(column) | Expr::OfText { column, .. } => *column < count,
        Expr::Literal(_) | Expr::Parameter { .. } | Expr::RowNumber => true,
        Expr::Arithmetic { left, right, .. } | Expr::Compare { left, right, .. } => {
            reads_only(left, count) && reads_only(right, count)
        }
        Expr::And(inputs) | Expr::Or(inputs) => all(inputs),
        Expr::Where { input, condition } => reads_only(input, count) && reads_only(condition, count),
        Expr::Case { branches, otherwise } => {
            branches.iter().all(|(a, b)| reads_only(a, count) && reads_only(b, count))
                && otherwise.as_ref().is_none_or(|otherwise| reads_only(otherwise, count))
        }
        Expr::Not(input)
        | Expr::IsNull(input)
        | Expr::In { input, .. }
        | Expr::Cast { input, .. }
        | Expr::Within { input, .. }
        | Expr::FloatKey { input }
        | Expr::WithSign { input, .. }
        | Expr::NonZero { input }
        | Expr::DatePart { input, .. }
        | Expr::DateTrunc { input, .. }
        | Expr::AddMonths { input, .. }
        | Expr::FloorDivide { input, .. }
        | Expr::Modulo { input, .. } => reads_only(input, count),
    }
}
