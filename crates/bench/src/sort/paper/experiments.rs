//! E5 to E10, E13 and E14: what fits into the memory of the devices.

use pelton_device::{DeviceId, Place};
use pelton_error::Result;
use pelton_kernels::KeyType;
use pelton_sort::Algorithm::{Gpu, Het2n, P2p};
use pelton_sort::generate::Distribution;

use super::bed::{Bed, Case, copies};
use super::quotes::paradis;
use crate::figure::Figure;
use crate::report::{Quoted, Row};

/// Keys of the paper's breakdowns, millions.
pub(super) const BREAKDOWN: u64 = 2000;
/// The figure's upper end.
pub(super) const FOUR_BILLION: u64 = 4000;

/// The distributions of Figure 16.
pub(super) const DISTRIBUTIONS: [Distribution; 5] = [
    Distribution::Uniform,
    Distribution::Normal,
    Distribution::Sorted,
    Distribution::Reverse,
    Distribution::NearlySorted,
];

const AC922: &str = "ac922";
const DELTA: &str = "delta";
const DGX: &str = "dgx-a100";

/// The numbers of devices over which the paper sorts on a machine, one left out.
pub(super) fn counts(machine: &str) -> &'static [usize] {
    if machine == DGX { &[2, 4, 8] } else { &[2, 4] }
}

/// All rows of these experiments.
pub(super) fn rows(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for experiment in [primitives, copies_on_devices, overview, ac922, delta, dgx, distributions, types] {
        rows.extend(experiment(bed)?);
    }
    Ok(rows)
}

/// E5: primitives on one A100.
fn primitives(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("Table 2", DGX);
    let sort = bed.times(&Case::new(DGX, Gpu, 1, 1000))?.sort;
    figure.push_input(
        "E5: LSB radix sort, a billion keys",
        "ms",
        1e3 * sort,
        Quoted::stated(36.0),
        "sets the share of memory's rate that kernels reach",
    );
    for (what, paper) in [("E5: MSB radix sort (Stehle)", 57.0), ("E5: merge sort (MGPU)", 200.0)] {
        figure.push_missing(
            what,
            "ms",
            Some(Quoted::stated(paper)),
            "this primitive; there is one radix sort",
        );
    }
    Ok(figure.rows)
}

/// E6: copies within a device beside those between devices.
fn copies_on_devices(_: &mut Bed<'_>) -> Result<Vec<Row>> {
    let device = |id| Place::Device(DeviceId(id));
    let local = |machine: &'static str, peer: u32| -> Result<f64> {
        let [within, between] = [(device(0), device(0)), (device(0), device(peer))];
        Ok(copies(machine, &[within])? / copies(machine, &[between])?)
    };
    let what = "E6: copy within a device over copy between devices";
    let mut rows = Vec::new();
    for (machine, peer, paper, note) in [
        (AC922, 1, 5.0, "memory of the V100 is described by it"),
        (DGX, 1, 3.0, "memory of the A100: a share of the vendor's, chosen near it"),
        (DELTA, 3, 42.0, ""),
    ] {
        let mut figure = Figure::new("section 5.2", machine);
        if note.is_empty() {
            figure.push(what, "x", local(machine, peer)?, Some(Quoted::stated(paper)));
        } else {
            figure.push_input(what, "x", local(machine, peer)?, Quoted::stated(paper), note);
        }
        rows.append(&mut figure.rows);
    }
    let mut figure = Figure::new("section 5.1", AC922);
    figure.push_missing("E6: allocating 8 GB", "ms", Some(Quoted::stated(150.0)), "the time of allocations");
    rows.append(&mut figure.rows);
    Ok(rows)
}

/// E7: 16 GB on the DGX A100.
fn overview(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("1", DGX);
    let one = bed.seconds(&Case::new(DGX, Gpu, 1, FOUR_BILLION))?;
    figure.push("E7: one GPU, 16 GB", "ms", 1e3 * one, None);
    let mut most = 0.0_f64;
    for count in counts(DGX) {
        let p2p = bed.seconds(&Case::new(DGX, P2p, *count, FOUR_BILLION))?;
        let het = bed.seconds(&Case::new(DGX, Het2n, *count, FOUR_BILLION))?;
        figure.push(format!("E7: P2P over {count}, 16 GB"), "ms", 1e3 * p2p, None);
        figure.push(format!("E7: HET over {count}, 16 GB"), "ms", 1e3 * het, None);
        most = most.max(het / p2p);
    }
    figure.push("E7: HET over P2P, at most", "x", most, Some(Quoted::stated(1.65)));
    Ok(figure.rows)
}

/// What E8, E9 and E10 have in common: two billion keys over all sets, and their phases.
fn breakdown(bed: &mut Bed<'_>, figure: &mut Figure) -> Result<()> {
    let machine = figure.machine;
    let one = Case::new(machine, Gpu, 1, BREAKDOWN);
    let of_counts =
        |algorithm| counts(machine).iter().map(move |count| Case::new(machine, algorithm, *count, BREAKDOWN));
    for case in std::iter::once(one).chain(of_counts(P2p)).chain(of_counts(Het2n)) {
        let times = bed.times(&case)?;
        let what = format!("{} over {}", case.algorithm.name(), case.devices.len());
        let paper = match (machine, case.algorithm, case.devices.len()) {
            (AC922, P2p, 2) | (DGX, P2p, 8) => Some(Quoted::stated(240.0)),
            _ => None,
        };
        figure.push(format!("{what}: time"), "ms", 1e3 * times.total, paper);
        let phases =
            [("HtoD", times.htod), ("sort", times.sort), ("merge", times.merge), ("DtoH", times.dtoh)];
        for (phase, seconds) in phases {
            figure.push(format!("{what}: {phase}"), "ms", 1e3 * seconds, None);
        }
    }
    Ok(())
}

/// How much faster than one device: each of `papers` is a number of devices and the paper's figure.
fn speedups(
    bed: &mut Bed<'_>,
    figure: &mut Figure,
    algorithm: pelton_sort::Algorithm,
    papers: &[(usize, f64)],
) -> Result<()> {
    let machine = figure.machine;
    let one = bed.seconds(&Case::new(machine, Gpu, 1, BREAKDOWN))?;
    for (count, paper) in papers {
        let time = bed.seconds(&Case::new(machine, algorithm, *count, BREAKDOWN))?;
        let what = format!("{} over {count}: speed-up over one GPU", algorithm.name());
        figure.push(what, "x", one / time, Some(Quoted::stated(*paper)));
    }
    Ok(())
}

/// Of the paper's PARADIS over the fastest P2P and HET.
fn over_paradis(bed: &mut Bed<'_>, figure: &mut Figure, p2p_paper: f64, het_paper: f64) -> Result<()> {
    let machine = figure.machine;
    let cpu = paradis(machine);
    for (algorithm, paper) in [(P2p, p2p_paper), (Het2n, het_paper)] {
        let mut best = f64::INFINITY;
        for count in counts(machine) {
            best = best.min(bed.seconds(&Case::new(machine, algorithm, *count, cpu.million_keys))?);
        }
        let what = format!("PARADIS over {}", algorithm.name());
        let paper = Quoted::stated(paper);
        if algorithm == P2p {
            figure.push_input(what, "x", cpu.seconds / best, paper, "its time is the paper's, from this");
        } else {
            figure.push(what, "x", cpu.seconds / best, Some(paper));
        }
    }
    Ok(())
}

const MERGE_IS_INPUT: &str = "the CPU's share of memory's rate was chosen by it";

/// E8: the AC922.
fn ac922(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("12", AC922);
    breakdown(bed, &mut figure)?;
    speedups(bed, &mut figure, P2p, &[(2, 1.5)])?;
    let mut times = |algorithm, count| bed.times(&Case::new(AC922, algorithm, count, BREAKDOWN));
    let [one, two, four] = [times(Gpu, 1)?, times(P2p, 2)?, times(P2p, 4)?];
    let [het_two, het_four] = [times(Het2n, 2)?, times(Het2n, 4)?];
    let stated = |value| Some(Quoted::stated(value));
    let third = Some(Quoted::stated(1.0 / 3.0).derived());
    for (phase, seconds) in [("HtoD", one.htod), ("sort", one.sort), ("DtoH", one.dtoh)] {
        figure.push(format!("gpu over 1: share of {phase}"), "of time", seconds / one.total, third);
    }
    figure.push("p2p over 4: time over that of 2", "x", four.total / two.total, stated(1.9));
    figure.push("p2p over 2: share of merge", "of time", two.merge / two.total, stated(0.2));
    figure.push("p2p over 4: merge over that of 2", "x", four.merge / two.merge, stated(3.6));
    figure.push("p2p over 4: time over het-2n's", "x", four.total / het_four.total, stated(1.0));
    figure.push_input(
        "het-2n over 2: share of merge",
        "of time",
        het_two.merge / het_two.total,
        Quoted::stated(0.46),
        MERGE_IS_INPUT,
    );
    figure.push_input(
        "het-2n over 2: merge over p2p's",
        "x",
        het_two.merge / two.merge,
        Quoted::stated(3.6),
        MERGE_IS_INPUT,
    );
    let missing = "merges whose time follows the number of runs";
    figure.push_missing("het-2n over 4: merge over that of 2", "x", stated(1.08), missing);
    let mut four_billion = |algorithm| bed.seconds(&Case::new(AC922, algorithm, 2, FOUR_BILLION));
    let ratio = four_billion(Het2n)? / four_billion(P2p)?;
    // "P2P sort outperforms HET sort by 32 % for 4B integers", which the conclusion calls 1.5 times.
    let paper = Some(Quoted::between(1.0 / 0.68, 1.5).derived());
    figure.push("het-2n over 2: time over p2p's, 4 billion keys", "x", ratio, paper);
    over_paradis(bed, &mut figure, 14.0, 9.0)?;
    Ok(figure.rows)
}

/// E9: the DELTA.
fn delta(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("13", DELTA);
    breakdown(bed, &mut figure)?;
    speedups(bed, &mut figure, P2p, &[(2, 1.86), (4, 2.1)])?;
    speedups(bed, &mut figure, Het2n, &[(2, 1.52), (4, 2.1)])?;
    let mut times = |machine, algorithm, count| bed.times(&Case::new(machine, algorithm, count, BREAKDOWN));
    let [two, four, het] = [times(DELTA, P2p, 2)?, times(DELTA, P2p, 4)?, times(DELTA, Het2n, 2)?];
    let ac922 = times(AC922, P2p, 2)?;
    let stated = |value| Some(Quoted::stated(value));
    let transfers = (two.htod + two.dtoh) / two.total;
    figure.push("p2p over 2: share of transfers", "of time", transfers, stated(0.84));
    figure.push("p2p over 4: share of merge", "of time", four.merge / four.total, stated(0.45));
    figure.push("p2p over 2: time over the AC922's", "x", two.total / ac922.total, stated(3.0));
    figure.push_input(
        "het-2n over 2: merge over p2p's",
        "x",
        het.merge / two.merge,
        Quoted::stated(3.8),
        MERGE_IS_INPUT,
    );
    over_paradis(bed, &mut figure, 9.0, 9.0)?;
    Ok(figure.rows)
}

/// E10: the DGX A100.
fn dgx(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("14", DGX);
    breakdown(bed, &mut figure)?;
    speedups(bed, &mut figure, P2p, &[(2, 1.9), (4, 2.9), (8, 3.0)])?;
    speedups(bed, &mut figure, Het2n, &[(2, 1.3), (4, 1.84), (8, 1.95)])?;
    for (count, paper) in [(2, 0.04), (4, 0.13), (8, 0.23)] {
        let times = bed.times(&Case::new(DGX, P2p, count, BREAKDOWN))?;
        let what = format!("p2p over {count}: share of merge");
        figure.push(what, "of time", times.merge / times.total, Some(Quoted::stated(paper)));
    }
    let mut times = |machine, algorithm, count| bed.times(&Case::new(machine, algorithm, count, BREAKDOWN));
    let [eight, het] = [times(DGX, P2p, 8)?, times(DGX, Het2n, 8)?];
    let [a100, v100] = [times(DGX, Gpu, 1)?, times(AC922, Gpu, 1)?];
    figure.push_input(
        "het-2n over 8: merge over p2p's",
        "x",
        het.merge / eight.merge,
        Quoted::stated(3.3),
        MERGE_IS_INPUT,
    );
    // "Almost half the time".
    let half = Some(Quoted::between(0.5, 0.55).derived());
    figure.push("gpu over 1: sort over the V100's", "x", a100.sort / v100.sort, half);
    over_paradis(bed, &mut figure, 7.8, 5.0)?;
    Ok(figure.rows)
}

/// E13: how time follows the distribution.
fn distributions(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (machine, count) in [(AC922, 2), (AC922, 4), (DGX, 2)] {
        let mut figure = Figure::new("16", machine);
        let case = Case::new(machine, P2p, count, BREAKDOWN);
        let uniform = bed.seconds(&case)?;
        for distribution in DISTRIBUTIONS {
            let time = bed.seconds(&case.clone().of(distribution))?;
            let what = format!("E13: p2p over {count}, {}: time over uniform", distribution.name());
            let is_in_order = matches!(distribution, Distribution::Sorted | Distribution::NearlySorted);
            let paper = match (machine, count) {
                _ if distribution == Distribution::Uniform => None,
                (AC922, _) if distribution == Distribution::Normal => Some(Quoted::stated(1.0)),
                // "Goes down by 9-20 %", and with four GPUs speed-ups of 1.4 to 1.6.
                (AC922, 2) if is_in_order => Some(Quoted::between(0.8, 0.91).derived()),
                (AC922, 4) if is_in_order => Some(Quoted::between(1.0 / 1.6, 1.0 / 1.4).derived()),
                _ => None,
            };
            figure.push(what, "x", time / uniform, paper);
        }
        rows.append(&mut figure.rows);
    }
    let mut figure = Figure::new("16", AC922);
    let missing = "merges whose time follows the keys";
    let what = "E13: het-2n over 2, any distribution: time over uniform";
    figure.push_missing(what, "x", Some(Quoted::stated(1.0)), missing);
    rows.append(&mut figure.rows);
    Ok(rows)
}

/// The key types of E14, each with the millions of keys that are 16 GB.
pub(super) const TYPES: [(KeyType, u64, &str); 4] = [
    (KeyType::I32, 4000, "i32"),
    (KeyType::F32, 4000, "f32"),
    (KeyType::I64, 2000, "i64"),
    (KeyType::F64, 2000, "f64"),
];

/// E14: keys of 4 and of 8 bytes. The text says 8 GB, and four billion keys of 4 bytes; the numbers of keys are taken.
fn types(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (machine, paper) in [(AC922, Quoted::between(0.83, 0.88)), (DGX, Quoted::between(0.95, 1.0))] {
        let mut figure = Figure::new("section 6.3", machine);
        let mut time = |of: usize| {
            let (key, million_keys, _) = TYPES[of];
            bed.seconds(&Case::new(machine, P2p, 2, million_keys).keys_of(key))
        };
        for (narrow, wide) in [(0, 2), (1, 3)] {
            let what = format!("E14: p2p over 2, {} over {}, as many bytes", TYPES[narrow].2, TYPES[wide].2);
            figure.push(what, "x", time(narrow)? / time(wide)?, Some(paper));
        }
        rows.append(&mut figure.rows);
    }
    Ok(rows)
}
