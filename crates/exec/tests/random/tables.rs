//! Random columns, stored tables of them, and host inputs.

use std::sync::{Arc, OnceLock};

use pelton_chunk::{ByteValues, Codec, Column as StoredColumn, Encoding, PhysicalType, Validity, Values};
use pelton_pipeline::ir::Type;
use pelton_pipeline::{Dictionary, RowColumn, RowValues, Rows};
use pelton_store::{
    ColumnChoice, ColumnSchema, LogicalType, Table, TablePlan, TableSchema, TableWriter, Warehouse,
    WriteMode, WriteOptions, encode_row_group,
};

use super::cell::{Cell, Row, rows_of};
use super::interpret::Relation;
use super::random::Random;
use super::recipe::{Recipe, Slot};

/// Tables of the same columns, stored in the same encodings, several times: each time with other rows.
pub(crate) struct Family {
    seed: u64,
    /// Of each table's columns.
    recipes: Vec<Vec<Recipe>>,
    sets: Vec<OnceLock<Tables>>,
}

/// One set of the tables of a family; gone when dropped.
pub(crate) struct Tables {
    _folder: tempfile::TempDir,
    pub(crate) relations: Vec<Relation>,
    /// Of each table's columns.
    pub(crate) recipes: Vec<Vec<Recipe>>,
}

/// Rows of each table of a set: many, around a vector of 1024, few, one, none.
const ROW_COUNTS: [&[u64]; 4] = [&[1800, 2500], &[333, 1025, 2100], &[1023, 1024, 2047], &[0, 1, 30]];
const ROW_GROUP_ROWS: [u32; 6] = [7, 100, 1000, 1024, 1500, 5000];
/// Row groups of a table at most: each is a morsel where those are small.
const ROW_GROUPS_MAX: u64 = 40;

impl Family {
    /// Of `set_count` sets.
    pub(crate) fn new(seed: u64, set_count: usize) -> Self {
        let random = &mut Random::new(seed, 1);
        let most = |counts: &&[u64]| *counts.iter().max().expect("some");
        let recipes = ROW_COUNTS.iter().map(most).map(|rows| Recipe::of_table(random, rows)).collect();
        Self { seed, recipes, sets: (0..set_count).map(|_| OnceLock::new()).collect() }
    }

    /// Set number `set`, made by the first to ask.
    pub(crate) fn tables(&self, set: usize) -> &Tables {
        self.sets[set].get_or_init(|| {
            let random = &mut Random::new(self.seed, 100 + set as u64);
            let recipes = self.recipes.iter().map(|recipes| {
                recipes.iter().map(|recipe| recipe.for_other_rows(random)).collect::<Vec<_>>()
            });
            Tables::new(recipes.collect(), random)
        })
    }
}

impl Tables {
    fn new(recipes: Vec<Vec<Recipe>>, random: &mut Random) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let warehouse = Warehouse::open(folder.path()).unwrap();
        let stored = |(number, recipes): (usize, &Vec<Recipe>)| {
            let row_count = *random.pick(ROW_COUNTS[number]);
            stored(&warehouse, number, recipes, row_count, random)
        };
        let relations = recipes.iter().enumerate().map(stored).collect();
        Self { _folder: folder, relations, recipes }
    }
}

/// Writes a table of one or two segments.
fn stored(
    warehouse: &Warehouse,
    number: usize,
    recipes: &[Recipe],
    row_count: u64,
    random: &mut Random,
) -> Relation {
    let mut row_group_rows = *random.pick(&ROW_GROUP_ROWS);
    if row_count > ROW_GROUPS_MAX * u64::from(row_group_rows) {
        row_group_rows = 1000;
    }
    let codec = *random.pick(&[Codec::None, Codec::None, Codec::Lz4, Codec::Zstd]);
    let column = |recipe: &Recipe| ColumnSchema {
        name: recipe.name.clone(),
        logical: recipe.logical.clone(),
        nullable: true,
    };
    let schema = TableSchema::new(recipes.iter().map(column).collect()).unwrap();
    let choice = |recipe: &Recipe| ColumnChoice::fixed(&recipe.name, recipe.encoding.with_codec(codec));
    let choices = recipes.iter().map(choice).collect();
    let page_rows = *random.pick(&[1024, 2048, 16 * 1024]);
    let plan = TablePlan { row_group_rows, page_rows, ..TablePlan::new(choices) };
    let slots: Vec<Vec<Slot>> = recipes.iter().map(|recipe| recipe.slots(row_count, random)).collect();
    let cut = if random.one_in(2) { row_count / 2 } else { 0 };
    let mut table: Option<Arc<Table>> = None;
    for (mode, range) in [(WriteMode::Create, 0..cut), (WriteMode::Append, cut..row_count)] {
        if range.is_empty() && !(cut == row_count && table.is_none()) {
            continue;
        }
        let mode = if table.is_none() { WriteMode::Create } else { mode };
        let name = format!("t{number}");
        let options = WriteOptions::default();
        let mut writer = TableWriter::begin(warehouse, &name, schema.clone(), mode, options).unwrap();
        writer.set_plan(&plan).unwrap();
        for first in range.clone().step_by(row_group_rows as usize) {
            let last = (first + u64::from(row_group_rows)).min(range.end);
            let columns: Vec<StoredColumn> = recipes
                .iter()
                .zip(&slots)
                .map(|(recipe, slots)| stored_column(recipe, &slots[first as usize..last as usize]))
                .collect();
            writer.append(encode_row_group(&columns, &plan).unwrap()).unwrap();
        }
        table = Some(writer.commit().unwrap());
    }
    let cell = |slots: &Vec<Slot>, row: usize| {
        let (cell, is_valid) = &slots[row];
        if *is_valid { cell.clone() } else { Cell::Null }
    };
    let row = |row: usize| slots.iter().map(|slots| cell(slots, row)).collect();
    Relation { table: table.unwrap(), rows: (0..row_count as usize).map(row).collect() }
}

fn int(cell: &Cell) -> i128 {
    if let Cell::Int(value) = cell { *value } else { panic!("{cell:?} is no integer") }
}

fn float(cell: &Cell) -> f64 {
    if let Cell::Float(value) = cell { *value } else { panic!("{cell:?} is no double") }
}

fn text(cell: &Cell) -> &[u8] {
    if let Cell::Text(text) = cell { text } else { panic!("{cell:?} is no text") }
}

fn stored_column(recipe: &Recipe, slots: &[Slot]) -> StoredColumn {
    let cells = || slots.iter().map(|(cell, _)| cell);
    let values = match recipe.logical.physical_type() {
        PhysicalType::U8 => Values::U8(cells().map(|cell| int(cell) as u8).collect()),
        PhysicalType::U16 => Values::U16(cells().map(|cell| int(cell) as u16).collect()),
        PhysicalType::U32 => Values::U32(cells().map(|cell| int(cell) as u32).collect()),
        PhysicalType::I8 => Values::I8(cells().map(|cell| int(cell) as i8).collect()),
        PhysicalType::I16 => Values::I16(cells().map(|cell| int(cell) as i16).collect()),
        PhysicalType::I32 => Values::I32(cells().map(|cell| int(cell) as i32).collect()),
        PhysicalType::I64 => Values::I64(cells().map(|cell| int(cell) as i64).collect()),
        PhysicalType::I128 => Values::I128(cells().map(int).collect()),
        PhysicalType::F64 => Values::F64(cells().map(float).collect()),
        PhysicalType::Bytes => {
            let mut texts = ByteValues::default();
            cells().for_each(|cell| texts.push(text(cell)).unwrap());
            Values::Bytes(texts)
        }
        other => panic!("kernels read no {other:?}"),
    };
    let valid: Vec<bool> = slots.iter().map(|(_, is_valid)| *is_valid).collect();
    let validity = valid.contains(&false).then(|| Validity::from_bools(valid.into_iter()));
    StoredColumn { values, validity }
}

/// The encodings that kernels read a column of `logical` in.
pub(crate) fn encodings(logical: &LogicalType) -> Vec<Encoding> {
    use pelton_chunk::{Layout, Transform};
    let physical = logical.physical_type();
    let is_read = |encoding: &Encoding| {
        encoding.layout != Layout::Constant
            && (physical != PhysicalType::Bytes
                || encoding.transform == Transform::Dictionary
                || encoding.layout == Layout::Plain)
    };
    Encoding::all_light(physical).filter(is_read).collect()
}

/// Rows of these columns for a run, and the same as the interpreter reads them.
pub(crate) fn host_input(recipes: &[Recipe], row_count: u64, random: &mut Random) -> (Rows, Vec<Row>) {
    let columns = recipes.iter().map(|recipe| host_column(recipe, &recipe.slots(row_count, random)));
    let rows = Rows { row_count: row_count as usize, columns: columns.collect() };
    let cells = rows_of(&rows);
    (rows, cells)
}

fn host_column(recipe: &Recipe, slots: &[Slot]) -> RowColumn {
    let cells = || slots.iter().map(|(cell, _)| cell);
    let values = match recipe.ty {
        Type::Bool => RowValues::Bool(cells().map(|cell| int(cell) as u8).collect()),
        Type::I32 => RowValues::I32(cells().map(|cell| int(cell) as i32).collect()),
        Type::I64 => RowValues::I64(cells().map(|cell| int(cell) as i64).collect()),
        Type::I128 => RowValues::I128(cells().map(int).collect()),
        Type::F64 => RowValues::F64(cells().map(float).collect()),
        Type::Text => {
            let mut entries = ByteValues::default();
            recipe.texts.iter().for_each(|text| entries.push(text).unwrap());
            let id =
                |cell: &Cell| recipe.texts.iter().position(|entry| **entry == *text(cell)).unwrap() as u32;
            RowValues::Text { ids: cells().map(id).collect(), dictionary: Arc::new(Dictionary::new(entries)) }
        }
    };
    let has_null = slots.iter().any(|(_, is_valid)| !is_valid);
    RowColumn { values, valid: has_null.then(|| slots.iter().map(|(_, is_valid)| *is_valid).collect()) }
}
