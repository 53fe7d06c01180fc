//! Texts that begin alike: rows that no word puts in order are put in order by their whole texts, on the host.
//!
//! ```text
//!   rows in order of their words    http://a.org/1…   http://a.org/1…   http://a.org/1…   http://a.org/2
//!                                   ├──────────────────── a tie ─────────────────────┤
//!   the texts of a tie, read        …00/c             …00/a             …00/a
//!   its rows by text, and by the keys after it: by their words, and by whole texts where these begin alike too
//! ```
//!
//! Words hold 15 bytes of a text, and whether it goes on ([`pelton_pipeline::codegen::TextKey`]). A tie is rows one after the
//! other that are equal by all words up to a text that goes on, the first one that does. Only its rows change places, and
//! only its texts are read. Ties are found in one pass over the words of all rows in order; their texts are compared as
//! bytes, which is the order of UTF-8 as of code points.
//!
//! Host memory: words, numbers and texts of the rows in ties, all at once, up to a bound. If each of n rows begins alike,
//! that is all n texts and a comparison sort of them.

use std::cmp::Ordering;

use pelton_error::{CancelFlag, Error, Result};
use pelton_pipeline::codegen::{OrderLayout, TextKey};

use super::tasks::in_threads;

/// Texts that are asked for at once at most: about as many as a few row groups have. A guess.
const TEXTS_AT_ONCE: usize = 4 << 20;
/// Rows of a tie that are worth being sorted by all threads. A guess.
const LONG_TIE: usize = 1 << 16;

/// Who knows the texts that a sort key stands for.
pub trait ReadTexts: Sync {
    /// Gives the whole text of sort key `key` of each row, in this order, by the number that stands for it in the rows'
    /// column `SortKey::text`. None of them is NULL.
    ///
    /// # Errors
    ///
    /// Its own, which end the run.
    fn read(&self, key: usize, numbers: &[i64], give: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// Gives the whole texts of a key by their numbers, in this order.
pub(crate) type Read<'r> = dyn Fn(&TextKey, &[i64], &mut dyn FnMut(&[u8])) -> Result<()> + 'r;

/// The text keys of an order, the first one first.
pub(crate) struct TextSteps<'o> {
    order: &'o OrderLayout,
    /// Of each key, the bits of each word up to its end.
    masks: Vec<Vec<u64>>,
}

impl<'o> TextSteps<'o> {
    /// Those of `order`, which has some.
    pub(crate) fn of(order: &'o OrderLayout) -> Self {
        Self { order, masks: order.texts.iter().map(|text| order.masks_of(text.key + 1)).collect() }
    }

    fn goes_on(&self, step: usize, words: &[u64]) -> bool {
        let text = &self.order.texts[step];
        self.order.lowest_byte(text.key, words) == text.goes_on
    }

    /// The first text of a row with these words that goes on.
    pub(crate) fn first(&self, words: &[u64]) -> Option<usize> {
        (0..self.masks.len()).find(|step| self.goes_on(*step, words))
    }

    /// How rows compare by their words up to the end of text `step`.
    fn compare_up_to(&self, step: usize, a: &[u64], b: &[u64]) -> Ordering {
        let masked = a.iter().zip(b).zip(&self.masks[step]);
        let orders = masked.map(|((a, b), mask)| (a & mask).cmp(&(b & mask)));
        orders.fold(Ordering::Equal, Ordering::then)
    }

    /// Whether they are equal so far.
    pub(crate) fn are_tied(&self, step: usize, a: &[u64], b: &[u64]) -> bool {
        self.compare_up_to(step, a, b).is_eq()
    }
}

/// Rows that tie.
#[derive(Debug, Clone, Copy)]
struct Tie {
    /// Of its first row, among all rows.
    place: usize,
    /// Of its first row, among the rows of ties.
    first: usize,
    row_count: usize,
    /// By which text.
    step: usize,
}

/// The ties of rows that are looked at in order.
pub(crate) struct Ties<'o> {
    steps: TextSteps<'o>,
    /// What it may take of the host's memory.
    bytes_max: u64,
    ties: Vec<Tie>,
    /// The words and the texts' numbers of the rows of ties, row by row; and of the last row, whether or not it ties.
    words: Vec<u64>,
    numbers: Vec<u64>,
    row_count: usize,
    /// Whether the last row is of the last tie.
    is_open: bool,
}

impl<'o> Ties<'o> {
    /// None so far.
    pub(crate) fn new(order: &'o OrderLayout, bytes_max: u64) -> Self {
        let steps = TextSteps::of(order);
        let (words, numbers) = (Vec::new(), Vec::new());
        Self { steps, bytes_max, ties: Vec::new(), words, numbers, row_count: 0, is_open: false }
    }

    /// Looks at the row in `place`, the next one: its words, and the number of each of its texts. Answers whether it ties
    /// with the row before.
    ///
    /// # Errors
    ///
    /// `Unsupported` where ties take more memory than they may.
    pub(crate) fn add(&mut self, place: usize, words: &[u64], numbers: &[u64]) -> Result<bool> {
        if let Some(last) = self.row_count.checked_sub(1) {
            let before = self.words_of(last);
            let step = match (self.is_open, self.ties.last()) {
                (true, Some(tie)) => Some(tie.step),
                _ => self.steps.first(before),
            };
            let step = step.filter(|step| self.steps.are_tied(*step, before, words));
            match (step, self.is_open) {
                (Some(_), true) => self.ties.last_mut().expect("it is open").row_count += 1,
                (Some(step), false) => {
                    self.ties.push(Tie { place: place - 1, first: last, row_count: 2, step });
                }
                (None, true) => {}
                (None, false) => {
                    self.words.truncate(self.words.len() - words.len());
                    self.numbers.truncate(self.numbers.len() - numbers.len());
                    self.row_count -= 1;
                }
            }
            self.is_open = step.is_some();
        }
        self.words.extend_from_slice(words);
        self.numbers.extend_from_slice(numbers);
        self.row_count += 1;
        self.check_bytes(0)?;
        Ok(self.is_open)
    }

    /// Reads the texts of all ties and puts their rows in order.
    ///
    /// # Errors
    ///
    /// Those of `read`; `Unsupported` where texts take more memory than they may.
    pub(crate) fn resolve(
        mut self,
        read: &Read<'_>,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Resolved> {
        let tied = self.ties.iter().map(|tie| tie.row_count).sum();
        self.row_count = tied;
        let mut texts = Vec::with_capacity(self.steps.masks.len());
        let mut bytes = 0;
        for step in 0..self.steps.masks.len() {
            let of_step = self.read_texts(step, bytes, read, cancel)?;
            bytes += of_step.bytes.len() as u64;
            texts.push(of_step);
        }
        let mut rows: Vec<u32> = (0..tied as u32).collect();
        self.sort(&mut rows, &texts, threads);
        let breaks = self.breaks(&rows, &texts);
        Ok(Resolved { ties: self.ties, rows, breaks })
    }

    fn words_of(&self, row: usize) -> &[u64] {
        let width = self.steps.order.word_bits.len();
        &self.words[row * width..(row + 1) * width]
    }

    fn check_bytes(&self, of_texts: u64) -> Result<()> {
        let bytes = 8 * (self.words.len() + self.numbers.len()) as u64 + of_texts;
        if bytes <= self.bytes_max {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "{bytes} bytes of rows whose texts begin alike, for which the host has {}; raise --memory-limit",
            self.bytes_max
        )))
    }

    /// The texts of `step` of all rows of ties, where they go on. `bytes`: of what was read before.
    fn read_texts(&self, step: usize, bytes: u64, read: &Read<'_>, cancel: &CancelFlag) -> Result<Texts> {
        let width = self.steps.masks.len();
        let by_later = self.ties.iter().filter(|tie| tie.step <= step);
        let rows: Vec<usize> = by_later
            .flat_map(|tie| tie.first..tie.first + tie.row_count)
            .filter(|row| self.steps.goes_on(step, self.words_of(*row)))
            .collect();
        let mut texts = Texts { bytes: Vec::new(), places: vec![0; self.row_count + 1] };
        for rows in rows.chunks(TEXTS_AT_ONCE) {
            cancel.check()?;
            let numbers: Vec<i64> = rows.iter().map(|row| self.numbers[row * width + step] as i64).collect();
            let mut next = rows.iter();
            read(&self.steps.order.texts[step], &numbers, &mut |text| {
                texts.bytes.extend_from_slice(text);
                texts.places[*next.next().expect("a text for each number") + 1] = texts.bytes.len();
            })?;
            assert!(next.next().is_none(), "a text for each number");
            self.check_bytes(bytes + (texts.bytes.len() + 8 * texts.places.len()) as u64)?;
        }
        // A row without one has an empty one where the text before ends.
        for row in 1..texts.places.len() {
            texts.places[row] = texts.places[row].max(texts.places[row - 1]);
        }
        Ok(texts)
    }

    /// How two rows of a tie by text `step` compare.
    fn compare(&self, step: usize, texts: &[Texts], a: u32, b: u32) -> Ordering {
        let (a, b) = (a as usize, b as usize);
        let (of_a, of_b) = (self.words_of(a), self.words_of(b));
        for (step, of_step) in texts.iter().enumerate().skip(step) {
            let by_words = self.steps.compare_up_to(step, of_a, of_b);
            let by_text =
                || match (self.steps.goes_on(step, of_a), self.steps.order.texts[step].is_descending) {
                    (false, _) => Ordering::Equal,
                    (true, false) => of_step.get(a).cmp(of_step.get(b)),
                    (true, true) => of_step.get(b).cmp(of_step.get(a)),
                };
            let order = by_words.then_with(by_text);
            if order.is_ne() {
                return order;
            }
        }
        of_a.cmp(of_b)
    }

    /// Puts `rows`, those of ties, in order within each tie.
    fn sort(&self, rows: &mut [u32], texts: &[Texts], threads: usize) {
        let mut parts: Vec<Vec<(usize, &mut [u32])>> = Vec::new();
        let (part_rows, mut in_part) = (rows.len().div_ceil(threads.max(1)), usize::MAX);
        let mut rest = rows;
        for tie in &self.ties {
            let (rows, others) = rest.split_at_mut(tie.row_count);
            rest = others;
            let compare = |a: &u32, b: &u32| self.compare(tie.step, texts, *a, *b);
            if threads > 1 && rows.len() >= LONG_TIE {
                let mut pieces: Vec<&mut [u32]> = rows.chunks_mut(rows.len().div_ceil(threads)).collect();
                in_threads(&mut pieces, |piece| piece.sort_unstable_by(compare));
                // A stable sort merges what is in order already.
                rows.sort_by(compare);
                continue;
            }
            if in_part >= part_rows {
                parts.push(Vec::new());
                in_part = 0;
            }
            in_part += rows.len();
            parts.last_mut().expect("there is one").push((tie.step, rows));
        }
        in_threads(&mut parts, |part| {
            for (step, rows) in part {
                rows.sort_unstable_by(|a, b| self.compare(*step, texts, *a, *b));
            }
        });
    }

    /// Where rows that are equal by their words differ by a text from the row before: the place, and the number of the key.
    fn breaks(&self, rows: &[u32], texts: &[Texts]) -> Vec<(usize, usize)> {
        let mut breaks = Vec::new();
        for tie in &self.ties {
            let rows = &rows[tie.first..tie.first + tie.row_count];
            for (place, pair) in (tie.place + 1..).zip(rows.windows(2)) {
                let (a, b) = (pair[0] as usize, pair[1] as usize);
                let (of_a, of_b) = (self.words_of(a), self.words_of(b));
                let are_tied = |step: &usize| self.steps.are_tied(*step, of_a, of_b);
                let differ = |step: &usize| texts[*step].get(a) != texts[*step].get(b);
                let step = (tie.step..texts.len()).take_while(are_tied).find(differ);
                breaks.extend(step.map(|step| (place, self.steps.order.texts[step].key)));
            }
        }
        breaks
    }
}

/// Texts by row.
struct Texts {
    bytes: Vec<u8>,
    /// Where each begins, and after the last one where that ends.
    places: Vec<usize>,
}

impl Texts {
    fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.places[row]..self.places[row + 1]]
    }
}

/// Ties whose rows are in order.
pub(crate) struct Resolved {
    ties: Vec<Tie>,
    rows: Vec<u32>,
    breaks: Vec<(usize, usize)>,
}

impl Resolved {
    /// How many rows were told apart.
    pub(crate) fn row_count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The places of rows that differ from the row before by a text that words do not tell apart, and by the text of which
    /// key.
    pub(crate) fn breaks(&self) -> &[(usize, usize)] {
        &self.breaks
    }

    /// Puts `values`, one for each of all rows in the order of their words, in order.
    pub(crate) fn apply<T: Copy>(&self, values: &mut [T]) {
        for tie in &self.ties {
            let target = &mut values[tie.place..tie.place + tie.row_count];
            let before = target.to_vec();
            for (value, row) in target.iter_mut().zip(&self.rows[tie.first..]) {
                *value = before[*row as usize - tie.first];
            }
        }
    }
}

#[cfg(test)]
mod tests;
