//! Max-min fair sharing: every flow gets as much as every other, unless a cap or a full resource holds it back.
//!
//! Progressive filling: a common level rises, and the rate of each flow is its pace times the level; when a resource
//! is full, its flows stop there; when a flow meets its cap, it stops; the others rise on. A flow takes `weight` units
//! of a resource per byte, so that one that burdens a resource more fills it faster. The pace is 1 for all but random
//! accesses, whose bytes are few and dear: they rise slower, or they would leave nothing to bytes in sequence.
//! Time: rounds times (flows + resources), a round per bottleneck.

/// What a flow takes of one resource per byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Use {
    pub(super) resource: usize,
    pub(super) weight: f64,
}

/// What sharing needs to know of a flow.
pub(super) trait Shared {
    /// Each resource at most once.
    fn uses(&self) -> &[Use];
    /// No more than this, bytes per second.
    fn cap(&self) -> f64;
    /// Rate per level; more than 0.
    fn pace(&self) -> f64;
    /// Takes what was found, bytes per second.
    fn set_rate(&mut self, bytes_per_s: f64);
}

/// Gives every flow its rate.
pub(super) fn share<'a, F: Shared + 'a>(capacities: &[f64], flows: impl Iterator<Item = &'a mut F>) {
    let mut left = capacities.to_vec();
    let mut rising: Vec<&mut F> = flows.collect();
    let mut level_of = vec![f64::INFINITY; left.len()];
    while !rising.is_empty() {
        fill_levels(&left, &rising, &mut level_of);
        let cap = rising.iter().map(|flow| flow.cap() / flow.pace()).fold(f64::INFINITY, f64::min);
        let level = level_of.iter().copied().fold(cap, f64::min);
        assert!(level.is_finite(), "every flow uses a resource or has a cap");
        let mut still_rising = Vec::with_capacity(rising.len());
        for flow in rising {
            let is_full = flow.uses().iter().any(|used| level_of[used.resource] <= level);
            if is_full || flow.cap() / flow.pace() <= level {
                let rate = level * flow.pace();
                for used in flow.uses() {
                    left[used.resource] = (left[used.resource] - rate * used.weight).max(0.0);
                }
                flow.set_rate(rate);
            } else {
                still_rising.push(flow);
            }
        }
        rising = still_rising;
    }
}

/// The level at which each resource is full; infinite where nobody uses it.
fn fill_levels<F: Shared>(left: &[f64], rising: &[&mut F], level_of: &mut [f64]) {
    level_of.fill(0.0);
    for flow in rising {
        for used in flow.uses() {
            level_of[used.resource] += used.weight * flow.pace();
        }
    }
    for (level, left) in level_of.iter_mut().zip(left) {
        *level = if *level > 0.0 { left / *level } else { f64::INFINITY };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Flow(Vec<Use>, f64, f64);

    impl Shared for Flow {
        fn uses(&self) -> &[Use] {
            &self.0
        }
        fn cap(&self) -> f64 {
            self.1
        }
        fn pace(&self) -> f64 {
            self.0.iter().map(|used| used.weight).fold(1.0, f64::max).recip()
        }
        fn set_rate(&mut self, bytes_per_s: f64) {
            self.2 = bytes_per_s;
        }
    }

    fn check(capacities: &[f64], flows: &[(&[(usize, f64)], f64)], expected: &[f64]) {
        let uses =
            |uses: &[(usize, f64)]| uses.iter().map(|&(resource, weight)| Use { resource, weight }).collect();
        let mut flows: Vec<Flow> = flows.iter().map(|&(used, cap)| Flow(uses(used), cap, 0.0)).collect();
        share(capacities, flows.iter_mut());
        let rates: Vec<f64> = flows.iter().map(|flow| flow.2).collect();
        assert_eq!(rates, expected);
    }

    #[test]
    fn equals_share_equally_and_caps_leave_the_rest_to_others() {
        let link: &[(usize, f64)] = &[(0, 1.0)];
        check(&[12.0], &[(link, 100.0), (link, 100.0)], &[6.0, 6.0]);
        check(&[12.0], &[(link, 2.0), (link, 100.0)], &[2.0, 10.0]);
    }

    #[test]
    fn dear_bytes_take_an_equal_share_of_the_resource_not_of_the_bytes() {
        check(&[12.0], &[(&[(0, 3.0)], 100.0), (&[(0, 1.0)], 100.0)], &[2.0, 6.0]);
    }

    #[test]
    fn a_flow_held_back_elsewhere_leaves_room() {
        // The textbook line of two links: the long flow gets its share of the narrow one.
        let flows: &[(&[(usize, f64)], f64)] =
            &[(&[(0, 1.0), (1, 1.0)], 1e9), (&[(0, 1.0)], 1e9), (&[(1, 1.0)], 1e9)];
        check(&[2.0, 10.0], flows, &[1.0, 1.0, 9.0]);
    }
}
