//! Texts without a dictionary where only their equality counts: as keys of groups and joins, arguments of COUNT(DISTINCT),
//! and beside each other in `=` and `<>`.
//!
//! ```text
//!   GROUP BY url                                       key: hash of url
//!                                                      beside the aggregates: the least number of a row of the group
//!   CASE WHEN a = 0 THEN referer ELSE '' END           hash:  CASE … THEN hash of referer ELSE hash of ''
//!                                                      row:   CASE … THEN its row ELSE -1
//! ```
//!
//! The hash has 128 bits and a key that is random (`pelton_pipeline::ir::TextHashKey`), so that equal hashes are taken for
//! equal texts (docs/decisions/0020). The text itself is fetched for the groups that come out: by the number of its row,
//! where numbers below 0 are those of constants, the first one -1, and where several columns are chosen between, numbers
//! from the table's count of rows on are those of the second one, and so on. Of a column that has a dictionary the hash
//! is that of its entry.
//!
//! A part that a pattern takes out of a text (`crate::extract`) has its own hash. The text is fetched, and the part then.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CaseExpr, CastExpr, Column, Literal};
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{
    ArithmeticOp, CompareOp, Expr, Literal as Constant, TextExtract, TextFunction, TextHashKey, TextKernel,
    TextPart, TextResults, Type,
};

use super::expr::Exprs;
use super::scan::late_text;
use super::value::{LateText, Value, is_text};
use crate::error::from_datafusion;

/// How plans name the type of hashes: one that kernels hold in 128 bits. No expression computes with it.
const HASH_TYPE: DataType = DataType::Decimal128(38, 0);

/// The hash of a text, or of a part of it.
#[derive(Debug)]
struct TextHash {
    /// What the column is called, for EXPLAIN.
    column: String,
    extract: Option<Arc<TextExtract>>,
}

impl TextHash {
    fn part(&self) -> TextPart {
        self.extract.as_ref().map_or(TextPart::Whole, |extract| TextPart::Extract(Arc::clone(extract)))
    }
}

impl TextFunction for TextHash {
    fn ty(&self) -> Type {
        Type::I128
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn evaluate(&self, entries: &[&[u8]]) -> Result<TextResults> {
        let key = TextHashKey::of_process();
        let hash = |text: &[u8]| match &self.extract {
            Some(extract) => key.hash(&text[extract.part_of(text)]),
            None => key.hash(text),
        };
        Ok(TextResults::I128(entries.iter().map(|text| Some(hash(text))).collect()))
    }

    fn name(&self) -> String {
        match &self.extract {
            Some(extract) => {
                let mut hasher = DefaultHasher::new();
                extract.hash(&mut hasher);
                format!("hash of a part of {} #{:08x}", self.column, hasher.finish() as u32)
            }
            None => format!("hash of {}", self.column),
        }
    }

    fn is_same_as(&self, other: &dyn TextFunction) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        other.is_some_and(|other| other.extract == self.extract)
    }

    fn kernel(&self) -> Option<TextKernel> {
        Some(TextKernel::Hash { input: self.part(), key: TextHashKey::of_process() })
    }
}

/// The hash of text column `column` of a pipeline, which is called `name`.
fn hash_of_column(column: usize, name: &str) -> Expr {
    Expr::OfText { column, function: Arc::new(TextHash { column: name.to_owned(), extract: None }) }
}

impl LateText {
    /// Its hash, where this pipeline can tell it.
    pub(super) fn hash(&self) -> Option<Expr> {
        let name = &self.table.schema().columns[self.column].name;
        self.hash.clone().or_else(|| self.view.map(|view| hash_of_column(view, name)))
    }

    /// What is NULL where it is, where this pipeline can tell.
    pub(super) fn null_test(&self) -> Option<Expr> {
        self.view.map(Expr::Column).or_else(|| self.hash.clone())
    }
}

impl Exprs<'_> {
    /// The hash of `text`, which is fetched at the end.
    ///
    /// # Errors
    ///
    /// `Unsupported` where its bytes are in no column of this pipeline.
    pub(super) fn hash_of_late(&mut self, text: &Value, late: &LateText) -> Result<Value> {
        let Some(expr) = late.hash() else {
            self.builder.parameters.ask(late);
            return Err(Error::unsupported(format!(
                "text '{}' of '{}' has no dictionary, and cannot be read where it is a key",
                late.table.schema().columns[late.column].name,
                late.table.name()
            )));
        };
        Ok(Value { expr, data_type: HASH_TYPE, is_nullable: text.is_nullable, bounds: None, late: None })
    }

    /// What `expr` is counted by: its hash where it is a text that is fetched at the end, `is_distinct`; else whether
    /// it is NULL.
    ///
    /// # Errors
    ///
    /// As [`lower`](Self::lower).
    pub(super) fn counted(&mut self, expr: &Arc<dyn PhysicalExpr>, is_distinct: bool) -> Result<Value> {
        let value = self.carry(expr)?;
        let Some(late) = &value.late else { return Ok(value) };
        if is_distinct {
            return self.hash_of_late(&value, late);
        }
        let Some(tested) = late.null_test() else { return self.lower(expr) };
        let is_valid = Expr::Not(Box::new(Expr::IsNull(Box::new(tested))));
        let input = Box::new(Expr::Literal(Constant::Bool(true)));
        Ok(Value {
            expr: Expr::Where { input, condition: Box::new(is_valid) },
            data_type: DataType::Boolean,
            is_nullable: true,
            bounds: None,
            late: None,
        })
    }

    /// Whether two texts are equal, or are not.
    ///
    /// # Errors
    ///
    /// `Unsupported` for other comparisons, and for texts whose hash kernels do not have.
    pub(super) fn of_two_texts(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        op: Option<CompareOp>,
        sides: [&Arc<dyn PhysicalExpr>; 2],
    ) -> Result<Value> {
        let Some(op) = op.filter(|op| matches!(op, CompareOp::Eq | CompareOp::Ne)) else {
            return Err(Error::unsupported(format!("{expr} compares two texts")));
        };
        let (left, right) = (self.hash_of(sides[0])?, self.hash_of(sides[1])?);
        let is_nullable = left.is_nullable || right.is_nullable;
        let expr = Expr::Compare { op, left: Box::new(left.expr), right: Box::new(right.expr) };
        Ok(Value { expr, data_type: DataType::Boolean, is_nullable, bounds: None, late: None })
    }

    /// The hash of a text: of one that is fetched at the end, or of a column that has a dictionary.
    ///
    /// # Errors
    ///
    /// `Unsupported` for texts whose hash kernels do not have.
    pub(super) fn hash_of(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Value> {
        let value = self.carry(without_cast(expr))?;
        if let Some(late) = &value.late {
            return self.hash_of_late(&value, late);
        }
        // What is computed may be a short text, of which kernels compute no function.
        let is_stored = !matches!(self.builder.definition(&value.expr), Expr::OfText { .. });
        match value.as_column().filter(|_| is_stored && value.is_text()) {
            Some(column) => {
                let expr = hash_of_column(column, &expr.to_string());
                Ok(Value { expr, data_type: HASH_TYPE, bounds: None, ..value })
            }
            None => Err(Error::unsupported(format!("{expr}, a text that is computed, beside another one"))),
        }
    }

    /// What `extract` takes out of `text`, which is fetched at the end, and it then.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the bytes of the text are in no column of this pipeline.
    pub(super) fn extracted(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        text: &Arc<dyn PhysicalExpr>,
        extract: Arc<TextExtract>,
    ) -> Result<Value> {
        let data_type = expr.data_type(self.schema).map_err(from_datafusion)?;
        let text = self.carry(without_cast(text))?;
        if let Some(late) = &text.late {
            self.builder.parameters.ask(late);
        }
        let late = text.late.filter(|_| matches!(data_type, DataType::Utf8 | DataType::Utf8View));
        let Some((late, view)) = late.and_then(|late| late.view.map(|view| (late, view))) else {
            return Err(Error::unsupported(format!("{expr}, of a text whose bytes are not there")));
        };
        let column = late.table.schema().columns[late.column].name.clone();
        let function = Arc::new(TextHash { column, extract: Some(Arc::clone(&extract)) });
        let hash = Some(Expr::OfText { column: view, function });
        let late = LateText { extract: Some(extract), view: None, hash, ..late };
        Ok(Value { data_type, bounds: None, late: Some(late), ..text })
    }

    /// A CASE between texts of columns of one table, which are fetched at the end, constants and NULL.
    ///
    /// # Errors
    ///
    /// `Unsupported` where it chooses between others.
    pub(super) fn case_of_texts(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        case: &CaseExpr,
        data_type: DataType,
    ) -> Result<Value> {
        let mut chosen = Chosen::default();
        let mut conditions = Vec::with_capacity(case.when_then_expr().len());
        let mut texts = Vec::with_capacity(conditions.capacity() + 1);
        for (when, then) in case.when_then_expr() {
            conditions.push(self.when(case, when)?);
            texts.push(self.text_of_case(expr, then, &mut chosen)?);
        }
        match case.else_expr() {
            Some(otherwise) => texts.push(self.text_of_case(expr, otherwise, &mut chosen)?),
            None => texts.push(chosen.null()),
        }
        let Some(late) = chosen.late else {
            return Err(Error::unsupported(format!("{expr} chooses between texts of no column")));
        };
        let choose = |part: fn(&TextOfCase) -> &Expr| {
            let (otherwise, of_branches) = texts.split_last().expect("there is an ELSE");
            let values = of_branches.iter().map(|text| part(text).clone());
            let branches = conditions.iter().cloned().zip(values).collect();
            Expr::Case { branches, otherwise: Some(Box::new(part(otherwise).clone())) }
        };
        let late = LateText {
            view: None,
            hash: Some(choose(|text| &text.hash)),
            further: chosen.further.into(),
            constants: chosen.constants.into(),
            brought_by: Vec::new(),
            ..late
        };
        let row = choose(|text| &text.row);
        Ok(Value { expr: row, data_type, is_nullable: chosen.is_nullable, bounds: None, late: Some(late) })
    }

    fn text_of_case(
        &mut self,
        case: &Arc<dyn PhysicalExpr>,
        expr: &Arc<dyn PhysicalExpr>,
        chosen: &mut Chosen,
    ) -> Result<TextOfCase> {
        let expr = without_cast(expr);
        if let Some(constant) = expr.downcast_ref::<Literal>() {
            return Ok(match constant.value().try_as_str().flatten() {
                Some(text) => chosen.constant(text),
                None => chosen.null(),
            });
        }
        let value = self.carry(expr)?;
        let is_plain =
            |late: &LateText| late.extract.is_none() && late.constants.is_empty() && late.further.is_empty();
        let (row, late) = match value.late.clone() {
            Some(late) if is_plain(&late) => (value.expr.clone(), late),
            None => self.by_row(&value)?,
            Some(_) => {
                return Err(Error::unsupported(format!("{case} chooses between texts that are chosen")));
            }
        };
        let hash = self.hash_of_late(&value, &late)?;
        let Some(rows_before) = chosen.rows_before(late) else {
            return Err(Error::unsupported(format!("{case} chooses between texts of several tables")));
        };
        chosen.is_nullable |= value.is_nullable;
        let row = match rows_before {
            0 => row,
            _ => Expr::Arithmetic {
                op: ArithmeticOp::Add,
                left: Box::new(row),
                right: Box::new(Expr::Literal(Constant::I64(rows_before))),
            },
        };
        Ok(TextOfCase { hash: hash.expr, row })
    }

    /// The row of `text`, a column that has a dictionary, as a text that is fetched at the end.
    fn by_row(&self, text: &Value) -> Result<(Expr, LateText)> {
        let Some((table, column, here)) = self.builder.stored_text(&text.expr) else {
            return Err(Error::unsupported(
                "a CASE between texts that are computed, or come from another pipeline",
            ));
        };
        let row = late_text(&table, column, None);
        let hash = hash_of_column(here, &table.schema().columns[column].name);
        let late = row.late.expect("a text that is fetched at the end");
        Ok((row.expr, LateText { hash: Some(hash), ..late }))
    }
}

/// What a CASE has between which it chooses.
#[derive(Default)]
struct Chosen {
    /// Of the first column.
    late: Option<LateText>,
    further: Vec<usize>,
    constants: Vec<String>,
    is_nullable: bool,
}

/// One of them.
struct TextOfCase {
    hash: Expr,
    row: Expr,
}

impl Chosen {
    /// The number that stands for row 0 of the column of `late`; `None` where that is of another table.
    fn rows_before(&mut self, late: LateText) -> Option<i64> {
        let (table, column) = (Arc::clone(&late.table), late.column);
        let first = self.late.get_or_insert(late);
        if first.table.id() != table.id() {
            return None;
        }
        let which = match self.further.iter().position(|further| *further == column) {
            _ if first.column == column => 0,
            Some(known) => known + 1,
            None => {
                self.further.push(column);
                self.further.len()
            }
        };
        i64::try_from(table.row_count()).ok()?.checked_mul(which as i64)
    }

    fn constant(&mut self, text: &str) -> TextOfCase {
        let known = self.constants.iter().position(|other| other == text);
        let number = known.unwrap_or_else(|| {
            self.constants.push(text.to_owned());
            self.constants.len() - 1
        });
        let hash = TextHashKey::of_process().hash(text.as_bytes());
        let row = -1 - number as i64;
        TextOfCase { hash: Expr::Literal(Constant::I128(hash)), row: Expr::Literal(Constant::I64(row)) }
    }

    fn null(&mut self) -> TextOfCase {
        self.is_nullable = true;
        let null = |ty| Expr::Literal(Constant::Null(ty));
        TextOfCase { hash: null(Type::I128), row: null(Type::I64) }
    }
}

/// `expr` without a cast from one type of text to another.
fn without_cast(expr: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) if is_text(cast.cast_type()) && is_text_cast(cast) => cast.expr(),
        _ => expr,
    }
}

/// Whether what is cast is a text by itself: a constant of one, or a column, which the value tells.
fn is_text_cast(cast: &CastExpr) -> bool {
    match cast.expr().downcast_ref::<Literal>() {
        Some(constant) => is_text(&constant.value().data_type()),
        None => cast.expr().is::<Column>(),
    }
}
