//! Bandwidth by the size of a copy: B_E(size) of MG-Join (Paul et al. 2021, section 4.2.1).
//!
//! Measured points include the latency, which is one copy after another; it is taken out here, so that the time of a
//! copy is `latency + bytes / B_E(bytes)`. Between points the bandwidth is linear over the logarithm of the size.
//! Measurements waver; two rules keep predictions sane: bandwidth does not fall with size, and a larger copy does
//! not take less time than a smaller one.

use crate::topology::{BandwidthAt, Link};

/// Bandwidth of one link in one direction, by size.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeCurve {
    /// By size, ascending; without the latency.
    points: Vec<BandwidthAt>,
    capacity_bytes_per_s: f64,
}

impl SizeCurve {
    /// The curve of `link` in one direction; without measured points, its capacity at every size.
    pub fn of(link: &Link, is_forward: bool) -> Self {
        let capacity_bytes_per_s = link.bytes_per_s(is_forward);
        let mut points: Vec<BandwidthAt> = link
            .bandwidth_by_size
            .iter()
            .filter_map(|point| without_latency(*point, link.latency_s, capacity_bytes_per_s))
            .collect();
        points.sort_by_key(|point| point.bytes);
        points.dedup_by_key(|point| point.bytes);
        make_monotone(&mut points);
        Self { points, capacity_bytes_per_s }
    }

    /// B_E of a copy of `bytes`, bytes per second.
    pub fn bytes_per_s(&self, bytes: u64) -> f64 {
        let above = self.points.partition_point(|point| point.bytes <= bytes);
        if above == 0 {
            // Less than the smallest copy measured takes no less time than that.
            return self.points.first().map_or(self.capacity_bytes_per_s, |first| {
                first.bytes_per_s * bytes.max(1) as f64 / first.bytes as f64
            });
        }
        let left = self.points[above - 1];
        let Some(right) = self.points.get(above) else { return left.bytes_per_s };
        let share = (bytes as f64 / left.bytes as f64).ln() / (right.bytes as f64 / left.bytes as f64).ln();
        let linear = left.bytes_per_s + (right.bytes_per_s - left.bytes_per_s) * share;
        linear.min(left.bytes_per_s * bytes as f64 / left.bytes as f64)
    }
}

/// The point without the latency that was measured with it; nothing if the latency explains all of it.
fn without_latency(point: BandwidthAt, latency_s: f64, capacity_bytes_per_s: f64) -> Option<BandwidthAt> {
    let time_s = point.bytes as f64 / point.bytes_per_s - latency_s;
    let bytes_per_s = (point.bytes as f64 / time_s).min(capacity_bytes_per_s);
    (time_s > 0.0).then_some(BandwidthAt { bytes: point.bytes, bytes_per_s })
}

fn make_monotone(points: &mut [BandwidthAt]) {
    for right in 1..points.len() {
        let left = points[right - 1];
        let same_time = left.bytes_per_s * points[right].bytes as f64 / left.bytes as f64;
        points[right].bytes_per_s = points[right].bytes_per_s.clamp(left.bytes_per_s, same_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{LinkKind, Vertex};

    fn link(points: &[(u64, f64)]) -> Link {
        Link {
            a: Vertex::Node(0),
            b: Vertex::Device(0),
            kind: LinkKind::Socket,
            forward_bytes_per_s: 400e9,
            backward_bytes_per_s: 300e9,
            duplex_bytes_per_s: 700e9,
            latency_s: 1e-6,
            bandwidth_by_size: points
                .iter()
                .map(|&(bytes, bytes_per_s)| BandwidthAt { bytes, bytes_per_s })
                .collect(),
            is_measured: true,
        }
    }

    #[test]
    fn without_points_every_size_gets_the_capacity_of_its_direction() {
        let link = link(&[]);
        assert_eq!(SizeCurve::of(&link, true).bytes_per_s(1), 400e9);
        assert_eq!(SizeCurve::of(&link, false).bytes_per_s(1 << 30), 300e9);
    }

    #[test]
    fn latency_and_curve_together_give_back_what_was_measured() {
        let link = link(&[(64 << 10, 24e9), (1 << 20, 204e9), (16 << 20, 366e9)]);
        let curve = SizeCurve::of(&link, true);
        for point in &link.bandwidth_by_size {
            let time_s = link.latency_s + point.bytes as f64 / curve.bytes_per_s(point.bytes);
            let measured_s = point.bytes as f64 / point.bytes_per_s;
            assert!((time_s / measured_s - 1.0).abs() < 1e-9, "{point:?}: {time_s} s");
        }
    }

    #[test]
    fn bandwidth_never_falls_and_time_never_falls_with_size() {
        // A dip at 256 KiB and a leap at 1 MiB, as wavering measurements have them.
        let curve = SizeCurve::of(&link(&[(64 << 10, 24e9), (256 << 10, 20e9), (1 << 20, 390e9)]), true);
        let (mut bandwidth, mut time_s) = (0.0_f64, 0.0_f64);
        for bytes in (1..4000).map(|step| step * 1024) {
            let next = curve.bytes_per_s(bytes);
            assert!(next >= bandwidth * (1.0 - 1e-12), "{bytes}: {next} after {bandwidth}");
            let next_s = bytes as f64 / next;
            assert!(next_s >= time_s * (1.0 - 1e-12), "{bytes}: {next_s} s after {time_s}");
            (bandwidth, time_s) = (next, next_s);
        }
    }
}
