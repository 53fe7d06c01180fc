//! Text without a dictionary: read as views, in each format that a chunk may have.

use std::sync::Arc;

use pelton_chunk::{Codec, Column as Values, Encoding, Layout, Transform, Validity, Values as Data};
use pelton_error::{CancelFlag, ErrorKind};
use pelton_exec::RuntimeOptions;
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Bounds, ByteSet, Column, CompareOp, Expr, ExtractStep, LikePattern, Op,
    Pipeline, Plan, ProbeKind, Sink, Source, TableScan, TextExtract, TextFunction, TextHashKey, TextKernel,
    TextPart, TextResults, Type,
};
use pelton_scan::{Decompress, TextForm, text_form};
use pelton_store::{
    ColumnChoice, ColumnSchema, LogicalType, Table, TablePlan, TableSchema, TableWriter, Warehouse,
    WriteMode, WriteOptions, encode_row_group,
};

use crate::fixture::{DEVICE, stream, strings};
use crate::oracle::{Cell, cells, column, options, run, runtime, single, sort, sorted};
use crate::text_reference::ByKernel;

pub(crate) const TEXT: usize = 1;
const WORDS: [&str; 16] = [
    "special",
    "requests",
    "google",
    "Google",
    "goo",
    "gle",
    "ünïcode",
    "日本",
    "%",
    "_",
    "a",
    "\\",
    "aab",
    "aaab",
    "pending",
    "\n",
];

/// Words, and now and then nothing, one letter, or many.
fn text(row: u64) -> String {
    let random = |turn: u64| (row * 2_654_435_761 + turn * 40_503).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    match row % 211 {
        0 => String::new(),
        1 => "a".into(),
        2 => "é".repeat(300),
        3 => format!("{}google", "x".repeat(65_530)),
        4 => "日".into(),
        _ => {
            let word = |turn| WORDS[random(turn) as usize % WORDS.len()];
            (0..random(99) % 9).map(word).collect::<Vec<_>>().join(if row.is_multiple_of(2) {
                " "
            } else {
                ""
            })
        }
    }
}

/// The first bytes of one text, the last of them now and then another.
fn beginning(row: u64) -> String {
    const LENGTHS: [usize; 12] = [0, 1, 3, 4, 5, 8, 14, 15, 16, 17, 31, 300];
    let length = LENGTHS[row as usize % LENGTHS.len()];
    let mut text = "http://a.org/page/".repeat(20);
    text.truncate(length);
    if length > 0 && !(row / 12).is_multiple_of(3) {
        text.pop();
        text.push(if (row / 12) % 3 == 1 { '\0' } else { 'z' });
    }
    text
}

/// How the texts of a row group are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// The same length everywhere: lengths of no bits.
    Even,
    /// Of every length from 0 to 70 bytes, so that they start anywhere in a word.
    Lengths,
    /// As plain and of every length, in codes of symbols.
    Coded,
    CodedLengths,
    /// Beginnings of one text, of lengths around those of words and of short texts; plain and in codes.
    Beginnings,
    CodedBeginnings,
    Packed,
    Runs,
    One,
    Null,
}

impl Kind {
    fn encoding(self) -> Encoding {
        match self {
            Kind::Plain | Kind::Even | Kind::Lengths | Kind::Beginnings => "plain",
            Kind::Coded | Kind::CodedLengths | Kind::CodedBeginnings => "fsst+plain",
            Kind::Packed => "dict+bitpack",
            Kind::Runs => "dict+rle",
            Kind::One | Kind::Null => "constant",
        }
        .parse()
        .unwrap()
    }

    fn text(self, row: u64) -> String {
        match self {
            Kind::Plain | Kind::Coded => text(row),
            Kind::Even => format!("google {:04}", row % 10_000),
            Kind::Lengths | Kind::CodedLengths => {
                format!("{:071}", row.wrapping_mul(0x9E37_79B9_7F4A_7C15))[row as usize % 71..].into()
            }
            Kind::Beginnings | Kind::CodedBeginnings => beginning(row),
            Kind::Packed => text(row % 7 * 31 + 5),
            Kind::Runs => text(row / 50 % 7 * 31 + 5),
            Kind::One | Kind::Null => "special requests".into(),
        }
    }

    fn is_valid(self, row: u64) -> bool {
        match self {
            Kind::Plain | Kind::Coded | Kind::Beginnings | Kind::CodedBeginnings | Kind::Packed => {
                !row.is_multiple_of(7)
            }
            // Pages of rows.
            Kind::Runs => (row / 1024).is_multiple_of(2),
            Kind::Even | Kind::Lengths | Kind::CodedLengths | Kind::One => true,
            Kind::Null => false,
        }
    }
}

pub(crate) struct Place {
    _folder: tempfile::TempDir,
    pub(crate) table: Arc<Table>,
}

/// A table of row numbers and texts: a segment for each of `kinds`, of `rows` rows.
pub(crate) fn place(codec: Codec, kinds: &[Kind], rows: u64, row_group_rows: u32, page_rows: u32) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let warehouse = Warehouse::open(folder.path()).unwrap();
    let of = |name: &str, logical| ColumnSchema { name: name.into(), logical, nullable: true };
    let schema =
        TableSchema::new(vec![of("row", LogicalType::Int32), of("text", LogicalType::Utf8)]).unwrap();
    let mut table = None;
    for (segment, kind) in kinds.iter().enumerate() {
        let choices = vec![
            ColumnChoice::fixed("row", "bitpack".parse::<Encoding>().unwrap().with_codec(codec)),
            ColumnChoice::fixed("text", kind.encoding().with_codec(codec)),
        ];
        let plan = TablePlan { row_group_rows, page_rows, ..TablePlan::new(choices) };
        let mode = if segment == 0 { WriteMode::Create } else { WriteMode::Append };
        let mut writer =
            TableWriter::begin(&warehouse, "t", schema.clone(), mode, WriteOptions::default()).unwrap();
        writer.set_plan(&plan).unwrap();
        let (first, end) = (segment as u64 * rows, (segment as u64 + 1) * rows);
        for start in (first..end).step_by(row_group_rows as usize) {
            let all = || start..end.min(start + u64::from(row_group_rows));
            let texts = Data::Bytes(strings(all().map(|row| kind.text(row))));
            let valid: Vec<bool> = all().map(|row| kind.is_valid(row)).collect();
            let validity = valid.contains(&false).then(|| Validity::from_bools(valid.into_iter()));
            let numbers = Values::new(Data::I32(all().map(|row| row as i32).collect()));
            let columns = [numbers, Values { values: texts, validity }];
            writer.append(encode_row_group(&columns, &plan).unwrap()).unwrap();
        }
        table = Some(writer.commit().unwrap());
    }
    Place { _folder: folder, table: table.unwrap() }
}

/// Both columns of `table`, the text as views.
pub(crate) fn source(table: &Arc<Table>) -> (Source, Vec<Column>) {
    let bounds = Some(Bounds { min: 0, max: i128::from(table.row_count()) });
    let columns = vec![
        Column { name: "row".into(), ty: Type::I32, is_nullable: false, bounds, text: None },
        Column { name: "text".into(), ty: Type::Text, is_nullable: true, bounds: None, text: None },
    ];
    let row_groups = (0..table.row_group_count() as u32).collect();
    let scan =
        TableScan { table: Arc::clone(table), columns: vec![0, 1], row_groups, uses_runtime_filters: true };
    (Source::Table(scan), columns)
}

pub(crate) fn of_text(kernel: &TextKernel) -> Expr {
    Expr::OfText { column: TEXT, function: Arc::new(ByKernel(kernel.clone())) }
}

fn like_of(input: TextPart, pattern: &str, is_negated: bool) -> TextKernel {
    TextKernel::Like { input, pattern: LikePattern::parse(pattern, None), is_negated }
}

pub(crate) fn like(pattern: &str) -> TextKernel {
    like_of(TextPart::Whole, pattern, false)
}

fn compare(op: CompareOp, with: &str) -> TextKernel {
    TextKernel::Compare { op, input: TextPart::Whole, with: with.into() }
}

pub(crate) fn part(start: i64, length: u64) -> TextPart {
    TextPart::Substring { start, length: Some(length) }
}

fn is_one_of(values: &[&str]) -> TextKernel {
    let values = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    TextKernel::In { input: TextPart::Whole, values, is_negated: false }
}

/// What the function gives for a row.
fn value(kernel: &TextKernel, text: &Cell) -> Cell {
    let Cell::Text(text) = text else { return Cell::Null };
    match ByKernel(kernel.clone()).evaluate(&[text]).unwrap() {
        TextResults::Bool(values) => Cell::Int(values[0].unwrap().into()),
        TextResults::I32(values) => Cell::Int(values[0].unwrap().into()),
        TextResults::I128(values) => Cell::Int(values[0].unwrap()),
        TextResults::Text(values) => Cell::Text(values[0].clone().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Rows whose key is even, or all, with the results of `kernels`.
fn check(table: &Arc<Table>, kernels: &[TextKernel], options: RuntimeOptions) {
    let (source, columns) = source(table);
    let results = kernels.iter().map(of_text);
    let is_null = Expr::IsNull(Box::new(column(TEXT)));
    let sink = Sink::Materialize {
        columns: [column(0), is_null].into_iter().chain(results).collect(),
        top: None,
        order: None,
    };
    let (rows, _) = run(options, &single(source, columns, Vec::new(), sink));
    let mut expected: Vec<Vec<Cell>> = cells(table, 0)
        .into_iter()
        .zip(cells(table, TEXT))
        .map(|(row, text)| {
            let is_null = Cell::Int((text == Cell::Null).into());
            let results = kernels.iter().map(|kernel| value(kernel, &text));
            [row, is_null].into_iter().chain(results).collect()
        })
        .collect();
    sort(&mut expected);
    let actual = sorted(&rows);
    assert_eq!(actual.len(), expected.len());
    for (actual, expected) in actual.iter().zip(&expected) {
        for (place, (actual, expected)) in actual.iter().zip(expected).enumerate() {
            let kernel = place.checked_sub(2).map(|place| &kernels[place]);
            assert_eq!(actual, expected, "{kernel:?} of row {:?}", expected);
        }
    }
}

pub(crate) const MIXED: [Kind; 6] =
    [Kind::Plain, Kind::One, Kind::Packed, Kind::Null, Kind::Runs, Kind::Even];
/// Codes of symbols, alone and beside all that their column's other row groups may have.
pub(crate) const CODED: [&[Kind]; 2] = [
    &[Kind::Coded],
    &[Kind::CodedLengths, Kind::Plain, Kind::One, Kind::Packed, Kind::Null, Kind::Coded, Kind::Runs],
];

/// Tables of texts without codes of symbols, with nothing else, and with both.
pub(crate) fn mixtures() -> impl Iterator<Item = &'static [Kind]> {
    std::iter::once(&MIXED[..]).chain(CODED)
}

#[test]
fn patterns_match_what_like_matches() {
    mixtures().for_each(check_patterns);
}

fn check_patterns(kinds: &[Kind]) {
    let place = place(Codec::None, kinds, 3000, 2100, 1024);
    assert_eq!(text_form(&place.table, TEXT).unwrap(), TextForm::Views);
    let literal = [
        "",
        "%",
        "a",
        "%google%",
        "google%",
        "%google",
        "%g%",
        "%go%",
        "%goo%",
        "%goog%",
        "%special%requests%",
        "special%requests",
        "a%a",
        "a%ab%b",
        "%aab%aab%",
        "%x%",
        r"%\%%",
        r"%\_%",
        r"%\\%",
        "%日%",
        "%ü%ï%",
    ];
    check(&place.table, &literal.map(like), options());
    let any =
        ["_", "__", "_%", "%_", "%_oogle%", "%g__gle", "goo_le%", "_本", "é_%é", "%_日_%", "a%_%b", "_a%a_"];
    let negated = [like_of(TextPart::Whole, "%google%", true), like_of(part(2, 6), "oo%", false)];
    let all: Vec<TextKernel> = any.into_iter().map(like).chain(negated).collect();
    check(&place.table, &all, options());
}

#[test]
fn texts_are_compared_by_their_bytes_and_measured() {
    mixtures().for_each(check_comparisons);
}

fn check_comparisons(kinds: &[Kind]) {
    use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
    let place = place(Codec::None, kinds, 3000, 2100, 1024);
    let mut kernels = vec![
        compare(Eq, ""),
        compare(Ne, ""),
        compare(Eq, "google 0012"),
        compare(Eq, "special requests"),
        compare(Ne, "a"),
        compare(Gt, "a"),
        compare(Ge, "a"),
        compare(Lt, "a"),
        compare(Le, "a"),
        compare(Lt, "google 0500"),
        compare(Ge, "日"),
        compare(Lt, "googlegooglegoogle"),
        compare(Gt, ""),
        is_one_of(&["a", "", "google 0100", "日", "special requests"]),
        is_one_of(&[]),
        TextKernel::ByteLength(TextPart::Whole),
        TextKernel::CharacterLength(TextPart::Whole),
    ];
    for (start, length) in
        [(1, Some(2)), (0, Some(2)), (-3, Some(9)), (4, None), (i64::MIN, None), (3, Some(0))]
    {
        let part = TextPart::Substring { start, length };
        kernels.extend([TextKernel::ByteLength(part.clone()), TextKernel::CharacterLength(part)]);
    }
    kernels.extend([
        TextKernel::Text(part(1, 3)),
        TextKernel::Text(part(2, 5)),
        TextKernel::Text(part(-1, 2)),
    ]);
    kernels.push(TextKernel::And(vec![
        TextKernel::Not(Box::new(like("%a%"))),
        TextKernel::Or(vec![like("g%"), compare(Gt, "s")]),
    ]));
    kernels.extend([TextKernel::And(Vec::new()), TextKernel::Or(Vec::new())]);
    check(&place.table, &kernels, options());
}

#[test]
fn texts_are_found_around_the_ends_of_vectors_pages_and_row_groups() {
    let kernels = [like("%google%"), TextKernel::ByteLength(TextPart::Whole), TextKernel::Text(part(1, 3))];
    for rows in [1, 31, 1023, 1024, 1025, 2047, 2049, 4095, 4096, 4097, 9001] {
        for page_rows in [1024, 4096, 16 * 1024] {
            for kind in [Kind::Plain, Kind::Coded] {
                let place = place(Codec::None, &[kind], rows, 1 << 20, page_rows);
                check(&place.table, &kernels, options());
            }
        }
    }
}

#[test]
fn texts_are_read_from_every_tier_and_under_every_codec() {
    let kernels = [like("%google%"), TextKernel::ByteLength(TextPart::Whole), TextKernel::Text(part(1, 3))];
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let place = place(codec, &[Kind::Plain, Kind::Packed, Kind::Coded], 9000, 5000, 4096);
        for decompress in [Decompress::Host, Decompress::Device] {
            let options = RuntimeOptions { decompress, device_cache_bytes: Some(0), ..options() };
            check(&place.table, &kernels, options);
        }
        let (source, columns) = source(&place.table);
        let sink =
            Sink::Materialize { columns: kernels.iter().map(of_text).collect(), top: None, order: None };
        let plan = single(source, columns, Vec::new(), sink);
        let runtime = runtime(RuntimeOptions { device_cache_bytes: Some(32 << 20), ..options() });
        let run = || sorted(&runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap().0);
        let from_disk = run();
        runtime.column_cache().pin(&place.table, Some(&[0, TEXT]), &CancelFlag::new()).unwrap();
        assert_eq!(run(), from_disk, "pinned");
        let stream = stream(runtime.column_cache());
        let cancel = CancelFlag::new();
        assert!(runtime.column_cache().admit(&place.table, TEXT, DEVICE, &stream, &cancel).unwrap());
        assert_eq!(run(), from_disk, "on the device");
    }
}

/// The rows that `conditions` leave, by number.
fn check_filter(table: &Arc<Table>, conditions: Vec<Expr>, is_kept: impl Fn(i128, &Cell) -> bool) {
    let (source, columns) = source(table);
    let sink = Sink::Materialize { columns: vec![column(0)], top: None, order: None };
    let ops = conditions.into_iter().map(Op::Filter).collect();
    let (rows, _) = run(options(), &single(source, columns, ops, sink));
    let all = cells(table, 0).into_iter().zip(cells(table, TEXT));
    let kept = |(row, text): (Cell, Cell)| {
        let Cell::Int(number) = row else { panic!("{row:?}") };
        is_kept(number, &text).then(|| vec![row])
    };
    let mut expected: Vec<Vec<Cell>> = all.filter_map(kept).collect();
    sort(&mut expected);
    assert!(expected.len() > 20);
    assert_eq!(sorted(&rows), expected);
}

fn row_from(low: i32) -> Expr {
    let low = Box::new(crate::oracle::int(low));
    Expr::Compare { op: CompareOp::Ge, left: Box::new(column(0)), right: low }
}

#[test]
fn conditions_on_texts_keep_rows_alone_and_beside_others() {
    mixtures().for_each(check_conditions);
}

fn check_conditions(kinds: &[Kind]) {
    let place = place(Codec::None, kinds, 9000, 5000, 4096);
    let google = like("%google%");
    let holds = |text: &Cell| value(&google, text) == Cell::Int(1);
    check_filter(&place.table, vec![of_text(&google)], |_, text| holds(text));
    // The first vectors are left out before their texts are looked for.
    check_filter(&place.table, vec![of_text(&google), row_from(2500)], |row, text| {
        row >= 2500 && holds(text)
    });
    let is_null = Expr::IsNull(Box::new(column(TEXT)));
    check_filter(&place.table, vec![is_null], |_, text| *text == Cell::Null);
    let third = Expr::Modulo { input: Box::new(column(0)), by: 3 };
    let third =
        Expr::Compare { op: CompareOp::Eq, left: Box::new(third), right: Box::new(crate::oracle::int(1)) };
    let not = Expr::Not(Box::new(of_text(&google)));
    check_filter(&place.table, vec![third, not], |row, text| {
        row % 3 == 1 && *text != Cell::Null && !holds(text)
    });
}

#[test]
fn a_text_is_read_late_by_the_rows_that_a_probe_leaves() {
    let kinds = [&MIXED[..], &[Kind::Coded]].concat();
    let place = place(Codec::None, &kinds, 3000, 2100, 1024);
    let (source, columns) = source(&place.table);
    let modulo = |by| Expr::Modulo { input: Box::new(column(0)), by };
    let is_zero = |expr| Expr::Compare {
        op: CompareOp::Eq,
        left: Box::new(expr),
        right: Box::new(crate::oracle::int(0)),
    };
    // Every row whose number is of 5 has a match, and those of 0 modulo 25 two.
    let build = Pipeline {
        name: "build".into(),
        source: source.clone(),
        columns: columns.clone(),
        ops: vec![Op::Filter(is_zero(modulo(5)))],
        sink: Sink::Build {
            table: 0,
            keys: vec![Expr::Case {
                branches: vec![(is_zero(modulo(25)), column(0))],
                otherwise: Some(Box::new(Expr::FloorDivide { input: Box::new(column(0)), by: 25 })),
            }],
            payload: vec![column(0), of_text(&TextKernel::Text(part(1, 2)))],
        },
    };
    let bytes = TextKernel::ByteLength(TextPart::Whole);
    let probe = Pipeline {
        name: "probe".into(),
        source,
        columns,
        ops: vec![
            Op::Probe { table: 0, keys: vec![column(0)], kind: ProbeKind::Inner, residual: None },
            Op::Filter(of_text(&like("%g%"))),
        ],
        sink: Sink::Materialize {
            columns: vec![column(0), column(2), column(3), of_text(&bytes)],
            top: None,
            order: None,
        },
    };
    let pipelines = vec![build, probe];
    let plan = Plan { pipelines, table_count: 1, host_input_count: 0, unique_tables: Vec::new() };
    let (rows, _) = run(options(), &plan);
    let texts = cells(&place.table, TEXT);
    let key = |row: usize| if row.is_multiple_of(25) { row } else { row / 25 };
    let mut expected = Vec::new();
    for built in (0..texts.len()).step_by(5) {
        let text = &texts[key(built)];
        if value(&like("%g%"), text) == Cell::Int(1) {
            let short = value(&TextKernel::Text(part(1, 2)), &texts[built]);
            let number = |row: usize| Cell::Int(row as i128);
            expected.push(vec![number(key(built)), number(built), short, value(&bytes, text)]);
        }
    }
    sort(&mut expected);
    assert!(expected.len() > 1000);
    assert_eq!(sorted(&rows), expected);
}

/// Groups of the table by `key`: the key, rows, texts.
fn group_plan(table: &Arc<Table>, key: Expr) -> Plan {
    let (source, columns) = source(table);
    let count = |input| Aggregate { function: AggregateFunction::Count, input };
    let aggregates = vec![count(None), count(Some(column(TEXT)))];
    let sink = Sink::Aggregate { keys: vec![key], aggregates, expected: None };
    single(source, columns, Vec::new(), sink)
}

#[test]
fn short_texts_are_keys_of_groups_and_of_groups_of_groups() {
    let place = place(Codec::None, &MIXED, 3000, 2100, 1024);
    let start = TextKernel::Text(part(1, 3));
    let mut plan = group_plan(&place.table, of_text(&start));
    let mut groups: Vec<(Cell, i128)> = Vec::new();
    for text in cells(&place.table, TEXT) {
        let key = value(&start, &text);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => groups.push((key, 1)),
        }
    }
    let row = |(key, count): &(Cell, i128)| {
        let texts = if *key == Cell::Null { 0 } else { *count };
        vec![key.clone(), Cell::Int(*count), Cell::Int(texts)]
    };
    let mut expected: Vec<Vec<Cell>> = groups.iter().map(row).collect();
    sort(&mut expected);
    assert!(expected.len() > 30);
    for first_rows in [None, Some(3)] {
        assert_eq!(sorted(&run(RuntimeOptions { first_rows, ..options() }, &plan).0), expected);
    }

    // Groups that are the source: short texts that are keys again, and are compared.
    let of_groups = |ty, is_nullable| Column { name: "c".into(), ty, is_nullable, bounds: None, text: None };
    let equal = |op| Expr::Compare { op, left: Box::new(column(0)), right: Box::new(column(0)) };
    plan.pipelines.push(Pipeline {
        name: "again".into(),
        source: Source::Groups(0),
        columns: vec![of_groups(Type::Text, true), of_groups(Type::I64, false), of_groups(Type::I64, false)],
        ops: vec![Op::Filter(equal(CompareOp::Eq)), Op::Filter(equal(CompareOp::Le))],
        sink: Sink::Materialize { columns: vec![column(0), column(1), column(2)], top: None, order: None },
    });
    expected.retain(|row| row[0] != Cell::Null);
    assert_eq!(sorted(&run(options(), &plan).0), expected);
}

fn hash(input: TextPart, key: TextHashKey) -> TextKernel {
    TextKernel::Hash { input, key }
}

/// Patterns of all kinds of steps.
fn extracts() -> Vec<TextExtract> {
    let literal = |text: &str| ExtractStep::Literal(text.into());
    let optional = |text: &str| ExtractStep::Optional(text.into());
    let among = |bytes: &mut dyn Iterator<Item = u8>, is_some| {
        let mut set = [0; 4];
        bytes.for_each(|byte| set[usize::from(byte >> 6)] |= 1_u64 << (byte & 63));
        ExtractStep::Bytes { set: ByteSet(set), is_some }
    };
    let but = |byte: u8, is_some| among(&mut (0..=u8::MAX).filter(|other| *other != byte), is_some);
    let (begin, end) = (ExtractStep::Begin, ExtractStep::End);
    let of_steps = [
        vec![begin.clone(), but(b'o', true), end.clone(), optional("oo"), literal("o"), but(b'\n', false)],
        vec![literal("google"), optional(" "), begin.clone(), among(&mut (b'0'..=b'9'), true), end.clone()],
        vec![
            optional("g"),
            begin.clone(),
            optional("go"),
            optional("g"),
            end.clone(),
            among(&mut (b'a'..=u8::MAX), false),
        ],
        vec![but(b' ', false), literal(" "), begin.clone(), but(0, false), end.clone()],
        vec![begin.clone(), end.clone(), but(0xFF, true)],
        vec![begin, among(&mut (0..=0x7F), false), end],
    ];
    of_steps.into_iter().map(|steps| TextExtract::new(steps).expect("in one pass")).collect()
}

#[test]
fn hashes_are_those_of_the_host_for_texts_of_every_length_and_alignment() {
    check_hashes(&[&MIXED[..], &[Kind::Lengths]].concat());
    CODED.into_iter().for_each(check_hashes);
}

fn check_hashes(kinds: &[Kind]) {
    let place = place(Codec::None, kinds, 3000, 2100, 1024);
    let keys = [TextHashKey(0, 0), TextHashKey(0x0706_0504_0302_0100, u64::MAX), TextHashKey::of_process()];
    let mut kernels: Vec<TextKernel> = keys.iter().map(|key| hash(TextPart::Whole, *key)).collect();
    kernels.extend([hash(part(2, 9), keys[1]), hash(part(4, 0), keys[2])]);
    for extract in extracts() {
        let part = || TextPart::Extract(Arc::new(extract.clone()));
        kernels.extend([hash(part(), keys[1]), TextKernel::ByteLength(part())]);
    }
    check(&place.table, &kernels, options());
}

#[test]
fn hashes_are_keys_of_groups_which_the_least_row_gives_the_text() {
    let kinds = [&MIXED[..], &[Kind::Lengths, Kind::Coded]].concat();
    let place = place(Codec::None, &kinds, 3000, 2100, 1024);
    let mut plan = group_plan(&place.table, of_text(&hash(TextPart::Whole, TextHashKey::of_process())));
    let Sink::Aggregate { aggregates, .. } = &mut plan.pipelines[0].sink else { unreachable!() };
    aggregates.push(Aggregate { function: AggregateFunction::Min, input: Some(Expr::RowNumber) });
    let texts = cells(&place.table, TEXT);
    let mut groups = std::collections::HashMap::<Vec<u8>, (i128, usize)>::new();
    let mut null_rows = 0;
    for (row, text) in texts.iter().enumerate() {
        match text {
            Cell::Text(text) => groups.entry(text.to_vec()).or_insert((0, row)).0 += 1,
            _ => null_rows += 1,
        }
    }
    let first_null = texts.iter().position(|text| *text == Cell::Null).unwrap();
    for first_rows in [None, Some(1)] {
        let (rows, _) = run(RuntimeOptions { first_rows, ..options() }, &plan);
        let actual = sorted(&rows);
        assert_eq!(actual.len(), groups.len() + 1);
        for group in actual {
            let [key, Cell::Int(count), Cell::Int(text_count), Cell::Int(row)] = &group[..] else {
                panic!("{group:?}")
            };
            match (key, &texts[*row as usize]) {
                (Cell::Null, Cell::Null) => {
                    assert_eq!((*count, *text_count, *row as usize), (null_rows, 0, first_null));
                }
                (Cell::Int(_), Cell::Text(text)) => {
                    assert_eq!((*count, *row as usize), groups[&text.to_vec()]);
                    assert_eq!(count, text_count);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn what_kernels_do_not_do_with_texts_is_refused() {
    check_refused(Kind::Plain);
    check_refused(Kind::Coded);
}

fn check_refused(kind: Kind) {
    let place = place(Codec::None, &[kind], 3000, 2100, 1024);
    let error = |key: Expr| {
        let error = runtime(options()).run(&group_plan(&place.table, key), Vec::new(), &CancelFlag::new());
        let error = error.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
        error.to_string()
    };
    let long = error(of_text(&TextKernel::Text(TextPart::Whole)));
    assert!(long.contains("has more than 15 bytes for some row"), "{long}");
    // Characters of several bytes.
    assert!(error(of_text(&TextKernel::Text(part(1, 8)))).contains("has more than 15 bytes"));
    assert!(error(column(TEXT)).contains("text without a dictionary as a value"));
    let unknown = Expr::OfText { column: TEXT, function: Arc::new(OnEntriesAlone) };
    assert!(error(unknown).contains("soundex of text without a dictionary"));
}

/// A function that kernels cannot compute.
#[derive(Debug)]
struct OnEntriesAlone;

impl TextFunction for OnEntriesAlone {
    fn ty(&self) -> Type {
        Type::Text
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn evaluate(&self, _: &[&[u8]]) -> pelton_error::Result<TextResults> {
        panic!("there are no entries")
    }

    fn name(&self) -> String {
        "soundex".into()
    }
}

#[test]
fn patterns_without_any_constant_need_none() {
    let place = place(Codec::None, &[Kind::Plain], 1000, 1000, 1024);
    let (source, columns) = source(&place.table);
    let count = |pattern: &str| {
        let ops = vec![Op::Filter(of_text(&like(pattern)))];
        let sink = Sink::Materialize { columns: vec![column(0)], top: None, order: None };
        run(options(), &single(source.clone(), columns.clone(), ops, sink)).0.row_count
    };
    let texts = (0..1000).filter(|row| Kind::Plain.is_valid(*row)).map(|row| Kind::Plain.text(row));
    let (empty, all): (Vec<String>, Vec<String>) = texts.partition(String::is_empty);
    assert_eq!(count("%"), empty.len() + all.len());
    assert_eq!(count(""), empty.len());
}

#[test]
fn other_constants_find_the_program_in_the_cache() {
    let place = place(Codec::None, &[Kind::Plain], 1000, 1000, 1024);
    let (source, columns) = source(&place.table);
    // Columns that come to be cached have widths that are known, and other programs for that.
    let runtime = runtime(RuntimeOptions { check_for: None, device_cache_bytes: Some(0), ..options() });
    let programs = |word: &str, values: &[&str], length| {
        let conditions = [
            like(&format!("%{word}%{word}")),
            compare(CompareOp::Lt, word),
            is_one_of(values),
            like_of(part(2, length), "a%", true),
        ];
        let ops = conditions.iter().map(|condition| Op::Filter(of_text(condition))).collect();
        let sink = Sink::Materialize { columns: vec![column(0)], top: None, order: None };
        let plan = single(source.clone(), columns.clone(), ops, sink);
        let (_, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
        report.pipelines[0].compiled
    };
    programs("google", &["a"], 4);
    assert_eq!(programs("special", &["", "requests", "日本"], 7), 0);
}

#[test]
fn formats_of_the_fixture_are_those_that_it_names() {
    let kinds = [&MIXED[..], &[Kind::Coded]].concat();
    let place = place(Codec::None, &kinds, 3000, 2100, 1024);
    let all: Vec<u32> = (0..place.table.row_group_count() as u32).collect();
    let found = pelton_scan::formats(&place.table, TEXT, &all).unwrap();
    let expected = [
        (Transform::None, Layout::Constant),
        (Transform::None, Layout::Plain),
        (Transform::Dictionary, Layout::BitPacked),
        (Transform::Dictionary, Layout::RunLength),
        (Transform::Fsst, Layout::Plain),
    ];
    assert_eq!(found, expected);
}
