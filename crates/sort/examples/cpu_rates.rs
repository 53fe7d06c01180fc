//! What the host's cores sort and merge: keys per second, beside what they copy.
//!
//! `cargo run --release -p pelton-sort --example cpu_rates -- [keys] [threads]`

use std::time::Instant;

use pelton_kernels::{Direction, KeyType};
use pelton_sort::generate::{Distribution, generate};
use pelton_sort::host::{Run, SortedColumns, merge, paradis, sort_into};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let count = arguments.next().unwrap_or(1 << 26);
    let threads =
        arguments.next().unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    println!("{count} keys of u32, {threads} threads");
    let mut keys = vec![0_u32; count];
    let fresh = |keys: &mut Vec<u32>| {
        let mut bytes = vec![0; 4 * count];
        generate(KeyType::U32, Distribution::Uniform, 1, &mut bytes, threads);
        let (words, _) = bytes.as_chunks::<4>();
        keys.iter_mut().zip(words).for_each(|(key, word)| *key = u32::from_le_bytes(*word));
    };
    fresh(&mut keys);
    let mut target = vec![1_u32; count];
    let (mut nothing, mut no_more) = (vec![(); count], vec![(); count]);
    let report = |what: &str, started: Instant, moved: usize| {
        let seconds = started.elapsed().as_secs_f64();
        let giga = |amount: usize| amount as f64 / seconds / 1e9;
        println!("{what:24} {seconds:8.4} s  {:7.3} Gkeys/s  {:7.2} GB/s", giga(count), giga(moved));
    };
    let part = count.div_ceil(threads);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (from, to) in keys.chunks(part).zip(target.chunks_mut(part)) {
            scope.spawn(|| to.copy_from_slice(from));
        }
    });
    report("copy", started, 8 * count);
    for run_count in [2, 4, 8, 16, 64, 1024] {
        let bounds: Vec<usize> = (0..=run_count).map(|run| count * run / run_count).collect();
        bounds.windows(2).for_each(|pair| keys[pair[0]..pair[1]].sort_unstable());
        let run =
            |pair: &[usize]| Run { keys: &keys[pair[0]..pair[1]], payloads: &nothing[pair[0]..pair[1]] };
        let runs: Vec<Run<'_, u32, ()>> = bounds.windows(2).map(run).collect();
        let started = Instant::now();
        merge(&runs, Direction::Ascending, &mut target, &mut no_more, threads);
        report(&format!("merge of {run_count}"), started, 8 * count);
        assert!(target.is_sorted());
        fresh(&mut keys);
    }
    let started = Instant::now();
    let rows = SortedColumns { keys: keys.as_mut_slice(), payloads: nothing.as_mut_slice() };
    let to = SortedColumns { keys: target.as_mut_slice(), payloads: no_more.as_mut_slice() };
    sort_into(rows, to, Direction::Ascending, threads);
    report("radix sort", started, 8 * count);
    assert!(target.is_sorted());
    fresh(&mut keys);
    let started = Instant::now();
    paradis(&mut keys, Direction::Ascending, threads);
    report("PARADIS", started, 8 * count);
    assert!(keys.is_sorted());
}
