//! Builds a pipeline step by step: its source, the operators so far, and how many columns there are.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Column, Expr, Op, Pipeline, ProbeKind, Sink, Source, Type};
use pelton_store::{Table, TableId};

use super::value::{LateText, Value};
use crate::scan::PeltonScanExec;

/// A text column of a table.
pub(super) type TextColumn = (TableId, usize);

/// What the pipelines of a plan find out together.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters {
    /// Expressions whose values are known when the plan is run, by number.
    values: Rc<RefCell<Vec<Arc<dyn PhysicalExpr>>>>,
    /// Texts without a dictionary of which more is asked than to be handed on.
    asked: Rc<RefCell<HashSet<TextColumn>>>,
}

impl Parameters {
    /// The number of `expr`, which it has already or gets now.
    pub(super) fn number(&self, expr: &Arc<dyn PhysicalExpr>) -> usize {
        let mut known = self.values.borrow_mut();
        known.iter().position(|other| other == expr).unwrap_or_else(|| {
            known.push(Arc::clone(expr));
            known.len() - 1
        })
    }

    /// All so far.
    pub(super) fn list(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.values.borrow().clone()
    }

    /// Takes note that kernels are asked something of a text.
    pub(super) fn ask(&self, late: &LateText) {
        self.asked.borrow_mut().insert((late.table.id(), late.column));
    }

    /// The texts of which something was asked.
    pub(super) fn asked(&self) -> HashSet<TextColumn> {
        self.asked.borrow().clone()
    }
}

/// A pipeline without its sink yet.
#[derive(Debug)]
pub(super) struct PipelineBuilder {
    source: Source,
    source_columns: Vec<Column>,
    ops: Vec<Op>,
    column_count: usize,
    /// Columns that are computed, and of what.
    computed: Vec<(usize, Expr)>,
    /// The scan that the source is, if it is one.
    scan: Option<PeltonScanExec>,
    /// What the source is called in EXPLAIN.
    source_name: String,
    /// Columns of groups that are views.
    views: HashSet<usize>,
    /// Of the whole plan.
    pub(super) parameters: Parameters,
}

/// A pipeline builder, and the columns of the plan node that it computes so far.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) builder: PipelineBuilder,
    /// By output column of the node; `None` where nobody asked for the column.
    pub(super) outputs: Vec<Option<Value>>,
}

impl Flow {
    /// Output column `index`.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the column was not asked for below: a plan that names columns it does not use.
    pub(super) fn output(&self, index: usize) -> Result<&Value> {
        output(&self.outputs, index)
    }
}

/// Column `index` of `outputs`; see [`Flow::output`].
pub(super) fn output(outputs: &[Option<Value>], index: usize) -> Result<&Value> {
    let found = outputs.get(index).and_then(Option::as_ref);
    found.ok_or_else(|| Error::unsupported(format!("column {index} is not computed by the pipeline")))
}

impl PipelineBuilder {
    /// Rows of `source` with these columns.
    pub(super) fn new(
        source: Source,
        source_columns: Vec<Column>,
        source_name: String,
        scan: Option<PeltonScanExec>,
        parameters: &Parameters,
    ) -> Self {
        Self {
            source,
            column_count: source_columns.len(),
            source_columns,
            ops: Vec::new(),
            computed: Vec::new(),
            scan,
            source_name,
            views: HashSet::new(),
            parameters: parameters.clone(),
        }
    }

    /// How many columns there are so far.
    pub(super) fn column_count(&self) -> usize {
        self.column_count
    }

    /// About how many different `keys` there are at most, where they are columns of a scan.
    pub(super) fn distinct_keys(&self, keys: &[Value]) -> Option<u64> {
        let Source::Table(source) = &self.source else { return None };
        let table_column = |key: &Value| source.columns.get(key.as_column()?).copied();
        let distinct = |key| Some(source.table.column_summary(table_column(key)?).distinct_count);
        let counts = keys.iter().map(distinct).collect::<Option<Vec<u64>>>()?;
        Some(counts.into_iter().fold(1, u64::saturating_mul).min(source.table.row_count()))
    }

    /// What `expr` is computed by, where it is a column that is computed.
    pub(super) fn definition<'e>(&'e self, expr: &'e Expr) -> &'e Expr {
        let Expr::Column(column) = expr else { return expr };
        let computed = self.computed.iter().find(|(computed, _)| computed == column);
        computed.map_or(expr, |(_, definition)| definition)
    }

    /// Whether `text` is a number of a dictionary's entry, as far as its source tells.
    pub(super) fn has_dictionary(&self, text: &Expr) -> bool {
        match self.definition(text) {
            Expr::Column(column) => match (&self.source, self.source_columns.get(*column)) {
                (Source::Table(_), Some(column)) => column.text.is_some(),
                (Source::Groups(_), Some(_)) => !self.views.contains(column),
                _ => true,
            },
            Expr::Where { input, .. } => self.has_dictionary(input),
            Expr::OfText { column, .. } => self.has_dictionary(&Expr::Column(*column)),
            _ => true,
        }
    }

    /// The column of a table that `text` is, where that is the source: the table, the column's number in it, and its number
    /// here.
    pub(super) fn stored_text(&self, text: &Expr) -> Option<(Arc<Table>, usize, usize)> {
        let (Source::Table(source), Expr::Column(column)) = (&self.source, text) else { return None };
        let stored = *source.columns.get(*column)?;
        Some((Arc::clone(&source.table), stored, *column))
    }

    /// Whether `text` is a view of bytes, of which kernels compute functions and keep the least or the greatest, and which
    /// they hand on to the result alone.
    pub(super) fn is_view(&self, text: &Expr) -> bool {
        match self.definition(text) {
            Expr::Column(column) => match (&self.source, self.source_columns.get(*column)) {
                (Source::Table(_), Some(column)) => column.ty == Type::Text && column.text.is_none(),
                (Source::Groups(_), Some(_)) => self.views.contains(column),
                _ => false,
            },
            Expr::Where { input, .. } => self.is_view(input),
            _ => false,
        }
    }

    /// That none of `values` is a view.
    ///
    /// # Errors
    ///
    /// `Unsupported` where one is.
    pub(super) fn check_kept<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> Result<()> {
        match values.into_iter().any(|value| value.late.is_none() && self.is_view(&value.expr)) {
            true => {
                Err(Error::unsupported("a text without a dictionary, of groups, as a key or in a hash table"))
            }
            false => Ok(()),
        }
    }

    /// These columns of the groups that are the source are views.
    pub(super) fn with_views(self, views: HashSet<usize>) -> Self {
        Self { views, ..self }
    }

    /// Keeps rows for which `condition` is true.
    pub(super) fn filter(&mut self, condition: Expr) {
        self.ops.push(Op::Filter(condition));
    }

    /// Lets each row go on `count` times; gives which of them it is, from 0.
    pub(super) fn repeat(&mut self, count: u32) -> Expr {
        self.ops.push(Op::Repeat { count });
        self.column_count += 1;
        Expr::Column(self.column_count - 1)
    }

    /// `value` as a column: itself if it is one, else computed from here on.
    pub(super) fn as_column(&mut self, name: &str, value: Value) -> Value {
        if value.as_column().is_some() {
            return value;
        }
        self.computed.push((self.column_count, value.expr.clone()));
        self.ops.push(Op::Compute { name: name.to_owned(), value: value.expr });
        self.column_count += 1;
        Value { expr: Expr::Column(self.column_count - 1), ..value }
    }

    /// Looks `keys` up in `table`, whose rows are matches only where they fulfil `residual`; gives the columns that hold
    /// `payload`, the values of the build side, where the probe brings them.
    pub(super) fn probe(
        &mut self,
        table: usize,
        keys: Vec<Expr>,
        kind: ProbeKind,
        payload: Vec<Value>,
        residual: Option<Expr>,
    ) -> Vec<Value> {
        self.ops.push(Op::Probe { table, keys, kind, residual });
        let first = self.column_count;
        self.column_count += kind.added_columns(payload.len());
        if !kind.brings_payload() {
            return Vec::new();
        }
        let columns = payload.into_iter().enumerate().map(|(index, value)| Value {
            expr: Expr::Column(first + index),
            is_nullable: value.is_nullable || kind == ProbeKind::Outer,
            ..value
        });
        columns.collect()
    }

    /// The finished pipeline, and the scan that it reads, if it reads one.
    pub(super) fn into_pipeline(self, purpose: &str, sink: Sink) -> (Pipeline, Option<PeltonScanExec>) {
        let name = format!("{purpose} {}", self.source_name);
        let pipeline =
            Pipeline { name, source: self.source, columns: self.source_columns, ops: self.ops, sink };
        (pipeline, self.scan)
    }
}
