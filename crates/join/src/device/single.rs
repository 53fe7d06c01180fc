//! One table, in memory of a device or where [`table`](super::table) puts it (Lutz et al. 2020, sections 3 and 5): rows
//! that are on the device are read there, those of the host are delivered in chunks, so that copies and kernels overlap.
//!
//! ```text
//!   build rows ─► chunk ─► insert ─► table │ probe rows ─► chunk ─► look up ─► count and sum, or pairs
//! ```
//!
//! Traffic: rows once over the link; where it lies, a sector of the table for each row of either side, at random, and
//! where the table is no array by key it is cleared before. No limit on the probe side.

use pelton_device::{MemoryKind, Stream};
use pelton_error::{Error, Result};
use pelton_kernels::{JOIN_ROWS_MAX, JoinTable, JoinTableKind, join_build, join_clear};
use pelton_transfer::{Column, Delivery, Method, TransferOptions};

use super::rig::{Chain, Emit, Rig, words};
use super::table::take_table;
use crate::options::{Algorithm, JoinOptions};
use crate::report::Report;
use crate::rows::{Rows, Target};

/// Chunks of a delivery in flight.
const DEPTH: usize = 3;

/// The table of a build side.
fn table_kind(options: &JoinOptions, build_count: usize) -> JoinTableKind {
    match options.key_range {
        Some(range) => JoinTableKind::Perfect {
            first_key: range.first_key,
            place_count: range.place_count,
            is_full: range.place_count == build_count as u64,
        },
        None => JoinTableKind::General { row_count: build_count as u64 },
    }
}

/// Bytes of device memory that it takes at least, for rows of either place.
pub(crate) fn single_bytes(options: &JoinOptions, build_count: usize, width_bytes: usize) -> u64 {
    JoinTable::bytes(table_kind(options, build_count), width_bytes) as u64 + 4096
}

/// Joins.
pub(crate) fn single(rig: &Rig<'_>, build: &Rows, probe: &Rows, target: &Target) -> Result<Report> {
    let width_bytes = build.width_bytes();
    if build.count() as u64 > JOIN_ROWS_MAX {
        return Err(Error::unsupported("a table of 2^32 rows; take hybrid or pro, or change the sides"));
    }
    let mut kind = table_kind(rig.options, build.count());
    // Room for chunks in flight, pairs and counts besides the table.
    let reserve = (rig.options.chunk_bytes as u64 * 2 * DEPTH as u64).min(rig.left() / 4) + 4096;
    let mut memory = take_table(rig, JoinTable::bytes(kind, width_bytes), reserve)?;
    let staging_rows = (rig.left() / 16) as usize / (2 * width_bytes);
    let mut emit = Emit::new(rig, target, width_bytes, staging_rows)?;
    let mut report = Report::of(Algorithm::Gpu);
    let back = rig.take_pinned(16)?;
    let started = rig.machine.now();
    let table = loop {
        let table = JoinTable::new(kind, width_bytes, &memory.span);
        let mut chain = Chain::default();
        for work in join_clear(rig.library, &table) {
            chain.run(&rig.stream, work)?;
        }
        stream_rows(rig, build, |stream, rows, first_row| {
            let (keys, values) = (rows.keys().clone(), rows.values().clone());
            chain.run(stream, join_build(rig.library, &table, keys, values, first_row as u64))
        })?;
        report.table_count += 1;
        if let JoinTableKind::General { .. } = kind {
            break table;
        }
        rig.stream.copy(table.state(), &back.span())?;
        rig.stream.wait_blocking()?;
        if back.with_bytes(words)? == [0, 0] {
            report.is_perfect = true;
            break table;
        }
        // Keys are not what they were said to be.
        kind = JoinTableKind::General { row_count: build.count() as u64 };
        drop(table);
        memory = take_table(rig, JoinTable::bytes(kind, width_bytes), reserve)?;
    };
    (report.table_bytes, report.table_device_bytes) = (memory.span.len() as u64, memory.device_bytes);
    report.build_time = rig.machine.now() - started;
    let mut chain = Chain::default();
    stream_rows(rig, probe, |stream, rows, _| emit.probe(rig, &mut chain, stream, &table, rows))?;
    [report.match_count, report.value_sum] = emit.finish(rig)?;
    report.time = rig.machine.now() - started;
    Ok(report)
}

/// Calls `each` with rows on the device, what stream they are for, and the number of the first. Waits for all that was
/// enqueued.
fn stream_rows(
    rig: &Rig<'_>,
    rows: &Rows,
    mut each: impl FnMut(&Stream, &Rows, usize) -> Result<()>,
) -> Result<()> {
    if rows.count() == 0 {
        return rig.stream.wait_blocking();
    }
    if rows.is_on(rig.options.device) {
        each(&rig.stream, rows, 0)?;
        return rig.stream.wait_blocking();
    }
    let method = rig.options.method.unwrap_or(match rows.keys().kind() {
        MemoryKind::Pageable(_) => Method::PageableCopy,
        _ => Method::PinnedCopy,
    });
    let row_bytes = 2 * rows.width_bytes();
    let chunk_bytes = rig.options.chunk_bytes.min(rig.left() as usize / (2 * DEPTH)).max(row_bytes);
    let options = TransferOptions {
        chunk_bytes,
        depth: DEPTH,
        cancel: rig.options.cancel.clone(),
        ..TransferOptions::default()
    };
    let column = |span: &pelton_device::Span| Column { span: span.clone(), row_bytes: rows.width_bytes() };
    let columns = vec![column(rows.keys()), column(rows.values())];
    // What a table was cleared by is of another stream.
    rig.stream.wait_blocking()?;
    let mut delivery = Delivery::open(rig.machine, rig.options.device, method, columns, options)?;
    // One chunk ahead: its copy is under way while matches of the one before are waited for.
    let mut next = delivery.next_chunk()?;
    while let Some(chunk) = next {
        next = delivery.next_chunk()?;
        let arrived = Rows::new(chunk.spans[0].clone(), chunk.spans[1].clone(), rows.width_bytes())?;
        each(delivery.stream(&chunk), &arrived, chunk.rows.start)?;
    }
    delivery.wait_blocking()
}
