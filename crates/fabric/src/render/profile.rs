//! What was measured of a machine, as plain-text tables.

use std::fmt::Write;

use crate::profile::{CopyRates, Profile};

/// Sizes of copies that are shown, where they were measured.
const SHOWN_BYTES: [(u64, &str); 4] =
    [(32 << 10, "32 KiB"), (512 << 10, "512 KiB"), (8 << 20, "8 MiB"), (128 << 20, "128 MiB")];

/// A profile as tables: host memory, copies, sets, loads, methods, storage; what was not measured is left out.
pub fn profile_table(profile: &Profile) -> String {
    let mut text = String::new();
    let kind = if profile.is_simulated { "SIMULATED" } else { "measured" };
    for host in &profile.host {
        let _ = writeln!(
            text,
            "node{} {kind}: read {:.1} GB/s, copy {:.1} GB/s read and written, {} threads",
            host.node,
            host.read_bytes_per_s / 1e9,
            host.copy_bytes_per_s / 1e9,
            host.thread_count
        );
    }
    copies(&mut text, profile, kind);
    sets(&mut text, profile, kind);
    accesses(&mut text, profile, kind);
    methods(&mut text, profile, kind);
    storage(&mut text, profile, kind);
    text
}

fn copies(text: &mut String, profile: &Profile, kind: &str) {
    if profile.copies.is_empty() {
        return;
    }
    let mut rows = vec![{
        let sizes = SHOWN_BYTES.iter().map(|(_, name)| (*name).to_string());
        let heads = ["copies".to_string(), "latency us".to_string()].into_iter().chain(sizes);
        heads.chain(["largest".to_string(), "both ways".to_string()]).collect::<Vec<String>>()
    }];
    for copies in &profile.copies {
        let staged = if copies.is_direct { "" } else { " (staged)" };
        let mut row = vec![
            format!("{} to {}{staged}", copies.from, copies.to),
            format!("{:.1}", copies.latency_s * 1e6),
        ];
        row.extend(SHOWN_BYTES.iter().map(|(bytes, _)| at(copies, *bytes)));
        row.push(format!("{:.1}", copies.peak_bytes_per_s() / 1e9));
        row.push(format!("{:.1}", copies.duplex_bytes_per_s / 1e9));
        rows.push(row);
    }
    let _ = writeln!(text, "\nCopies, {kind}, GB/s");
    aligned(text, &rows);
}

fn at(copies: &CopyRates, bytes: u64) -> String {
    let point = copies.by_size.iter().find(|point| point.bytes == bytes);
    point.map_or_else(|| "-".into(), |point| format!("{:.1}", point.bytes_per_s / 1e9))
}

fn sets(text: &mut String, profile: &Profile, kind: &str) {
    if profile.sets.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nAt once, {kind}, GB/s in all");
    let rows: Vec<Vec<String>> = profile
        .sets
        .iter()
        .map(|set| {
            let copies: Vec<String> = set.copies.iter().map(|(from, to)| format!("{from} to {to}")).collect();
            vec![copies.join(", "), format!("{:.1}", set.bytes_per_s / 1e9)]
        })
        .collect();
    aligned(text, &rows);
}

fn accesses(text: &mut String, profile: &Profile, kind: &str) {
    if profile.accesses.is_empty() {
        return;
    }
    let heads = ["loads", "in order GB/s", "at random G/s", "dependent ns"];
    let mut rows = vec![heads.map(str::to_string).to_vec()];
    rows.extend(profile.accesses.iter().map(|access| {
        vec![
            format!("{} from {}", access.processor, access.memory),
            format!("{:.1}", access.sequential_bytes_per_s / 1e9),
            format!("{:.3}", access.random_4_byte_per_s / 1e9),
            access.latency_s.map_or_else(|| "-".into(), |latency| format!("{:.0}", latency * 1e9)),
        ]
    }));
    let _ = writeln!(text, "\nLoads of 4 bytes, {kind}");
    aligned(text, &rows);
}

fn methods(text: &mut String, profile: &Profile, kind: &str) {
    if profile.methods.is_empty() {
        return;
    }
    let mut rows = vec![["method", "to", "GB/s", "at random G/s"].map(str::to_string).to_vec()];
    rows.extend(profile.methods.iter().map(|result| {
        let rate = match result.bytes_per_s {
            Some(rate) => format!("{:.1}", rate / 1e9),
            None => format!("n/a: {}", result.missing),
        };
        let random = result.random_accesses_per_s.map_or(String::new(), |rate| format!("{:.3}", rate / 1e9));
        vec![result.method.clone(), format!("gpu{}", result.device), rate, random]
    }));
    let _ = writeln!(text, "\nTransfer methods, {kind}");
    aligned(text, &rows);
}

fn storage(text: &mut String, profile: &Profile, kind: &str) {
    let Some(first) = profile.storage.first() else { return };
    let mut rows = vec![["reads of", "at once", "GB/s"].map(str::to_string).to_vec()];
    rows.extend(profile.storage.iter().map(|rate| {
        vec![
            format!("{} KiB", rate.read_bytes >> 10),
            rate.depth.to_string(),
            format!("{:.2}", rate.bytes_per_s / 1e9),
        ]
    }));
    let _ = writeln!(text, "\nStorage at {} to {}, {kind}: {}", first.folder, first.to, first.path);
    aligned(text, &rows);
}

/// Columns under each other, the first to the left, the others to the right.
fn aligned(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let _ = match column {
                0 => write!(line, "  {cell:<width$}", width = widths[0]),
                _ => write!(line, "  {cell:>width$}", width = widths[column]),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{HostRates, MethodResult};

    #[test]
    fn tables_show_what_was_measured_and_leave_out_what_was_not() {
        let mut profile = Profile::new("abc".into(), false);
        profile.host.push(HostRates {
            node: 0,
            thread_count: 2,
            read_bytes_per_s: 12.34e9,
            copy_bytes_per_s: 8e9,
        });
        profile.methods.push(MethodResult {
            device: 1,
            method: "coherence".into(),
            bytes_per_s: None,
            random_accesses_per_s: None,
            missing: "no pageable access".into(),
        });
        let text = profile_table(&profile);
        assert!(text.contains("node0 measured: read 12.3 GB/s, copy 8.0 GB/s"), "{text}");
        assert!(text.contains("n/a: no pageable access"), "{text}");
        assert!(!text.contains("Storage"), "{text}");
        profile.is_simulated = true;
        assert!(profile_table(&profile).contains("SIMULATED"));
    }
}
