//! Axes: where ticks lie and what they say.

/// How values are laid along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// In proportion, from 0.
    Linear,
    /// By powers of ten.
    Log10,
    /// By powers of two, labelled as bytes.
    Log2Bytes,
}

/// One axis: a range of values on a range of pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    scale: Scale,
    /// Lowest and highest value shown, after taking the logarithm.
    low: f64,
    high: f64,
    /// Pixels of the lowest and the highest value.
    from: f64,
    to: f64,
}

/// Steps between the ticks of a linear axis, times a power of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 2.5, 5.0];

impl Axis {
    /// An axis on the pixels `from..to` that holds all of `values`; values that the scale cannot show are left out.
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| scale.shows(*value)).map(|value| scale.forward(value)) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let axis = Self { scale, low, high, from, to };
        axis.rounded()
    }

    /// The same with ends at ticks.
    fn rounded(mut self) -> Self {
        if self.scale == Scale::Linear {
            let step = linear_step(self.high.max(f64::MIN_POSITIVE), 6.0);
            self.low = 0.0;
            self.high = ((self.high / step - 1e-9).ceil() * step).max(step);
        } else {
            self.low = (self.low + 1e-9).floor();
            self.high = (self.high - 1e-9).ceil().max(self.low + 1.0);
        }
        self
    }

    /// The pixel of `value`, or nothing if the scale cannot show it.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        self.scale.shows(value).then(|| {
            let share = (self.scale.forward(value) - self.low) / (self.high - self.low);
            self.from + share * (self.to - self.from)
        })
    }

    /// Values and labels of the ticks, at most about `count`.
    pub(super) fn ticks(&self, count: f64) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => {
                let step = linear_step(self.high, count);
                let steps = (self.high / step + 1e-9).floor() as u32;
                (0..=steps).map(|index| f64::from(index) * step).map(|value| (value, plain(value))).collect()
            }
            Scale::Log10 => self.powers(count, |power| (10f64.powi(power), plain(10f64.powi(power)))),
            Scale::Log2Bytes => self.powers(count, |power| (2f64.powi(power), bytes(power))),
        }
    }

    fn powers(&self, count: f64, tick: impl Fn(i32) -> (f64, String)) -> Vec<(f64, String)> {
        let stride = ((self.high - self.low) / count).ceil().max(1.0) as usize;
        (self.low as i32..=self.high as i32).step_by(stride).map(tick).collect()
    }
}

impl Scale {
    fn shows(self, value: f64) -> bool {
        value.is_finite() && if self == Scale::Linear { value >= 0.0 } else { value > 0.0 }
    }

    fn forward(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log10 => value.log10(),
            Scale::Log2Bytes => value.log2(),
        }
    }
}

/// The smallest round step that needs no more than `count` steps up to `high`.
fn linear_step(high: f64, count: f64) -> f64 {
    let power = 10f64.powf((high / count).log10().floor());
    let fits = |step: &f64| high / (step * power) <= count + 1e-9;
    STEPS.iter().copied().find(fits).unwrap_or(10.0) * power
}

/// A number with as many digits as it needs.
fn plain(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e7).contains(&value.abs()) {
        return format!("{value:e}");
    }
    format!("{}", (value * 1e6).round() / 1e6)
}

/// `2^power` bytes.
fn bytes(power: i32) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (power.max(0) / 10).min(6);
    format!("{} {}", plain(2f64.powi(power - 10 * unit)), UNITS[unit as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64], count: f64) -> Vec<String> {
        let axis = Axis::new(scale, values.iter().copied(), (0.0, 100.0));
        axis.ticks(count).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_beyond_the_highest_value() {
        assert_eq!(labels(Scale::Linear, &[53.0], 6.0), ["0", "10", "20", "30", "40", "50", "60"]);
        assert_eq!(labels(Scale::Linear, &[1060.0], 6.0), ["0", "200", "400", "600", "800", "1000", "1200"]);
        assert_eq!(labels(Scale::Linear, &[0.12], 6.0), ["0", "0.02", "0.04", "0.06", "0.08", "0.1", "0.12"]);
        assert_eq!(labels(Scale::Log10, &[3.0, 200.0], 6.0), ["1", "10", "100", "1000"]);
    }

    #[test]
    fn sizes_are_labelled_in_binary_units() {
        assert_eq!(labels(Scale::Log2Bytes, &[65536.0, 262144.0], 8.0), ["64 KiB", "128 KiB", "256 KiB"]);
        let far = labels(Scale::Log2Bytes, &[512.0, 4294967296.0], 6.0);
        assert_eq!(far, ["512 B", "8 KiB", "128 KiB", "2 MiB", "32 MiB", "512 MiB"]);
    }

    #[test]
    fn values_that_a_scale_cannot_show_have_no_place() {
        let axis = Axis::new(Scale::Log10, [0.0, 10.0, f64::NAN].into_iter(), (0.0, 100.0));
        assert_eq!(axis.at(0.0), None);
        assert_eq!(axis.at(f64::NAN), None);
        assert_eq!(axis.at(10.0), Some(0.0));
    }

    #[test]
    fn an_axis_without_values_still_has_a_range() {
        for scale in [Scale::Linear, Scale::Log10, Scale::Log2Bytes] {
            assert!(labels(scale, &[], 6.0).len() >= 2);
        }
        assert!(labels(Scale::Linear, &[0.0], 6.0).len() >= 2);
    }
}
