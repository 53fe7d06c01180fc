//! What the parts of this machine reach and cost: the figures that every prediction and every choice reads.
//!
//! ```text
//!   Profile  ─ measured ─┐
//!   Topology ─ of links ─┼──► Rates ──► predicted times, device or CPU, who decompresses
//!   preset   ─ the rest ─┘
//! ```
//!
//! Rates of links and memories are those of the machine's profile where `pelton topology --measure` has taken one.
//! Everything else is of the preset: one H200 with 16 cores. What a query costs per row is measured nowhere else:
//! it is of `docs/perf/predictions.md`, and runs correct it. A field without a source in its comment is a guess.

use crate::preset::preset;
use crate::profile::Profile;
use crate::topology::{GB_PER_S, Topology, Vertex};

/// Where a rate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateOrigin {
    /// Measured on this machine.
    Measured,
    /// Of the preset.
    Preset,
}

/// Bytes per second, and where that comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Where that comes from.
    pub origin: RateOrigin,
}

/// The rates of a machine, as one of its devices sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Pinned host memory to the device: large copies.
    pub link: Rate,
    /// Files to the host. Preset: a virtual disk (`docs/perf/transfer.md`).
    pub storage: Rate,
    /// Reading host memory, all cores.
    pub host_memory: Rate,
    /// Reading device memory from one end to the other.
    pub device_memory: Rate,
    /// What one thread of the CPU decodes, filters and probes: bytes before encoding per second. A guess.
    pub cpu_bytes_per_s_and_thread: f64,
    /// What pipelines cost on a device.
    pub pipeline: PipelineRates,
    /// Heavy codecs, on the device and on the host.
    pub codecs: CodecRates,
}

/// What a pipeline costs on a device besides bytes over the link. Source: `docs/perf/predictions.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineRates {
    /// What a query costs on a device besides its pipelines: waiting for the result, and making batches of it. A guess.
    pub query_s: f64,
    /// To prepare, generate, launch and wait, whatever the rows.
    pub fixed_s: f64,
    /// What every pipeline that runs at the same time adds to that.
    pub beside_s: f64,
    /// The share of the link's rate that scans reach.
    pub link_share: f64,
    /// Of copies and kernels, the share of the shorter one that is not hidden behind the longer.
    pub overlap_left: f64,
    /// A row scanned.
    pub row_s: f64,
    /// A row that a filter tests, or for which a value is computed.
    pub expression_s: f64,
    /// A row that a table is probed for that fits the device's caches.
    pub probe_s: f64,
    /// The same for a table that does not.
    pub far_probe_s: f64,
    /// A row of a table by position.
    pub build_s: f64,
    /// A row of a hash table.
    pub hashed_build_s: f64,
    /// A row that is grouped.
    pub group_row_s: f64,
    /// A group.
    pub group_s: f64,
    /// An aggregate of a row.
    pub aggregate_s: f64,
    /// The kernels of a top-k, whatever the rows.
    pub top_s: f64,
    /// Text without dictionary that is searched.
    pub text_bytes_per_s: f64,
}

/// Bytes without codec per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodecRate {
    /// Of a device.
    pub device_bytes_per_s: f64,
    /// Of one core.
    pub core_bytes_per_s: f64,
}

/// The device's rates are those of one H200 (nvCOMP 6.0, chunks of 64 KiB, 2026-11), the slowest of the columns that
/// compress; a core's are of `pelton-chunk`'s example `decode_rates` on the same columns (2026-11-22).
#[derive(Debug, Clone, PartialEq)]
pub struct CodecRates {
    /// What the device takes however few sections there are: what a decoder takes for a single section. A guess from
    /// 33 GB/s over some 1000 sections at once.
    pub device_fixed_s: f64,
    /// LZ4.
    pub lz4: CodecRate,
    /// Snappy.
    pub snappy: CodecRate,
    /// Zstandard.
    pub zstd: CodecRate,
    /// Deflate.
    pub deflate: CodecRate,
}

impl Default for Rates {
    fn default() -> Self {
        Self::of_preset()
    }
}

impl Rates {
    /// Of the machine with one H200.
    pub fn of_preset() -> Self {
        let topology = preset("h200-x2").expect("the preset of that name");
        let of_preset = |bytes_per_s| Rate { bytes_per_s, origin: RateOrigin::Preset };
        let codec = |device: f64, core: f64| CodecRate {
            device_bytes_per_s: device * GB_PER_S,
            core_bytes_per_s: core * GB_PER_S,
        };
        Self {
            link: of_preset(link_bytes_per_s(&topology, 0, 0).expect("a device with a link")),
            storage: of_preset(1.97 * GB_PER_S),
            host_memory: of_preset(topology.nodes[0].memory_bytes_per_s),
            device_memory: of_preset(topology.devices[0].memory_bytes_per_s),
            cpu_bytes_per_s_and_thread: 1.5 * GB_PER_S,
            pipeline: PipelineRates {
                query_s: 3e-3,
                fixed_s: 0.28e-3,
                beside_s: 0.12e-3,
                link_share: 0.94,
                overlap_left: 0.4,
                row_s: 9e-12,
                expression_s: 6e-12,
                probe_s: 0.4e-12,
                far_probe_s: 30e-12,
                build_s: 3e-12,
                hashed_build_s: 200e-12,
                group_row_s: 0.5e-12,
                group_s: 300e-12,
                aggregate_s: 7e-12,
                top_s: 0.8e-3,
                text_bytes_per_s: 200.0 * GB_PER_S,
            },
            codecs: CodecRates {
                device_fixed_s: 2e-3,
                lz4: codec(48.0, 3.5),
                snappy: codec(106.0, 1.3),
                zstd: codec(33.0, 1.3),
                deflate: codec(15.0, 1.2),
            },
        }
    }

    /// Of `device` at host node `node`: what `profile` has of it, the preset's for the rest.
    pub fn measured(profile: &Profile, node: u32, device: u32) -> Self {
        let mut rates = Self::of_preset();
        let (host, place) = (Vertex::Node(node), Vertex::Device(device));
        let put = |rate: &mut Rate, measured: Option<f64>| {
            if let Some(bytes_per_s) = measured.filter(|rate| *rate > 0.0) {
                *rate = Rate { bytes_per_s, origin: RateOrigin::Measured };
            }
        };
        put(&mut rates.link, profile.copies_between(host, place).map(|copies| copies.peak_bytes_per_s()));
        let of_storage = profile.storage.iter().map(|read| read.bytes_per_s);
        put(&mut rates.storage, of_storage.max_by(f64::total_cmp));
        let of_host = profile.host.iter().find(|host| host.node == node);
        put(&mut rates.host_memory, of_host.map(|host| host.read_bytes_per_s));
        let own = profile.accesses.iter().find(|access| access.processor == place && access.memory == place);
        put(&mut rates.device_memory, own.map(|access| access.sequential_bytes_per_s));
        rates
    }

    /// What scans reach over the link, bytes per second.
    pub fn scan_link_bytes_per_s(&self) -> f64 {
        self.link.bytes_per_s * self.pipeline.link_share
    }

    /// The rates of links and memories, each with where it comes from, for EXPLAIN.
    pub fn describe(&self) -> String {
        let parts = [
            ("link", self.link),
            ("storage", self.storage),
            ("host memory", self.host_memory),
            ("device memory", self.device_memory),
        ];
        let texts = parts.map(|(name, rate)| {
            let origin = match rate.origin {
                RateOrigin::Measured => "measured",
                RateOrigin::Preset => "preset",
            };
            format!("{name} {:.1} GB/s ({origin})", rate.bytes_per_s / GB_PER_S)
        });
        format!("{}; costs per row (preset)", texts.join(", "))
    }
}

fn link_bytes_per_s(topology: &Topology, node: u32, device: u32) -> Option<f64> {
    let (node, device) = (Vertex::Node(node), Vertex::Device(device));
    let link = &topology.links[topology.link_between(node, device)?];
    Some(link.bytes_per_s(link.a == node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{CopyRates, HostRates, StorageRate};
    use crate::topology::BandwidthAt;

    #[test]
    fn what_was_measured_replaces_the_preset_and_says_so() {
        let mut profile = Profile::new("abc".into(), false);
        assert_eq!(Rates::measured(&profile, 0, 1), Rates::of_preset());
        let by_size =
            [(1 << 20, 20e9), (1 << 28, 24e9)].map(|(bytes, rate)| BandwidthAt { bytes, bytes_per_s: rate });
        profile.copies.push(CopyRates {
            from: Vertex::Node(0),
            to: Vertex::Device(1),
            latency_s: 1e-6,
            by_size: by_size.to_vec(),
            duplex_bytes_per_s: 40e9,
            is_direct: true,
        });
        profile.host.push(HostRates {
            node: 0,
            thread_count: 8,
            read_bytes_per_s: 80e9,
            copy_bytes_per_s: 70e9,
        });
        for rate in [1e9, 5e9] {
            profile.storage.push(StorageRate {
                folder: "/data".into(),
                to: Vertex::Node(0),
                path: "bounce buffers".into(),
                read_bytes: 1 << 20,
                depth: 8,
                bytes_per_s: rate,
            });
        }
        let rates = Rates::measured(&profile, 0, 1);
        assert_eq!(rates.link, Rate { bytes_per_s: 24e9, origin: RateOrigin::Measured });
        assert_eq!(rates.storage.bytes_per_s, 5e9);
        assert_eq!(rates.host_memory.bytes_per_s, 80e9);
        assert_eq!(rates.device_memory.origin, RateOrigin::Preset);
        assert_eq!(Rates::measured(&profile, 0, 0).link.origin, RateOrigin::Preset, "another device's link");
        let text = rates.describe();
        assert!(text.starts_with("link 24.0 GB/s (measured), storage 5.0 GB/s (measured)"), "{text}");
        assert!(text.contains("device memory 4262.0 GB/s (preset)"), "{text}");
    }
}
