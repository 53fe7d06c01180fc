//! What a query asks of devices: pipelines, in the order in which they run.
//!
//! ```text
//!   Pipeline   source ──► op ──► op ──► … ──► sink
//!              table      filter              build (a hash table that later pipelines probe)
//!              host input compute             aggregate (groups: the result, or the source of later pipelines)
//!              groups     probe               materialize
//! ```
//!
//! A pipeline has *columns*, numbered in the order in which they come to be: those of its source, then the one that
//! each `Compute` and `Repeat` adds and those that each `Probe` adds. Expressions name columns by number. Everything is typed;
//! both sides of an operator have one type, and where widths differ a `Cast` stands between.
//!
//! Values are NULL or not as in SQL; what cannot be NULL is known and costs nothing.
//!
//! Integers and decimals never wrap. A result that its type does not hold ends the run with an error of kind
//! `Unsupported`, so that the CPU runs the query and reports it. Bounds of columns show where that cannot happen, and
//! there nothing is checked.

use std::sync::Arc;

use pelton_error::Result;
use pelton_store::Table;

use crate::text::TextSource;
pub use crate::text_extract::{ByteSet, ExtractStep, OPTIONAL_MAX, TextExtract};
pub use crate::text_hash::TextHashKey;
pub use crate::text_kernel::{ANY_CHARACTER, LikePattern, SHORT_TEXT_BYTES, TextKernel, TextPart};
pub use crate::windows::{Frame, FrameEdge, FrameKey, WindowFunction, WindowKind, WindowOutput, Windows};

/// A value's type inside kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// True or false.
    Bool,
    /// 32-bit integers and dates (days since 1970-01-01). Narrower stored integers are widened.
    I32,
    /// 64-bit integers, timestamps.
    I64,
    /// Decimals: unscaled values of at most 38 digits; kernels hold them in 64 bits wherever the bounds allow.
    I128,
    /// IEEE doubles. The two zeros are equal, and so are all NaNs, which are greater than anything else.
    F64,
    /// Text: the number of a dictionary entry, where there is a dictionary. Else a view of its bytes, of which kernels
    /// compute functions, or a value of at most [`SHORT_TEXT_BYTES`].
    Text,
}

/// The least and the greatest value that may occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Least.
    pub min: i128,
    /// Greatest.
    pub max: i128,
}

/// A column of a pipeline.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name, for EXPLAIN.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Whether NULL may occur.
    pub is_nullable: bool,
    /// What integers lie between; `None` where nothing is known, and for `F64` and `Text`.
    pub bounds: Option<Bounds>,
    /// The dictionary that a `Text` column's numbers are of. Without one a table's column is read as views: there are
    /// its NULLs, and the functions of it that kernels compute themselves ([`TextFunction::kernel`]).
    pub text: Option<Arc<dyn TextSource>>,
}

/// A constant. Doubles are equal if their bits are.
#[derive(Debug, Clone, Copy)]
pub enum Literal {
    /// True or false.
    Bool(bool),
    /// Of type `I32`.
    I32(i32),
    /// Of type `I64`.
    I64(i64),
    /// Of type `I128`.
    I128(i128),
    /// Of type `F64`.
    F64(f64),
    /// NULL of a type.
    Null(Type),
}

/// Arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithmeticOp {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient of `F64`; of `I32` and `I64` without its fraction, where 0 as the divisor is an overflow.
    Divide,
    /// What the quotient of `I32` and `I64` leaves, with the sign of the dividend.
    Remainder,
}

/// Comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// A part of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatePart {
    /// The year.
    Year,
    /// The year that the ISO week belongs to.
    IsoYear,
    /// 1 to 4.
    Quarter,
    /// 1 to 12.
    Month,
    /// The ISO week, 1 to 53.
    Week,
    /// 1 to 31.
    Day,
    /// 1 to 366.
    DayOfYear,
    /// 0 (Sunday) to 6.
    DayOfWeek,
    /// 1 (Monday) to 7.
    IsoDayOfWeek,
}

/// What dates are truncated to: its first day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DateUnit {
    /// From Monday.
    Week,
    /// From the first.
    Month,
    /// From the first of January, April, July or October.
    Quarter,
    /// From the first of January.
    Year,
}

/// What becomes of the sign of a double.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignChange {
    /// It is the other one: `-x`.
    Flipped,
    /// There is none: `abs(x)`.
    Cleared,
}

/// A value computed from the columns of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A column of the pipeline, by number.
    Column(usize),
    /// A constant.
    Literal(Literal),
    /// A value that is known when the plan is run, such as the result of a scalar subquery: no `Text`; NULL may be one.
    Parameter {
        /// Which one, from 0.
        number: usize,
        /// Its type.
        ty: Type,
    },
    /// The number of the row in its table, from 0, as `I64`; only in pipelines whose source is a table.
    RowNumber,
    /// Arithmetic on two values of one numeric type, which is the type of the result.
    Arithmetic {
        /// Sum, difference, product or quotient.
        op: ArithmeticOp,
        /// First operand.
        left: Box<Expr>,
        /// Second operand.
        right: Box<Expr>,
    },
    /// A comparison of two values of one type, but `Text`; NULL where one is NULL.
    Compare {
        /// The order that is tested.
        op: CompareOp,
        /// First operand.
        left: Box<Expr>,
        /// Second operand.
        right: Box<Expr>,
    },
    /// True where all are true, false where one is false, else NULL.
    And(Vec<Expr>),
    /// False where all are false, true where one is true, else NULL.
    Or(Vec<Expr>),
    /// Negation; NULL stays NULL.
    Not(Box<Expr>),
    /// Whether the value is NULL.
    IsNull(Box<Expr>),
    /// Whether an integer (`I32`, `I64`, `I128`) is among these; NULL where it is NULL.
    In {
        /// What is looked for.
        input: Box<Expr>,
        /// The values to match, in any order.
        values: Vec<i128>,
    },
    /// The value beside the first condition that is true; all values have one type.
    Case {
        /// Conditions and values.
        branches: Vec<(Expr, Expr)>,
        /// Where no condition is true; `None` is NULL.
        otherwise: Option<Box<Expr>>,
    },
    /// The value where the condition is true, else NULL: of any type, `Text` too.
    Where {
        /// The value.
        input: Box<Expr>,
        /// Where it is wanted; nothing that overflows elsewhere counts.
        condition: Box<Expr>,
    },
    /// To another numeric type: integers to any width or to `F64`, `Bool` to integers. A value that a narrower type
    /// does not hold is an overflow.
    Cast {
        /// What is converted.
        input: Box<Expr>,
        /// To what.
        to: Type,
    },
    /// An integer (`I32`, `I64`, `I128`) of a type that is narrower than what kernels hold it in: what lies outside is
    /// an overflow.
    Within {
        /// The integer.
        input: Box<Expr>,
        /// What its type holds.
        bounds: Bounds,
    },
    /// An `F64` with one zero and one NaN: what SQL takes for equal has equal bits.
    FloatKey {
        /// The double.
        input: Box<Expr>,
    },
    /// An `F64` with its sign bit changed, of whatever value: zeros and NaNs have signs too.
    WithSign {
        /// The double.
        input: Box<Expr>,
        /// What becomes of its sign.
        sign: SignChange,
    },
    /// An integer (`I32`, `I64`, `I128`) that a quotient is by: 0 is an overflow.
    NonZero {
        /// The integer.
        input: Box<Expr>,
    },
    /// A part of a date (`I32`, days since 1970-01-01), as `I32`.
    DatePart {
        /// Year, month, day of week and so on.
        part: DatePart,
        /// The date.
        input: Box<Expr>,
    },
    /// The first day of the week, month, quarter or year of a date (`I32`, days since 1970-01-01).
    DateTrunc {
        /// The calendar unit to truncate to.
        unit: DateUnit,
        /// The date.
        input: Box<Expr>,
    },
    /// A date (`I32`, days since 1970-01-01) this many months later, or earlier; the last of the month where that has
    /// fewer days.
    AddMonths {
        /// The date.
        input: Box<Expr>,
        /// How many.
        months: i32,
    },
    /// An integer (`I32`, `I64`) divided by a positive constant, rounded down.
    FloorDivide {
        /// The dividend.
        input: Box<Expr>,
        /// The divisor.
        by: i64,
    },
    /// What [`FloorDivide`](Self::FloorDivide) leaves: 0 to `by` - 1.
    Modulo {
        /// The dividend.
        input: Box<Expr>,
        /// The divisor.
        by: i64,
    },
    /// A function of one `Text` value and of nothing else: evaluated once per dictionary entry or, where there is no
    /// dictionary, in each row.
    OfText {
        /// A `Text` column.
        column: usize,
        /// What is computed.
        function: Arc<dyn TextFunction>,
    },
}

/// The results of a [`TextFunction`], one an entry.
#[derive(Debug, Clone)]
pub enum TextResults {
    /// For a function of type `Bool`.
    Bool(Vec<Option<bool>>),
    /// For a function of type `I32`.
    I32(Vec<Option<i32>>),
    /// For a function of type `I64`.
    I64(Vec<Option<i64>>),
    /// For a function of type `I128`.
    I128(Vec<Option<i128>>),
    /// For a function of type `F64`.
    F64(Vec<Option<f64>>),
    /// For a function of type `Text`.
    Text(Vec<Option<Vec<u8>>>),
}

/// A function of one text, deterministic. NULL is not passed to it: of NULL the result is NULL.
pub trait TextFunction: std::any::Any + std::fmt::Debug + Send + Sync {
    /// The type of its results.
    fn ty(&self) -> Type;
    /// Whether a result may be NULL where the text is not.
    fn is_nullable(&self) -> bool;
    /// The results for `entries`, in order.
    ///
    /// # Errors
    ///
    /// Whatever the function answers for one of them.
    fn evaluate(&self, entries: &[&[u8]]) -> Result<TextResults>;
    /// Functions of one plan are equal if their names are; shown by EXPLAIN.
    fn name(&self) -> String;
    /// Whether this gives for every text what `other` gives, in whatever session that was made. Results of what is not even
    /// the same as itself are not kept.
    fn is_same_as(&self, _other: &dyn TextFunction) -> bool {
        false
    }
    /// What kernels compute in its place where the text has no dictionary; `None` where they cannot. Of the same type.
    fn kernel(&self) -> Option<TextKernel> {
        None
    }
}

/// What a probe does with the rows that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    /// One row out for each match, with the payload columns of the table.
    Inner,
    /// As `Inner`; a row without a match goes on with NULL payloads.
    Outer,
    /// A row with a match goes on, once, without payload.
    Semi,
    /// A row without a match goes on.
    Anti,
    /// Every row goes on, once, with one more column: whether it has a match (`Bool`).
    Mark,
}

impl ProbeKind {
    /// Whether rows go on with the payload columns of the table.
    pub fn brings_payload(self) -> bool {
        matches!(self, Self::Inner | Self::Outer)
    }

    /// Whether every row goes on.
    pub fn keeps_all(self) -> bool {
        matches!(self, Self::Outer | Self::Mark)
    }

    /// How many columns rows go on with, where the table has so many payload columns.
    pub fn added_columns(self, payload_columns: usize) -> usize {
        match self {
            Self::Inner | Self::Outer => payload_columns,
            Self::Mark => 1,
            Self::Semi | Self::Anti => 0,
        }
    }
}

/// A step of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Keeps rows for which this is true.
    Filter(Expr),
    /// Adds a column.
    Compute {
        /// Its name, for EXPLAIN.
        name: String,
        /// Its value.
        value: Expr,
    },
    /// Each row goes on this many times. Adds the column which of them it is, from 0 (`I32`).
    Repeat {
        /// How many times; at least once.
        count: u32,
    },
    /// Looks keys up in a table that an earlier pipeline built. Keys are of the types of the build, and in its order; NULL
    /// matches nothing. Of doubles, the two zeros are one key, and so are all NaNs. `Inner` and `Outer` add the table's payload columns,
    /// `Mark` adds a column of its own.
    Probe {
        /// Which table.
        table: usize,
        /// What is looked up.
        keys: Vec<Expr>,
        /// What becomes of matches.
        kind: ProbeKind,
        /// Of all but `Inner`: what must hold for a row of the table, besides equal keys, to be a match. It sees the
        /// payload columns behind those that there are so far; of `Semi`, `Anti` and `Mark` nothing after it does.
        residual: Option<Expr>,
    },
}

/// An aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// Sum of the values that are not NULL, NULL without any: exact; of `I32` and `I64` an `I64` where bounds show that
    /// it holds the sum, else an `I128`; of `I128` an `I128`, of `F64` an `F64`.
    Sum,
    /// Number of values that are not NULL (`I64`); of rows, where there is no input.
    Count,
    /// Least value (`I32`, `I64`, `I128` with bounds of 64 bits, `F64`, and `Text`), NULL without any. Doubles have the
    /// order of their bits, as in IEEE 754's total order: -0 is less than 0. Texts have the order of their bytes.
    Min,
    /// Greatest value, likewise.
    Max,
}

/// One aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// The function.
    pub function: AggregateFunction,
    /// Over what; `None` for a count of rows.
    pub input: Option<Expr>,
}

/// The most rows of a table whose keys are constants: every probing row looks at each of them, and what a launch has begun
/// nobody interrupts. So many take a GPU seconds for the largest morsel, by estimate.
pub const CONSTANT_KEY_ROWS_MAX: u64 = 1024;

/// Where the rows of a pipeline end.
#[derive(Debug, Clone)]
pub enum Sink {
    /// A hash table. Rows with a NULL key are left out.
    Build {
        /// The number under which later pipelines probe it.
        table: usize,
        /// Of any type but `Text`, and of any bounds.
        keys: Vec<Expr>,
        /// What a match brings.
        payload: Vec<Expr>,
    },
    /// Groups; without keys exactly one row, even of no input. Output columns: keys, then aggregates.
    Aggregate {
        /// Of any type and any bounds. Of doubles, the two zeros are one key, and so are all NaNs.
        keys: Vec<Expr>,
        /// The aggregates.
        aggregates: Vec<Aggregate>,
        /// How many groups are expected, by estimate: room for them is made at once.
        expected: Option<u64>,
    },
    /// Rows, in no particular order unless one is asked for.
    Materialize {
        /// The output columns.
        columns: Vec<Expr>,
        /// Where not all rows are asked for, in no particular order.
        top: Option<TopK>,
        /// The order in which rows are asked for, not together with `top`.
        order: Option<RowOrder>,
    },
}

/// Rows sorted by keys. Rows whose keys are all equal come in any order.
#[derive(Debug, Clone)]
pub struct RowOrder {
    /// The first one decides, the next one between rows that are equal by it, and so on.
    pub keys: Vec<SortKey>,
    /// How many of the first rows are wanted; `None`: all.
    pub row_count: Option<u64>,
    /// How many rows are expected to be sorted, by estimate.
    pub expected: Option<u64>,
    /// What is computed of the rows in order, not together with `row_count`.
    pub windows: Option<Windows>,
}

/// One of several keys that rows are sorted by.
#[derive(Debug, Clone)]
pub struct SortKey {
    /// Of any type. Doubles have the order of their bits, as in IEEE 754's total order; texts have the order of their bytes.
    pub key: Expr,
    /// The greatest values come first.
    pub is_descending: bool,
    /// NULL comes before all values, whichever way these are ordered; else after them.
    pub nulls_first: bool,
    /// Of a text without a dictionary that is not short: the number of the column by which whoever runs the plan finds all of
    /// it where two begin alike. In that is the text, where it is one of the groups that are the source; else a number
    /// (`I64`) that the caller of the run knows the text by.
    pub text: Option<usize>,
}

/// The first rows by a key, in no particular order, and perhaps some more: what a sort above it needs, wherever it puts
/// NULLs and whatever it orders rows of equal keys by.
#[derive(Debug, Clone)]
pub struct TopK {
    /// An integer (`I32`, `I64`, `I128`). Where its bounds pass 64 bits, all rows come.
    pub key: Expr,
    /// The greatest keys come first.
    pub is_descending: bool,
    /// Rows whose keys are those of the last one wanted come too, and all rows without a key: further keys decide
    /// between them.
    pub keeps_ties: bool,
    /// How many rows are wanted.
    pub row_count: u64,
}

/// A scan of a stored table.
#[derive(Debug, Clone)]
pub struct TableScan {
    /// The snapshot.
    pub table: Arc<Table>,
    /// Table columns, in the order of the pipeline's first columns.
    pub columns: Vec<usize>,
    /// The row groups that planning left, ascending.
    pub row_groups: Vec<u32>,
    /// Whether finished hash tables may rule out further ones at run time.
    pub uses_runtime_filters: bool,
}

/// Where the rows of a pipeline come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A stored table.
    Table(TableScan),
    /// Rows that the caller gives, by number of the host input.
    HostInput(usize),
    /// The groups of an earlier pipeline, by its number: keys, then aggregates. They stay on the device. Types, NULLs
    /// and bounds of the columns are those that the earlier pipeline turns out to have.
    Groups(usize),
}

/// One pass over a source.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// What it does, for EXPLAIN and messages.
    pub name: String,
    /// Where rows come from.
    pub source: Source,
    /// The source's columns.
    pub columns: Vec<Column>,
    /// What happens to rows, in order.
    pub ops: Vec<Op>,
    /// Where they end.
    pub sink: Sink,
}

/// Pipelines in the order in which they run; the last one's sink is the result.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The pipelines. Every table that one probes, an earlier one builds.
    pub pipelines: Vec<Pipeline>,
    /// How many tables they build, numbered from 0.
    pub table_count: usize,
    /// How many host inputs they read, numbered from 0.
    pub host_input_count: usize,
    /// Tables that the result relies on to have no key twice: where one turns out to have, the run ends with an error of
    /// kind `Unsupported`.
    pub unique_tables: Vec<usize>,
}

impl Plan {
    /// The pipelines that read what pipeline `number` makes, its groups or its table, in order; one that probes its table
    /// twice is named twice.
    pub fn readers(&self, number: usize) -> Vec<usize> {
        let probes = |op: &Op| match (op, &self.pipelines[number].sink) {
            (Op::Probe { table, .. }, Sink::Build { table: built, .. }) => table == built,
            _ => false,
        };
        let reads = |pipeline: &Pipeline| {
            let of_groups = matches!(pipeline.source, Source::Groups(from) if from == number);
            usize::from(of_groups) + pipeline.ops.iter().filter(|op| probes(op)).count()
        };
        let readers = self.pipelines.iter().enumerate();
        readers.flat_map(|(index, pipeline)| std::iter::repeat_n(index, reads(pipeline))).collect()
    }

    /// Whether a later pipeline reads the groups of pipeline `number`.
    pub fn has_groups_reader(&self, number: usize) -> bool {
        self.pipelines
            .iter()
            .any(|pipeline| matches!(pipeline.source, Source::Groups(from) if from == number))
    }
}

/// What the caller of a run gives, besides the plan.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// By number.
    pub host_inputs: Vec<crate::rows::Rows>,
    /// The values of parameters, by number.
    pub parameters: Vec<Literal>,
}

impl From<Vec<crate::rows::Rows>> for Inputs {
    fn from(host_inputs: Vec<crate::rows::Rows>) -> Self {
        Self { host_inputs, parameters: Vec::new() }
    }
}
