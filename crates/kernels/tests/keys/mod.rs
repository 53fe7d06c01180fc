//! Keys for tests, and their order as the standard library has it: none of the crate's own arithmetic.

use std::cmp::Ordering;

use pelton_kernels::{Direction, KeyOrder, KeyType};

/// How the keys of a case lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Distribution {
    Uniform,
    Sorted,
    Reverse,
    AllEqual,
    FewDistinct,
    /// Least and greatest keys, zeros of both signs, infinities and NaNs of several bit patterns.
    Extremes,
}

impl Distribution {
    pub(crate) const ALL: [Distribution; 6] = [
        Distribution::Uniform,
        Distribution::Sorted,
        Distribution::Reverse,
        Distribution::AllEqual,
        Distribution::FewDistinct,
        Distribution::Extremes,
    ];
}

/// Words without a pattern, by a generator that is none of this crate's.
pub(crate) fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed * 2 + 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// The bits of `count` keys.
pub(crate) fn keys(order: KeyOrder, distribution: Distribution, count: usize, seed: u64) -> Vec<u128> {
    let mut next = noise(seed);
    let mask = u128::MAX >> (128 - order.key_type.width_bits());
    let mut random = || (u128::from(next()) << 64 | u128::from(next())) & mask;
    match distribution {
        Distribution::Uniform => (0..count).map(|_| random()).collect(),
        Distribution::Sorted => sorted(order, (0..count).map(|_| random()).collect()),
        Distribution::Reverse => {
            let mut keys = sorted(order, (0..count).map(|_| random()).collect());
            keys.reverse();
            keys
        }
        Distribution::AllEqual => vec![random(); count],
        Distribution::FewDistinct => {
            let few: Vec<u128> = (0..7).map(|_| random()).collect();
            (0..count).map(|_| few[(random() % 7) as usize]).collect()
        }
        Distribution::Extremes => {
            let extremes = extremes(order.key_type);
            (0..count).map(|_| extremes[(random() >> 3) as usize % extremes.len()]).collect()
        }
    }
}

fn sorted(order: KeyOrder, mut keys: Vec<u128>) -> Vec<u128> {
    keys.sort_by(|a, b| compare(order, *a, *b));
    keys
}

fn extremes(key_type: KeyType) -> Vec<u128> {
    let top = key_type.width_bits() - 1;
    let sign = 1_u128 << top;
    let mut keys = vec![0, 1, sign - 1, sign, sign + 1, sign | (sign - 1), sign | (sign - 2)];
    let infinity: u128 = match key_type {
        KeyType::F32 => f32::INFINITY.to_bits().into(),
        KeyType::F64 => f64::INFINITY.to_bits().into(),
        _ => return keys,
    };
    let quiet = infinity | (infinity >> 1 & !infinity) | 1 << (if top == 31 { 22 } else { 51 });
    for special in [infinity - 1, infinity, infinity + 1, quiet, quiet + 1] {
        keys.extend([special, special | sign]);
    }
    keys
}

/// How two keys compare, by their bits.
pub(crate) fn compare(order: KeyOrder, a: u128, b: u128) -> Ordering {
    let ascending = match order.key_type {
        KeyType::U32 | KeyType::U64 => a.cmp(&b),
        KeyType::I32 => (a as u32 as i32).cmp(&(b as u32 as i32)),
        KeyType::I64 => (a as u64 as i64).cmp(&(b as u64 as i64)),
        KeyType::I128 => (a as i128).cmp(&(b as i128)),
        KeyType::F32 => {
            let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
            compare_floats((x.is_nan(), x.is_sign_negative(), a), (y.is_nan(), y.is_sign_negative(), b))
                .unwrap_or_else(|| x.total_cmp(&y))
        }
        KeyType::F64 => {
            let (x, y) = (f64::from_bits(a as u64), f64::from_bits(b as u64));
            compare_floats((x.is_nan(), x.is_sign_negative(), a), (y.is_nan(), y.is_sign_negative(), b))
                .unwrap_or_else(|| x.total_cmp(&y))
        }
    };
    match order.direction {
        Direction::Ascending => ascending,
        Direction::Descending => ascending.reverse(),
    }
}

/// `None` where neither is NaN.
fn compare_floats(
    (x_is_nan, x_is_negative, x): (bool, bool, u128),
    (y_is_nan, y_is_negative, y): (bool, bool, u128),
) -> Option<Ordering> {
    match (x_is_nan, y_is_nan) {
        (false, false) => None,
        (true, true) if x_is_negative && y_is_negative => Some(y.cmp(&x)),
        (true, true) => Some(x_is_negative.cmp(&y_is_negative).then(x.cmp(&y))),
        (x_is_nan, y_is_nan) => Some(x_is_nan.cmp(&y_is_nan)),
    }
}

/// Keys as they lie in memory.
pub(crate) fn to_bytes(key_type: KeyType, keys: &[u128]) -> Vec<u8> {
    let width = key_type.width_bytes();
    keys.iter().flat_map(|key| key.to_le_bytes().into_iter().take(width)).collect()
}

/// All orders of all types.
pub(crate) fn orders() -> impl Iterator<Item = KeyOrder> {
    KeyType::ALL
        .into_iter()
        .flat_map(|key_type| [KeyOrder::ascending(key_type), KeyOrder::descending(key_type)])
}
