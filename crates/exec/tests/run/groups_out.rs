//! Groups of a result that are given out in pieces: all of them, each once; whoever takes them may be slow, refuse, or
//! stop the run, and memory may be short.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pelton_chunk::Codec;
use pelton_error::{CancelFlag, Error, ErrorKind, Result, Tier};
use pelton_exec::{
    MemoryTest, RowsPart, RunReport, RunWith, Runtime, RuntimeOptions, SomeGroups, TakeGroups, TakeRows,
};
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::GroupLayout;
use pelton_pipeline::ir::{Aggregate, AggregateFunction, Inputs, Plan, Sink};

use crate::fixture::{Place, table};
use crate::oracle::{Cell, column, has_three_devices, options, runtime, single, sort, sorted, source};

/// Rows of each of the table's two segments, which are equal but for row groups.
const ROWS: u64 = 3000;
/// Places that are gathered at once.
const PIECE: u64 = 100;

/// Takes groups; `then` is asked after each piece, which is numbered from 0.
struct Taker<'t> {
    groups: Mutex<Vec<Vec<Cell>>>,
    pieces: AtomicUsize,
    /// Groups of the largest piece.
    largest: AtomicUsize,
    wants: bool,
    /// So often it says that it has enough.
    full: AtomicUsize,
    then: &'t (dyn Fn(usize) -> Result<()> + Sync),
}

impl<'t> Taker<'t> {
    fn new(then: &'t (dyn Fn(usize) -> Result<()> + Sync)) -> Self {
        let [pieces, largest, full] = [0; 3].map(AtomicUsize::new);
        Self { groups: Mutex::default(), pieces, largest, wants: true, full, then }
    }

    fn pieces(&self) -> usize {
        self.pieces.load(Ordering::Relaxed)
    }
}

impl TakeRows for Taker<'_> {
    fn take(&self, _: RowsPart) -> Result<()> {
        panic!("the result is groups")
    }

    fn is_full(&self) -> bool {
        self.full.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full| full.checked_sub(1)).is_ok()
    }

    fn part_bytes(&self) -> usize {
        1 << 20
    }
}

impl TakeGroups for Taker<'_> {
    fn wants(&self, _: &GroupLayout) -> bool {
        self.wants
    }

    fn take_groups(&self, groups: SomeGroups) -> Result<()> {
        assert!(groups.bytes() > 0, "a piece has groups");
        let groups = sorted(&groups.into_rows()?);
        self.largest.fetch_max(groups.len(), Ordering::Relaxed);
        self.groups.lock().unwrap().extend(groups);
        (self.then)(self.pieces.fetch_add(1, Ordering::Relaxed))
    }
}

/// Groups by `keys` of a table, with a count and a sum of decimals.
struct Case {
    place: Place,
    keys: Vec<usize>,
}

impl Case {
    fn by(keys: &[usize]) -> Self {
        Self { place: table(Codec::None, 700, ROWS), keys: keys.to_vec() }
    }

    fn plan(&self, runtime: &Runtime) -> Plan {
        let (source, columns) = source(runtime, &self.place.table);
        let count = Aggregate { function: AggregateFunction::Count, input: None };
        let sum = Aggregate { function: AggregateFunction::Sum, input: Some(column(3)) };
        let keys = self.keys.iter().map(|key| column(*key)).collect();
        single(
            source,
            columns,
            Vec::new(),
            Sink::Aggregate { keys, aggregates: vec![count, sum], expected: None },
        )
    }

    /// All groups, computed here.
    fn expected(&self) -> Vec<Vec<Cell>> {
        let mut groups: Vec<(Vec<Cell>, i128, i128)> = Vec::new();
        let mut rows = crate::oracle::all_rows(&self.place.table);
        rows.iter_mut().for_each(|row| {
            let sum = row[3].clone();
            *row = self.keys.iter().map(|key| row[*key].clone()).chain([sum]).collect();
        });
        sort(&mut rows);
        for mut row in rows {
            let Some(Cell::Int(value)) = row.pop() else { panic!("decimals without NULL") };
            match groups.last_mut() {
                Some((key, count, sum)) if *key == row => (*count, *sum) = (*count + 1, *sum + value),
                _ => groups.push((row, 1, value)),
            }
        }
        let row = |(key, count, sum): (Vec<Cell>, i128, i128)| {
            [key, vec![Cell::Int(count), Cell::Int(sum)]].concat()
        };
        let mut rows: Vec<Vec<Cell>> = groups.into_iter().map(row).collect();
        sort(&mut rows);
        rows
    }

    fn run(
        &self,
        runtime: &Arc<Runtime>,
        taker: &Taker<'_>,
        enough: Option<u64>,
    ) -> Result<(Rows, RunReport)> {
        let with = RunWith { groups_taker: Some(taker), groups_enough: enough, ..RunWith::default() };
        runtime.run_with(&self.plan(runtime), Inputs::default(), &CancelFlag::new(), with)
    }
}

/// Groups by position, by hash, and by keys that one word does not hold.
fn cases() -> [Case; 4] {
    [Case::by(&[5]), Case::by(&[0]), Case::by(&[0, 3]), Case::by(&[7, 5, 1])]
}

fn few() -> RuntimeOptions {
    RuntimeOptions { first_rows: Some(PIECE), ..options() }
}

fn nothing(_: usize) -> Result<()> {
    Ok(())
}

/// Device memory and pinned memory in use, bytes.
fn in_use(runtime: &Runtime) -> (u64, u64) {
    let machine = runtime.machine();
    let device = machine.device_budget(runtime.device()).unwrap().used_bytes();
    (device, machine.pinned_budget().used_bytes())
}

/// That both are the same; shows where they first differ.
fn assert_groups(found: &[Vec<Cell>], expected: &[Vec<Cell>]) {
    let differ = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert!(differ.is_none(), "{differ:?}");
    assert_eq!(found.len(), expected.len());
}

/// That the groups in `taker` are all that there are, and the run's end has no more.
fn assert_all(taker: &Taker<'_>, (rest, report): &(Rows, RunReport), expected: &[Vec<Cell>]) {
    let mut found = taker.groups.lock().unwrap().clone();
    sort(&mut found);
    assert_eq!(rest.row_count, 0, "given out, or all in the end");
    assert_groups(&found, expected);
    assert_eq!(report.pipelines.last().unwrap().rows_out, expected.len() as u64);
}

#[test]
fn many_groups_come_in_pieces() {
    for case in cases() {
        let (taker, expected) = (Taker::new(&nothing), case.expected());
        assert!(expected.len() as u64 > 5 * PIECE, "{} groups by {:?}", expected.len(), case.keys);
        let ended = case.run(&runtime(few()), &taker, None).unwrap();
        assert!(taker.pieces() as u64 >= expected.len() as u64 / PIECE, "{} pieces", taker.pieces());
        assert!(taker.largest.load(Ordering::Relaxed) as u64 <= PIECE);
        assert_all(&taker, &ended, &expected);
    }
}

#[test]
fn as_many_groups_as_one_copy_brings_come_in_the_end_and_one_more_in_pieces() {
    let case = Case::by(&[5]);
    let expected = case.expected();
    for (room, comes_in_pieces) in [(1, false), (0, false), (-1, true)] {
        let taker = Taker::new(&nothing);
        let first_rows = (expected.len() as u64).checked_add_signed(room);
        let ended = case.run(&runtime(RuntimeOptions { first_rows, ..options() }), &taker, None).unwrap();
        assert_eq!(taker.pieces() > 0, comes_in_pieces, "room for {first_rows:?}");
        match comes_in_pieces {
            true => assert_all(&taker, &ended, &expected),
            false => assert_groups(&sorted(&ended.0), &expected),
        }
    }
}

#[test]
fn who_does_not_want_groups_in_pieces_gets_all_in_the_end() {
    for case in cases() {
        let taker = Taker { wants: false, ..Taker::new(&nothing) };
        let (rows, _) = case.run(&runtime(few()), &taker, None).unwrap();
        assert_eq!(taker.pieces(), 0);
        assert_groups(&sorted(&rows), &case.expected());
    }
}

#[test]
fn a_run_waits_for_who_has_enough_and_loses_nothing() {
    for case in cases() {
        let taker = Taker { full: AtomicUsize::new(200), ..Taker::new(&nothing) };
        let ended = case.run(&runtime(few()), &taker, None).unwrap();
        assert_eq!(taker.full.load(Ordering::Relaxed), 0, "it was asked");
        let waited = ended.1.pipelines.last().unwrap().reader_wait;
        assert!(waited.as_millis() >= 200, "{waited:?}");
        assert_all(&taker, &ended, &case.expected());
    }
}

#[test]
fn what_somebody_refuses_in_the_middle_ends_the_run_and_leaves_nothing_behind() {
    // Whoever took the third kind for a refusal of its own would try again, and give groups out twice.
    let full = ErrorKind::OutOfMemory { tier: Tier::Device, requested_bytes: 2, available_bytes: 1 };
    let kinds = [ErrorKind::InvalidInput, ErrorKind::Unsupported, full, ErrorKind::Cancelled];
    for (case, kind) in cases().iter().zip(kinds) {
        let runtime = runtime(few());
        let expected = case.expected();
        let taker = Taker::new(&nothing);
        case.run(&runtime, &taker, None).unwrap();
        let before = in_use(&runtime);
        let refuses =
            |piece: usize| if piece == 2 { Err(Error::new(kind.clone(), "enough of it")) } else { Ok(()) };
        let taker = Taker::new(&refuses);
        let error = case.run(&runtime, &taker, None).unwrap_err();
        assert_eq!(error.kind(), &kind);
        assert_eq!(taker.pieces(), 3, "nobody is asked again");
        assert_eq!(in_use(&runtime), before, "memory in use after it");
        let taker = Taker::new(&nothing);
        let ended = case.run(&runtime, &taker, None).unwrap();
        assert_all(&taker, &ended, &expected);
    }
}

#[test]
fn a_run_that_is_cancelled_between_two_pieces_stops() {
    for case in cases() {
        let runtime = runtime(few());
        let flag = CancelFlag::new();
        let cancels = |piece: usize| {
            if piece == 1 {
                flag.cancel();
            }
            Ok(())
        };
        let taker = Taker::new(&cancels);
        let with = RunWith { groups_taker: Some(&taker), ..RunWith::default() };
        let ended = runtime.run_with(&case.plan(&runtime), Inputs::default(), &flag, with);
        assert_eq!(*ended.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(taker.pieces() <= 4, "what was under way at most: {}", taker.pieces());
        let taker = Taker::new(&nothing);
        let ended = case.run(&runtime, &taker, None).unwrap();
        assert_all(&taker, &ended, &case.expected());
    }
}

#[test]
fn where_memory_is_short_groups_come_in_pieces_or_whole() {
    for case in cases() {
        let expected = case.expected();
        for memory_test in [MemoryTest::RefuseOnce, MemoryTest::SpillAlways] {
            let taker = Taker::new(&nothing);
            let runtime = runtime(RuntimeOptions { memory_test, ..few() });
            let (rest, report) = case.run(&runtime, &taker, None).unwrap();
            let mut found = taker.groups.into_inner().unwrap();
            assert!(found.is_empty() || rest.row_count == 0, "{memory_test:?}");
            found.extend(sorted(&rest));
            sort(&mut found);
            assert_groups(&found, &expected);
            assert_eq!(report.pipelines.last().unwrap().rows_out, expected.len() as u64, "{memory_test:?}");
        }
    }
}

#[test]
fn no_more_pieces_come_than_are_enough() {
    for case in cases() {
        let expected = case.expected();
        for enough in [1, PIECE, PIECE + 1, 3 * PIECE, expected.len() as u64 + 1] {
            let taker = Taker::new(&nothing);
            let (rest, _) = case.run(&runtime(few()), &taker, Some(enough)).unwrap();
            let mut found = taker.groups.into_inner().unwrap();
            assert!(found.is_empty() || rest.row_count == 0);
            found.extend(sorted(&rest));
            sort(&mut found);
            let wanted = enough.min(expected.len() as u64);
            assert!((wanted..wanted + PIECE).contains(&(found.len() as u64)), "{} of {enough}", found.len());
            let mut all = expected.iter();
            assert!(found.iter().all(|group| all.any(|one| one == group)), "each is one of all, once");
        }
    }
}

#[test]
fn groups_of_three_devices_come_in_pieces_too() {
    if !has_three_devices() {
        return;
    }
    for case in cases() {
        let (taker, expected) = (Taker::new(&nothing), case.expected());
        let runtime = runtime(RuntimeOptions { more_devices: vec![1, 2], ..few() });
        let ended = case.run(&runtime, &taker, None).unwrap();
        assert!(taker.pieces() > 2);
        assert_all(&taker, &ended, &expected);
    }
}
