//! Cutting a pipeline in two at a probe: what comes before ends in rows, and the rest begins with those.
//!
//! ```text
//!   scan ─► filter ─► probe 0 ─► probe 1 ─► groups
//!
//!   before   scan ─► filter ─► probe 0 ─► rows: the columns that the rest reads, and the keys of probe 1
//!   after    rows ─► probe 1 ─► groups
//! ```
//!
//! What only the source of a pipeline has, the number of a row and the bytes of a text without a dictionary, is computed
//! before the cut and is a column of the rows. Keys are computed once.

use std::sync::Arc;

use crate::ir::{Aggregate, Column, Expr, Op, Pipeline, RowOrder, Sink, SortKey, Source, TopK, Type};

/// The two parts of a pipeline.
#[derive(Debug, Clone)]
pub struct Cut {
    /// Ends in rows.
    pub before: Pipeline,
    /// Begins with the probe, over rows that a caller gives. What its columns are, those rows say; here they have names alone.
    pub after: Pipeline,
    /// Which columns of the rows are looked up.
    pub keys: Vec<usize>,
}

impl Pipeline {
    /// Cuts before operator `at`, which is a probe. `payload_columns`: how many columns each table brings.
    ///
    /// # Panics
    ///
    /// Where that operator is no probe.
    pub fn cut_before(&self, at: usize, payload_columns: &[usize]) -> Cut {
        let Op::Probe { keys, .. } = &self.ops[at] else { panic!("operator {at} is a probe") };
        let added = |op: &Op| match op {
            Op::Filter(_) => 0,
            Op::Compute { .. } | Op::Repeat { .. } => 1,
            Op::Probe { table, kind, .. } => kind.added_columns(payload_columns[*table]),
        };
        let column_count = self.columns.len() + self.ops[..at].iter().map(added).sum::<usize>();
        let mut cutter = Cutter { pipeline: self, column_count, rows: Vec::new() };
        let keys: Vec<usize> = keys.iter().map(|key| cutter.column_of(key)).collect();
        // How many columns the rows have is known once all that reads them was seen.
        cutter.rest(at, &keys);
        let (ops, sink) = cutter.rest(at, &keys);
        let column = |number: usize| Column {
            name: format!("column {number}"),
            ty: Type::I64,
            is_nullable: true,
            bounds: None,
            text: None,
        };
        let before = Pipeline {
            name: self.name.clone(),
            source: self.source.clone(),
            columns: self.columns.clone(),
            ops: self.ops[..at].to_vec(),
            sink: Sink::Materialize { columns: cutter.rows.clone(), top: None, order: None },
        };
        let columns = (0..cutter.rows.len()).map(column).collect();
        let after = Pipeline { name: self.name.clone(), source: Source::HostInput(0), columns, ops, sink };
        Cut { before, after, keys }
    }
}

struct Cutter<'p> {
    pipeline: &'p Pipeline,
    /// Columns that there are before the cut.
    column_count: usize,
    /// What the rows hold.
    rows: Vec<Expr>,
}

impl Cutter<'_> {
    /// The column of the rows that holds `expr`.
    fn column_of(&mut self, expr: &Expr) -> usize {
        if let Some(column) = self.rows.iter().position(|other| is_same(expr, other)) {
            return column;
        }
        self.rows.push(expr.clone());
        self.rows.len() - 1
    }

    /// What comes after the cut, in terms of the rows.
    fn rest(&mut self, at: usize, keys: &[usize]) -> (Vec<Op>, Sink) {
        let pipeline = self.pipeline;
        let mut ops: Vec<Op> = pipeline.ops[at..].iter().map(|op| self.op(op)).collect();
        if let Some(Op::Probe { keys: looked_up, .. }) = ops.first_mut() {
            *looked_up = keys.iter().map(|key| Expr::Column(*key)).collect();
        }
        (ops, self.sink(&pipeline.sink))
    }

    fn op(&mut self, op: &Op) -> Op {
        match op {
            Op::Filter(condition) => Op::Filter(self.expr(condition)),
            Op::Compute { name, value } => Op::Compute { name: name.clone(), value: self.expr(value) },
            Op::Repeat { count } => Op::Repeat { count: *count },
            Op::Probe { table, keys, kind, residual } => Op::Probe {
                table: *table,
                keys: self.exprs(keys),
                kind: *kind,
                residual: residual.as_ref().map(|residual| self.expr(residual)),
            },
        }
    }

    fn sink(&mut self, sink: &Sink) -> Sink {
        match sink {
            Sink::Build { table, keys, payload } => {
                Sink::Build { table: *table, keys: self.exprs(keys), payload: self.exprs(payload) }
            }
            Sink::Aggregate { keys, aggregates, expected } => Sink::Aggregate {
                keys: self.exprs(keys),
                aggregates: aggregates
                    .iter()
                    .map(|Aggregate { function, input }| Aggregate {
                        function: *function,
                        input: input.as_ref().map(|input| self.expr(input)),
                    })
                    .collect(),
                expected: *expected,
            },
            Sink::Materialize { columns, top, order } => Sink::Materialize {
                columns: self.exprs(columns),
                top: top.as_ref().map(|top| TopK { key: self.expr(&top.key), ..top.clone() }),
                order: order.as_ref().map(|order| {
                    let key = |key: &SortKey| SortKey { key: self.expr(&key.key), ..key.clone() };
                    RowOrder { keys: order.keys.iter().map(key).collect(), ..order.clone() }
                }),
            },
        }
    }

    fn exprs(&mut self, exprs: &[Expr]) -> Vec<Expr> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn boxed(&mut self, expr: &Expr) -> Box<Expr> {
        Box::new(self.expr(expr))
    }

    /// The number that `column` has after the cut.
    fn column(&mut self, column: usize) -> usize {
        match column.checked_sub(self.column_count) {
            Some(added) => self.rows.len() + added,
            None => self.column_of(&Expr::Column(column)),
        }
    }

    /// Whether `column` is a text of a table that is read as its bytes, which stay there.
    fn is_view(&self, column: usize) -> bool {
        let column = self.pipeline.columns.get(column);
        matches!(self.pipeline.source, Source::Table(_))
            && column.is_some_and(|column| column.ty == Type::Text && column.text.is_none())
    }

    fn expr(&mut self, expr: &Expr) -> Expr {
        match expr {
            Expr::Column(column) => Expr::Column(self.column(*column)),
            Expr::Literal(_) | Expr::Parameter { .. } => expr.clone(),
            Expr::RowNumber => Expr::Column(self.column_of(expr)),
            Expr::Arithmetic { op, left, right } => {
                Expr::Arithmetic { op: *op, left: self.boxed(left), right: self.boxed(right) }
            }
            Expr::Compare { op, left, right } => {
                Expr::Compare { op: *op, left: self.boxed(left), right: self.boxed(right) }
            }
            Expr::And(terms) => Expr::And(self.exprs(terms)),
            Expr::Or(terms) => Expr::Or(self.exprs(terms)),
            Expr::Not(input) => Expr::Not(self.boxed(input)),
            Expr::IsNull(input) => match **input {
                Expr::Column(column) if self.is_view(column) => Expr::Column(self.column_of(expr)),
                _ => Expr::IsNull(self.boxed(input)),
            },
            Expr::In { input, values } => Expr::In { input: self.boxed(input), values: values.clone() },
            Expr::Case { branches, otherwise } => Expr::Case {
                branches: branches
                    .iter()
                    .map(|(condition, value)| (self.expr(condition), self.expr(value)))
                    .collect(),
                otherwise: otherwise.as_ref().map(|value| self.boxed(value)),
            },
            Expr::Where { input, condition } => {
                Expr::Where { input: self.boxed(input), condition: self.boxed(condition) }
            }
            Expr::Cast { input, to } => Expr::Cast { input: self.boxed(input), to: *to },
            Expr::Within { input, bounds } => Expr::Within { input: self.boxed(input), bounds: *bounds },
            Expr::FloatKey { input } => Expr::FloatKey { input: self.boxed(input) },
            Expr::WithSign { input, sign } => Expr::WithSign { input: self.boxed(input), sign: *sign },
            Expr::NonZero { input } => Expr::NonZero { input: self.boxed(input) },
            Expr::DatePart { part, input } => Expr::DatePart { part: *part, input: self.boxed(input) },
            Expr::DateTrunc { unit, input } => Expr::DateTrunc { unit: *unit, input: self.boxed(input) },
            Expr::AddMonths { input, months } => {
                Expr::AddMonths { input: self.boxed(input), months: *months }
            }
            Expr::FloorDivide { input, by } => Expr::FloorDivide { input: self.boxed(input), by: *by },
            Expr::Modulo { input, by } => Expr::Modulo { input: self.boxed(input), by: *by },
            Expr::OfText { column, .. } if self.is_view(*column) => Expr::Column(self.column_of(expr)),
            Expr::OfText { column, function } => {
                Expr::OfText { column: self.column(*column), function: Arc::clone(function) }
            }
        }
    }
}

/// Whether two expressions of one pipeline are the same; functions of texts need not say so of themselves.
fn is_same(one: &Expr, other: &Expr) -> bool {
    match (one, other) {
        (
            Expr::OfText { column, function },
            Expr::OfText { column: other_column, function: other_function },
        ) => column == other_column && (Arc::ptr_eq(function, other_function) || function == other_function),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{AggregateFunction, CompareOp, ProbeKind};

    fn column(number: usize) -> Expr {
        Expr::Column(number)
    }

    fn less(left: usize, right: usize) -> Expr {
        Expr::Compare { op: CompareOp::Lt, left: Box::new(column(left)), right: Box::new(column(right)) }
    }

    fn probe(table: usize, keys: Vec<Expr>, kind: ProbeKind, residual: Option<Expr>) -> Op {
        Op::Probe { table, keys, kind, residual }
    }

    /// Three columns; table 0 brings two columns (3, 4), then column 5 is computed, table 1 brings one (6).
    fn pipeline() -> Pipeline {
        let named = |name: &str| Column {
            name: name.into(),
            ty: Type::I64,
            is_nullable: false,
            bounds: None,
            text: None,
        };
        let sum = Aggregate { function: AggregateFunction::Sum, input: Some(column(6)) };
        Pipeline {
            name: "p".into(),
            source: Source::HostInput(7),
            columns: ["a", "b", "c"].map(named).to_vec(),
            ops: vec![
                probe(0, vec![column(0)], ProbeKind::Inner, None),
                Op::Compute { name: "d".into(), value: Expr::Not(Box::new(less(1, 3))) },
                probe(1, vec![column(1), Expr::RowNumber], ProbeKind::Outer, Some(less(4, 6))),
                Op::Filter(less(6, 5)),
            ],
            sink: Sink::Aggregate { keys: vec![column(4)], aggregates: vec![sum], expected: None },
        }
    }

    #[test]
    fn rows_hold_what_is_read_after_the_cut() {
        let cut = pipeline().cut_before(2, &[2, 1]);
        let Sink::Materialize { columns, .. } = &cut.before.sink else { panic!("rows") };
        // Columns 0, 2 and 3 are not needed any more.
        assert_eq!(columns, &[column(1), Expr::RowNumber, column(4), column(5)]);
        assert_eq!((cut.keys.as_slice(), cut.before.ops.len()), ([0, 1].as_slice(), 2));
        let after = &cut.after;
        assert_eq!(after.columns.len(), 4);
        let looked_up = vec![column(0), column(1)];
        assert_eq!(after.ops[0], probe(1, looked_up, ProbeKind::Outer, Some(less(2, 4))));
        assert_eq!(after.ops[1], Op::Filter(less(4, 3)));
        let Sink::Aggregate { keys, aggregates, .. } = &after.sink else { panic!("groups") };
        assert_eq!((keys, aggregates[0].input.as_ref()), (&vec![column(2)], Some(&column(4))));
    }

    #[test]
    fn what_is_cut_can_be_cut_again() {
        let first = pipeline().cut_before(0, &[2, 1]);
        let Sink::Materialize { columns, .. } = &first.before.sink else { panic!("rows") };
        assert_eq!(columns, &[column(0), column(1), Expr::RowNumber]);
        let cut = first.after.cut_before(2, &[2, 1]);
        let Sink::Materialize { columns, .. } = &cut.before.sink else { panic!("rows") };
        assert_eq!(columns, &[column(1), column(2), column(4), column(5)]);
        assert_eq!(cut.after.ops[1], Op::Filter(less(4, 3)));
    }
}
