//! Which rows of a row group are still wanted, as filters narrow them down.
//!
//! A selection is a bit per row. Columns not yet decoded are decoded only for the pages that hold a
//! selected row, so a selective filter saves the decoding of what it drops.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, Int64Array};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::arrow::compute::{FilterBuilder, FilterPredicate};
use datafusion::error::Result;

/// The wanted rows of one row group.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    /// `None`: all rows.
    mask: Option<BooleanBuffer>,
    row_count: usize,
    selected_count: usize,
}

impl Selection {
    /// Every row of a row group of `row_count` rows.
    pub(super) fn all(row_count: usize) -> Self {
        Self { mask: None, row_count, selected_count: row_count }
    }

    fn from_mask(mask: BooleanBuffer) -> Self {
        let (row_count, selected_count) = (mask.len(), mask.count_set_bits());
        let mask = (selected_count < row_count).then_some(mask);
        Self { mask, row_count, selected_count }
    }

    /// Rows still wanted.
    pub(super) fn selected_count(&self) -> usize {
        self.selected_count
    }

    /// True where no row is wanted.
    pub(super) fn is_empty(&self) -> bool {
        self.selected_count == 0
    }

    /// The numbers of the selected rows, where the first row has number `first`.
    pub(super) fn row_numbers(&self, first: i64) -> ArrayRef {
        Arc::new(match &self.mask {
            None => Int64Array::from_iter_values(first..first + self.row_count as i64),
            Some(mask) => Int64Array::from_iter_values(mask.set_indices().map(|row| first + row as i64)),
        })
    }

    /// Keeps those selected rows for which `passed`, one bit a selected row, is set.
    pub(super) fn refine(&self, passed: BooleanBuffer) -> Self {
        assert_eq!(passed.len(), self.selected_count);
        let Some(mask) = &self.mask else { return Self::from_mask(passed) };
        let mut refined = Vec::with_capacity(self.row_count.div_ceil(64));
        let mut position = 0;
        for mut selected in mask.bit_chunks().iter_padded().take(self.row_count.div_ceil(64)) {
            let mut kept = 0;
            while selected != 0 {
                let bit = selected & selected.wrapping_neg();
                kept |= bit & u64::from(passed.value(position)).wrapping_neg();
                selected ^= bit;
                position += 1;
            }
            refined.push(kept);
        }
        Self::from_mask(BooleanBuffer::new(Buffer::from_vec(refined), 0, self.row_count))
    }

    /// Keeps those selected rows for which `passed`, one bit a row of the row group, is set.
    pub(super) fn and(&self, passed: BooleanBuffer) -> Self {
        assert_eq!(passed.len(), self.row_count);
        Self::from_mask(match &self.mask {
            Some(mask) => mask & &passed,
            None => passed,
        })
    }

    /// The filter to apply to a column of which all rows were decoded.
    pub(super) fn filter(&self) -> Option<RowFilter> {
        self.mask.clone().map(RowFilter::new)
    }

    /// Keeps the first `row_limit` of the selected rows.
    pub(super) fn truncate(&self, row_limit: usize) -> Self {
        if self.selected_count <= row_limit {
            return self.clone();
        }
        let mut passed = BooleanBufferBuilder::new(self.selected_count);
        passed.append_n(row_limit, true);
        passed.append_n(self.selected_count - row_limit, false);
        self.refine(passed.finish())
    }

    /// The selected rows among `rows`.
    pub(super) fn within(&self, rows: Range<usize>) -> Self {
        let mut within = BooleanBufferBuilder::new(self.row_count);
        within.append_n(rows.start, false);
        match &self.mask {
            Some(mask) => within.append_buffer(&mask.slice(rows.start, rows.len())),
            None => within.append_n(rows.len(), true),
        }
        within.append_n(self.row_count - rows.end, false);
        Self::from_mask(within.finish())
    }

    /// For each page of `page_rows` rows: does it hold a selected row?
    fn pages(&self, page_rows: usize) -> Vec<bool> {
        let page_count = self.row_count.div_ceil(page_rows);
        match &self.mask {
            None => vec![true; page_count],
            Some(mask) => (0..page_count)
                .map(|page| {
                    let first = page * page_rows;
                    let len = page_rows.min(self.row_count - first);
                    mask.slice(first, len).count_set_bits() > 0
                })
                .collect(),
        }
    }

    /// What of a column to decode, in pages of `page_rows` rows, and which rows of that to keep; `None`: all.
    pub(super) fn wanted(&self, page_rows: usize) -> Option<Wanted> {
        self.mask.as_ref()?;
        let pages = self.pages(page_rows);
        let filter = self.filter_for(&pages, page_rows)?;
        Some(Wanted { pages, filter })
    }

    /// The filter to apply to a column of which only `pages` were decoded.
    fn filter_for(&self, pages: &[bool], page_rows: usize) -> Option<RowFilter> {
        let mask = self.mask.as_ref()?;
        let mut kept = BooleanBufferBuilder::new(self.row_count);
        for (page, _) in pages.iter().enumerate().filter(|(_, decoded)| **decoded) {
            let first = page * page_rows;
            kept.append_buffer(&mask.slice(first, page_rows.min(self.row_count - first)));
        }
        Some(RowFilter::new(kept.finish()))
    }
}

/// The selected rows of any column.
pub(super) struct Wanted {
    /// For each page: is it decoded?
    pub(super) pages: Vec<bool>,
    /// Of the rows of those pages.
    pub(super) filter: RowFilter,
}

/// A prepared filter over decoded rows, applied to several columns.
pub(super) struct RowFilter {
    predicate: FilterPredicate,
    kept_all: bool,
}

impl RowFilter {
    /// Keeps the rows whose bit is set.
    pub(super) fn new(mask: BooleanBuffer) -> Self {
        let kept_all = mask.count_set_bits() == mask.len();
        let predicate = FilterBuilder::new(&BooleanArray::new(mask, None)).optimize().build();
        Self { predicate, kept_all }
    }

    /// The predicate, unless all rows pass.
    pub(super) fn predicate(&self) -> Option<&FilterPredicate> {
        (!self.kept_all).then_some(&self.predicate)
    }

    /// The rows of `column` that pass.
    pub(super) fn apply(&self, column: &ArrayRef) -> Result<ArrayRef> {
        if self.kept_all {
            Ok(ArrayRef::clone(column))
        } else {
            Ok(self.predicate.filter(column.as_ref())?)
        }
    }
}

/// A filter's result as bits: NULL counts as false.
pub(super) fn passed_bits(result: &BooleanArray) -> BooleanBuffer {
    match result.nulls() {
        Some(nulls) if nulls.null_count() > 0 => result.values() & nulls.inner(),
        _ => result.values().clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use datafusion::arrow::array::{AsArray, Int32Array};
    use datafusion::arrow::datatypes::Int32Type;

    fn bits(values: &[bool]) -> BooleanBuffer {
        values.iter().copied().collect()
    }

    #[test]
    fn refining_twice_keeps_rows_that_pass_both() {
        let first = Selection::all(6).refine(bits(&[true, false, true, true, false, true]));
        assert_eq!(first.selected_count(), 4);
        let second = first.refine(bits(&[false, true, false, true])); // rows 2 and 5
        assert_eq!(second.pages(2), [false, true, true]);
        let column: ArrayRef = Arc::new(Int32Array::from(vec![0, 1, 2, 3, 4, 5]));
        let kept = second.filter_for(&[true], 6).unwrap().apply(&column).unwrap();
        assert_eq!(kept.as_primitive::<Int32Type>().values(), &[2, 5]);
    }

    #[test]
    fn filter_for_decoded_pages_skips_the_others() {
        let selection = Selection::all(5).refine(bits(&[false, false, false, false, true]));
        let pages = selection.pages(2);
        assert_eq!(pages, [false, false, true]);
        let last_page: ArrayRef = Arc::new(Int32Array::from(vec![4]));
        let kept = selection.filter_for(&pages, 2).unwrap().apply(&last_page).unwrap();
        assert_eq!(kept.as_primitive::<Int32Type>().values(), &[4]);
    }

    #[test]
    fn bits_of_all_rows_combine_with_what_is_selected() {
        let selection =
            Selection::all(4).and(bits(&[true, true, false, true])).and(bits(&[false, true, true, true]));
        assert_eq!(selection.selected_count(), 2);
        assert_eq!(selection.pages(1), [false, true, false, true]);
    }

    #[test]
    fn selections_of_parts_make_up_the_whole() {
        let selection = Selection::all(5).refine(bits(&[true, false, false, true, true]));
        let parts = [0..2, 2..4, 4..5].map(|rows| selection.within(rows));
        assert_eq!(parts.each_ref().map(Selection::selected_count), [1, 1, 1]);
        assert_eq!(parts[1].pages(2), [false, true, false]);
        assert_eq!(Selection::all(4).within(1..3).pages(1), [false, true, true, false]);
        assert!(Selection::all(4).within(0..4).wanted(2).is_none());
    }

    #[test]
    fn null_results_do_not_pass() {
        let result = BooleanArray::from(vec![Some(true), None, Some(false)]);
        assert_eq!(passed_bits(&result), bits(&[true, false, false]));
    }

    #[test]
    fn truncate_keeps_the_first_selected_rows() {
        let selection = Selection::all(4).refine(bits(&[false, true, true, true])).truncate(2);
        assert_eq!(selection.pages(1), [false, true, true, false]);
        assert_eq!(Selection::all(3).truncate(5).selected_count(), 3);
    }
}
