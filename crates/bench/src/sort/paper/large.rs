//! E11 and E12: more keys than the devices hold, by chunks that the CPU merges.

use pelton_error::Result;
use pelton_sort::Algorithm::{self, Gpu, Het2n, Het3n};
use pelton_sort::Eager;

use super::bed::{Bed, Case};
use super::quotes::paradis_large;
use crate::figure::Figure;
use crate::report::{Quoted, Row};

/// Memory of a device for keys, gigabytes.
const DEVICE_GIGA: u32 = 33;

/// Numbers of keys of Figure 15, millions.
pub(super) const SIZES: [u64; 4] = [15_000, 30_000, 45_000, 60_000];

/// Where large data are sorted: machine, devices, most keys in millions.
pub(super) const LARGE: [(&str, usize, u64); 3] =
    [("dgx-a100", 8, 60_000), ("ac922", 2, 32_000), ("delta", 4, 60_000)];

/// The variants of HET.
pub(super) const VARIANTS: [(Algorithm, Eager, &str); 4] = [
    (Het2n, Eager::Off, "2n"),
    (Het3n, Eager::Off, "3n"),
    (Het2n, Eager::On, "2n, eager"),
    (Het3n, Eager::On, "3n, eager"),
];

/// A sort of large data.
pub(super) fn case(
    machine: &'static str,
    count: usize,
    million_keys: u64,
    algorithm: Algorithm,
    eager: Eager,
) -> Case {
    Case::new(machine, algorithm, count, million_keys).within(DEVICE_GIGA, eager)
}

/// The time that devices spend on sorting, as a share of all, with two buffers and without eager merging: chunks one
/// after another, at the rate of one device's sort.
pub(super) fn sort_share(bed: &mut Bed<'_>, machine: &'static str, count: usize, keys: u64) -> Result<f64> {
    let one = bed.times(&Case::new(machine, Gpu, 1, 1000))?.sort;
    let total = bed.seconds(&case(machine, count, keys, Het2n, Eager::Off))?;
    Ok(one * keys as f64 / 1000.0 / count as f64 / total)
}

/// All rows of these experiments.
pub(super) fn rows(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (machine, count, most) in LARGE {
        let mut figure = Figure::new("15a", machine);
        for keys in SIZES.into_iter().filter(|keys| *keys < most).chain([most]) {
            for (algorithm, eager, name) in VARIANTS {
                let time = bed.seconds(&case(machine, count, keys, algorithm, eager))?;
                let paper = match (machine, name, keys == most) {
                    ("ac922", "2n" | "3n", true) => Some(Quoted::stated(13.0)),
                    ("dgx-a100", "2n" | "3n", true) => Some(Quoted::stated(10.0)),
                    _ => None,
                };
                figure.push(format!("{name}: {} billion keys", keys / 1000), "s", time, paper);
            }
        }
        rows.append(&mut figure.rows);
        rows.extend(details(bed, machine, count, most)?);
        rows.extend(over_paradis(bed, machine, count, most)?);
    }
    Ok(rows)
}

fn details(bed: &mut Bed<'_>, machine: &'static str, count: usize, keys: u64) -> Result<Vec<Row>> {
    let mut figure = Figure::new("15a", machine);
    let mut of = |variant: usize| {
        let (algorithm, eager, _) = VARIANTS[variant];
        bed.times(&case(machine, count, keys, algorithm, eager))
    };
    let [two, three, two_eager, three_eager] = [of(0)?, of(1)?, of(2)?, of(3)?];
    let (merge, before, longer) = match machine {
        "dgx-a100" => (Some(5.0), Some(5.0), Some(1.48)),
        "ac922" => (Some(10.0), Some(3.0), Some(1.70)),
        _ => (None, None, None),
    };
    let stated = |value: Option<f64>| value.map(Quoted::stated);
    figure.push("2n: merge at the end", "s", two.merge, stated(merge));
    figure.push("2n: all before", "s", two.total - two.merge, stated(before));
    figure.push("3n over 2n", "x", three.total / two.total, Some(Quoted::stated(1.0)));
    let eager = Some(Quoted::between(1.5, 1.75));
    figure.push("2n: eager merging over none", "x", two_eager.total / two.total, eager);
    figure.push("3n: eager merging over none", "x", three_eager.total / three.total, eager);
    figure.push("2n: merging at the end, eager over none", "x", two_eager.merge / two.merge, stated(longer));
    let share = sort_share(bed, machine, count, keys)?;
    let paper = (machine == "dgx-a100").then_some(Quoted::stated(0.03));
    figure.push("2n: share of the devices' sorts", "of time", share, paper);
    Ok(figure.rows)
}

/// E12: the CPU alone takes as many times as long, and how much at other sizes than the paper's if it is linear.
fn over_paradis(bed: &mut Bed<'_>, machine: &'static str, count: usize, most: u64) -> Result<Vec<Row>> {
    let mut figure = Figure::new("15b", machine);
    let Some(cpu) = paradis_large(machine) else {
        let paper = Some(Quoted::between(2.3, 2.5));
        figure.push_missing("PARADIS over 2n", "x", paper, "a time of PARADIS on large data in the text");
        return Ok(figure.rows);
    };
    let time = bed.seconds(&case(machine, count, most, Het2n, Eager::Off))?;
    let paper = if machine == "ac922" { Quoted::between(2.3, 2.5) } else { Quoted::stated(2.6) };
    let note = "PARADIS's time is the paper's, from this and HET's";
    let what = format!("PARADIS over 2n: {} billion keys", most / 1000);
    figure.push_input(what, "x", cpu.seconds / time, paper, note);
    Ok(figure.rows)
}
