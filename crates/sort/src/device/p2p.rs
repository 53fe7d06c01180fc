//! P2P sort: chunks sorted on 2^k devices, then merged in place over the links between them, half by half.
//!
//! ```text
//!   merge(chunks):   merge(left half) and merge(right half), at the same time
//!                    p = pivot of the halves;  q, r = p div n, p mod n
//!                    q whole chunks change places, r keys of the next pair of chunks do, and are merged locally
//!                    merge(left half) and merge(right half), unless p = 0
//!
//!   pair of r keys   device a   ├── kept ──┼─ r ─┤         device b   ├─ r ─┼── kept ──┤
//!                               copied locally    ╲         ╱          copied locally
//!                    other      ├── kept ──┼─ r ─┤ ◄──links──►        ├─ r ─┼── kept ──┤     then merged back
//! ```
//!
//! g - 1 stages. Of N keys, uniform ones move (g - 1)/2 N in all, sorted ones none, reversed ones (g - 1) N if whole
//! chunks change places mirrored, as in the source paper, and 2 N for 4 and 3 N for 8 devices if they do in order, which
//! for 8 devices and uniform keys moves 3 N instead of 3.5 N as well.
//!
//! If chunks do not divide the keys evenly, the last ones are short: it is as if keys past all others followed, and
//! those never move, so none are needed. For two devices the sort is stable; for more it is not, since keys that come
//! to a half join the chunk of those that left.
//!
//! Follows Maltenberger et al. 2022, sections 5.1 and 5.2.

use std::sync::{Mutex, PoisonError};

use pelton_error::Result;

use super::local::{Held, sort_arriving};
use super::pivot::pivot;
use super::rig::{Clock, Gpu, Outcome, Phase, Rig, Streams};
use crate::options::{Pairing, SortOptions};
use crate::report::Stage;
use crate::rows::{Rows, Traffic};

/// A chunk and the device that has it.
struct Chunk<'a> {
    gpu: &'a Gpu,
    streams: &'a Streams,
    held: Held,
}

impl Chunk<'_> {
    fn count(&self) -> usize {
        self.held.rows.count()
    }
}

/// What all stages share.
struct Merge<'a> {
    rig: &'a Rig,
    traffic: &'a Traffic,
    pairing: Pairing,
    /// Rows of a full chunk.
    chunk_rows: usize,
    stages: Mutex<Vec<Stage>>,
}

/// Sorts `source` into `target` on devices that hold all rows.
pub(crate) fn p2p(
    rig: &Rig,
    source: &Rows,
    target: &Rows,
    traffic: &Traffic,
    options: &SortOptions,
) -> Result<Outcome> {
    assert!(rig.gpus.len().is_power_of_two(), "halves of halves");
    let all_streams = rig.streams()?;
    let chunk_rows = source.count().div_ceil(rig.gpus.len());
    let part = |index: usize| {
        let start = |index: usize| (chunk_rows * index).min(source.count());
        start(index)..start(index + 1)
    };
    let mut clock = Clock::start(&rig.machine, &all_streams)?;
    let mut chunks = Vec::with_capacity(rig.gpus.len());
    for (index, (gpu, streams)) in rig.gpus.iter().zip(&all_streams).enumerate() {
        let held = sort_arriving(rig, gpu, streams, &source.slice(part(index)), traffic, options)?;
        clock.end(Phase::HtoD, index, &streams.into)?;
        clock.end(Phase::Sort, index, &streams.compute)?;
        chunks.push(Chunk { gpu, streams, held });
    }
    chunks.iter().try_for_each(|chunk| chunk.streams.compute.wait_blocking())?;
    let merge = Merge { rig, traffic, pairing: options.pairing, chunk_rows, stages: Mutex::default() };
    merge.merge(&mut chunks)?;
    clock.host_end(Phase::Merge);
    for (index, chunk) in chunks.iter().enumerate() {
        traffic.copy(&chunk.streams.out, &chunk.held.rows, &target.slice(part(index)))?;
        clock.end(Phase::DtoH, index, &chunk.streams.out)?;
    }
    all_streams.iter().try_for_each(Streams::wait_blocking)?;
    let (time, phases) = clock.stop()?;
    let stages = merge.stages.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_staged = stages.iter().any(|stage| {
        let reaches = |one, other| rig.machine.is_peer(one, other);
        stage.devices.iter().any(|one| stage.devices.iter().any(|other| !reaches(*one, *other)))
    });
    Ok(Outcome { time, phases, stages, run_count: 1, is_staged, ..Outcome::default() })
}

impl Merge<'_> {
    fn merge(&self, chunks: &mut [Chunk<'_>]) -> Result<()> {
        if chunks.len() < 2 {
            return Ok(());
        }
        self.halves(chunks)?;
        self.rig.cancel.check()?;
        let moved = self.pivot(chunks)?;
        let stage = Stage {
            devices: chunks.iter().map(|chunk| chunk.gpu.id).collect(),
            keys_moved: 2 * moved as u64,
        };
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
        if moved == 0 {
            return Ok(());
        }
        self.exchange(chunks, moved)?;
        self.halves(chunks)
    }

    fn halves(&self, chunks: &mut [Chunk<'_>]) -> Result<()> {
        if chunks.len() < 4 {
            return Ok(());
        }
        let (left, right) = chunks.split_at_mut(chunks.len() / 2);
        let (of_left, of_right) = self.rig.machine.at_once(|| self.merge(left), || self.merge(right));
        of_left.and(of_right)
    }

    fn pivot(&self, chunks: &[Chunk<'_>]) -> Result<usize> {
        let (left, right) = chunks.split_at(chunks.len() / 2);
        let count = |half: &[Chunk<'_>]| half.iter().map(Chunk::count).sum::<usize>();
        pivot(count(left), count(right), |of_left, of_right| {
            let chunk =
                |half: &[Chunk<'_>], row: usize| (row / self.chunk_rows, row % self.chunk_rows, half.len());
            let ((one, one_row, _), (other, other_row, _)) = (chunk(left, of_left), chunk(right, of_right));
            let (one, other) = (&left[one], &right[other]);
            self.look(one, one_row)?;
            self.look(other, other_row)?;
            Ok(self.looked_at(one)? <= self.looked_at(other)?)
        })
    }

    /// Enqueues the copy of a key to where the host can look at it.
    fn look(&self, chunk: &Chunk<'_>, row: usize) -> Result<()> {
        let key = chunk.held.rows.slice(row..row + 1);
        chunk.streams.out.copy(key.keys(), &chunk.gpu.probes.slice(0..self.rig.spec.key_bytes()))
    }

    fn looked_at(&self, chunk: &Chunk<'_>) -> Result<u128> {
        chunk.streams.out.wait_blocking()?;
        let mut key = [0; 16];
        let bytes = self.rig.spec.key_bytes();
        chunk.gpu.probes.with_bytes(|probes| key[..bytes].copy_from_slice(&probes[..bytes]))?;
        Ok(self.rig.spec.order.word(u128::from_le_bytes(key)))
    }

    /// The last `moved` rows of the left half and the first as many of the right half change places.
    fn exchange(&self, chunks: &mut [Chunk<'_>], moved: usize) -> Result<()> {
        let half = chunks.len() / 2;
        let (whole, rest) = (moved / self.chunk_rows, moved % self.chunk_rows);
        // Of the left half, the chunk that changes places with one of the right half.
        let partner = |index: usize| match self.pairing {
            Pairing::Mirrored => half - 1 - index,
            Pairing::Ordered => half - whole + index,
        };
        let (left, right) = chunks.split_at_mut(half);
        for (index, chunk) in right[..whole].iter().enumerate() {
            self.swap_whole(&left[partner(index)], chunk)?;
        }
        if rest > 0 {
            self.swap_part(&left[half - 1 - whole], &right[whole], rest)?;
        }
        for chunk in left.iter().chain(right.iter()) {
            chunk.streams.peer.wait_blocking()?;
            chunk.streams.compute.wait_blocking()?;
        }
        for (index, chunk) in right[..whole].iter_mut().enumerate() {
            for chunk in [&mut left[partner(index)], chunk] {
                std::mem::swap(&mut chunk.held.rows, &mut chunk.held.other);
            }
        }
        Ok(())
    }

    fn swap_whole(&self, one: &Chunk<'_>, other: &Chunk<'_>) -> Result<()> {
        assert_eq!(one.count(), other.count(), "only full chunks move as a whole");
        self.traffic.copy(&one.streams.peer, &one.held.rows, &other.held.other)?;
        self.traffic.copy(&other.streams.peer, &other.held.rows, &one.held.other)
    }

    fn swap_part(&self, one: &Chunk<'_>, other: &Chunk<'_>, moved: usize) -> Result<()> {
        let kept = one.count() - moved;
        let (ours, theirs) = (&one.held, &other.held);
        let (one_end, other_end) = (one.count(), other.count());
        let copy =
            |chunk: &Chunk<'_>, from: Rows, to: Rows| self.traffic.copy(&chunk.streams.peer, &from, &to);
        copy(one, ours.rows.slice(kept..one_end), theirs.other.slice(0..moved))?;
        copy(other, theirs.rows.slice(0..moved), ours.other.slice(kept..one_end))?;
        let sent = [one.streams.peer.record()?, other.streams.peer.record()?];
        for (chunk, stays, cut) in [(one, 0..kept, kept), (other, moved..other_end, moved)] {
            let (compute, held) = (&chunk.streams.compute, &chunk.held);
            self.traffic.copy(compute, &held.rows.slice(stays.clone()), &held.other.slice(stays))?;
            sent.iter().try_for_each(|event| compute.wait_for(event))?;
            let runs = [&held.other.slice(0..cut), &held.other.slice(cut..chunk.count())];
            self.rig.merge(compute, runs, &held.rows)?;
        }
        Ok(())
    }
}
