//! Every kernel against a naive reference: on logical devices always, on GPUs under every policy where there are any.

mod bench;

use bench::{Bench, on_every_machine};
use pelton_kernels::{
    Chase, Cycle, Fingerprint, Gather, chase, copy, fill_cycle, fill_random, fill_word, fingerprint,
    fingerprint_of, gather, random_word, read,
};

/// Around words, vectors of 16 bytes and pages, and enough for many blocks of threads.
const SIZES: [usize; 17] = [0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 127, 129, 4095, 4096, 4097, 65_537, 1_000_003];
const MISALIGNED: [usize; 5] = [0, 1, 4, 8, 13];

/// Calls `check` for every size and misalignment on every machine.
fn for_all_spans(check: impl Fn(&Bench, usize, usize)) {
    on_every_machine(|bench| {
        for bytes in SIZES {
            for misaligned in MISALIGNED {
                check(bench, bytes, misaligned);
            }
        }
    });
}

/// Bytes without a pattern, by a generator that is none of this crate's.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn cut_words(bytes: usize, word: impl Fn(u64) -> u64) -> Vec<u8> {
    (0..bytes as u64).map(|byte| word(byte / 8).to_le_bytes()[byte as usize % 8]).collect()
}

/// The sum of all words, byte by byte.
fn naive_sum(bytes: &[u8]) -> u64 {
    let value = |(index, byte): (usize, &u8)| u64::from(*byte) << (8 * (index % 8));
    bytes.iter().enumerate().map(value).fold(0, u64::wrapping_add)
}

#[test]
fn filled_memory_holds_the_sequence_of_its_seed() {
    for_all_spans(|bench, bytes, misaligned| {
        let target = bench.upload(&noise(bytes, 1), misaligned);
        bench.run(fill_random(bench.library(), target.span.clone(), 42));
        let expected = cut_words(bytes, |index| random_word(42, index));
        assert!(bench.download(&target) == expected, "{}: {bytes} bytes at {misaligned}", bench.name);
    });
}

#[test]
fn memory_filled_with_a_word_holds_it_everywhere() {
    for_all_spans(|bench, bytes, misaligned| {
        let target = bench.upload(&noise(bytes, 1), misaligned);
        bench.run(fill_word(bench.library(), target.span.clone(), 0x0807_0605_0403_0201));
        let expected = cut_words(bytes, |_| 0x0807_0605_0403_0201);
        assert!(bench.download(&target) == expected, "{}: {bytes} bytes at {misaligned}", bench.name);
    });
}

#[test]
fn a_copy_holds_the_bytes_of_its_source() {
    on_every_machine(|bench| {
        for bytes in SIZES {
            for (from, to) in [(0, 0), (1, 1), (13, 13), (0, 4), (8, 12), (0, 1), (3, 0), (0, 8)] {
                let content = noise(bytes, 2);
                let (source, target) = (bench.upload(&content, from), bench.upload(&noise(bytes, 3), to));
                bench.run(copy(bench.library(), source.span.clone(), target.span.clone()));
                assert!(bench.download(&target) == content, "{}: {bytes} bytes, {from} to {to}", bench.name);
                assert!(bench.download(&source) == content, "{}: the source stays", bench.name);
            }
        }
    });
}

#[test]
fn fingerprints_are_those_that_the_host_computes() {
    for_all_spans(|bench, bytes, misaligned| {
        let content = noise(bytes, 4);
        let source = bench.upload(&content, misaligned);
        let accumulator = bench.accumulator(Fingerprint::BYTES);
        bench.run(fingerprint(bench.library(), source.span, 0, accumulator.span.clone()));
        let found = Fingerprint::from_bytes(bench.download(&accumulator).try_into().unwrap());
        assert_eq!(found, fingerprint_of(&content), "{}: {bytes} bytes at {misaligned}", bench.name);
    });
}

#[test]
fn fingerprints_of_pieces_add_up_to_that_of_the_whole() {
    on_every_machine(|bench| {
        let content = noise(100_003, 5);
        let source = bench.upload(&content, 0);
        let accumulator = bench.accumulator(Fingerprint::BYTES);
        for piece in source.span.chunks(4104).collect::<Vec<_>>().into_iter().rev() {
            let first_word = (piece.offset() - source.span.offset()) as u64 / 8;
            bench.run(fingerprint(bench.library(), piece, first_word, accumulator.span.clone()));
        }
        let found = Fingerprint::from_bytes(bench.download(&accumulator).try_into().unwrap());
        assert_eq!(found, fingerprint_of(&content), "{}", bench.name);
    });
}

#[test]
fn reading_adds_the_sum_of_all_words() {
    for_all_spans(|bench, bytes, misaligned| {
        let content = noise(bytes, 6);
        let source = bench.upload(&content, misaligned);
        let accumulator = bench.accumulator(8);
        for _ in 0..2 {
            bench.run(read(bench.library(), source.span.clone(), accumulator.span.clone()));
        }
        let twice = naive_sum(&content).wrapping_mul(2);
        assert_eq!(bench.word(&accumulator), twice, "{}: {bytes} bytes at {misaligned}", bench.name);
    });
}

#[test]
fn gathering_adds_the_elements_that_the_seed_draws() {
    on_every_machine(|bench| {
        for width_bytes in [4, 8] {
            for (bytes, count) in [(8, 0), (8, 5), (17, 1), (100, 1), (4096, 10_000), (100_000, 300_000)] {
                let what = Gather { width_bytes, count, seed: 9 };
                let content = noise(bytes, 7);
                let source = bench.upload(&content, 8);
                let accumulator = bench.accumulator(8);
                bench.run(gather(bench.library(), source.span, what, accumulator.span.clone()));
                let width = width_bytes as usize;
                let drawn = (0..count).map(|index| random_word(9, index) % what.element_count(bytes));
                let expected = drawn
                    .map(|element| naive_sum(&content[element as usize * width..][..width]))
                    .fold(0, u64::wrapping_add);
                assert_eq!(bench.word(&accumulator), expected, "{}: {bytes} bytes, {what:?}", bench.name);
            }
        }
    });
}

#[test]
fn a_chase_ends_where_the_cycle_says() {
    on_every_machine(|bench| {
        for (bytes, stride_bytes) in [(4, 4), (128, 128), (1000, 128), (65_536, 4), (1 << 20, 256)] {
            let cycle = Cycle { stride_bytes, seed: 11 };
            let before = noise(bytes, 8);
            let memory = bench.upload(&before, 4);
            bench.run(fill_cycle(bench.library(), memory.span.clone(), cycle));
            let filled = bench.download(&memory);
            let slot_count = cycle.slot_count(bytes);
            let link = |slot: u64| naive_sum(&filled[slot as usize * stride_bytes as usize..][..4]);
            let mut slot = 1 % slot_count;
            for _ in 0..slot_count - 1 {
                slot = link(slot);
                assert!(slot_count == 1 || slot != 1, "{}: back too early", bench.name);
            }
            let chase_of = |step_count| Chase { cycle, first_slot: 1, step_count };
            for (step_count, end) in
                [(0, 1 % slot_count), (slot_count - 1, slot), (slot_count, 1 % slot_count)]
            {
                let accumulator = bench.accumulator(8);
                let walk = chase_of(step_count);
                bench.run(chase(bench.library(), memory.span.clone(), walk, accumulator.span.clone()));
                assert_eq!(bench.word(&accumulator), end, "{}: {bytes} bytes, {walk:?}", bench.name);
            }
        }
    });
}

#[test]
fn a_chase_through_noise_stays_in_its_memory() {
    on_every_machine(|bench| {
        let cycle = Cycle { stride_bytes: 128, seed: 0 };
        let memory = bench.upload(&noise(5000, 12), 0);
        let accumulator = bench.accumulator(8);
        let walk = Chase { cycle, first_slot: u64::MAX, step_count: 1000 };
        bench.run(chase(bench.library(), memory.span.clone(), walk, accumulator.span.clone()));
        assert!(bench.word(&accumulator) < cycle.slot_count(5000), "{}", bench.name);
    });
}

#[test]
fn links_of_a_cycle_leave_what_is_between_them() {
    on_every_machine(|bench| {
        let before = noise(4096, 13);
        let memory = bench.upload(&before, 0);
        bench.run(fill_cycle(bench.library(), memory.span.clone(), Cycle { stride_bytes: 128, seed: 1 }));
        let after = bench.download(&memory);
        let is_link = |byte: usize| byte % 128 < 4;
        assert!((0..4096).all(|byte| is_link(byte) || before[byte] == after[byte]), "{}", bench.name);
    });
}
