//! Copies: bandwidth by size, latency, both directions at once, several links at once (Maltenberger et al. 2022,
//! section 4; packet sizes as in Paul et al. 2021, section 5.2).

use pelton_device::{Buffer, DeviceId, Machine, NodeId, OnFull, Place, Span, Stream};
use pelton_error::Result;
use pelton_fabric::profile::{CopyRates, SetRate};
use pelton_fabric::{BandwidthAt, Vertex};

use super::MeasureOptions;
use super::timing::{best, per_second};
use crate::lane::{carrier, memory_at};

/// Smallest size, bytes; each next is four times as large.
const FIRST_SIZE: usize = 2 << 10;

/// Copies of one measurement at most: enough to fill the queue of a link, few enough to enqueue quickly.
const COPY_COUNT_MAX: usize = 256;

/// Copies between every pair of places with a device at one end.
pub(crate) fn measure_copies(machine: &Machine, options: &mut MeasureOptions<'_>) -> Result<Vec<CopyRates>> {
    let devices: Vec<Place> = machine.info().devices.iter().map(|device| Place::Device(device.id)).collect();
    let nodes = (0..machine.info().node_count).map(|node| Place::Host(NodeId(node)));
    let mut results = Vec::new();
    for node in nodes {
        for device in &devices {
            options.report(&format!("copies between {node} and {device}"));
            results.extend(measure_pair(machine, node, *device, options)?);
        }
    }
    for (index, one) in devices.iter().enumerate() {
        for other in &devices[index + 1..] {
            options.report(&format!("copies between {one} and {other}"));
            results.extend(measure_pair(machine, *one, *other, options)?);
        }
    }
    Ok(results)
}

/// All links to the host at once, in each direction; all peer links of device 0 to its neighbours.
pub(crate) fn measure_sets(machine: &Machine, options: &mut MeasureOptions<'_>) -> Result<Vec<SetRate>> {
    let devices: Vec<DeviceId> = machine.info().devices.iter().map(|device| device.id).collect();
    if devices.len() < 2 {
        return Ok(Vec::new());
    }
    options.report("several links at once");
    let to_all: Vec<(Place, Place)> = devices
        .iter()
        .map(|device| Ok((Place::Host(machine.device(*device)?.node), Place::Device(*device))))
        .collect::<Result<_>>()?;
    let from_all = to_all.iter().map(|(node, device)| (*device, *node)).collect();
    let pairs = devices.chunks_exact(2).flat_map(|pair| {
        let (one, other) = (Place::Device(pair[0]), Place::Device(pair[1]));
        [(one, other), (other, one)]
    });
    [to_all.clone(), from_all, pairs.collect()]
        .into_iter()
        .map(|set| measure_set(machine, &set, options))
        .collect()
}

struct Line {
    stream: Stream,
    source: Buffer,
    target: Buffer,
}

impl Line {
    fn new(machine: &Machine, from: Place, to: Place, bytes: usize) -> Result<Self> {
        let take = |place| machine.allocate(memory_at(place), bytes, OnFull::Refuse);
        Ok(Self { stream: machine.stream(carrier(from, to))?, source: take(from)?, target: take(to)? })
    }

    fn pieces(&self, piece_bytes: usize) -> Vec<(Span, Span)> {
        let count = (self.source.len() / piece_bytes).clamp(1, COPY_COUNT_MAX);
        let piece = |index: usize| {
            let range = index * piece_bytes..(index + 1) * piece_bytes;
            (self.source.slice(range.clone()), self.target.slice(range))
        };
        (0..count).map(piece).collect()
    }
}

fn measure_pair(
    machine: &Machine,
    one: Place,
    other: Place,
    options: &MeasureOptions<'_>,
) -> Result<[CopyRates; 2]> {
    let there = Line::new(machine, one, other, options.bytes)?;
    let back = Line::new(machine, other, one, options.bytes)?;
    let both = best(machine, options.repetitions, || {
        for line in [&there, &back] {
            line.stream.copy(&line.source.span(), &line.target.span())?;
        }
        there.stream.wait_blocking()?;
        back.stream.wait_blocking()
    })?;
    let duplex_bytes_per_s = per_second(2.0 * options.bytes as f64, both);
    let is_direct = match (one, other) {
        (Place::Device(one), Place::Device(other)) => {
            machine.is_peer(one, other) && machine.is_peer(other, one)
        }
        _ => true,
    };
    let rates = |line: &Line, from: Place, to: Place| -> Result<CopyRates> {
        Ok(CopyRates {
            from: from.into(),
            to: to.into(),
            latency_s: latency(machine, line, options)?,
            by_size: by_size(machine, line, options)?,
            duplex_bytes_per_s,
            is_direct,
        })
    };
    Ok([rates(&there, one, other)?, rates(&back, other, one)?])
}

fn latency(machine: &Machine, line: &Line, options: &MeasureOptions<'_>) -> Result<f64> {
    let (source, target) = (line.source.slice(0..1), line.target.slice(0..1));
    let time = best(machine, options.repetitions.max(10), || {
        line.stream.copy(&source, &target)?;
        line.stream.wait_blocking()
    })?;
    Ok(time.as_secs_f64())
}

fn by_size(machine: &Machine, line: &Line, options: &MeasureOptions<'_>) -> Result<Vec<BandwidthAt>> {
    let sizes = std::iter::successors(Some(FIRST_SIZE), |size| Some(size * 4));
    let mut rates = Vec::new();
    for size in sizes.take_while(|size| *size < options.bytes).chain([options.bytes]) {
        let pieces = line.pieces(size);
        let time = best(machine, options.repetitions, || {
            for (source, target) in &pieces {
                line.stream.copy(source, target)?;
            }
            line.stream.wait_blocking()
        })?;
        rates.push(BandwidthAt {
            bytes: size as u64,
            bytes_per_s: per_second((pieces.len() * size) as f64, time),
        });
    }
    Ok(rates)
}

fn measure_set(machine: &Machine, set: &[(Place, Place)], options: &MeasureOptions<'_>) -> Result<SetRate> {
    let lines: Vec<Line> =
        set.iter().map(|(from, to)| Line::new(machine, *from, *to, options.bytes)).collect::<Result<_>>()?;
    let time = best(machine, options.repetitions, || {
        for line in &lines {
            line.stream.copy(&line.source.span(), &line.target.span())?;
        }
        lines.iter().try_for_each(|line| line.stream.wait_blocking())
    })?;
    let copies = set.iter().map(|(from, to)| (Vertex::from(*from), Vertex::from(*to))).collect();
    Ok(SetRate { copies, bytes_per_s: per_second((lines.len() * options.bytes) as f64, time) })
}
