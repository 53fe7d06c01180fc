//! How fast the primitives of sorting are on a device, to hold against CUB called directly (`tests/perf/sort_cub.cu`).
//!
//! ```sh
//! cargo run --release -p pelton-kernels --example sort_rate -- [LOG2_COUNT...]
//! ```
//!
//! The numbers of keys are 2^28, 2^29 and 2^30 unless others are given. Each line is the median of 7 runs on fresh random
//! keys, timed by events of the stream; the first run is not counted. The last result of each sort is checked: sorted,
//! and with a sum of a mix of every pair that is the one of the input. Without a GPU the host does the work.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Buffer, DeviceId, Machine, MemoryKind, OnFull, Place, Stream, Work, cuda, host};
use pelton_error::Result;
use pelton_kernels::{
    Direction, IndexType, KeyOrder, KeyType, Library, RadixSort, exclusive_scan, fill_random, fill_word,
    merge_keys, partition_keys, partition_scratch_bytes, random_word, scan_scratch_bytes, sort_keys,
    sort_pairs, take,
};

const REPEATS: u64 = 7;
const VALUE_SEED: u64 = 1000;

struct Bench {
    library: Option<Arc<Library>>,
    machine: Machine,
    stream: Stream,
}

fn main() -> Result<()> {
    let mut sizes: Vec<u32> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![28, 29, 30];
    }
    let found = Library::open()
        .and_then(|library| Ok((Some(library), cuda::open(&cuda::CudaOptions::default())?)))
        .inspect_err(|error| eprintln!("on the host: {error}"));
    let (library, machine) = found.unwrap_or_else(|_| (None, host::open(&host::HostOptions::default())));
    println!("pelton on {}, {library:?}", machine.info().devices[0].name);
    let stream = machine.stream(Place::Device(DeviceId(0)))?;
    let bench = Bench { library, machine, stream };
    for (index, bits) in sizes.iter().enumerate() {
        let count = 1_u64 << bits;
        for (key_type, value_bytes) in
            [(KeyType::U32, 0), (KeyType::U64, 0), (KeyType::U32, 4), (KeyType::U64, 8)]
        {
            bench.sort(RadixSort::by(key_type, Direction::Ascending), count, value_bytes)?;
        }
        if index == 0 {
            bench.others(count)?;
        }
    }
    Ok(())
}

impl Bench {
    /// What is no baseline's match: other types and directions, and the other primitives.
    fn others(&self, count: u64) -> Result<()> {
        for (key_type, value_bytes) in [
            (KeyType::I32, 0),
            (KeyType::F32, 0),
            (KeyType::F32, 4),
            (KeyType::I64, 0),
            (KeyType::F64, 8),
            (KeyType::I128, 8),
        ] {
            // Wide keys are fewer, so that all cases need about the same memory.
            let count = if key_type == KeyType::I128 { count / 2 } else { count };
            self.sort(RadixSort::by(key_type, Direction::Ascending), count, value_bytes)?;
        }
        self.sort(RadixSort::by(KeyType::U32, Direction::Descending), count, 4)?;
        for key_type in [KeyType::U32, KeyType::U64] {
            self.merge(key_type, count)?;
            self.partition(key_type, count, 7)?;
            self.partition(key_type, count, 1023)?;
        }
        self.take(count)?;
        self.scan(count)
    }

    fn sort(&self, sort: RadixSort, count: u64, value_bytes: usize) -> Result<()> {
        let key_bytes = sort.order.key_type.width_bytes();
        let keys = self.buffers(count as usize * key_bytes)?;
        let values = self.buffers(count as usize * value_bytes)?;
        let scratch = self.allocate(sort.scratch_bytes(count))?;
        let spans = |buffers: &[Buffer; 2]| buffers.each_ref().map(Buffer::span);
        let name = format!("sort {:?} {:?}/{value_bytes}", sort.order.key_type, sort.order.direction);
        self.measure(&name, count, |repeat| {
            self.stream.run(fill_random(self.library.as_ref(), keys[0].span(), repeat))?;
            self.stream.run(fill_random(self.library.as_ref(), values[0].span(), repeat + VALUE_SEED))?;
            let (keys, scratch) = (spans(&keys), scratch.span());
            Ok(if value_bytes == 0 {
                sort_keys(self.library.as_ref(), sort, keys, scratch)
            } else {
                sort_pairs(self.library.as_ref(), sort, keys, spans(&values), scratch)
            })
        })?;
        let result = sort.result_index();
        self.check(sort.order, &keys[result], &values[result], count, value_bytes)
    }

    /// Merges two sorted halves.
    fn merge(&self, key_type: KeyType, count: u64) -> Result<()> {
        let keys = self.buffers(count as usize * key_type.width_bytes())?;
        let sort = RadixSort::by(key_type, Direction::Ascending);
        let scratch = self.allocate(sort.scratch_bytes(count))?;
        let half = keys[0].len() / 2;
        self.measure(&format!("merge {key_type:?}"), count, |repeat| {
            self.stream.run(fill_random(self.library.as_ref(), keys[0].span(), repeat))?;
            for range in [0..half, half..2 * half] {
                let buffers = keys.each_ref().map(|buffer| buffer.slice(range.clone()));
                self.stream.run(sort_keys(self.library.as_ref(), sort, buffers, scratch.span()))?;
            }
            let runs = [keys[0].slice(0..half), keys[0].slice(half..2 * half)];
            Ok(merge_keys(self.library.as_ref(), sort.order, runs, keys[1].span()))
        })?;
        self.check(sort.order, &keys[1], &self.allocate(0)?, count, 0)
    }

    fn partition(&self, key_type: KeyType, count: u64, splitter_count: usize) -> Result<()> {
        let keys = self.buffers(count as usize * key_type.width_bytes())?;
        let order = KeyOrder::ascending(key_type);
        let width = key_type.width_bytes();
        // Evenly over all keys.
        let staging = self.machine.allocate(MemoryKind::PINNED, splitter_count * width, OnFull::Refuse)?;
        staging.with_bytes_mut(|bytes| {
            for (index, splitter) in bytes.chunks_exact_mut(width).enumerate() {
                let share = ((index as u128 + 1) << (8 * width)) / (splitter_count as u128 + 1);
                splitter.copy_from_slice(&share.to_le_bytes()[..width]);
            }
        })?;
        let splitters = self.allocate(splitter_count * width)?;
        self.stream.copy(&staging.span(), &splitters.span())?;
        let scratch = self.allocate(partition_scratch_bytes(count, splitter_count))?;
        self.measure(&format!("partition {key_type:?} by {splitter_count}"), count, |repeat| {
            self.stream.run(fill_random(self.library.as_ref(), keys[0].span(), repeat))?;
            let (from, to) = (keys[0].span(), keys[1].span());
            Ok(partition_keys(self.library.as_ref(), order, from, splitters.span(), to, scratch.span()))
        })
    }

    /// Takes elements of 8 bytes in the order of random keys: each once.
    fn take(&self, count: u64) -> Result<()> {
        let elements = self.buffers(count as usize * 8)?;
        let (keys, numbers) = (self.buffers(count as usize * 4)?, self.buffers(count as usize * 4)?);
        let sort = RadixSort::by(KeyType::U32, Direction::Ascending);
        let scratch = self.allocate(sort.scratch_bytes(count))?;
        let sums = self.allocate(scan_scratch_bytes(count))?;
        self.measure("take 8 bytes by u32", count, |repeat| {
            // Ones, whose sums are the numbers of the elements.
            self.stream.run(fill_word(self.library.as_ref(), numbers[0].span(), 1 << 32 | 1))?;
            let span = numbers[0].span();
            self.stream.run(exclusive_scan(self.library.as_ref(), 4, span.clone(), span, sums.span()))?;
            self.stream.run(fill_random(self.library.as_ref(), keys[0].span(), repeat))?;
            let (keys, values) = (keys.each_ref().map(Buffer::span), numbers.each_ref().map(Buffer::span));
            self.stream.run(sort_pairs(self.library.as_ref(), sort, keys, values, scratch.span()))?;
            let (from, to) = (elements[0].span(), elements[1].span());
            let index = numbers[sort.result_index()].span();
            Ok(take(self.library.as_ref(), 8, from, IndexType::U32, index, to))
        })
    }

    fn scan(&self, count: u64) -> Result<()> {
        let words = self.buffers(count as usize * 8)?;
        let scratch = self.allocate(scan_scratch_bytes(count))?;
        self.measure("scan u64", count, |repeat| {
            self.stream.run(fill_random(self.library.as_ref(), words[0].span(), repeat))?;
            let (from, to) = (words[0].span(), words[1].span());
            Ok(exclusive_scan(self.library.as_ref(), 8, from, to, scratch.span()))
        })
    }

    /// Prints the median time of the work that `prepare` gives, once what it enqueues is done.
    fn measure(&self, name: &str, count: u64, prepare: impl Fn(u64) -> Result<Work>) -> Result<()> {
        let mut times = Vec::new();
        for repeat in 0..=REPEATS {
            let work = prepare(repeat)?;
            let start = self.stream.record()?;
            self.stream.run(work)?;
            let end = self.stream.record()?;
            end.wait_blocking()?;
            if repeat > 0 {
                times.push(end.elapsed_since(&start)?);
            }
        }
        times.sort();
        let (median, rate) =
            (times[times.len() / 2], |time: Duration| count as f64 / time.as_secs_f64() / 1e9);
        println!("pelton {name:<28} {count:>12} keys  {median:>12.3?}  {:>8.3} Gkeys/s", rate(median));
        Ok(())
    }

    /// That keys are in order, and pairs those of the last fill.
    fn check(
        &self,
        order: KeyOrder,
        keys: &Buffer,
        values: &Buffer,
        count: u64,
        value_bytes: usize,
    ) -> Result<()> {
        const CHUNK: u64 = 1 << 24;
        let width = order.key_type.width_bytes();
        let (mut found, mut last) = (0_u64, 0_u128);
        for begin in (0..count).step_by(CHUNK as usize) {
            let end = count.min(begin + CHUNK);
            let bring = |buffer: &Buffer, width: usize| -> Result<Buffer> {
                let range = begin as usize * width..end as usize * width;
                let staging = self.machine.allocate(MemoryKind::PINNED, range.len(), OnFull::Refuse)?;
                self.stream.copy(&buffer.slice(range), &staging.span())?;
                self.stream.wait_blocking()?;
                Ok(staging)
            };
            let (keys, values) = (bring(keys, width)?, bring(values, value_bytes)?);
            keys.with_bytes(|keys| {
                values.with_bytes(|values| {
                    for index in 0..(end - begin) as usize {
                        let key = element(keys, index, width);
                        let word = order.word(key);
                        assert!(word >= last, "keys are in order at {}", begin + index as u64);
                        last = word;
                        found = found.wrapping_add(mixed(key, element(values, index, value_bytes)));
                    }
                })
            })??;
        }
        let mut expected = 0_u64;
        for index in 0..count {
            let (key, value) = (
                random_element(REPEATS, index, width),
                random_element(REPEATS + VALUE_SEED, index, value_bytes),
            );
            expected = expected.wrapping_add(mixed(key, value));
        }
        assert_eq!(found, expected, "pairs are those of the input");
        Ok(())
    }

    fn buffers(&self, bytes: usize) -> Result<[Buffer; 2]> {
        Ok([self.allocate(bytes)?, self.allocate(bytes)?])
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer> {
        self.machine.allocate(MemoryKind::Device(DeviceId(0)), bytes, OnFull::Refuse)
    }
}

fn element(bytes: &[u8], index: usize, width: usize) -> u128 {
    let mut element = [0; 16];
    element[..width].copy_from_slice(&bytes[index * width..][..width]);
    u128::from_le_bytes(element)
}

/// Element `index`, of `width` bytes, of memory filled at random.
fn random_element(seed: u64, index: u64, width: usize) -> u128 {
    match width {
        0 => 0,
        4 => u128::from(random_word(seed, index / 2) >> (32 * (index % 2)) & 0xFFFF_FFFF),
        8 => u128::from(random_word(seed, index)),
        _ => u128::from(random_word(seed, 2 * index)) | u128::from(random_word(seed, 2 * index + 1)) << 64,
    }
}

/// One term of a sum that tells whether pairs are those of the input, in whatever order.
fn mixed(key: u128, value: u128) -> u64 {
    let folded = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (key >> 64) as u64;
    (folded.rotate_left(31) ^ (value as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93))
        .wrapping_mul(0xBF58_476D_1CE4_E5B9)
}
