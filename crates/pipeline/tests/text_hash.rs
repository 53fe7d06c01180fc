//! The hash of a text beside another implementation of it.

use std::hash::Hasher;

use pelton_pipeline::ir::TextHashKey;
use siphasher::sip128::{Hasher128, SipHasher13};

#[test]
fn the_hash_is_siphash_of_every_length() {
    let bytes: Vec<u8> = (0..1 << 16).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for key in [TextHashKey(0, 0), TextHashKey(1, u64::MAX), TextHashKey::of_process()] {
        for length in (0..71).chain([1 << 16]) {
            let mut expected = SipHasher13::new_with_keys(key.0, key.1);
            expected.write(&bytes[..length]);
            let expected = expected.finish128().as_u128() as i128;
            assert_eq!(key.hash(&bytes[..length]), expected, "{length} bytes");
        }
    }
}

#[test]
fn a_process_has_one_key_for_all_time() {
    assert_eq!(TextHashKey::of_process(), TextHashKey::of_process());
}
