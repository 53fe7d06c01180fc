//! The ends of random pipelines: groups and rows.

use pelton_pipeline::ir::{Aggregate, AggregateFunction, Expr, RowOrder, Sink, SortKey, TopK, Type};

use super::expressions::{INTEGERS, Known, Made};
use super::generate::Generator;
use super::text::TextForm;

/// What `made` is as a column; `known` are those that it reads.
pub(crate) fn as_column(made: &Made, known: &[Known]) -> Known {
    match made.expr {
        Expr::Column(column) => known[column].clone(),
        _ => Known::made(made),
    }
}

impl Generator<'_> {
    /// A column, or something computed.
    pub(crate) fn output(&mut self, known: &[Known]) -> Made {
        let is_column = self.random.percent(60);
        let mut expressions = self.expressions(known);
        let column = expressions.column(|_| true).filter(|_| is_column);
        column.unwrap_or_else(|| expressions.any(2))
    }

    /// What groups are made by, and what it is as a column of theirs.
    fn group_key(&mut self, known: &[Known]) -> (Expr, Known) {
        let choice = self.random.below(14);
        let mut expressions = self.expressions(known);
        let is_small = |column: &Known| {
            matches!(column.ty, Type::Bool | Type::Text)
                || (column.is_bounded && INTEGERS.contains(&column.ty) && column.high - column.low < 1 << 20)
        };
        let made = match (choice, expressions.column(is_small)) {
            (0, _) => expressions.condition(1),
            (1, _) => {
                let input = Box::new(expressions.integer(Type::I64, 2).expr);
                let by = expressions.random.between(1, 3000) as i64;
                Made { expr: Expr::Modulo { input, by }, ty: Type::I64, bits: 12 }
            }
            (2, _) => expressions.integer(Type::I32, 2),
            (3, _) => expressions.any(2),
            (4..=6, _) => expressions.column(|_| true).unwrap_or_else(|| expressions.double(1)),
            (_, Some(column)) => column,
            (_, None) => expressions.condition(0),
        };
        let column = as_column(&made, known);
        (self.perhaps_where(made.expr, known), column)
    }

    /// `expr`, perhaps only where some condition holds.
    fn perhaps_where(&mut self, expr: Expr, known: &[Known]) -> Expr {
        if !self.random.one_in(6) {
            return expr;
        }
        let condition = Box::new(self.expressions(known).condition(1).expr);
        Expr::Where { input: Box::new(expr), condition }
    }

    /// Groups, and their columns.
    pub(crate) fn aggregate(&mut self, known: &[Known]) -> (Sink, Vec<Known>) {
        let key_count = *self.random.pick(&[0, 0, 1, 1, 1, 2, 3, 3, 9]);
        let (keys, mut columns): (Vec<Expr>, Vec<Known>) =
            (0..key_count).map(|_| self.group_key(known)).unzip();
        let count = self.random.below(4) + u64::from(key_count == 0);
        let (aggregates, results): (Vec<Aggregate>, Vec<Known>) =
            (0..count).map(|_| self.one_aggregate(known)).unzip();
        columns.extend(results);
        let expected = self.random.one_in(3).then(|| self.random.below(5000));
        (Sink::Aggregate { keys, aggregates, expected }, columns)
    }

    fn one_aggregate(&mut self, known: &[Known]) -> (Aggregate, Known) {
        use AggregateFunction::{Count, Max, Min, Sum};
        let function = *self.random.pick(&[Sum, Sum, Sum, Count, Min, Max]);
        let counted = Known::made(&Made { expr: Expr::RowNumber, ty: Type::I64, bits: 13 });
        if function == Count && self.random.one_in(2) {
            return (Aggregate { function, input: None }, counted);
        }
        let ty = match function {
            Sum => *self.random.pick(&[Type::I32, Type::I64, Type::I128, Type::I128, Type::F64]),
            Min | Max => *self.random.pick(&[Type::I32, Type::I64, Type::F64, Type::Text]),
            Count => *self.random.pick(&[Type::Bool, Type::Text, Type::F64, Type::I32]),
        };
        let is_column = self.random.one_in(2);
        let mut expressions = self.expressions(known);
        let column = match (function, ty) {
            // Views are counted too, and have extremes.
            (Count, _) | (Min | Max, Type::Text) => expressions
                .any_column(|column| column.ty == ty && !column.is_sum)
                .map(|at| Made { expr: Expr::Column(at), ty, bits: 0 }),
            _ => expressions.column(|column| column.ty == ty),
        };
        let made = column.filter(|_| is_column).unwrap_or_else(|| expressions.of(ty, 2));
        let made = match (function, ty) {
            // The sign of a NaN is what the processor likes, and orders its bits.
            (Min | Max, Type::F64) => Made { expr: Expr::FloatKey { input: Box::new(made.expr) }, ..made },
            _ => made,
        };
        let column = as_column(&made, known);
        let sum = Known::made(&Made { ty: Type::I128, bits: made.bits + 12, ..made.clone() });
        let result = match (function, ty) {
            (Count, _) => counted,
            (Sum, Type::F64) => Known { is_about: true, ..column },
            (Sum, _) => Known { is_sum: true, is_bounded: false, ..sum },
            (Min | Max, Type::Text) if column.text != TextForm::Numbers => {
                Known { text: TextForm::View, ..column }
            }
            (Min | Max, _) => column,
        };
        (Aggregate { function, input: Some(self.perhaps_where(made.expr, known)) }, result)
    }

    /// What rows are sorted by.
    fn order(&mut self, known: &[Known]) -> RowOrder {
        let count = 1 + self.random.below(4);
        let keys = (0..count).map(|_| {
            let is_column = self.random.percent(60);
            let mut expressions = self.expressions(known);
            let column = expressions.column(|column| column.text != TextForm::View && !column.is_about);
            let made = match column.filter(|_| is_column) {
                Some(column) => column,
                None if expressions.random.one_in(3) => expressions.double(1),
                None => expressions.integer(Type::I64, 2),
            };
            let key = match made.ty {
                // The sign of a NaN is what the processor likes, and orders its bits.
                Type::F64 => Expr::FloatKey { input: Box::new(made.expr) },
                _ => made.expr,
            };
            let (is_descending, nulls_first) = (self.random.one_in(2), self.random.one_in(2));
            SortKey { key, is_descending, nulls_first, text: None }
        });
        let keys = keys.collect();
        let row_count = *self.random.pick(&[None, None, None, Some(0), Some(1), Some(100), Some(u64::MAX)]);
        let expected = self.random.one_in(3).then(|| self.random.below(5000));
        RowOrder { keys, row_count, expected, windows: None }
    }

    /// Rows; of a top-k with their key behind everything else, and of an order with its keys, to check them by.
    pub(crate) fn materialize(&mut self, known: &[Known]) -> Sink {
        let count = 1 + self.random.below(4);
        let mut columns: Vec<Expr> = (0..count).map(|_| self.output(known).expr).collect();
        if self.random.percent(65) {
            if known.iter().any(|column| column.is_sum || column.is_about) {
                // As they are, with the keys that tell their rows apart.
                let is_value = |at: &usize| known[*at].text != TextForm::View;
                columns.extend((0..known.len()).filter(is_value).map(Expr::Column));
            }
            let order = self.random.one_in(3).then(|| self.order(known));
            columns.extend(order.iter().flat_map(|order| &order.keys).map(|key| key.key.clone()));
            return Sink::Materialize { columns, top: None, order };
        }
        let is_column = self.random.percent(75);
        let row_count = *self.random.pick(&[0, 1, 2, 10, 100, 1000, u64::MAX]);
        let (is_descending, keeps_ties) = (self.random.one_in(2), self.random.one_in(2));
        let mut expressions = self.expressions(known);
        let column = expressions.column(|column| INTEGERS.contains(&column.ty)).filter(|_| is_column);
        let key = column.unwrap_or_else(|| expressions.integer(Type::I64, 2)).expr;
        columns.push(key.clone());
        Sink::Materialize {
            columns,
            top: Some(TopK { key, is_descending, keeps_ties, row_count }),
            order: None,
        }
    }
}
