//! The columns of a pipeline as its kernel reads them: chunks, tables that were probed, results computed on the way.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pelton_chunk::{Layout, PhysicalType, Transform};
use pelton_error::{Error, Result};

use super::args::{Arg, Args};
use super::block::Block;
use super::checks::Checks;
use super::expr;
use super::group_source;
use super::layout::{BuiltTable, GroupLayout};
use super::scope::Scope;
use super::text::{self, TextConstants};
use super::value::{Form, Value};
use crate::ir::{Column, Literal, TextFunction, Type};
use crate::text::Dictionary;
use crate::text_results::Lut;

/// Numbers that come with the arguments at most: what a kernel is given has its limit.
const LITERALS_MAX: usize = 64;

/// What the chunks of a column hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredAs {
    /// Values of this type.
    Values(PhysicalType),
    /// Codes of each chunk's own dictionary of texts, mapped to entries of the column's.
    TextCodes,
    /// Texts in any format; what says which entry of the column's dictionary each row is lies beside them.
    TextRows,
    /// Entries of the column's dictionary.
    TextIds,
    /// Texts in any format, to be read as views.
    TextViews,
    /// This column of the groups that are the source, in no chunk.
    Group(usize),
}

impl StoredAs {
    /// Whether a row group comes with numbers of entries of the column's dictionary: by code, or by row.
    pub(crate) fn has_mapping(self) -> bool {
        matches!(self, StoredAs::TextCodes | StoredAs::TextRows)
    }
}

/// How a source column is stored.
#[derive(Debug, Clone)]
pub struct SourceColumn {
    /// What its chunks hold.
    pub stored: StoredAs,
    /// All that occur.
    pub formats: BTreeSet<(Transform, Layout)>,
    /// Widths of its bit-packed pages, where they are known.
    pub widths: Option<BTreeSet<u8>>,
}

impl SourceColumn {
    /// Column `index` of the groups that are the source.
    pub fn of_groups(index: usize) -> Self {
        Self { stored: StoredAs::Group(index), formats: BTreeSet::new(), widths: None }
    }

    /// True for columns that lie in chunks.
    pub(crate) fn is_chunked(&self) -> bool {
        !matches!(self.stored, StoredAs::Group(_))
    }

    /// The C++ type of stored values.
    fn stored_type(&self) -> Result<&'static str> {
        Ok(match self.stored {
            StoredAs::TextCodes | StoredAs::TextRows | StoredAs::TextIds | StoredAs::TextViews => "u32",
            StoredAs::Values(physical) => match physical {
                PhysicalType::U8 => "u8",
                PhysicalType::U16 => "u16",
                PhysicalType::U32 => "u32",
                PhysicalType::I8 => "i8",
                PhysicalType::I16 => "i16",
                PhysicalType::I32 => "i32",
                PhysicalType::I64 => "i64",
                PhysicalType::I128 => "i128",
                PhysicalType::F64 => "f64",
                other => return Err(Error::unsupported(format!("a column stored as {other:?}"))),
            },
            StoredAs::Group(_) => unreachable!("groups have no pages"),
        })
    }

    /// Bits of a stored word.
    fn word_bits(&self) -> usize {
        match self.stored {
            StoredAs::TextCodes | StoredAs::TextRows | StoredAs::TextIds | StoredAs::TextViews => 32,
            StoredAs::Group(_) => 64,
            StoredAs::Values(physical) => (physical.width_bytes().unwrap_or(4) * 8).min(64),
        }
    }

    fn format_bits(&self) -> u32 {
        let bit = |(transform, layout): &(Transform, Layout)| match (transform, layout) {
            (_, Layout::Constant) => 1,
            (Transform::Dictionary, Layout::RunLength) => 32,
            (Transform::Dictionary, _) => 16,
            (Transform::Alp, _) => 64,
            (Transform::Fsst, _) => 256,
            (Transform::None, Layout::Plain) => 2,
            (Transform::None, Layout::BitPacked) => 4,
            (Transform::None, Layout::RunLength) => 8,
            (Transform::None, Layout::Delta) => 128,
        };
        self.formats.iter().map(bit).fold(0, |all, bit| all | bit)
    }

    /// The type of its `Page` in C++.
    pub(crate) fn page_type(&self) -> Result<String> {
        let bits = self.format_bits();
        if self.stored == StoredAs::TextViews {
            return Ok(format!("TextPage<{bits}>"));
        }
        let known = self.only_width().map_or(String::new(), |width| format!(", {width}"));
        Ok(match self.stored_type()? {
            "f64" => format!("DoublePage<{bits}{known}>"),
            stored => format!("Page<{stored}, {bits}{known}>"),
        })
    }

    /// True where vectors are decoded into scratch memory before rows are read.
    pub(crate) fn has_delta(&self) -> bool {
        self.formats.contains(&(Transform::None, Layout::Delta))
    }

    /// True where the starts of a vector's texts are found before rows are read.
    pub(crate) fn has_starts(&self) -> bool {
        self.is_coded() || (self.is_view() && self.formats.contains(&(Transform::None, Layout::Plain)))
    }

    /// True for views whose texts may be codes of symbols.
    pub(crate) fn is_coded(&self) -> bool {
        self.is_view() && self.formats.contains(&(Transform::Fsst, Layout::Plain))
    }

    /// True for text that is read as views.
    pub(crate) fn is_view(&self) -> bool {
        self.stored == StoredAs::TextViews
    }

    /// Bytes of scratch memory of a warp, a multiple of 16.
    pub(crate) fn scratch_bytes(&self) -> usize {
        match (self.has_delta(), self.has_starts()) {
            (true, _) => 1056 * self.word_bits() / 8,
            // 1024 starts and the end.
            (_, true) => (1025 * 4_usize).next_multiple_of(16),
            _ => 0,
        }
    }

    /// The C++ type of its scratch memory.
    pub(crate) fn scratch_type(&self) -> Result<&'static str> {
        self.stored_type()
    }

    /// True where a range of values can be looked for among packed bits.
    pub fn has_ranges(&self) -> bool {
        use PhysicalType::*;
        let is_integer = matches!(self.stored, StoredAs::Values(U8 | U16 | U32 | I8 | I16 | I32 | I64));
        is_integer && !self.has_delta()
    }

    /// Bits of a packed word, and the width of every page, where that is one that lanes hold in registers.
    pub(crate) fn register_width(&self) -> Option<(usize, u8)> {
        let is_code = self.formats.iter().all(|(transform, _)| *transform == Transform::Dictionary);
        let bits = if is_code { 32 } else { self.word_bits() };
        self.only_width().filter(|width| *width <= 32 && bits >= 32).map(|width| (bits, width))
    }

    /// The width of every page, where all are packed to one.
    fn only_width(&self) -> Option<u8> {
        let is_packed = self.formats.iter().all(|(_, layout)| *layout == Layout::BitPacked);
        let widths = self.widths.as_ref().filter(|widths| is_packed && widths.len() == 1)?;
        widths.first().copied()
    }

    /// Widths to unroll for, as template arguments.
    pub(crate) fn known_widths(&self) -> String {
        let is_wide = self.word_bits() >= 32 || self.formats.iter().all(|(t, _)| *t == Transform::Dictionary);
        let Some(widths) = self.widths.as_ref().filter(|widths| is_wide && widths.len() <= WIDTHS_MAX) else {
            return String::new();
        };
        let fitting: Vec<String> = widths.iter().filter(|width| **width <= 32).map(u8::to_string).collect();
        fitting.join(", ")
    }
}

/// More widths than this make code larger than it is worth.
const WIDTHS_MAX: usize = 5;

/// A payload column that has not been loaded yet.
#[derive(Debug, Clone)]
pub(crate) struct PendingPayload {
    pub(crate) table: usize,
    pub(crate) index: usize,
    /// Where in the payload column.
    pub(crate) row: String,
    /// False where an outer probe found nothing; `None` where there always is something.
    pub(crate) matched: Option<String>,
}

/// What all scopes of one kernel share.
pub(crate) struct KernelContext<'a> {
    pub(crate) columns: &'a [Column],
    pub(crate) source: &'a [SourceColumn],
    pub(crate) tables: &'a [Option<BuiltTable>],
    /// The groups that are the source, if they are.
    pub(crate) groups: Option<&'a GroupLayout>,
    /// Of text columns of the source, by column.
    pub(crate) dictionaries: HashMap<usize, Arc<Dictionary>>,
    pub(crate) args: Args,
    pub(crate) luts: Vec<Lut>,
    /// Numbers that come with the arguments.
    pub(crate) literals: Vec<u64>,
    pub(crate) text_constants: TextConstants,
    pub(crate) checks: Checks,
    /// It goes through slices.
    pub(crate) is_sliced: bool,
}

impl KernelContext<'_> {
    /// The word of a row group's descriptor that has its first row: behind chunks and dictionary mappings.
    pub(crate) fn first_row_word(&self) -> usize {
        self.source.len() + self.source.iter().filter(|source| source.stored.has_mapping()).count()
    }
}

/// The columns of the row `r` of `lane` of vector `v`.
pub(crate) struct RowScope<'k, 'a> {
    pub(crate) kernel: &'k mut KernelContext<'a>,
    known: HashMap<usize, Value>,
    pending: HashMap<usize, PendingPayload>,
    guards: Vec<String>,
}

impl<'k, 'a> RowScope<'k, 'a> {
    pub(crate) fn new(kernel: &'k mut KernelContext<'a>) -> Self {
        Self { kernel, known: HashMap::new(), pending: HashMap::new(), guards: Vec::new() }
    }

    /// Column `column` has this value from here on.
    pub(crate) fn set(&mut self, column: usize, value: Value) {
        self.known.insert(column, value);
    }

    /// Column `column` is loaded when it is first needed.
    pub(crate) fn set_pending(&mut self, column: usize, payload: PendingPayload) {
        self.pending.insert(column, payload);
    }

    fn load_source(&mut self, k: usize, block: &mut Block) -> Result<Value> {
        let (column, source) = (&self.kernel.columns[k], &self.kernel.source[k]);
        if let (StoredAs::Group(index), Some(layout)) = (source.stored, self.kernel.groups) {
            return Ok(group_source::load(layout, index, &mut self.kernel.args, block));
        }
        if source.is_view() {
            // Texts take long one by one.
            block.each_row();
            return Ok(self.load_view(k, block));
        }
        let form = Form::of(column.ty, column.bounds);
        if block.is_slice() {
            return self.load_slice(k, block);
        }
        let direct = match (column.ty, source.stored) {
            (Type::Text, StoredAs::TextCodes) => format!("load(m{k} + p{k}.code_at(v, r, lane))"),
            (Type::Text, StoredAs::TextRows) => format!("load(m{k} + row + position_of(r, lane))"),
            (Type::F64, _) => format!("p{k}.at_double(v, r, lane)"),
            _ => format!("p{k}.at(v, r, lane)"),
        };
        let code = if source.has_delta() {
            format!("(p{k}.is(DELTA) ? s{k}[scratch_index(position_of(r, lane))] : {direct})")
        } else {
            direct
        };
        let code =
            if form == Form::Bool { format!("{code} != 0") } else { format!("{}({code})", form.c_type()) };
        let name = block.define(form.c_type(), "x", code);
        let valid =
            column.is_nullable.then(|| block.define("bool", "n", format!("p{k}.is_valid(v, r, lane)")));
        let mut value = Value::new(name, column.ty, column.bounds).with_valid(valid);
        value.dictionary = self.kernel.dictionaries.get(&k).cloned();
        Ok(value)
    }

    /// The values of a slice, decoded together.
    fn load_slice(&mut self, k: usize, block: &mut Block) -> Result<Value> {
        let (column, source) = (&self.kernel.columns[k], &self.kernel.source[k]);
        let form = Form::of(column.ty, column.bounds);
        let stored = source.stored_type()?;
        let decode = |to: &str| match (column.ty, source.stored) {
            (Type::Text, StoredAs::TextCodes) => format!("slice_codes(p{k}, v, r, {to});"),
            (Type::Text, StoredAs::TextRows) => {
                format!("copy_slice(m{k} + row + position_of(r, 0), live, {to});")
            }
            (Type::F64, _) => format!("slice_doubles(p{k}, v, r, live, {to});"),
            _ => format!("slice_values(p{k}, v, r, live, {to});"),
        };
        let name = block.define_slice(stored, "x", |to| match source.has_delta() {
            true => format!(
                "if (p{k}.is(DELTA)) copy_slice(s{k} + scratch_index(position_of(r, 0)), live, {to}); else {}",
                decode(to)
            ),
            false => decode(to),
        });
        let name = match (column.ty, source.stored) {
            (Type::Text, StoredAs::TextCodes) => block.define("u32", "x", format!("load(m{k} + {name})")),
            _ if form == Form::Bool => block.define("bool", "x", format!("{name} != 0")),
            _ if form.c_type() == stored => name,
            _ => block.define(form.c_type(), "x", format!("{}({name})", form.c_type())),
        };
        let valid = column.is_nullable.then(|| {
            let bits = block.name("n");
            block.slice_line(format!("const u32 {bits} = slice_valid(p{k}, v, r);"));
            block.define("bool", "n", format!("{bits} >> lane & 1"))
        });
        let mut value = Value::new(name, column.ty, column.bounds).with_valid(valid);
        value.dictionary = self.kernel.dictionaries.get(&k).cloned();
        Ok(value)
    }

    fn load_view(&mut self, k: usize, block: &mut Block) -> Value {
        let (column, source) = (&self.kernel.columns[k], &self.kernel.source[k]);
        let starts = match (source.has_starts(), self.kernel.is_sliced) {
            (false, _) => "0".into(),
            (true, false) => format!("s{k}"),
            (true, true) => format!("starts{k}()"),
        };
        let code = format!("p{k}.view(v, r, lane, {starts})");
        let ty = if source.is_coded() { "CodedText" } else { Form::View.c_type() };
        let name = block.define(ty, "x", code);
        let valid =
            column.is_nullable.then(|| block.define("bool", "n", format!("p{k}.is_valid(v, r, lane)")));
        Value { form: Form::View, ..Value::new(name, Type::Text, None).with_valid(valid) }
    }

    fn load_payload(&mut self, pending: &PendingPayload, block: &mut Block) -> Result<Value> {
        let table =
            self.kernel.tables[pending.table].as_ref().expect("tables are built before they are probed");
        let payload = table.layout.payload[pending.index].clone();
        let guarded = |code: String| match &pending.matched {
            Some(matched) => format!("({matched} ? {code} : 0)"),
            None => code,
        };
        let array =
            self.kernel.args.pointer(Arg::Payload(pending.table, pending.index), payload.form.array_type());
        let row = block.place("u64", &pending.row);
        let name = block.define(payload.form.c_type(), "y", guarded(format!("{array}[{row}]")));
        let valid = payload.is_nullable.then(|| {
            let array = self.kernel.args.pointer(Arg::PayloadValid(pending.table, pending.index), "u8");
            block.define("bool", "n", guarded(format!("{array}[{row}]")))
        });
        let mut value =
            Value::new(name, payload.ty, payload.bounds).with_valid(valid.or(pending.matched.clone()));
        // A missing match reads as 0.
        value.bounds = if pending.matched.is_some() { value.bounds.map(with_zero) } else { value.bounds };
        value.dictionary = payload.dictionary;
        if payload.form == Form::Short {
            value.form = Form::Short;
        }
        Ok(value)
    }

    /// What is known of columns now, to go back to after code whose names are not visible later.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { known: self.known.clone(), pending: self.pending.clone() }
    }

    /// Goes back to `snapshot`.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        (self.known, self.pending) = (snapshot.known, snapshot.pending);
    }
}

/// See [`RowScope::snapshot`].
pub(crate) struct Snapshot {
    known: HashMap<usize, Value>,
    pending: HashMap<usize, PendingPayload>,
}

fn with_zero(bounds: crate::ir::Bounds) -> crate::ir::Bounds {
    crate::ir::Bounds { min: bounds.min.min(0), max: bounds.max.max(0) }
}

impl Scope for RowScope<'_, '_> {
    fn checks(&mut self) -> &mut Checks {
        &mut self.kernel.checks
    }

    fn guards(&mut self) -> &mut Vec<String> {
        &mut self.guards
    }

    fn args(&mut self) -> &mut Args {
        &mut self.kernel.args
    }

    fn literal(&mut self, bits: u64) -> Option<String> {
        let (literals, args) = (&mut self.kernel.literals, &mut self.kernel.args);
        if literals.len() == LITERALS_MAX {
            return None;
        }
        literals.push(bits);
        Some(args.word(Arg::Literal(literals.len() - 1)))
    }

    fn column(&mut self, column: usize, block: &mut Block) -> Result<Value> {
        if let Some(value) = self.known.get(&column) {
            return Ok(value.clone());
        }
        let value = match self.pending.remove(&column) {
            Some(pending) => self.load_payload(&pending, block)?,
            None if column < self.kernel.source.len() => self.load_source(column, block)?,
            None => {
                return Err(Error::invalid_input(format!(
                    "a plan that reads column {column} before it is there"
                )));
            }
        };
        self.known.insert(column, value.clone());
        Ok(value)
    }

    fn row_number(&mut self, block: &mut Block) -> Result<Value> {
        if self.kernel.groups.is_some() {
            return Err(Error::invalid_input("the numbers of rows that are in no table"));
        }
        let word = self.kernel.first_row_word();
        let code = format!("i64(c[{word}] + row + position_of(r, lane))");
        Ok(Value::new(block.define("i64", "x", code), Type::I64, None))
    }

    fn of_text(
        &mut self,
        column: usize,
        function: &Arc<dyn TextFunction>,
        block: &mut Block,
    ) -> Result<Value> {
        let text = self.column(column, block)?;
        if text.ty != Type::Text {
            return Err(Error::invalid_input("a function of text on a column that is none"));
        }
        match text.form {
            Form::View => return text::of_view(&text, function.as_ref(), self, block),
            Form::Short => {
                return Err(Error::unsupported(format!("{} of a text that was computed", function.name())));
            }
            _ => {}
        }
        // What has no dictionary is NULL in every row.
        let Some(dictionary) = &text.dictionary else {
            return Ok(expr::literal_value(Literal::Null(function.ty())));
        };
        self.of_entries(&text, &Arc::clone(dictionary), function, block)
    }
}

impl RowScope<'_, '_> {
    /// `function` of `text`, the number of an entry of `dictionary`.
    pub(super) fn of_entries(
        &mut self,
        text: &Value,
        dictionary: &Arc<Dictionary>,
        function: &Arc<dyn TextFunction>,
        block: &mut Block,
    ) -> Result<Value> {
        let index = Lut::find_or_add(&mut self.kernel.luts, dictionary, function)?;
        let lut = &self.kernel.luts[index];
        let (form, bounds, ty) = (lut.form, lut.bounds, lut.ty);
        let (lut_dictionary, is_nullable) = (lut.dictionary.clone(), lut.valid.is_some());
        let array = self.kernel.args.pointer(Arg::Lut(index), &format!("const {}", form.array_type()));
        // The number of a NULL is any, such as that behind the last entry where a packed key was taken apart.
        let entry = match &text.valid {
            Some(valid) => block.define("u32", "e", format!("{valid} ? {} : 0", text.code)),
            None => text.code.clone(),
        };
        let entry = block.place("u32", &entry);
        let load = match form {
            // No load of the hardware is that wide.
            Form::I128 => format!("{array}[{entry}]"),
            _ => format!("load({array} + {entry})"),
        };
        let code = block.define(form.c_type(), "t", load);
        let valid = is_nullable.then(|| {
            let array = self.kernel.args.pointer(Arg::LutValid(index), "const u8");
            block.define("bool", "n", format!("load({array} + {entry}) != 0"))
        });
        let mut value = Value::new(code, ty, bounds);
        value.form = form;
        value.dictionary = lut_dictionary;
        Ok(value.with_valid(super::value::both_valid(&valid, &text.valid)))
    }
}
