//! Where bytes went, how fast, and how fast they might have gone.
//!
//! ```text
//!   files ──▶ host memory ──▶ cores of the CPU, which decode
//!                    └──────▶ device memory ──▶ kernels
//! ```
//!
//! Bytes are those that scans and runs counted; time is that in which at least one span of the trace was busy with
//! them. Files are the exception: reads go on behind decoding, so their time is from the first read of a scan to its
//! last byte, and their rate is what the scan got, not what the drive could give.

use std::time::Duration;

use pelton_trace::{Activity, TraceSpan};

use super::tree::Tree;

/// A way that bytes take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// From files to host memory.
    Files,
    /// From host memory into values, by the CPU's cores.
    Decoding,
    /// From host memory to a device's.
    ToDevice,
    /// From a device's memory to its kernels.
    DeviceMemory,
}

impl LinkKind {
    /// The word used in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Decoding => "decoding",
            Self::ToDevice => "to_device",
            Self::DeviceMemory => "device_memory",
        }
    }
}

/// How fast a link was measured to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// What was measured and when, for people.
    pub source: String,
}

/// What is known of how fast this machine's links are. The caller knows; the engine measures nothing.
#[derive(Debug, Clone, Default)]
pub struct Ceilings {
    /// Reads of files.
    pub files: Option<Ceiling>,
    /// Reads of host memory by its cores.
    pub host_memory: Option<Ceiling>,
    /// Copies from host memory to the device.
    pub to_device: Option<Ceiling>,
    /// Reads of the device's memory by its kernels.
    pub device_memory: Option<Ceiling>,
    /// How to have what is missing measured: a sentence with the command.
    pub remedy: String,
    /// The same for files.
    pub files_remedy: String,
}

/// What a query moved over one link.
#[derive(Debug, Clone)]
pub struct LinkUse {
    /// PCIe, NVLink, storage and so on: it decides which measured ceiling the bytes are compared with.
    pub kind: LinkKind,
    /// For people: from where to where.
    pub name: String,
    /// Bytes moved.
    pub bytes: u64,
    /// Time that the link was busy with them, as the module says; `None` without a trace.
    pub busy: Option<Duration>,
    /// How fast it was measured to be.
    pub ceiling: Option<Ceiling>,
    /// What to do where it was not measured; else empty.
    pub remedy: String,
}

impl LinkUse {
    /// Bytes a second while it was busy; `None` where nobody took the time.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let busy = self.busy.filter(|busy| !busy.is_zero())?;
        Some(self.bytes as f64 / busy.as_secs_f64())
    }
}

/// What the plan of `tree` moved, by its own counts and by `spans`; links that moved nothing are left out.
pub(super) fn of(
    tree: &Tree,
    spans: &[TraceSpan],
    device: Option<String>,
    ceilings: &Ceilings,
) -> Vec<LinkUse> {
    let sums = Sums::of(tree);
    let is_host = device.as_deref().is_none_or(|name| name.starts_with("host"));
    let device = device.unwrap_or_default();
    let (to_device, in_device) = match is_host {
        true => {
            ("host memory → memory that stands in for a device", "that memory → kernels on the CPU".into())
        }
        false => ("host memory → device memory", format!("memory of {device} → its kernels")),
    };
    let busy = |activities: &[Activity]| (!spans.is_empty()).then(|| union(spans, activities));
    let all = [
        (
            LinkKind::Files,
            "files → host memory".to_owned(),
            sums.read,
            (!spans.is_empty()).then(|| reading(spans)),
            &ceilings.files,
        ),
        (
            LinkKind::Decoding,
            "host memory → values, decoded by the CPU".to_owned(),
            sums.decoded,
            busy(&[Activity::Decode]),
            &ceilings.host_memory,
        ),
        (
            LinkKind::ToDevice,
            to_device.to_owned(),
            sums.over_link,
            busy(&[Activity::Copy]),
            &ceilings.to_device,
        ),
        (
            LinkKind::DeviceMemory,
            in_device,
            sums.over_link + sums.on_device,
            busy(&[Activity::Kernel]),
            &ceilings.device_memory,
        ),
    ];
    let used = all.into_iter().filter(|(_, _, bytes, ..)| *bytes > 0);
    used.map(|(kind, name, bytes, busy, ceiling)| LinkUse {
        kind,
        name,
        bytes,
        busy,
        ceiling: ceiling.clone(),
        remedy: match (ceiling, kind) {
            (Some(_), _) => String::new(),
            (None, LinkKind::Files) => ceilings.files_remedy.clone(),
            (None, _) => ceilings.remedy.clone(),
        },
    })
    .collect()
}

/// Bytes of all nodes.
#[derive(Default)]
struct Sums {
    read: u64,
    decoded: u64,
    over_link: u64,
    on_device: u64,
}

impl Sums {
    fn of(tree: &Tree) -> Self {
        let mut sums = Self::default();
        tree.root.visit(&mut |node| {
            let counted = |name: &str| node.metrics.iter().find(|metric| metric.name == name);
            let bytes = |name: &str| counted(name).map_or(0, |metric| metric.value);
            let is_pipeline = counted("link_bytes").is_some();
            if let Some(scan) = &node.scan {
                sums.read += scan.bytes_read;
                sums.decoded += if is_pipeline { 0 } else { scan.bytes_decoded };
            }
            sums.over_link += bytes("link_bytes");
            sums.on_device += bytes("device_bytes");
        });
        sums
    }
}

/// Time in which at least one span of these activities was going on.
fn union(spans: &[TraceSpan], activities: &[Activity]) -> Duration {
    let busy = spans.iter().filter(|span| activities.contains(&span.activity));
    covered(busy.map(|span| (span.start, span.end)).collect())
}

/// Time in which at least one scan was between its first read and its last byte.
fn reading(spans: &[TraceSpan]) -> Duration {
    let mut scans = std::collections::HashMap::new();
    for span in spans.iter().filter(|span| matches!(span.activity, Activity::Read | Activity::ReadWait)) {
        let scan = scans.entry((span.owner, span.pipeline)).or_insert((span.start, span.end));
        *scan = (scan.0.min(span.start), scan.1.max(span.end));
    }
    covered(scans.into_values().collect())
}

/// How much time these intervals cover together.
fn covered(mut intervals: Vec<(Duration, Duration)>) -> Duration {
    intervals.sort_unstable();
    let (mut total, mut until) = (Duration::ZERO, Duration::ZERO);
    for (start, end) in intervals {
        total += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_intervals_share_counts_once() {
        let ms = Duration::from_millis;
        assert_eq!(covered(vec![(ms(5), ms(9)), (ms(0), ms(2)), (ms(1), ms(6)), (ms(20), ms(21))]), ms(10));
        assert_eq!(covered(Vec::new()), ms(0));
    }

    #[test]
    fn a_rate_needs_a_time() {
        let mut link = LinkUse {
            kind: LinkKind::Files,
            name: String::new(),
            bytes: 500,
            busy: None,
            ceiling: None,
            remedy: String::new(),
        };
        assert_eq!(link.bytes_per_s(), None);
        link.busy = Some(Duration::from_millis(500));
        assert_eq!(link.bytes_per_s().map(|rate| rate as u64), Some(1000));
    }
}
