//! What a random column looks like: its type, its values, where it is NULL.

use std::sync::Arc;

use pelton_chunk::Encoding;
use pelton_pipeline::ir::Type;
use pelton_store::LogicalType;

use super::cell::Cell;
use super::evaluate::DECIMAL_MAX;
use super::random::Random;
use super::tables::encodings;

/// A value and whether it is one; what stands where there is NULL is arbitrary.
pub(crate) type Slot = (Cell, bool);

/// Which columns have values in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    /// 0 to some thousands.
    Id,
    /// -3 to 12.
    Small,
}

/// How values follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Uniform,
    /// One value most of the time.
    Skewed,
    Runs(u64),
    Sorted,
    Constant,
    Unique,
    /// The ends of the range, and what lies beside them.
    Extremes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nulls {
    None,
    One(u64),
    /// Pages of rows.
    Pages,
    All,
}

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) name: String,
    pub(crate) logical: LogicalType,
    pub(crate) ty: Type,
    /// Least and greatest integer; of texts their numbers.
    pub(crate) low: i128,
    pub(crate) high: i128,
    pub(crate) is_date: bool,
    pub(crate) domain: Option<Domain>,
    pub(crate) texts: Arc<Vec<Arc<[u8]>>>,
    /// In a stored table.
    pub(crate) encoding: Encoding,
    shape: Shape,
    nulls: Nulls,
    /// What `shape` may be in another set of rows.
    shapes: &'static [Shape],
    /// What `nulls` may be in another set of rows.
    null_kinds: &'static [Nulls],
}

/// Shapes of keys that are not unique.
const KEY_SHAPES: [Shape; 4] = [Shape::Uniform, Shape::Uniform, Shape::Runs(5), Shape::Sorted];

const SHAPES: [Shape; 7] = [
    Shape::Uniform,
    Shape::Uniform,
    Shape::Skewed,
    Shape::Runs(30),
    Shape::Sorted,
    Shape::Constant,
    Shape::Extremes,
];

/// Of columns that may have NULLs.
const NULL_KINDS: [Nulls; 6] =
    [Nulls::None, Nulls::One(3), Nulls::One(5), Nulls::One(50), Nulls::Pages, Nulls::All];
const KEY_NULL_KINDS: [Nulls; 3] = [Nulls::None, Nulls::One(9), Nulls::Pages];

const WORDS: [&str; 12] = [
    "",
    "AIR",
    "e",
    "Straße",
    "seven77",
    "a longer text with an e",
    "12",
    "rail",
    "mail",
    "NULL",
    "ééé",
    "zz",
];

fn type_of(logical: &LogicalType) -> Type {
    match logical {
        LogicalType::Bool => Type::Bool,
        LogicalType::Float64 => Type::F64,
        LogicalType::Utf8 => Type::Text,
        LogicalType::Decimal { .. } => Type::I128,
        LogicalType::Int64 | LogicalType::UInt32 => Type::I64,
        _ => Type::I32,
    }
}

impl Recipe {
    /// The columns of a table: a unique key, a reference to such keys, a small key, and others.
    pub(crate) fn of_table(random: &mut Random, row_count: u64) -> Vec<Self> {
        let mut recipes = vec![
            Self::key(random, "id", Domain::Id, true, row_count),
            Self::key(random, "reference", Domain::Id, false, row_count),
            Self::key(random, "small", Domain::Small, false, row_count),
        ];
        // One of each type, so that every block has them all, and three texts, which are stored and read in most ways.
        for number in 0..14 {
            recipes.push(Self::other(random, number, format!("c{number}")));
        }
        recipes
    }

    /// The columns of a host input, which are of the types of pipelines.
    pub(crate) fn of_host_input(random: &mut Random, row_count: u64) -> Vec<Self> {
        let is_unique = random.one_in(2);
        let mut recipes = vec![
            Self::key(random, "key", Domain::Id, is_unique, row_count),
            Self::key(random, "small", Domain::Small, false, row_count),
        ];
        for number in 0..random.below(4) {
            let kind = random.below(12);
            recipes.push(Self::other(random, kind, format!("h{number}")));
        }
        recipes
    }

    fn key(random: &mut Random, name: &str, domain: Domain, is_unique: bool, row_count: u64) -> Self {
        use LogicalType::{Decimal, Int16, Int32, Int64, UInt16, UInt32};
        let decimal = Decimal { precision: 20, scale: 0 };
        let logical = random.pick(&[Int32, Int64, Int16, UInt16, UInt32, decimal]).clone();
        let is_unsigned = matches!(logical, UInt16 | UInt32);
        let (least, most) = match domain {
            Domain::Id if is_unique => (0, i128::from(row_count.max(2)) - 1),
            Domain::Id => (0, *random.pick(&[100, 700, 3000])),
            Domain::Small => (if is_unsigned { 0 } else { -3 }, 12),
        };
        let shapes: &[Shape] = if is_unique { &[Shape::Unique] } else { &KEY_SHAPES };
        let never = if is_unique { random.percent(80) } else { random.one_in(2) };
        let null_kinds: &[Nulls] = if never { &[Nulls::None] } else { &KEY_NULL_KINDS };
        let recipe = Self::new(random, name.into(), logical, least, most, shapes, null_kinds);
        Self { domain: Some(domain), ..recipe }
    }

    /// A column of kind `number`, of twelve.
    fn other(random: &mut Random, number: u64, name: String) -> Self {
        use LogicalType::{
            Bool, Date, Decimal, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, Utf8,
        };
        let one_of =
            |random: &mut Random, choices: &[(LogicalType, i128, i128)]| random.pick(choices).clone();
        let (i32_max, i64_max) = (i128::from(i32::MAX), i128::from(i64::MAX));
        let digits = |count: u32| 10_i128.pow(count) - 1;
        let decimal = |precision| Decimal { precision, scale: 2 };
        let (logical, low, high) = match number {
            0 => (Bool, 0, 1),
            1 => one_of(random, &[(Int8, -128, 127), (Int16, -5, 40), (UInt8, 0, 255)]),
            2 => one_of(random, &[(UInt16, 0, 65_535), (Int16, -32_768, 32_767)]),
            3 => one_of(random, &[(Int32, -3, 50), (Int32, -i32_max - 1, i32_max), (Int32, 1_000, 90_000)]),
            4 => one_of(random, &[(UInt32, 0, (1 << 32) - 1), (Int64, -1_000, 1_000_000_000)]),
            5 => one_of(random, &[(Int64, -i64_max - 1, i64_max), (Int64, -(1 << 40), 1 << 40)]),
            6 => (Date, *random.pick(&[0, 8_000, -719_162]), *random.pick(&[10_600, 20_000, 2_932_896])),
            7 => (decimal(15), -digits(7), digits(9)),
            8 => one_of(random, &[(decimal(30), -digits(11), digits(13)), (decimal(30), 0, digits(30))]),
            9 => one_of(random, &[(decimal(38), -DECIMAL_MAX, DECIMAL_MAX), (decimal(38), 0, digits(25))]),
            10 => (Float64, 0, 0),
            _ => (Utf8, 0, random.between(0, WORDS.len() as i128 - 1)),
        };
        let null_kinds: &[Nulls] = if random.one_in(2) { &[Nulls::None] } else { &NULL_KINDS };
        Self::new(random, name, logical, low, high, &SHAPES, null_kinds)
    }

    fn new(
        random: &mut Random,
        name: String,
        logical: LogicalType,
        low: i128,
        high: i128,
        shapes: &'static [Shape],
        null_kinds: &'static [Nulls],
    ) -> Self {
        let texts = WORDS.iter().map(|word| Arc::from(word.as_bytes())).collect();
        let (ty, is_date) = (type_of(&logical), logical == LogicalType::Date);
        let encoding = *random.pick(&encodings(&logical));
        let texts = Arc::new(texts);
        let (shape, nulls) = (*random.pick(shapes), *random.pick(null_kinds));
        let domain = None;
        Self {
            name,
            logical,
            ty,
            low,
            high,
            is_date,
            domain,
            texts,
            encoding,
            shape,
            nulls,
            shapes,
            null_kinds,
        }
    }

    /// The same for other rows of a stored table. How values follow each other stays, as what they can be encoded in
    /// depends on it.
    pub(crate) fn for_other_rows(&self, random: &mut Random) -> Self {
        Self { nulls: *random.pick(self.null_kinds), ..self.clone() }
    }

    /// The same for other rows of a host input, which have no encoding.
    pub(crate) fn for_other_input(&self, random: &mut Random) -> Self {
        Self { shape: *random.pick(self.shapes), ..self.for_other_rows(random) }
    }

    /// Whether it may have NULLs.
    pub(crate) fn has_nulls(&self) -> bool {
        self.null_kinds != [Nulls::None]
    }

    /// Its values in so many rows.
    pub(crate) fn slots(&self, row_count: u64, random: &mut Random) -> Vec<Slot> {
        let base = random.next();
        let slot = |row| {
            let is_null = match self.nulls {
                Nulls::None => false,
                Nulls::One(n) => random.one_in(n),
                Nulls::Pages => (row / 1024) % 2 == 0 && row % 1024 != 5,
                Nulls::All => true,
            };
            let number = self.number(row, row_count, base, random);
            (self.cell(number), !is_null)
        };
        (0..row_count).map(slot).collect()
    }

    fn number(&self, row: u64, row_count: u64, base: u64, random: &mut Random) -> i128 {
        // What stays the same over several rows is a stream of its own.
        let steady = |of: u64| Random::new(base, of);
        let (low, high) = if self.ty == Type::F64 { (-99_999, 1_000_000) } else { (self.low, self.high) };
        match self.shape {
            Shape::Uniform => random.between(low, high),
            Shape::Skewed if random.percent(85) => steady(0).between(low, high),
            Shape::Skewed => random.between(low, high),
            Shape::Runs(length) => steady(row / length).between(low, high),
            Shape::Sorted => {
                let step = (high / 2 - low / 2) / i128::from(row_count.max(1)) * 2;
                low + step * i128::from(row)
            }
            Shape::Constant => steady(0).between(low, high),
            Shape::Unique => low + i128::from(row),
            Shape::Extremes => match random.below(6) {
                0 => low,
                1 => high,
                2 => (low + 1).min(high),
                3 => (high - 1).max(low),
                4 => 0.clamp(low, high),
                _ => random.between(low, high),
            },
        }
    }

    fn cell(&self, number: i128) -> Cell {
        match self.ty {
            Type::Text => Cell::Text(Arc::clone(&self.texts[number as usize])),
            Type::F64 if self.shape == Shape::Extremes => {
                let special =
                    [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-310, 1e100];
                let number = number.rem_euclid(16) as usize;
                Cell::Float(special.get(number).copied().unwrap_or(number as f64 - 11.5))
            }
            Type::F64 => Cell::Float(number as f64 / 100.0),
            _ => Cell::Int(number),
        }
    }
}
