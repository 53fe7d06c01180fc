//! E2: how fast storage is read, by requests in flight and their size.
//!
//! ```text
//!   io_uring     asynchronous: one thread keeps `depth` reads in flight
//!   positioned   synchronous: as many threads as reads, eight at most
//!   cuFile       storage ──► device memory, one blocking call a thread, as the paper's readers do
//! ```
//!
//! Reads pass the page cache by where the file system allows it, and are not held to the storage rate. Every way's
//! bytes are compared by their checksum with those of plain reads of the same file.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::plot::{LineChart, LineSeries, Scale};
use crate::{Outcome, Quoted, Row, Shape};
use pelton_datagen::Dataset;
use pelton_device::cuda::{self, CuFile, CudaOptions};
use pelton_device::{DeviceId, MemoryKind, NodeId, OnFull, Place};
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_io::{IoEngine, IoMode, IoOptions, OpenFile, ReadFuture};
use pelton_store::Warehouse;
use rustix::fs::OFlags;

use super::data::{Data, Form};
use super::options::PAPER_STORAGE_BYTES_PER_S;
use super::stage::{MB_PER_S, rate, row, shape, with};
use super::{Findings, Stage};

/// The most bytes of a file that are read.
const BYTES_MAX: u64 = 1 << 30;
/// O_DIRECT asks for multiples of a page.
const PAGE: u64 = 4096;

/// How reads are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ring,
    Positioned,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Ring => "io_uring",
            Way::Positioned => "positioned",
        }
    }
}

/// One setting and its times.
struct Point {
    way: Way,
    depth: u32,
    bytes: u64,
    seconds: Vec<f64>,
    total_bytes: f64,
    note: String,
}

impl Point {
    fn per_s(&self) -> f64 {
        self.total_bytes * self.seconds.len() as f64 / self.seconds.iter().sum::<f64>()
    }
}

/// E2.
pub(super) fn run(stage: &Stage<'_>) -> Result<Findings> {
    let data = Data::prepare(stage, Dataset::Ssb)?;
    let warehouse = data.warehouse(stage, Form::Plain, data.usual_rows())?;
    let table = Warehouse::open(&warehouse)?.table(data.fact)?;
    let file = table.segment_file(0);
    let total = file.bytes().min(BYTES_MAX) / PAGE * PAGE;
    let (depths, sizes) = grid(stage);
    let expected = plain_sum(file.path(), total)?;
    let mut findings = Findings::default();
    let mut points = Vec::new();
    for way in [Way::Ring, Way::Positioned] {
        for (depth, bytes) in depths.iter().flat_map(|depth| sizes.iter().map(move |bytes| (*depth, *bytes)))
        {
            points.push(measure(stage, file, (way, depth, bytes), total, expected)?);
        }
    }
    for point in &points {
        let what = format!("{}, {} x {} KiB", point.way.name(), point.depth, point.bytes >> 10);
        let ours = rate(point.total_bytes / MB_PER_S, &point.seconds);
        findings.rows.push(with(row(&stage.cpu, "4", what, "MB/s", ours), None, point.note.clone()));
    }
    findings.rows.push(cufile(stage, file.path(), total, expected)?);
    findings.shapes.push(depth_pays(stage, &points));
    findings.figures.push(("golap-4-reads".into(), chart(stage, &points)));
    Ok(findings)
}

/// Requests in flight, and their bytes.
fn grid(stage: &Stage<'_>) -> (&'static [u32], &'static [u64]) {
    match stage.options.is_quick {
        true => (&[1, 8], &[256 << 10]),
        false => (&[1, 2, 4, 8, 16, 32], &[64 << 10, 256 << 10, 1 << 20, 4 << 20]),
    }
}

fn measure(
    stage: &Stage<'_>,
    file: &Arc<OpenFile>,
    (way, depth, bytes): (Way, u32, u64),
    total: u64,
    expected: u64,
) -> Result<Point> {
    let options = IoOptions { mode: IoMode::Direct, depth, ring: way == Way::Ring, ..IoOptions::default() };
    let engine = IoEngine::start(options)?;
    if read_all(&engine, file, depth, bytes, total, true)? != expected {
        return Err(other_bytes(file.path()));
    }
    let mut seconds = Vec::new();
    for _ in 0..stage.options.repetitions {
        stage.cancel.check()?;
        let started = Instant::now();
        read_all(&engine, file, depth, bytes, total, false)?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    let expected_fallback = way == Way::Positioned && engine.counters().direct_bytes > 0;
    let note = if expected_fallback { String::new() } else { engine.fallback().unwrap_or_default() };
    Ok(Point { way, depth, bytes, seconds, total_bytes: total as f64, note })
}

/// Reads the first `total` bytes, `depth` requests in flight; their sum, if it is wanted.
fn read_all(
    engine: &IoEngine,
    file: &Arc<OpenFile>,
    depth: u32,
    bytes: u64,
    total: u64,
    has_sum: bool,
) -> Result<u64> {
    let mut in_flight = VecDeque::new();
    let mut sum = 0u64;
    for at in (0..total).step_by(bytes as usize) {
        if in_flight.len() == depth as usize {
            sum = sum.wrapping_add(finish(in_flight.pop_front(), has_sum)?);
        }
        in_flight.push_back(engine.read(file, at, bytes.min(total - at) as usize));
    }
    while !in_flight.is_empty() {
        sum = sum.wrapping_add(finish(in_flight.pop_front(), has_sum)?);
    }
    Ok(sum)
}

fn finish(read: Option<ReadFuture>, has_sum: bool) -> Result<u64> {
    let Some(read) = read else { return Ok(0) };
    let bytes = read.wait_blocking()?;
    Ok(if has_sum { sum_of(&bytes) } else { 0 })
}

/// Of 64-bit words, wrapping: equal however the bytes are cut at multiples of a page.
fn sum_of(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        u64::from_le_bytes(eight)
    });
    words.fold(0, u64::wrapping_add)
}

fn plain_sum(path: &Path, total: u64) -> Result<u64> {
    let reading = || format!("reading '{}'", path.display());
    let file = File::open(path).context(reading)?;
    let mut buffer = vec![0; 1 << 20];
    let mut sum = 0u64;
    for at in (0..total).step_by(buffer.len()) {
        let len = buffer.len().min((total - at) as usize);
        file.read_exact_at(&mut buffer[..len], at).context(reading)?;
        sum = sum.wrapping_add(sum_of(&buffer[..len]));
    }
    Ok(sum)
}

fn other_bytes(path: &Path) -> Error {
    Error::new(ErrorKind::Corrupt, format!("two ways of reading '{}' gave other bytes", path.display()))
}

/// Storage to device memory, as the paper reads; without it, what is missing.
fn cufile(stage: &Stage<'_>, path: &Path, total: u64, expected: u64) -> Result<Row> {
    let what = "cuFile, 8 x 1 MiB";
    let paper = Some(Quoted::stated(PAPER_STORAGE_BYTES_PER_S / MB_PER_S).derived());
    let machine = if stage.has_gpu() { &stage.machine } else { &stage.cpu };
    let ours = match CuFile::open(false) {
        Err(error) => Outcome::Missing(error.to_string()),
        Ok(library) => match by_cufile(stage, &library, path, total, expected) {
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported) => {
                Outcome::Missing(error.to_string())
            }
            other => other?,
        },
    };
    Ok(with(row(machine, "4", what, "MB/s", ours), paper, ""))
}

/// More requests in flight give at least this times the rate of one, or they are not crucial.
const CONCURRENCY_GAIN: f64 = 1.1;

/// Threads that read with cuFile.
const CUFILE_THREADS: u64 = 8;
/// Bytes of their reads.
const CUFILE_BYTES: u64 = 1 << 20;

fn by_cufile(stage: &Stage<'_>, library: &CuFile, path: &Path, total: u64, expected: u64) -> Result<Outcome> {
    let open = File::options().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path);
    let handle = library.register(open.context(|| format!("opening '{}'", path.display()))?)?;
    let machine = cuda::open(&CudaOptions::default())?;
    let target = machine.allocate(MemoryKind::Device(DeviceId(0)), total as usize, OnFull::Refuse)?;
    let read = || -> Result<()> {
        let next = AtomicU64::new(0);
        let worker = || -> Result<()> {
            loop {
                let at = next.fetch_add(CUFILE_BYTES, Ordering::Relaxed);
                if at >= total {
                    return Ok(());
                }
                let end = (at + CUFILE_BYTES).min(total);
                handle.read_blocking(at, &target.slice(at as usize..end as usize))?;
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..CUFILE_THREADS).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a reader does not panic"))
        })
    };
    read()?;
    let pinned = machine.allocate(MemoryKind::Pinned(NodeId(0)), total as usize, OnFull::Refuse)?;
    let stream = machine.stream(Place::Device(DeviceId(0)))?;
    stream.copy(&target.span(), &pinned.span())?;
    stream.wait_blocking()?;
    if pinned.with_bytes(sum_of)? != expected {
        return Err(other_bytes(path));
    }
    let mut seconds = Vec::new();
    for _ in 0..stage.options.repetitions {
        let started = Instant::now();
        read()?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    Ok(rate(total as f64 / MB_PER_S, &seconds))
}

/// "Concurrent requests are crucial to exhaust I/O capabilities." Fails where storage gives one request at a time as much
/// as many; a quick run reads too little to tell.
fn depth_pays(stage: &Stage<'_>, points: &[Point]) -> Shape {
    let best = |of: &dyn Fn(&Point) -> bool| {
        points.iter().filter(|point| of(point)).map(Point::per_s).fold(0.0, f64::max) / MB_PER_S
    };
    let (one, many) = (best(&|point| point.depth == 1), best(&|point| point.depth > 1));
    let (ring, positioned) =
        (best(&|point| point.way == Way::Ring), best(&|point| point.way == Way::Positioned));
    let detail = format!(
        "{one:.2} MB/s alone, {many:.2} with more; at best {positioned:.2} synchronous, {ring:.2} asynchronous"
    );
    let found = match stage.options.is_quick {
        true => Err(format!("a quick run reads too little; {detail}")),
        false => Ok((many >= CONCURRENCY_GAIN * one, detail)),
    };
    shape(&stage.cpu, "E2: requests in flight fill the storage", found)
}

fn chart(stage: &Stage<'_>, points: &[Point]) -> String {
    let mut lines: Vec<(Way, u64)> = Vec::new();
    for point in points {
        if !lines.contains(&(point.way, point.bytes)) {
            lines.push((point.way, point.bytes));
        }
    }
    let series = lines.into_iter().map(|(way, bytes)| LineSeries {
        name: format!("{}, {} KiB", way.name(), bytes >> 10),
        is_reference: false,
        points: points
            .iter()
            .filter(|point| point.way == way && point.bytes == bytes)
            .map(|point| (f64::from(point.depth), point.per_s() / MB_PER_S))
            .collect(),
    });
    let chart = LineChart {
        title: format!("reads of storage, {} (measured), Figure 4", stage.cpu),
        x_label: "requests in flight".into(),
        y_label: "MB/s".into(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        series: series.collect(),
    };
    chart.to_svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_does_not_depend_on_where_bytes_are_cut() {
        let bytes: Vec<u8> = (0..8192u32).map(|index| (index * 7 % 251) as u8).collect();
        let cut = sum_of(&bytes[..4096]).wrapping_add(sum_of(&bytes[4096..]));
        assert_eq!(sum_of(&bytes), cut);
        assert_ne!(sum_of(&bytes), sum_of(&bytes[..4096]));
    }
}
