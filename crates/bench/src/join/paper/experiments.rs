//! The experiments of the paper, one after another.

use pelton_device::{DeviceId, MemoryKind, NodeId};
use pelton_error::Result;
use pelton_transfer::Method;

use super::bed::{Bed, Case, Table};
use super::{NVLINK, PAIR, PCIE};
use crate::figure::Figure;
use crate::report::{Quoted, Row};

/// Workload A: 2^27 and 2^31 rows of 8 and 8 bytes, in millions.
pub(super) const A: (u64, u64) = (134, 2147);
/// Workload C: as many rows of 4 and 4 bytes, in millions.
pub(super) const C: u64 = 1024;

/// The CPU's radix join of rows of 8 and 8 bytes, G tuples/s: "0.77 ... 1.9x faster than the CPU" (section 7.2.6).
pub(super) const CPU_RADIX: f64 = 0.77 / 1.9;

/// Sizes of E7, millions of rows of each side. The last has a table of twice the device's memory, 16 bytes a row.
pub(super) const BUILDS: [u64; 10] = [128, 512, 896, 1024, 1216, 1408, 1600, 1792, 1920, 2048];
/// What a table may take of the device in E7, megabytes: half of 16 GB, since tables have 8 bytes a row here.
const TABLE_MEGA: u64 = 8_200;

/// Sizes of the probe side in E6, millions of rows; the build side has the first.
pub(super) const PROBES: [u64; 7] = [128, 256, 512, 1024, 2048, 4096, 8192];

/// Pages of a table at which some can be elsewhere than others.
pub(super) const PAGES_MIN: usize = 4;
/// What is missing with fewer.
pub(super) const FEW_PAGES: &str = "held rows for a table of some pages; hold 2^18";

const GTUPLES: &str = "G tuples/s";

/// All rows.
pub(super) fn rows(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for experiment in
        [methods, sides_far, tables_far, probe_sizes, build_sizes, ratios, several_devices, not_simulated]
    {
        rows.extend(experiment(bed)?);
    }
    Ok(rows)
}

fn stated(value: f64) -> Option<Quoted> {
    Some(Quoted::stated(value))
}

/// Workload A by one transfer method.
pub(super) fn by_method(machine: &'static str, method: Method) -> Case {
    let sides = match method {
        Method::PageableCopy | Method::StagedCopy | Method::Coherence => MemoryKind::PAGEABLE,
        _ => MemoryKind::PINNED,
    };
    Case { sides, method: Some(method), ..Case::new(machine, A.0, A.1) }
}

/// The methods that the simulator has figures for.
pub(super) const METHODS: [Method; 5] =
    [Method::ZeroCopy, Method::PinnedCopy, Method::StagedCopy, Method::PageableCopy, Method::Coherence];

/// E2: workload A by every transfer method.
fn methods(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for machine in [PCIE, NVLINK] {
        let mut figure = Figure::new("12", machine);
        let zero_copy = bed.rate(&by_method(machine, Method::ZeroCopy))?;
        for method in METHODS {
            let what = format!("E2: A by {}", method.name());
            if machine == PCIE && method == Method::Coherence {
                let missing = "access to pageable memory, which PCIe devices have not";
                figure.push_missing(&what, GTUPLES, None, missing);
                continue;
            }
            let rate = bed.rate(&by_method(machine, method))?;
            figure.push(what.as_str(), GTUPLES, rate, None);
            let paper = match (machine, method) {
                (PCIE, Method::StagedCopy) => Some(Quoted::between(0.95, 1.0).derived()),
                (NVLINK, Method::PinnedCopy) => stated(0.89),
                _ => None,
            };
            if paper.is_some() {
                figure.push(format!("{what}: over zero-copy"), "x", rate / zero_copy, paper);
            }
        }
        let what = format!("E2: A by {}", Method::DynamicPinning.name());
        figure.push_missing(&what, GTUPLES, None, "chunks of many pages: the few that are held are a chunk");
        for method in [Method::UnifiedPrefetch, Method::UnifiedMigration] {
            let what = format!("E2: A by {}: over zero-copy", method.name());
            let paper = match (machine, method) {
                (PCIE, Method::UnifiedPrefetch) => stated(0.7),
                (PCIE, _) => stated(0.32),
                _ => None,
            };
            let missing = "managed memory beyond the device's, which is not lent: it can hang a driver";
            figure.push_missing(&what, "x", paper, missing);
        }
        rows.append(&mut figure.rows);
    }
    let ratio =
        bed.rate(&by_method(NVLINK, Method::Coherence))? / bed.rate(&by_method(PCIE, Method::ZeroCopy))?;
    let mut figure = Figure::new("12", NVLINK);
    figure.push_input("E2: A, NVLink over PCIe", "x", ratio, Quoted::stated(5.0), "the links' rates");
    rows.append(&mut figure.rows);
    Ok(rows)
}

/// Workloads A and C of E3, shrunk to 13 and 10 GiB, with sides so many hops away.
pub(super) fn sides_at(is_a: bool, hops: u32) -> Case {
    let case = match is_a {
        true => Case::new(NVLINK, A.0, 738),
        false => Case { width_bytes: 4, ..Case::new(NVLINK, 671, 671) },
    };
    match hops {
        0 => Case { sides: MemoryKind::Device(DeviceId(0)), method: None, ..case },
        1 => case,
        _ => Case { sides: MemoryKind::Pageable(NodeId(1)), ..case },
    }
}

/// E3: how far away both sides lie.
fn sides_far(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("13", NVLINK);
    for (is_a, name) in [(true, "A"), (false, "C")] {
        for hops in 0..3 {
            let rate = bed.rate(&sides_at(is_a, hops))?;
            figure.push(format!("E3: {name}, sides {hops} hops away"), GTUPLES, rate, None);
        }
        let mut rate = |hops| bed.rate(&sides_at(is_a, hops));
        let falls = 1.0 - rate(2)? / rate(1)?;
        // "Decreases by 32-46 % as we increase the number of hops"; the greater one is from the first to the second.
        let paper = is_a.then_some(Quoted::stated(0.46));
        figure.push(format!("E3: {name}, less by the second hop"), "of rate", falls, paper);
    }
    let missing = "a link between devices; over the host's they are no peers";
    figure.push_missing("E3: A, sides 3 hops away", GTUPLES, None, missing);
    figure.push_missing("E3: B, device over one hop", "x", stated(5.8), "caches");
    Ok(figure.rows)
}

/// Workloads A and C of E4, with a table so many hops away.
pub(super) fn table_at(is_a: bool, hops: u32) -> Case {
    let case = match is_a {
        true => Case::new(NVLINK, A.0, A.1),
        false => Case { width_bytes: 4, ..Case::new(NVLINK, C, C) },
    };
    match hops {
        0 => case,
        _ => case.with_table(Table::Host(hops - 1)),
    }
}

/// E4: how far away the table lies.
fn tables_far(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("14", NVLINK);
    for (is_a, name) in [(true, "A"), (false, "C")] {
        for hops in 0..3 {
            let rate = bed.rate(&table_at(is_a, hops))?;
            figure.push(format!("E4: {name}, table {hops} hops away"), GTUPLES, rate, None);
        }
        let mut rate = |hops| bed.rate(&table_at(is_a, hops));
        let (first, second) = (1.0 - rate(1)? / rate(0)?, 1.0 - rate(2)? / rate(1)?);
        let paper = Quoted::between(0.75, 0.82);
        let what = format!("E4: {name}, less by the first hop");
        if is_a {
            figure.push_input(what, "of rate", first, paper, "sets random accesses over NVLink");
        } else {
            figure.push(what, "of rate", first, Some(paper));
        }
        let what = format!("E4: {name}, less by the second hop");
        figure.push_input(what, "of rate", second, Quoted::stated(0.5), "sets random accesses over X-Bus");
    }
    Ok(figure.rows)
}

/// A probe side of so many millions of rows.
pub(super) fn probe_of(machine: &'static str, probe: u64) -> Case {
    Case::new(machine, PROBES[0], probe)
}

/// E6: how long the probe side is.
fn probe_sizes(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for machine in [NVLINK, PCIE] {
        let mut figure = Figure::new("16", machine);
        for probe in PROBES {
            let rate = bed.rate(&probe_of(machine, probe))?;
            figure.push(format!("E6: {probe} million probe rows"), GTUPLES, rate, None);
        }
        rows.append(&mut figure.rows);
    }
    let mut figure = Figure::new("16", NVLINK);
    for (probe, over_pcie, over_cpu) in [(PROBES[0], 3.0, 3.2), (PROBES[6], 6.0, 7.3)] {
        let rate = bed.rate(&probe_of(NVLINK, probe))?;
        let pcie = bed.rate(&probe_of(PCIE, probe))?;
        figure.push(format!("E6: {probe} million, NVLink over PCIe"), "x", rate / pcie, stated(over_pcie));
        let what = format!("E6: {probe} million, NVLink over the CPU's radix join");
        figure.push(what, "x", rate / CPU_RADIX, stated(over_cpu));
    }
    rows.append(&mut figure.rows);
    Ok(rows)
}

/// Sides of so many millions of rows each, under the limit of E7.
pub(super) fn build_of(machine: &'static str, build: u64, table: Table) -> Case {
    Case { device_mega: Some(TABLE_MEGA), ..Case::new(machine, build, build).with_table(table) }
}

/// Size of a table of so many millions of rows, as a share of what the device may hold.
pub(super) fn size_of_table(build: u64) -> f64 {
    build as f64 * 8.0 / TABLE_MEGA as f64
}

/// The rate with a table on the device where it fits, else in the host's memory.
pub(super) fn without_hybrid(bed: &mut Bed<'_>, machine: &'static str, build: u64) -> Result<f64> {
    // Chunks in flight need some room, too.
    let table = if size_of_table(build) < 0.95 { Table::Device } else { Table::Host(0) };
    bed.rate(&build_of(machine, build, table))
}

/// E7: how large the table is.
fn build_sizes(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut nvlink = Figure::new("17", NVLINK);
    let mut pcie = Figure::new("17", PCIE);
    for build in BUILDS {
        let what = format!("E7: table {:.2} of the device", size_of_table(build));
        nvlink.push(what.as_str(), GTUPLES, without_hybrid(bed, NVLINK, build)?, None);
        pcie.push(what.as_str(), GTUPLES, without_hybrid(bed, PCIE, build)?, None);
        let case = build_of(NVLINK, build, Table::Hybrid);
        let what = format!("{what}, hybrid");
        if bed.pages(&case) < PAGES_MIN {
            nvlink.push_missing(&what, GTUPLES, None, FEW_PAGES);
        } else {
            nvlink.push(what, GTUPLES, bed.rate(&case)?, None);
        }
    }
    let (inside, last) = (BUILDS[1], BUILDS[9]);
    let fast = without_hybrid(bed, NVLINK, inside)?;
    let slow = without_hybrid(bed, NVLINK, last)?;
    let (pcie_fast, pcie_slow) = (without_hybrid(bed, PCIE, inside)?, without_hybrid(bed, PCIE, last)?);
    pcie.push_input("E7: table in the device", GTUPLES, pcie_fast, Quoted::stated(0.77), "the link's rate");
    pcie.push("E7: table beyond the device", GTUPLES, pcie_slow, stated(0.02));
    pcie.push("E7: less beyond the device", "of rate", 1.0 - pcie_slow / pcie_fast, stated(0.97));
    let note = "sets how dear random writes are";
    nvlink.push_input("E7: NVLink over PCIe in the device", "x", fast / pcie_fast, Quoted::stated(3.0), note);
    nvlink.push_input("E7: less beyond the device", "of rate", 1.0 - slow / fast, Quoted::stated(0.85), note);
    let paper = Some(Quoted::between(8.0, 18.0));
    nvlink.push("E7: NVLink over PCIe beyond the device", "x", slow / pcie_slow, paper);
    let what = "E7: NVLink beyond the device over the CPU's radix join";
    nvlink.push_input(what, "x", slow / CPU_RADIX, Quoted::stated(0.87), note);
    for build in [BUILDS[4], last] {
        let case = build_of(NVLINK, build, Table::Hybrid);
        let what = format!("E7: table {:.2}, hybrid over the host's", size_of_table(build));
        let paper = Some(Quoted::between(1.0, 2.2));
        if bed.pages(&case) < PAGES_MIN {
            nvlink.push_missing(&what, "x", paper, FEW_PAGES);
        } else {
            nvlink.push(what, "x", bed.rate(&case)? / without_hybrid(bed, NVLINK, build)?, paper);
        }
    }
    nvlink.rows.append(&mut pcie.rows);
    Ok(nvlink.rows)
}

/// E8: so many probe rows for each build row.
pub(super) fn ratio_of(ratio: u64) -> Case {
    Case::new(NVLINK, 128, 128 * ratio)
}

/// E8: the ratio of both sides.
fn ratios(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("18", NVLINK);
    for ratio in [1, 2, 4, 8, 16] {
        let times = bed.times(&ratio_of(ratio))?;
        figure.push(format!("E8: 1:{ratio}"), GTUPLES, times.rate, None);
        let what = format!("E8: 1:{ratio}, share of the build");
        match ratio {
            1 => {
                let note = "sets random writes to device memory";
                figure.push_input(what, "of time", times.build_share, Quoted::stated(0.71), note);
            }
            _ => figure.push(what, "of time", times.build_share, None),
        }
    }
    Ok(figure.rows)
}

/// What the paper proposes (its section 6.3) and does not measure: a table over two devices with a link between.
fn several_devices(bed: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("section 6.3", PAIR);
    let case = Case::new(PAIR, C, C);
    let has_pages = bed.pages(&case.with_table(Table::Interleaved)) >= PAGES_MIN;
    for (table, name) in [
        (Table::Device, "on the device"),
        (Table::Interleaved, "interleaved over two"),
        (Table::Peer, "on the other device"),
        (Table::Host(0), "in host memory"),
    ] {
        let what = format!("{C} million rows of 16 bytes each, table {name}");
        if table == Table::Interleaved && !has_pages {
            figure.push_missing(&what, GTUPLES, None, FEW_PAGES);
            continue;
        }
        figure.push(what, GTUPLES, bed.rate(&case.with_table(table))?, None);
    }
    Ok(figure.rows)
}

/// E9 to E11 and E5: what the simulator does not know.
fn not_simulated(_: &mut Bed<'_>) -> Result<Vec<Row>> {
    let mut figure = Figure::new("15, 19-21", NVLINK);
    let cpu = "a CPU that works on the same query, in `pelton-join`";
    for (what, unit, paper, missing) in [
        ("E5: TPC-H Q6, NVLink over PCIe", "x", 9.8, "a scan and aggregation in `pelton-join`"),
        ("E9: Zipf 1.75 over uniform, table in host memory", "x", 3.6, "caches"),
        ("E10: less when all rows match", "of rate", 0.4, "how many rows match"),
        ("E11: A, Het over the CPU", "x", 1.5, cpu),
        ("E11: A, GPU+Het over the CPU", "x", 5.6, cpu),
        ("E11: A, GPU over the CPU", "x", 7.3, cpu),
    ] {
        figure.push_missing(what, unit, stated(paper), missing);
    }
    Ok(figure.rows)
}
