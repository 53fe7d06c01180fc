//! Numbers the distinct values among byte strings that compare like the values they encode.
//!
//! Sort keys and the attributes of dimensions have few distinct values. Both are therefore handled by
//! number: one hash look-up a row gives an id, sorting the distinct values alone gives their ranks, and rows
//! are then ordered by counting, which is stable and linear.

use std::collections::HashMap;

use arrow::row::Rows;

/// What one entry of the hash table takes beside its bytes.
const ENTRY_BYTES: u64 = 48;

/// Gives equal byte strings equal ids, counted up from 0.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    ids: HashMap<Box<[u8]>, u32>,
    bytes: u64,
}

impl Interner {
    /// Appends the ids of `rows` to `ids`.
    pub(crate) fn intern(&mut self, rows: &Rows, ids: &mut Vec<u32>) {
        ids.reserve(rows.num_rows());
        let mut previous: Option<(&[u8], u32)> = None;
        for row in rows {
            let key = row.data();
            let id = match previous {
                Some((same, id)) if same == key => id,
                _ => self.id_of(key),
            };
            previous = Some((key, id));
            ids.push(id);
        }
    }

    fn id_of(&mut self, key: &[u8]) -> u32 {
        if let Some(&id) = self.ids.get(key) {
            return id;
        }
        let id = u32::try_from(self.ids.len()).expect("a run has fewer rows than u32 numbers");
        self.bytes += key.len() as u64 + ENTRY_BYTES;
        self.ids.insert(key.into(), id);
        id
    }

    /// Bytes held, nearly.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// For each id, its position in ascending order.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        let mut order: Vec<(&[u8], u32)> = self.ids.iter().map(|(key, &id)| (key.as_ref(), id)).collect();
        order.sort_unstable();
        let mut ranks = vec![0; order.len()];
        for (rank, (_, id)) in order.into_iter().enumerate() {
            ranks[id as usize] = rank as u32;
        }
        ranks
    }
}

/// The positions of `ids` in the order of their ranks; equal ones keep their order.
pub(crate) fn order_by_rank(ids: &[u32], ranks: &[u32]) -> Vec<u32> {
    let mut ends = vec![0u32; ranks.len() + 1];
    for &id in ids {
        ends[ranks[id as usize] as usize + 1] += 1;
    }
    for rank in 1..ends.len() {
        ends[rank] += ends[rank - 1];
    }
    let mut order = vec![0; ids.len()];
    for (position, &id) in ids.iter().enumerate() {
        let next = &mut ends[ranks[id as usize] as usize];
        order[*next as usize] = position as u32;
        *next += 1;
    }
    order
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use arrow::datatypes::DataType;
    use arrow::row::{RowConverter, SortField};

    use super::*;

    #[test]
    fn positions_come_in_the_order_of_the_values_and_ties_keep_theirs() {
        let texts = [Some("b"), None, Some("a"), Some("b"), Some("c"), None, Some("b")];
        let array: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        let converter = RowConverter::new(vec![SortField::new(DataType::Utf8)]).unwrap();
        let rows = converter.convert_columns(&[array]).unwrap();
        let (mut interner, mut ids) = (Interner::default(), Vec::new());
        interner.intern(&rows, &mut ids);
        assert_eq!(interner.ranks().len(), 4);
        assert_eq!(order_by_rank(&ids, &interner.ranks()), [1, 5, 2, 0, 3, 6, 4]);
    }
}
