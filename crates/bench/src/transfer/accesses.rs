//! Loads of a processor from a memory.

use std::time::Duration;

use pelton_device::{NodeId, Place};
use pelton_error::{ErrorKind, Result};
use pelton_transfer::measure::{AccessTimes, time_access};

use super::{Stage, summary};
use crate::report::{Outcome, Quoted, Row};

/// Figures of the rows.
pub(super) const SEQUENTIAL: &str = "3, in order";
pub(super) const RANDOM: &str = "3, at random";
pub(super) const LATENCY: &str = "3, dependent";
pub(super) const FACTORS: &str = "3, device memory over the link";

pub(super) fn measure(stage: &Stage<'_>) -> Result<Vec<Row>> {
    let machine = stage.machine;
    let own = Place::Device(stage.device);
    let peers = machine.info().devices.iter().map(|device| device.id);
    let peers = peers.filter(|peer| *peer != stage.device && machine.is_peer(stage.device, *peer));
    let nodes = || (0..machine.info().node_count).map(|node| Place::Host(NodeId(node)));
    let mut pairs: Vec<(Place, Place)> = nodes().map(|node| (node, node)).collect();
    pairs
        .extend([own].into_iter().chain(peers.map(Place::Device)).chain(nodes()).map(|memory| (own, memory)));
    let mut rows = Vec::new();
    for (processor, memory) in pairs {
        rows.extend(measure_pair(stage, processor, memory)?);
    }
    rows.extend(factors(stage, &rows, own));
    Ok(rows)
}

fn label(processor: Place, memory: Place) -> String {
    format!("{processor} from {memory}")
}

fn measure_pair(stage: &Stage<'_>, processor: Place, memory: Place) -> Result<[Row; 3]> {
    let (bytes, repetitions) = (stage.options.footprint(), stage.options.repetitions);
    let library = stage.options.library.as_ref();
    let what = label(processor, memory);
    let times = match time_access(stage.machine, library, processor, memory, bytes, repetitions) {
        Ok(times) => times,
        Err(error) if error.kind() == &ErrorKind::Unsupported => {
            let missing = || Outcome::Missing(error.to_string());
            return Ok([
                stage.row(SEQUENTIAL, what.clone(), "GB/s", missing()),
                stage.row(RANDOM, what.clone(), "G loads/s", missing()),
                stage.row(LATENCY, what, "ns", missing()),
            ]);
        }
        Err(error) => return Err(error),
    };
    let AccessTimes { sequential, random, random_count, dependent, dependent_count } = times;
    let rates = |amount: f64, times: &[Duration]| -> Vec<f64> {
        times.iter().map(|time| amount / time.as_secs_f64() / 1e9).collect()
    };
    let nanoseconds: Vec<f64> =
        dependent.iter().map(|time| time.as_secs_f64() * 1e9 / dependent_count as f64).collect();
    let latency = if stage.machine.info().is_simulated {
        Outcome::Missing("the simulator knows rates of loads, not their latency".into())
    } else {
        least(&nanoseconds)
    };
    Ok([
        stage.row(SEQUENTIAL, what.clone(), "GB/s", summary(&rates(bytes as f64, &sequential))),
        stage.row(RANDOM, what.clone(), "G loads/s", summary(&rates(random_count as f64, &random))),
        stage.row(LATENCY, what, "ns", latency),
    ])
}

/// As [`summary`], of figures where less is better.
fn least(values: &[f64]) -> Outcome {
    match summary(values) {
        Outcome::Done(mut measured) => {
            measured.best = values.iter().copied().fold(f64::INFINITY, f64::min);
            Outcome::Done(measured)
        }
        missing @ Outcome::Missing(_) => missing,
    }
}

/// Device memory over host memory, as loads of the device see them.
fn factors(stage: &Stage<'_>, rows: &[Row], own: Place) -> Vec<Row> {
    let of = |figure: &str, memory: Place| {
        let what = label(own, memory);
        let row = rows.iter().find(|row| row.figure == figure && row.what == what)?;
        match &row.ours {
            Outcome::Done(measured) => Some(*measured),
            Outcome::Missing(_) => None,
        }
    };
    let node = stage.machine.device(stage.device).map_or(NodeId(0), |device| device.node);
    let factor = |what: &str, over: Place, under: Place, figure: &str, paper: Quoted| {
        let (over, under) = (of(figure, over)?, of(figure, under)?);
        let mut ratio = over;
        ratio.mean = over.mean / under.mean;
        ratio.best = over.best / under.best;
        let relative = over.standard_error / over.mean + under.standard_error / under.mean;
        ratio.standard_error = ratio.mean * relative;
        Some(Row { paper: Some(paper), ..stage.row(FACTORS, what, "times", Outcome::Done(ratio)) })
    };
    let link = Place::Host(node);
    // "An order of magnitude higher bandwidth in GPU memory, but latency over NVLink 2.0 is only 54 % higher."
    [
        factor("bandwidth in order", own, link, SEQUENTIAL, Quoted::stated(10.0)),
        factor("bandwidth at random", own, link, RANDOM, Quoted::stated(10.0)),
        factor("latency, link over device memory", link, own, LATENCY, Quoted::stated(1.54)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
