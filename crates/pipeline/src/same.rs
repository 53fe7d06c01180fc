//! Whether two pipelines make the same, so that one of them may run for both.
//!
//! ```text
//!   pipeline 0   scan lineitem ─► filter ─► groups by l_suppkey: sum(…)
//!   pipeline 3   scan lineitem ─► filter ─► groups by l_suppkey: sum(…)      is the same: who reads it reads pipeline 0
//! ```
//!
//! What is compared is what kernels do: the snapshot of a table, its columns and row groups, every step, keys and functions.
//! Names do not count. Numbers of tables, groups and host inputs are taken for what they are, so of two equal subtrees the
//! lower parts have to be found equal first. Nothing that a pipeline has gives another value when it is asked again.

use crate::ir::{Literal, Pipeline, Sink, Source, TextFunction};

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::I32(one), Self::I32(other)) => one == other,
            (Self::I64(one), Self::I64(other)) => one == other,
            (Self::I128(one), Self::I128(other)) => one == other,
            // Divided by, 0 and -0 are not the same.
            (Self::F64(one), Self::F64(other)) => one.to_bits() == other.to_bits(),
            (Self::Null(one), Self::Null(other)) => one == other,
            _ => false,
        }
    }
}

impl PartialEq for dyn TextFunction {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_as(other)
    }
}

impl Pipeline {
    /// Whether both make the same table or the same groups, but for the number of the table. Rows that come out are
    /// nobody's source, and never the same.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.ops == other.ops
            && has_same_result(&self.sink, &other.sink)
            && is_same_source(&self.source, &other.source)
            && self.columns.len() == other.columns.len()
            && self.columns.iter().zip(&other.columns).all(|(column, other)| {
                column.ty == other.ty
                    && column.is_nullable == other.is_nullable
                    && column.bounds == other.bounds
                    // Whose it is, the source says.
                    && column.text.is_some() == other.text.is_some()
            })
    }
}

fn has_same_result(sink: &Sink, other: &Sink) -> bool {
    match (sink, other) {
        (
            Sink::Build { table: _, keys, payload },
            Sink::Build { table: _, keys: other_keys, payload: other_payload },
        ) => keys == other_keys && payload == other_payload,
        (
            Sink::Aggregate { keys, aggregates, expected: _ },
            Sink::Aggregate { keys: other_keys, aggregates: other_aggregates, expected: _ },
        ) => keys == other_keys && aggregates == other_aggregates,
        _ => false,
    }
}

fn is_same_source(source: &Source, other: &Source) -> bool {
    match (source, other) {
        (Source::Table(scan), Source::Table(other)) => {
            scan.table.id() == other.table.id()
                && scan.columns == other.columns
                && scan.row_groups == other.row_groups
                && scan.uses_runtime_filters == other.uses_runtime_filters
        }
        (Source::HostInput(number), Source::HostInput(other))
        | (Source::Groups(number), Source::Groups(other)) => number == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{
        Aggregate, AggregateFunction, ArithmeticOp, Column, Expr, Op, Plan, ProbeKind, TextResults, Type,
    };
    use std::sync::Arc;

    fn column() -> Column {
        Column { name: "a".into(), ty: Type::I64, is_nullable: true, bounds: None, text: None }
    }

    fn groups(source: Source, ops: Vec<Op>) -> Pipeline {
        let aggregates = vec![Aggregate { function: AggregateFunction::Sum, input: Some(Expr::Column(0)) }];
        let sink = Sink::Aggregate { keys: vec![Expr::Column(0)], aggregates, expected: Some(7) };
        Pipeline { name: "groups".into(), source, columns: vec![column()], ops, sink }
    }

    fn divided_by(divisor: f64) -> Vec<Op> {
        let left = Box::new(Expr::Cast { input: Box::new(Expr::Column(0)), to: Type::F64 });
        let right = Box::new(Expr::Literal(Literal::F64(divisor)));
        let value = Expr::Arithmetic { op: ArithmeticOp::Divide, left, right };
        vec![Op::Compute { name: "q".into(), value }]
    }

    #[test]
    fn what_reads_and_does_the_same_is_the_same() {
        let one = groups(Source::Groups(3), divided_by(0.0));
        assert!(one.is_same_as(&one.clone()));
        // Estimates and names of pipelines are none of what it does.
        let mut renamed = Pipeline { name: "other".into(), ..one.clone() };
        let Sink::Aggregate { expected, .. } = &mut renamed.sink else { unreachable!() };
        *expected = None;
        assert!(one.is_same_as(&renamed));
        assert!(!one.is_same_as(&groups(Source::Groups(4), divided_by(0.0))));
        assert!(!one.is_same_as(&groups(Source::HostInput(3), divided_by(0.0))));
        assert!(!one.is_same_as(&groups(Source::Groups(3), Vec::new())));
        let mut other = one.clone();
        let Sink::Aggregate { aggregates, .. } = &mut other.sink else { unreachable!() };
        aggregates[0].function = AggregateFunction::Max;
        assert!(!one.is_same_as(&other));
    }

    #[test]
    fn zeros_of_different_sign_are_different_constants() {
        let one = groups(Source::Groups(3), divided_by(0.0));
        assert!(!one.is_same_as(&groups(Source::Groups(3), divided_by(-0.0))));
        let nan = groups(Source::Groups(3), divided_by(f64::NAN));
        assert!(nan.is_same_as(&nan.clone()));
    }

    #[test]
    fn tables_are_the_same_whatever_their_number() {
        let build = |table, payload| Pipeline {
            sink: Sink::Build { table, keys: vec![Expr::Column(0)], payload },
            ..groups(Source::Groups(0), Vec::new())
        };
        assert!(build(1, vec![Expr::Column(0)]).is_same_as(&build(2, vec![Expr::Column(0)])));
        assert!(!build(1, vec![Expr::Column(0)]).is_same_as(&build(1, Vec::new())));
    }

    #[test]
    fn rows_that_come_out_are_never_the_same() {
        let sink = Sink::Materialize { columns: vec![Expr::Column(0)], top: None, order: None };
        let rows = Pipeline { sink, ..groups(Source::Groups(0), Vec::new()) };
        assert!(!rows.is_same_as(&rows.clone()));
    }

    /// A function that says whether it is the same as another.
    #[derive(Debug)]
    struct Says(bool);

    impl TextFunction for Says {
        fn ty(&self) -> Type {
            Type::I64
        }

        fn is_nullable(&self) -> bool {
            false
        }

        fn evaluate(&self, entries: &[&[u8]]) -> pelton_error::Result<TextResults> {
            Ok(TextResults::I64(vec![Some(0); entries.len()]))
        }

        fn name(&self) -> String {
            "says".into()
        }

        fn is_same_as(&self, _other: &dyn TextFunction) -> bool {
            self.0
        }
    }

    #[test]
    fn functions_of_texts_are_the_same_if_they_say_so() {
        for says in [true, false] {
            let function: Arc<dyn TextFunction> = Arc::new(Says(says));
            let value = Expr::OfText { column: 0, function };
            let one = groups(Source::Groups(3), vec![Op::Compute { name: "f".into(), value }]);
            assert_eq!(one.is_same_as(&one.clone()), says);
        }
    }

    #[test]
    fn readers_are_named_as_often_as_they_read() {
        let probe =
            || Op::Probe { table: 0, keys: vec![Expr::Column(0)], kind: ProbeKind::Inner, residual: None };
        let build = Pipeline {
            sink: Sink::Build { table: 0, keys: vec![Expr::Column(0)], payload: Vec::new() },
            ..groups(Source::Groups(0), Vec::new())
        };
        let pipelines = vec![
            groups(Source::HostInput(0), Vec::new()),
            build,
            groups(Source::Groups(0), vec![probe(), probe()]),
            groups(Source::Groups(2), vec![probe()]),
        ];
        let plan = Plan { pipelines, table_count: 1, host_input_count: 1, unique_tables: Vec::new() };
        assert_eq!(plan.readers(0), [1, 2]);
        assert_eq!(plan.readers(1), [2, 2, 3]);
        assert_eq!(plan.readers(2), [3]);
        assert!(plan.readers(3).is_empty());
    }
}
