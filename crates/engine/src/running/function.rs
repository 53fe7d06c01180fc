//! Functions that go from row to row.

use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::types::*;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{ArrowNativeTypeOp, DataType, Schema, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr,
};
use datafusion::physical_plan::WindowExpr;
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::around::{Around, Span, evaluate};
use super::moving::{self, Fold, Moving};
use super::values::Value;
use crate::numbers::{
    Summand, Total, average, for_summand, is_exact, sum_type, too_large, totals_as, unit_of,
};

/// What a row begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Begins {
    Nothing,
    /// Other values to be sorted by.
    Peers,
    Partition,
}

/// A function of a window.
#[derive(Debug, Clone)]
pub(super) enum Function {
    RowNumber,
    Rank,
    DenseRank,
    Aggregate(Aggregate),
    Value(Value),
}

/// Of a frame.
#[derive(Debug, Clone)]
pub(super) struct Aggregate {
    pub(super) kind: Kind,
    pub(super) name: String,
    argument: Arc<dyn PhysicalExpr>,
    /// The type of the argument.
    pub(super) from: DataType,
    /// What comes out.
    pub(super) ty: DataType,
    frame: Frame,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// From the start of the partition to the row.
    ToRow,
    /// From the start of the partition to the last peer of the row.
    ToPeers,
    Rows(Span),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    Sum,
    Avg,
    Min,
    Max,
}

/// Types of which there is a least and a greatest.
macro_rules! with_ordered_type {
    ($ty:expr, $with:ident) => {
        match $ty {
            DataType::Int8 => $with!(Int8Type),
            DataType::Int16 => $with!(Int16Type),
            DataType::Int32 => $with!(Int32Type),
            DataType::Int64 => $with!(Int64Type),
            DataType::UInt8 => $with!(UInt8Type),
            DataType::UInt16 => $with!(UInt16Type),
            DataType::UInt32 => $with!(UInt32Type),
            DataType::UInt64 => $with!(UInt64Type),
            DataType::Date32 => $with!(Date32Type),
            DataType::Decimal128(..) => $with!(Decimal128Type),
            DataType::Timestamp(TimeUnit::Second, _) => $with!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => $with!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => $with!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => $with!(TimestampNanosecondType),
            _ => None,
        }
    };
}

impl Function {
    /// `expr` over rows of `schema`, if it is one of these.
    pub(super) fn of(expr: &Arc<dyn WindowExpr>, schema: &Schema) -> Option<Self> {
        if let Some(standard) = expr.as_any().downcast_ref::<StandardWindowExpr>() {
            let udf = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
            // Plans that are not made from SQL may have DataFusion's own ranks, which are unsigned.
            let is_bigint = *standard.field().ok()?.data_type() == DataType::Int64;
            return match udf.fun().name() {
                "row_number" if is_bigint => Some(Self::RowNumber),
                "rank" if is_bigint => Some(Self::Rank),
                "dense_rank" if is_bigint => Some(Self::DenseRank),
                _ => {
                    let is_ordered = !standard.order_by().is_empty();
                    Value::of(udf, standard.get_window_frame(), is_ordered, schema).map(Self::Value)
                }
            };
        }
        let any = expr.as_any();
        let plain = any.downcast_ref::<PlainAggregateWindowExpr>();
        let sliding = any.downcast_ref::<SlidingAggregateWindowExpr>();
        let call = match (plain, sliding) {
            (Some(plain), _) => plain.get_aggregate_expr(),
            (None, Some(sliding)) => sliding.get_aggregate_expr(),
            (None, None) => return None,
        };
        // Its filter is not to be had, but shows.
        if !format!("{expr:?}").ends_with("filter: None }") || call.is_distinct() {
            return None;
        }
        let frame = Frame::of(expr.get_window_frame(), !expr.order_by().is_empty())?;
        let arguments = call.expressions();
        let [argument] = &arguments[..] else { return None };
        let from = argument.data_type(schema).ok()?;
        let ty = call.field().data_type().clone();
        let kind = match call.fun().name() {
            "count" if ty == DataType::Int64 => Kind::Count,
            "sum" if sum_type(&from).map_or(from == DataType::Float64, |exact| exact == ty) => Kind::Sum,
            "avg" if ty == DataType::Float64 && (is_exact(&from) || from == ty) => Kind::Avg,
            "min" if from == ty && has_order(&ty) => Kind::Min,
            "max" if from == ty && has_order(&ty) => Kind::Max,
            _ => return None,
        };
        let (name, argument) = (call.name().to_owned(), Arc::clone(argument));
        Some(Self::Aggregate(Aggregate { kind, name, argument, from, ty, frame }))
    }

    /// Whether it asks where peers begin.
    pub(super) fn asks_for_peers(&self) -> bool {
        match self {
            Self::RowNumber => false,
            Self::Rank | Self::DenseRank => true,
            Self::Aggregate(_) | Self::Value(_) => self.takes_peers(),
        }
    }

    /// Whether its value of a row is that of the last peer.
    pub(super) fn takes_peers(&self) -> bool {
        match self {
            Self::RowNumber | Self::Rank | Self::DenseRank => false,
            Self::Aggregate(aggregate) => aggregate.frame == Frame::ToPeers,
            Self::Value(value) => value.takes_peers(),
        }
    }

    /// Rows that have to be there after one before its value is known.
    pub(super) fn rows_ahead(&self) -> usize {
        match self {
            Self::Value(value) => value.rows_ahead(),
            Self::Aggregate(Aggregate { frame: Frame::Rows(span), .. }) => span.after,
            Self::RowNumber | Self::Rank | Self::DenseRank | Self::Aggregate(_) => 0,
        }
    }

    /// How many rows it looks at around a row.
    pub(super) fn rows_around(&self) -> usize {
        match self {
            Self::Value(value) => value.rows_around(),
            Self::Aggregate(Aggregate { frame: Frame::Rows(span), .. }) => span.rows(),
            Self::RowNumber | Self::Rank | Self::DenseRank | Self::Aggregate(_) => 0,
        }
    }

    /// What it has come to before the first row.
    pub(super) fn start(&self) -> Box<dyn Running> {
        match self {
            Self::RowNumber => Box::new(Counter { counts: Counts::Rows, rows: 0, rank: 0 }),
            Self::Rank => Box::new(Counter { counts: Counts::RowsBefore, rows: 0, rank: 0 }),
            Self::DenseRank => Box::new(Counter { counts: Counts::Peers, rows: 0, rank: 0 }),
            Self::Aggregate(aggregate) => aggregate.start(),
            Self::Value(value) => value.start(),
        }
    }
}

/// A function, as far as it has come.
pub(super) trait Running: Send {
    /// Its values of the next rows.
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef>;
}

/// Some rows, with all peers of each where a function takes them.
pub(super) struct Piece<'a> {
    pub(super) rows: &'a RecordBatch,
    /// What each begins.
    pub(super) begins: &'a [Begins],
    /// What follows: as many rows as a function asked for, or all there are.
    pub(super) ahead: Vec<(&'a RecordBatch, &'a [Begins])>,
}

impl Piece<'_> {
    /// Gives peers the value of their last.
    pub(super) fn settle<T: Copy>(&self, values: &mut [T]) {
        for row in (1..values.len()).rev() {
            if self.begins[row] == Begins::Nothing {
                values[row - 1] = values[row];
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Counts {
    Rows,
    RowsBefore,
    Peers,
}

struct Counter {
    counts: Counts,
    rows: i64,
    rank: i64,
}

impl Running for Counter {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let next = |begins: &Begins| {
            if *begins == Begins::Partition {
                (self.rows, self.rank) = (0, 0);
            }
            self.rows += 1;
            match self.counts {
                Counts::Rows => return self.rows,
                Counts::RowsBefore if *begins > Begins::Nothing => self.rank = self.rows,
                Counts::Peers if *begins > Begins::Nothing => self.rank += 1,
                Counts::RowsBefore | Counts::Peers => {}
            }
            self.rank
        };
        let values: Vec<i64> = piece.begins.iter().map(next).collect();
        Ok(Arc::new(PrimitiveArray::<Int64Type>::new(values.into(), None)))
    }
}

fn has_order(ty: &DataType) -> bool {
    macro_rules! yes {
        ($ty:ty) => {
            Some(())
        };
    }
    with_ordered_type!(ty, yes).is_some()
}

impl Frame {
    fn of(frame: &WindowFrame, is_ordered: bool) -> Option<Self> {
        let is_of_rows = frame.units == WindowFrameUnits::Rows;
        if frame.start_bound.is_unbounded() && frame.end_bound == WindowFrameBound::CurrentRow {
            // Without an order all of the partition are peers.
            return match (is_of_rows, is_ordered) {
                (true, _) => Some(Self::ToRow),
                (false, true) => Some(Self::ToPeers),
                (false, false) => None,
            };
        }
        Span::of(frame).filter(|span| span.rows() <= moving::ROWS_MAX).map(Self::Rows)
    }
}

impl Aggregate {
    fn start(&self) -> Box<dyn Running> {
        let of = self.clone();
        if let Frame::Rows(span) = self.frame {
            let around = Around::new(Arc::clone(&self.argument), span);
            return Box::new(Moving { of, around, fold: self.fold() });
        }
        match self.kind {
            Kind::Count => Box::new(Count { of, count: 0 }),
            Kind::Sum | Kind::Avg => {
                for_summand!(&self.from, exact(of), Box::new(Inexact { of, sum: 0.0, count: 0 }))
            }
            Kind::Min | Kind::Max => {
                macro_rules! extreme {
                    ($ty:ty) => {
                        Some(Box::new(Extreme::<$ty> { of, value: None }) as Box<dyn Running>)
                    };
                }
                with_ordered_type!(&self.ty, extreme).expect("only types in order were taken")
            }
        }
    }

    /// How frames of rows are folded.
    fn fold(&self) -> Fold {
        match self.kind {
            Kind::Count => moving::count,
            Kind::Sum | Kind::Avg => for_summand!(&self.from, exact_fold(), moving::inexact),
            Kind::Min | Kind::Max => {
                macro_rules! extreme {
                    ($ty:ty) => {
                        Some(moving::extreme::<$ty> as Fold)
                    };
                }
                with_ordered_type!(&self.ty, extreme).expect("only types in order were taken")
            }
        }
    }

    /// The argument for `rows`.
    fn argument(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        evaluate(&self.argument, rows)
    }

    /// Gives peers the value of their last, if they have one value.
    fn settle<T: Copy>(&self, values: &mut [T], piece: &Piece<'_>) {
        if self.frame == Frame::ToPeers {
            piece.settle(values);
        }
    }

    /// Values as an array of the type that comes out; NULL where one is false.
    pub(super) fn array<T: ArrowPrimitiveType>(
        &self,
        values: impl Iterator<Item = (T::Native, bool)>,
    ) -> ArrayRef {
        let (values, valid): (Vec<T::Native>, Vec<bool>) = values.unzip();
        let values = PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls(valid.into_iter()));
        Arc::new(values.with_data_type(self.ty.clone()))
    }
}

/// NULL where one of `valid` is false; `None` where none is.
pub(super) fn nulls(valid: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    Some(valid.collect::<NullBuffer>()).filter(|nulls| nulls.null_count() > 0)
}

struct Count {
    of: Aggregate,
    count: i64,
}

impl Running for Count {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let nulls = self.of.argument(piece.rows)?.logical_nulls();
        let mut values = Vec::with_capacity(piece.begins.len());
        for (row, begins) in piece.begins.iter().enumerate() {
            if *begins == Begins::Partition {
                self.count = 0;
            }
            self.count += i64::from(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
            values.push(self.count);
        }
        self.of.settle(&mut values, piece);
        Ok(Arc::new(PrimitiveArray::<Int64Type>::new(values.into(), None)))
    }
}

fn exact_fold<T: Summand<A>, A: Total + Default>() -> Fold {
    moving::exact::<T, A>
}

fn exact<T: Summand<A>, A: Total + Default + Send>(of: Aggregate) -> Box<dyn Running> {
    let unit = unit_of(&of.from);
    Box::new(Exact::<T, A> { of, unit, total: A::default(), count: 0, input: PhantomData })
}

/// A sum that is exact, or the average of one.
struct Exact<T, A> {
    of: Aggregate,
    unit: f64,
    total: A,
    /// Values in it: without any it is NULL.
    count: u64,
    input: PhantomData<T>,
}

impl<T: Summand<A>, A: Total> Running for Exact<T, A> {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let argument = self.of.argument(piece.rows)?;
        let argument = argument.as_primitive::<T>();
        let mut so_far = Vec::with_capacity(piece.begins.len());
        for (row, begins) in piece.begins.iter().enumerate() {
            if *begins == Begins::Partition {
                (self.total, self.count) = (A::default(), 0);
            }
            if argument.is_valid(row) {
                let (total, overflows) = self.total.plus(argument.value(row).into());
                if overflows {
                    return Err(too_large(&self.of.name, &self.of.ty));
                }
                self.total = total;
                self.count += 1;
            }
            so_far.push((self.total, self.count));
        }
        self.of.settle(&mut so_far, piece);
        if self.of.kind == Kind::Avg {
            let averages =
                so_far.into_iter().map(|(total, count)| (average(total, count.max(1), self.unit), count > 0));
            return Ok(self.of.array::<Float64Type>(averages));
        }
        let nulls = nulls(so_far.iter().map(|(_, count)| *count > 0));
        let totals = so_far.into_iter().map(|(total, _)| total).collect();
        totals_as(totals, nulls, &self.of.ty, &self.of.name)
    }
}

/// A sum or an average of doubles.
struct Inexact {
    of: Aggregate,
    sum: f64,
    count: u64,
}

impl Running for Inexact {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let argument = self.of.argument(piece.rows)?;
        let argument = argument.as_primitive::<Float64Type>();
        let is_average = self.of.kind == Kind::Avg;
        let mut so_far = Vec::with_capacity(piece.begins.len());
        for (row, begins) in piece.begins.iter().enumerate() {
            if *begins == Begins::Partition {
                (self.sum, self.count) = (0.0, 0);
            }
            if argument.is_valid(row) {
                self.sum += argument.value(row);
                self.count += 1;
            }
            let by = if is_average { self.count.max(1) as f64 } else { 1.0 };
            so_far.push((self.sum / by, self.count > 0));
        }
        self.of.settle(&mut so_far, piece);
        Ok(self.of.array::<Float64Type>(so_far.into_iter()))
    }
}

/// The least or greatest value.
struct Extreme<T: ArrowPrimitiveType> {
    of: Aggregate,
    /// `None` while all were NULL.
    value: Option<T::Native>,
}

impl<T: ArrowPrimitiveType> Running for Extreme<T> {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let argument = self.of.argument(piece.rows)?;
        let argument = argument.as_primitive::<T>();
        let is_min = self.of.kind == Kind::Min;
        let mut so_far = Vec::with_capacity(piece.begins.len());
        for (row, begins) in piece.begins.iter().enumerate() {
            if *begins == Begins::Partition {
                self.value = None;
            }
            if argument.is_valid(row) {
                let next = argument.value(row);
                let is_better =
                    self.value.is_none_or(|best| if is_min { next.is_lt(best) } else { next.is_gt(best) });
                self.value = if is_better { Some(next) } else { self.value };
            }
            so_far.push((self.value.unwrap_or_default(), self.value.is_some()));
        }
        self.of.settle(&mut so_far, piece);
        Ok(self.of.array::<T>(so_far.into_iter()))
    }
}
