//! What the host's cores do with rows in memory of a machine, as work of its streams.

use pelton_device::{Cost, Work, host as device_host};
use pelton_error::{Error, Result};

use crate::host::{Run, SortedColumns, merge, paradis, sort_into};
use crate::key::{Carried, Key, Payload, SortSpec, keys_of, keys_of_mut, with_key, with_types};
use crate::rows::Rows;

/// Merges neighbouring sorted runs of `source` into `target`; `bounds` are where they begin, and the end.
pub(crate) fn merge_work(
    source: &Rows,
    bounds: Vec<usize>,
    target: &Rows,
    thread_count: usize,
) -> Result<Work> {
    let spec = source.spec();
    on_columns("merge runs", source, target, move |from, to| {
        with_types!(spec, merge_columns(spec, from, &bounds, to, thread_count));
        Ok(())
    })
}

/// Sorts `source` into `target`; what is in `source` is of no use afterwards.
pub(crate) fn sort_work(source: &Rows, target: &Rows, thread_count: usize) -> Result<Work> {
    let spec = source.spec();
    let writes: Vec<_> = source.columns().chain(target.columns()).cloned().collect();
    device_host::work("sort", Vec::new(), writes, move |_, columns| {
        let half = columns.len() / 2;
        let (from, to) = columns.split_at_mut(half);
        with_types!(spec, sort_columns(spec, from, to, thread_count));
        Ok(())
    })
}

/// Sorts keys in place by PARADIS.
pub(crate) fn paradis_work(rows: &Rows, thread_count: usize) -> Result<Work> {
    let spec = rows.spec();
    if spec.payload != Payload::None {
        return Err(Error::unsupported("PARADIS sorts keys without payload; take cpu, which carries one"));
    }
    device_host::work("sort in place", Vec::new(), vec![rows.keys().clone()], move |_, columns| {
        with_key!(spec.order.key_type, paradis_column(spec, columns[0], thread_count));
        Ok(())
    })
}

/// Copies by the host's cores.
pub(crate) fn copy_work(source: &Rows, target: &Rows, thread_count: usize) -> Result<Work> {
    on_columns("copy rows", source, target, move |from, to| {
        for (from, to) in from.iter().zip(to) {
            let part = from.len().div_ceil(thread_count).max(1 << 20);
            std::thread::scope(|scope| {
                for (from, to) in from.chunks(part).zip(to.chunks_mut(part)) {
                    scope.spawn(|| to.copy_from_slice(from));
                }
            });
        }
        Ok(())
    })
}

fn on_columns(
    name: &'static str,
    source: &Rows,
    target: &Rows,
    run: impl FnOnce(&[&[u8]], &mut [&mut [u8]]) -> Result<()> + Send + 'static,
) -> Result<Work> {
    let columns = |rows: &Rows| rows.columns().cloned().collect();
    // A core's write reads the line that it replaces; as many bytes are written as read.
    let read_bytes = source.columns().map(|column| 2 * column.len() as u64).collect();
    let cost = Cost { read_bytes: Some(read_bytes), ..Cost::STREAMING };
    Ok(device_host::work(name, columns(source), columns(target), run)?.with_cost(cost))
}

fn merge_columns<K: Key, P: Carried>(
    spec: SortSpec,
    from: &[&[u8]],
    bounds: &[usize],
    to: &mut [&mut [u8]],
    thread_count: usize,
) {
    let keys = keys_of::<K>(from[0]);
    let payloads = P::slice(from.get(1).copied().unwrap_or_default(), keys.len());
    let run = |pair: &[usize]| Run { keys: &keys[pair[0]..pair[1]], payloads: &payloads[pair[0]..pair[1]] };
    let runs: Vec<Run<'_, K, P>> = bounds.windows(2).map(run).collect();
    let (key_bytes, payload_bytes) = split(to);
    let keys = keys_of_mut::<K>(key_bytes);
    let payloads = P::slice_mut(payload_bytes, keys.len());
    merge(&runs, spec.order.direction, keys, payloads, thread_count);
}

fn sort_columns<K: Key, P: Carried>(
    spec: SortSpec,
    from: &mut [&mut [u8]],
    to: &mut [&mut [u8]],
    thread_count: usize,
) {
    let (key_bytes, payload_bytes) = split(from);
    let keys = keys_of_mut::<K>(key_bytes);
    let payloads = P::slice_mut(payload_bytes, keys.len());
    let (key_bytes, payload_bytes) = split(to);
    let to_keys = keys_of_mut::<K>(key_bytes);
    let to_payloads = P::slice_mut(payload_bytes, keys.len());
    let target = SortedColumns { keys: to_keys, payloads: to_payloads };
    sort_into(SortedColumns { keys, payloads }, target, spec.order.direction, thread_count);
}

fn paradis_column<K: Key>(spec: SortSpec, keys: &mut [u8], thread_count: usize) {
    paradis::<K>(keys_of_mut(keys), spec.order.direction, thread_count);
}

/// Bytes of keys, and those of payloads if there are any.
fn split<'a>(columns: &'a mut [&mut [u8]]) -> (&'a mut [u8], &'a mut [u8]) {
    match columns {
        [keys, payloads] => (keys, payloads),
        [keys] => (keys, &mut []),
        _ => unreachable!("rows have keys and at most one payload"),
    }
}
