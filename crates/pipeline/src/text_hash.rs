//! A keyed hash of a text, which stands for the text where texts are compared for equality.
//!
//! SipHash with one round a word and three at the end, 128 bits wide. Kernels compute the same (cuda/pipeline/text.h).
//! The key is random and stays within the process, so nobody can choose texts whose hashes meet; that any two of 2^32
//! different texts have one hash has a probability below 2^-64.
//!
//! Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, section 2; the 128 bits as in its reference code.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// What a hash is keyed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextHashKey(pub u64, pub u64);

impl TextHashKey {
    /// The key of this process.
    pub fn of_process() -> Self {
        static KEY: OnceLock<TextHashKey> = OnceLock::new();
        *KEY.get_or_init(|| {
            // The standard library keys its hashes by what the system gives as random.
            let random = RandomState::new();
            TextHashKey(random.hash_one("the first half"), random.hash_one("the second half"))
        })
    }

    /// The hash of `text`.
    pub fn hash(self, text: &[u8]) -> i128 {
        let mut state = [
            self.0 ^ 0x736f_6d65_7073_6575,
            self.1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            self.0 ^ 0x6c79_6765_6e65_7261,
            self.1 ^ 0x7465_6462_7974_6573,
        ];
        let mut words = text.chunks_exact(8);
        for word in &mut words {
            add(&mut state, u64::from_le_bytes(word.try_into().expect("8 bytes")));
        }
        let rest = words.remainder().iter().rev().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
        add(&mut state, (text.len() as u64) << 56 | rest);
        state[2] ^= 0xee;
        let low = after_rounds(&mut state);
        state[1] ^= 0xdd;
        let high = after_rounds(&mut state);
        (u128::from(high) << 64 | u128::from(low)) as i128
    }
}

fn add(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

fn after_rounds(state: &mut [u64; 4]) -> u64 {
    (0..3).for_each(|_| round(state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn round(state: &mut [u64; 4]) {
    let [a, b, c, d] = state;
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}
