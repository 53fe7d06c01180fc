//! Rows in the order of texts without a dictionary, of which words hold the beginning alone.

use pelton_chunk::Codec;
use pelton_error::{CancelFlag, Error, ErrorKind, Result};
use pelton_exec::{MemoryTest, ReadTexts, RunReport, RunWith, RuntimeOptions};
use pelton_pipeline::Rows;
use pelton_pipeline::ir::{Expr, Inputs, Plan, RowOrder, Sink, SortKey, TextKernel};

use crate::oracle::{Cell, as_they_come, cells, column, has_three_devices, options, runtime, single};
use crate::texts::{CODED, Kind, TEXT, of_text, part, place, source};

/// All texts of a table, by number of the row.
struct Texts(Vec<Cell>);

impl ReadTexts for Texts {
    fn read(&self, key: usize, numbers: &[i64], give: &mut dyn FnMut(&[u8])) -> Result<()> {
        assert_eq!(key, 0, "the text is the first key");
        for number in numbers {
            match &self.0[*number as usize] {
                Cell::Text(text) => give(text),
                other => return Err(Error::corrupt(format!("{other:?} in place of a text"))),
            }
        }
        Ok(())
    }
}

/// The numbers of rows by their text, then by their number the other way.
fn plan(
    table: &std::sync::Arc<pelton_store::Table>,
    (is_descending, nulls_first): (bool, bool),
    row_count: Option<u64>,
) -> Plan {
    let (source, columns) = source(table);
    let by_text = SortKey { key: column(TEXT), is_descending, nulls_first, text: Some(0) };
    let by_row = SortKey { key: column(0), is_descending: true, nulls_first: false, text: None };
    let order = RowOrder { keys: vec![by_text, by_row], row_count, expected: None, windows: None };
    let sink = Sink::Materialize { columns: vec![Expr::RowNumber], top: None, order: Some(order) };
    single(source, columns, Vec::new(), sink)
}

fn run(options: RuntimeOptions, plan: &Plan, with: RunWith<'_>) -> Result<(Rows, RunReport)> {
    runtime(options).run_with(plan, Inputs::default(), &CancelFlag::new(), with)
}

/// The same by the host.
fn expected(texts: &[Cell], (is_descending, nulls_first): (bool, bool)) -> Vec<Vec<Cell>> {
    let mut rows: Vec<usize> = (0..texts.len()).collect();
    rows.sort_by(|&a, &b| {
        let by_text = match (&texts[a], &texts[b]) {
            (Cell::Text(a), Cell::Text(b)) if is_descending => b.cmp(a),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (a, b) => {
                let is_null = |cell: &Cell| matches!(cell, Cell::Null);
                if nulls_first { is_null(b).cmp(&is_null(a)) } else { is_null(a).cmp(&is_null(b)) }
            }
        };
        by_text.then(b.cmp(&a))
    });
    rows.into_iter().map(|row| vec![Cell::Int(row as i128)]).collect()
}

#[test]
fn rows_come_in_the_order_of_whole_texts_however_they_are_stored_and_sorted() {
    check_orders(&[Kind::Plain, Kind::Even, Kind::Lengths, Kind::Packed, Kind::Runs, Kind::One, Kind::Null]);
    CODED.into_iter().for_each(check_orders);
}

fn check_orders(kinds: &[Kind]) {
    let place = place(Codec::None, kinds, 2500, 1500, 1024);
    let texts = Texts(cells(&place.table, TEXT));
    let few = RuntimeOptions { first_rows: Some(1), ..options() };
    let spilled = RuntimeOptions { memory_test: MemoryTest::SpillAlways, ..options() };
    let refused = RuntimeOptions { memory_test: MemoryTest::RefuseOnce, ..options() };
    let mut ways = vec![options(), few, spilled, refused];
    if has_three_devices() {
        ways.push(RuntimeOptions { more_devices: vec![1, 2], ..options() });
    }
    for (way, options) in ways.into_iter().enumerate() {
        for order in [(false, false), (true, false), (false, true), (true, true)] {
            let all = expected(&texts.0, order);
            for row_count in [None, Some(0), Some(1), Some(4000)] {
                let plan = plan(&place.table, order, row_count);
                let with = RunWith { texts: Some(&texts), ..RunWith::default() };
                let (rows, report) = run(options.clone(), &plan, with).unwrap();
                let wanted = row_count.map_or(all.len(), |rows| all.len().min(rows as usize));
                let what = format!("way {way}, {order:?}, {row_count:?}");
                assert_eq!(as_they_come(&rows), all[..wanted], "{what}");
                let last = report.pipelines.last().unwrap();
                assert!(
                    row_count.is_some() || !last.rows_by_worker.is_empty() || last.tied_rows > 0,
                    "{what}"
                );
            }
        }
    }
}

/// Words of views, of codes and of short texts alike say how a text begins and whether it goes on.
#[test]
fn texts_of_lengths_around_those_of_words_are_told_apart_however_they_are_stored() {
    for kind in [Kind::Beginnings, Kind::CodedBeginnings] {
        let place = place(Codec::None, &[kind, kind], 600, 450, 1024);
        let texts = Texts(cells(&place.table, TEXT));
        for order in [(false, false), (true, true)] {
            let whole = plan(&place.table, order, None);
            let with = RunWith { texts: Some(&texts), ..RunWith::default() };
            let (rows, report) = run(options(), &whole, with).unwrap();
            assert_eq!(as_they_come(&rows), expected(&texts.0, order), "{kind:?}, {order:?}");
            // Those of up to 15 bytes need no texts read.
            let longer = |text: &&Cell| matches!(text, Cell::Text(text) if text.len() > 15);
            let longer = texts.0.iter().filter(longer).count() as u64;
            let tied = report.pipelines.last().unwrap().tied_rows;
            assert!((1..=longer).contains(&tied), "{kind:?}: {tied} of {longer}");

            let mut by_start = plan(&place.table, order, None);
            let Sink::Materialize { order: Some(by), .. } = &mut by_start.pipelines[0].sink else {
                unreachable!()
            };
            by.keys[0].key = of_text(&TextKernel::Text(part(1, 15)));
            by.keys[0].text = None;
            let (rows, _) = run(options(), &by_start, RunWith::default()).unwrap();
            let start = |text: &Cell| match text {
                Cell::Text(text) => Cell::Text(text[..text.len().min(15)].to_vec()),
                _ => Cell::Null,
            };
            let starts: Vec<Cell> = texts.0.iter().map(start).collect();
            assert_eq!(as_they_come(&rows), expected(&starts, order), "starts of {kind:?}, {order:?}");
        }
    }
}

#[test]
fn texts_that_nobody_reads_or_that_the_host_has_no_memory_for_are_refused() {
    let place = place(Codec::None, &[Kind::One], 3000, 1500, 1024);
    let texts = Texts(cells(&place.table, TEXT));
    let plan = plan(&place.table, (false, false), None);
    let refusal = run(options(), &plan, RunWith::default()).unwrap_err();
    assert_eq!(*refusal.kind(), ErrorKind::Unsupported);
    assert!(refusal.to_string().contains("which nobody reads"), "{refusal}");
    // 3000 rows of three words, a number and 16 bytes of text.
    for (most, fits) in [(50_000, false), (1 << 20, true)] {
        let with = RunWith { texts: Some(&texts), host_bytes_max: Some(most), ..RunWith::default() };
        match run(options(), &plan, with) {
            Ok((rows, _)) => assert!(fits && rows.row_count == 3000),
            Err(refusal) => {
                assert!(!fits && *refusal.kind() == ErrorKind::Unsupported, "{refusal}");
                assert!(refusal.to_string().contains("whose texts begin alike"), "{refusal}");
            }
        }
    }
}
