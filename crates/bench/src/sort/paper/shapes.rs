//! What the paper finds, held against what was simulated: D12 to D16 of the derivation, and the shape of each figure.
//!
//! | id | holds if |
//! | --- | --- |
//! | D12 | P2P over g devices moves (g - 1)/2 of uniform keys within 2 %, and none that are sorted |
//! | D13 | time is linear in the number of keys, held in proportion: R^2 above 0.98 |
//! | D14 | without eager merging no sort takes more than 1.05 of its time with |
//! | D15 | two and three buffers differ by 10 % at most, unless devices sort for more than a quarter of the time |
//! | D16 | P2P is faster than HET where its exchanges are predicted to be faster than the CPU's merge, and only there |
//!
//! Predictions are closed forms of rates of the machine; the time of PARADIS is the paper's own.

use pelton_error::Result;
use pelton_sort::Algorithm::{Gpu, Het2n, P2p};
use pelton_sort::Eager;
use pelton_sort::generate::Distribution;

use super::MACHINES;
use super::bed::{Bed, Case, cpu_merge_seconds, exchange_seconds};
use super::experiments::{BREAKDOWN, DISTRIBUTIONS, FOUR_BILLION, TYPES, counts};
use super::large::{LARGE, SIZES, VARIANTS, case as large_case, sort_share};
use super::quotes::paradis;
use crate::report::{Shape, Verdict};

/// Sizes that lines are drawn through, millions of keys.
pub(super) const LINE: [u64; 4] = [500, 1000, 2000, 4000];
/// What is said to be equal is within this share.
const EQUAL: f64 = 0.2;
/// Times nearer to each other than this share are no order.
const TIE: f64 = 0.05;

/// Bytes of the keys of the breakdowns.
const BYTES: f64 = BREAKDOWN as f64 * 4e6;

/// All of them.
pub(super) fn evaluate(bed: &mut Bed<'_>) -> Result<Vec<Shape>> {
    let mut shapes = Vec::new();
    for machine in MACHINES {
        shapes.push(volumes(bed, machine)?);
        shapes.push(lines(bed, machine)?);
    }
    for (machine, count, most) in LARGE {
        shapes.push(eager_does_not_pay(bed, machine, count, most)?);
        shapes.push(buffers_are_alike(bed, machine, count, most)?);
    }
    for machine in MACHINES {
        shapes.push(links_decide(bed, machine)?);
        shapes.push(useful_devices(bed, machine)?);
    }
    for one in [order_of_all, four_without_links_ac922, four_without_links_delta, p2p_wins_on_switch] {
        shapes.push(one(bed)?);
    }
    for (machine, count, most) in LARGE {
        shapes.push(constant_factor(bed, machine, count, most)?);
    }
    for one in [half_is_merge, time_tracks_exchange, time_follows_bytes] {
        shapes.push(one(bed)?);
    }
    shapes.push(het_is_flat());
    Ok(shapes)
}

fn shape(id: &str, machine: &str, holds: bool, detail: String) -> Shape {
    Shape { id: id.to_owned(), machine: machine.to_owned(), holds: Verdict::of(holds), detail }
}

fn volumes(bed: &mut Bed<'_>, machine: &'static str) -> Result<Shape> {
    let mut holds = true;
    let mut details = Vec::new();
    for count in counts(machine) {
        let case = Case::new(machine, P2p, *count, BREAKDOWN);
        let uniform = bed.times(&case)?.moved;
        let sorted = bed.times(&case.of(Distribution::Sorted))?.moved;
        let derived = (*count as f64 - 1.0) / 2.0;
        holds &= (uniform / derived - 1.0).abs() <= 0.02 && sorted == 0.0;
        details
            .push(format!("{count} devices {uniform:.3} of all keys (derived {derived}), sorted {sorted}"));
    }
    Ok(shape("D12: keys that P2P moves", machine, holds, details.join("; ")))
}

fn lines(bed: &mut Bed<'_>, machine: &'static str) -> Result<Shape> {
    let mut worst = (1.0, String::new());
    let of = |algorithm| counts(machine).iter().map(move |count| (algorithm, *count));
    for (algorithm, count) in std::iter::once((Gpu, 1)).chain(of(P2p)).chain(of(Het2n)) {
        let points = LINE
            .into_iter()
            .map(|keys| {
                let case = Case::new(machine, algorithm, count, keys).part_of(FOUR_BILLION);
                Ok((keys as f64, bed.seconds(&case)?))
            })
            .collect::<Result<Vec<_>>>()?;
        let found = determination(&points);
        if found <= worst.0 {
            worst = (found, format!("R^2 {found:.4} at least, of {} over {count}", algorithm.name()));
        }
    }
    Ok(shape("D13: time is linear in keys", machine, worst.0 > 0.98, worst.1))
}

/// R^2 of the line of least squares.
fn determination(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    sum(&|dx, dy| dx * dy).powi(2) / (sum(&|dx, _| dx * dx) * sum(&|_, dy| dy * dy))
}

fn sizes(most: u64) -> impl Iterator<Item = u64> {
    SIZES.into_iter().filter(move |keys| *keys < most).chain([most])
}

fn eager_does_not_pay(bed: &mut Bed<'_>, machine: &'static str, count: usize, most: u64) -> Result<Shape> {
    let mut worst = 0.0_f64;
    for keys in sizes(most) {
        for (algorithm, ..) in VARIANTS.into_iter().take(2) {
            let mut of = |eager| bed.seconds(&large_case(machine, count, keys, algorithm, eager));
            worst = worst.max(of(Eager::Off)? / of(Eager::On)?);
        }
    }
    let detail = format!("without over with {worst:.2} at most, over sizes and buffers");
    Ok(shape("D14: eager merging does not pay", machine, worst <= 1.05, detail))
}

fn buffers_are_alike(bed: &mut Bed<'_>, machine: &'static str, count: usize, most: u64) -> Result<Shape> {
    let mut holds = true;
    let mut details = Vec::new();
    for keys in sizes(most) {
        let mut of =
            |variant: usize| bed.seconds(&large_case(machine, count, keys, VARIANTS[variant].0, Eager::Off));
        let ratio = of(1)? / of(0)?;
        let share = sort_share(bed, machine, count, keys)?;
        holds &= (ratio - 1.0).abs() <= 0.1 || share > 0.25;
        details.push(format!("{} billion {ratio:.2} (sorts {:.0} %)", keys / 1000, 100.0 * share));
    }
    let detail = format!("3n over 2n: {}", details.join(", "));
    Ok(shape("D15: two and three buffers are alike", machine, holds, detail))
}

/// What is predicted of P2P's exchanges and of the CPU's merge, and whether P2P was faster.
struct Rivals {
    count: usize,
    exchange: f64,
    merge: f64,
    p2p: f64,
    het: f64,
}

fn rivals(bed: &mut Bed<'_>, machine: &'static str) -> Result<Vec<Rivals>> {
    counts(machine)
        .iter()
        .map(|count| {
            Ok(Rivals {
                count: *count,
                exchange: exchange_seconds(machine, *count, BYTES)?,
                merge: cpu_merge_seconds(machine, BYTES)?,
                p2p: bed.seconds(&Case::new(machine, P2p, *count, BREAKDOWN))?,
                het: bed.seconds(&Case::new(machine, Het2n, *count, BREAKDOWN))?,
            })
        })
        .collect()
}

fn links_decide(bed: &mut Bed<'_>, machine: &'static str) -> Result<Shape> {
    let mut holds = true;
    let mut details = Vec::new();
    for Rivals { count, exchange, merge, p2p, het } in rivals(bed, machine)? {
        let is_tie = (p2p / het - 1.0).abs() < TIE;
        holds &= is_tie || (p2p < het) == (exchange < merge);
        details.push(format!(
            "{count} devices: exchange {:.0} ms, merge {:.0} predicted; P2P {:.0}, HET {:.0} in all{}",
            1e3 * exchange,
            1e3 * merge,
            1e3 * p2p,
            1e3 * het,
            if is_tie { ", a tie" } else { "" },
        ));
    }
    Ok(shape("D16: P2P beats HET where links are faster than the merge", machine, holds, details.join("; ")))
}

/// The number of devices after which P2P's time falls no more.
fn useful_devices(bed: &mut Bed<'_>, machine: &'static str) -> Result<Shape> {
    let mut times = vec![(1, bed.seconds(&Case::new(machine, Gpu, 1, BREAKDOWN))?)];
    for count in counts(machine) {
        times.push((*count, bed.seconds(&Case::new(machine, P2p, *count, BREAKDOWN))?));
    }
    let useful = times.windows(2).take_while(|pair| pair[1].1 < (1.0 - TIE) * pair[0].1).count();
    let expected = match machine {
        "ac922" => 2,
        _ => 4,
    };
    let detail: Vec<String> =
        times.iter().map(|(count, time)| format!("{count} {:.0} ms", 1e3 * time)).collect();
    let detail = format!("{} (paper {expected}): {}", times[useful].0, detail.join(", "));
    Ok(shape(
        "crossover: devices after which P2P gains no more",
        machine,
        times[useful].0 == expected,
        detail,
    ))
}

fn order_of_all(bed: &mut Bed<'_>) -> Result<Shape> {
    let machine = "dgx-a100";
    let mut of = |algorithm, count| bed.seconds(&Case::new(machine, algorithm, count, FOUR_BILLION));
    let (one, het, p2p) = (of(Gpu, 1)?, of(Het2n, 8)?, of(P2p, 8)?);
    let cpu = paradis(machine);
    let cpu = cpu.seconds * FOUR_BILLION as f64 / cpu.million_keys as f64;
    let detail =
        format!("PARADIS {cpu:.2} s (paper's), one GPU {one:.2}, HET {het:.2}, P2P {p2p:.2}, both over 8");
    let holds = cpu > one && one > het && het > p2p;
    Ok(shape("E7: CPU, one GPU, HET, P2P, each faster", machine, holds, detail))
}

/// Where some of four devices have no link, P2P gains nothing on HET.
fn four_without_links(bed: &mut Bed<'_>, machine: &'static str) -> Result<(f64, f64, f64)> {
    let mut of = |algorithm, count| bed.seconds(&Case::new(machine, algorithm, count, BREAKDOWN));
    Ok((of(P2p, 2)?, of(P2p, 4)?, of(Het2n, 4)?))
}

fn four_without_links_ac922(bed: &mut Bed<'_>) -> Result<Shape> {
    let (two, four, het) = four_without_links(bed, "ac922")?;
    let detail = format!("P2P two {:.0} ms, four {:.0}; HET four {:.0}", 1e3 * two, 1e3 * four, 1e3 * het);
    let holds = four > two && (four / het - 1.0).abs() <= EQUAL;
    Ok(shape("E8: four without direct links do not beat two, nor HET", "ac922", holds, detail))
}

fn four_without_links_delta(bed: &mut Bed<'_>) -> Result<Shape> {
    let (_, four, het) = four_without_links(bed, "delta")?;
    let detail = format!("four: P2P {:.0} ms, HET {:.0}", 1e3 * four, 1e3 * het);
    Ok(shape(
        "E9: P2P and HET alike where links are missing",
        "delta",
        (four / het - 1.0).abs() <= EQUAL,
        detail,
    ))
}

fn p2p_wins_on_switch(bed: &mut Bed<'_>) -> Result<Shape> {
    let machine = "dgx-a100";
    let all = rivals(bed, machine)?;
    let detail: Vec<String> =
        all.iter().map(|one| format!("{} devices {:.2}", one.count, one.het / one.p2p)).collect();
    let holds = all.iter().all(|one| one.p2p < one.het);
    Ok(shape(
        "E10: P2P faster than HET for any number",
        machine,
        holds,
        format!("HET over P2P: {}", detail.join(", ")),
    ))
}

/// Time per key does not grow with size once chunks do not fit at once, so there is no size where a linear CPU sort
/// comes first.
fn constant_factor(bed: &mut Bed<'_>, machine: &'static str, count: usize, most: u64) -> Result<Shape> {
    let mut rates = Vec::new();
    for keys in sizes(most) {
        let time = bed.seconds(&large_case(machine, count, keys, Het2n, Eager::Off))?;
        rates.push(keys as f64 / 1e3 / time);
    }
    let (least, largest) =
        rates.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    let detail = format!("{least:.2} to {largest:.2} Gkeys/s over sizes");
    Ok(shape("E12: HET sorts large data at one rate", machine, largest / least <= 1.0 + EQUAL, detail))
}

fn half_is_merge(bed: &mut Bed<'_>) -> Result<Shape> {
    let (machine, count, most) = LARGE[0];
    let times = bed.times(&large_case(machine, count, most, Het2n, Eager::Off))?;
    let share = times.merge / times.total;
    let detail = format!("{:.0} % of {:.1} s", 100.0 * share, times.total);
    Ok(shape("E11: half of the time is the CPU's merge", machine, (share - 0.5).abs() <= 0.1, detail))
}

fn time_tracks_exchange(bed: &mut Bed<'_>) -> Result<Shape> {
    let machine = "ac922";
    let mut holds = true;
    let mut details = Vec::new();
    for count in [2, 4] {
        let case = Case::new(machine, P2p, count, BREAKDOWN);
        let mut points = Vec::new();
        for distribution in DISTRIBUTIONS {
            let times = bed.times(&case.clone().of(distribution))?;
            points.push((times.moved, times.total));
            details.push(format!(
                "{count}, {} {:.2}: {:.0} ms",
                distribution.name(),
                times.moved,
                1e3 * times.total
            ));
        }
        for (moved, time) in &points {
            holds &= points.iter().all(|(other, of_other)| moved + 0.02 >= *other || time < of_other);
        }
    }
    Ok(shape("E13: time follows the keys that are moved", machine, holds, details.join("; ")))
}

/// Whether HET takes as long for any distribution: what would be seen is how its merge is charged.
fn het_is_flat() -> Shape {
    Shape {
        id: "E13: HET takes as long for any distribution".to_owned(),
        machine: "ac922".to_owned(),
        holds: Verdict::NotApplicable,
        detail: "the simulator charges a sort of a device and a merge of the CPU by bytes, whatever the keys"
            .to_owned(),
    }
}

fn time_follows_bytes(bed: &mut Bed<'_>) -> Result<Shape> {
    let mut holds = true;
    let mut details = Vec::new();
    for machine in ["ac922", "dgx-a100"] {
        let mut of = |index: usize| {
            let (key, keys, _): (_, u64, _) = TYPES[index];
            bed.seconds(&Case::new(machine, P2p, 2, keys).keys_of(key))
        };
        let ratio = of(0)? / of(2)?;
        holds &= (0.75..=1.05).contains(&ratio);
        details.push(format!("{machine} {ratio:.2}"));
    }
    let detail = format!("4 bytes over 8 bytes, twice the keys: {}", details.join(", "));
    Ok(shape("E14: time follows bytes, not keys", "ac922, dgx-a100", holds, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_points_of_a_line_are_determined_by_one() {
        assert!((determination(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]) - 1.0).abs() < 1e-12);
        assert!(determination(&[(1.0, 1.0), (2.0, 4.0), (4.0, 16.0), (8.0, 64.0)]) < 0.98);
    }
}
