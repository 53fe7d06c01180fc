//! Ties among texts, put in order by the host: against a stable sort of all rows by their whole texts.

use super::*;

/// A row: a number, a text, a number, a text that may be NULL, a number.
type Row = (u8, Vec<u8>, u8, Option<Vec<u8>>, u8);

/// Their keys: the first text ascending, the second one descending with NULL first.
fn layout() -> OrderLayout {
    OrderLayout {
        word_bits: vec![12, 64, 64, 64, 64],
        key_bits: vec![2, 128, 3, 128, 7],
        texts: vec![
            TextKey { key: 1, column: 0, is_descending: false, goes_on: 16 },
            TextKey { key: 3, column: 1, is_descending: true, goes_on: 1 },
        ],
        row_count: None,
        windows: None,
    }
}

/// As `text_prefix` of cuda/pipeline/text.h.
fn prefix(text: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let length = text.len().min(15);
    bytes[..length].copy_from_slice(&text[..length]);
    bytes[15] = text.len().min(16) as u8;
    u128::from_be_bytes(bytes)
}

fn words_of(row: &Row) -> Vec<u64> {
    let (first, text, number, last_text, last) = row;
    let descending = last_text.as_ref().map_or(0, |text| (u128::MAX << 8 | 16) - prefix(text) + 1);
    let mut words = vec![0_u64; 5];
    let mut push = |value: u128, bits: u32| {
        for bit in (0..bits).rev() {
            let mut carry = (value >> bit & 1) as u64;
            for word in words.iter_mut().rev() {
                (*word, carry) = (*word << 1 | carry, *word >> 63);
            }
        }
    };
    push((*first).into(), 2);
    push(prefix(text), 128);
    push((*number).into(), 3);
    push(descending, 128);
    push((*last).into(), 7);
    words
}

fn compare(a: &Row, b: &Row) -> Ordering {
    let last = match (&a.3, &b.3) {
        (Some(a), Some(b)) => b.cmp(a),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    (a.0, &a.1, a.2).cmp(&(b.0, &b.1, b.2)).then(last).then(a.4.cmp(&b.4))
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *seed >> 33
}

/// Few texts: empty ones, with zeros, with a character cut by what words hold, alike up to and beyond that.
fn text(seed: &mut u64) -> Vec<u8> {
    let long = "http://www.example.org/";
    let text = match next(seed) % 9 {
        0 => String::new(),
        1 => "\0".repeat(next(seed) as usize % 20),
        2 => format!("{}{}", &long[..14], ["é", "è", "e", ""][next(seed) as usize % 4]),
        3 => long[..15].to_owned(),
        4 => format!("{}\0", &long[..15]),
        _ => format!("{long}{}", next(seed) % 3),
    };
    text.into_bytes()
}

fn rows(count: usize, seed: &mut u64) -> Vec<Row> {
    let row = |seed: &mut u64| {
        let last_text = (!next(seed).is_multiple_of(4)).then(|| text(seed));
        let of = |seed: &mut u64, range: u64| (next(seed) % range) as u8;
        (of(seed, 2), text(seed), of(seed, 2), last_text, of(seed, 100))
    };
    (0..count).map(|_| row(seed)).collect()
}

/// Ties of `rows`, which are in the order of their words, up to the first row from `wanted` on that does not tie.
fn resolved(rows: &[Row], wanted: usize, threads: usize, bytes_max: u64) -> Result<Resolved> {
    let order = layout();
    let mut ties = Ties::new(&order, bytes_max);
    for (place, row) in rows.iter().enumerate() {
        if !ties.add(place, &words_of(row), &[place as u64, place as u64 + 1000])? && place >= wanted {
            break;
        }
    }
    let read = |key: &TextKey, numbers: &[i64], give: &mut dyn FnMut(&[u8])| {
        for number in numbers {
            let text = match key.key {
                1 => Some(&rows[*number as usize].1),
                _ => rows[*number as usize - 1000].3.as_ref(),
            };
            let text = text.expect("NULL is not read");
            assert!(text.len() > 15, "{text:?} is whole in its words");
            give(text);
        }
        Ok(())
    };
    ties.resolve(&read, threads, &CancelFlag::new())
}

#[test]
fn rows_of_ties_are_in_the_order_of_whole_texts_and_of_the_keys_after_them() {
    let mut seed = 11;
    for count in [0, 1, 2, 3, 10, 100, 1000] {
        for threads in [1, 3] {
            let mut by_words = rows(count, &mut seed);
            by_words.sort_by_key(words_of);
            let mut expected = by_words.clone();
            expected.sort_by(compare);
            let resolved = resolved(&by_words, usize::MAX, threads, u64::MAX).unwrap();
            let mut found: Vec<usize> = (0..count).collect();
            resolved.apply(&mut found);
            let found: Vec<&Row> = found.iter().map(|row| &by_words[*row]).collect();
            assert_eq!(found, expected.iter().collect::<Vec<_>>());
            let begins_anew = |place: &usize| {
                let [a, b] = [*place - 1, *place].map(|place| found[place]);
                let first = (a.0, &a.1) != (b.0, &b.1);
                let second = (a.2, &a.3) != (b.2, &b.3);
                let steps = layout();
                let steps = TextSteps::of(&steps);
                let tied = [0, 1].map(|step| steps.are_tied(step, &words_of(a), &words_of(b)));
                match (first, second, tied) {
                    (true, _, [true, _]) => Some((*place, 1)),
                    (false, true, [true, true]) => Some((*place, 3)),
                    _ => None,
                }
            };
            let expected: Vec<(usize, usize)> = (1..count).filter_map(|place| begins_anew(&place)).collect();
            assert_eq!(resolved.breaks(), expected);
        }
    }
}

#[test]
fn the_first_rows_are_right_where_not_all_are_looked_at() {
    let mut seed = 12;
    let mut by_words = rows(300, &mut seed);
    by_words.sort_by_key(words_of);
    let mut expected = by_words.clone();
    expected.sort_by(compare);
    for wanted in [0, 1, 2, 50, 299, 300] {
        let mut found = by_words.clone();
        let resolved = resolved(&by_words, wanted, 2, u64::MAX).unwrap();
        let mut places: Vec<usize> = (0..300).collect();
        resolved.apply(&mut places);
        places.iter().enumerate().for_each(|(to, from)| found[to] = by_words[*from].clone());
        assert_eq!(found[..wanted], expected[..wanted], "the first {wanted}");
    }
}

#[test]
fn a_tie_of_very_many_rows_is_sorted_by_all_threads() {
    let count = LONG_TIE + 77;
    let row = |number: usize| {
        let text = format!("http://www.example.org/{}", number * 7919 % count).into_bytes();
        (1, text, 0, None, 0)
    };
    let rows: Vec<Row> = (0..count).map(row).collect();
    let resolved = resolved(&rows, usize::MAX, 3, u64::MAX).unwrap();
    assert_eq!((resolved.row_count(), resolved.breaks().len()), (count as u64, count - 1));
    let mut found: Vec<u32> = (0..count as u32).collect();
    resolved.apply(&mut found);
    assert!(found.windows(2).all(|pair| rows[pair[0] as usize].1 < rows[pair[1] as usize].1));
}

#[test]
fn rows_of_no_tie_take_no_memory_and_ties_no_more_than_they_may() {
    let row = |text: &str| (0, text.as_bytes().to_vec(), 0, None, 0);
    let apart: Vec<Row> = (0..90).map(|number| row(&format!("{number:02} that goes on and on"))).collect();
    assert_eq!(resolved(&apart, usize::MAX, 1, 200).unwrap().row_count(), 0);
    let alike: Vec<Row> = (0..90).map(|number| row(&format!("a text that goes on to {number:02}"))).collect();
    let refusal = resolved(&alike, usize::MAX, 1, 200).err().expect("a refusal");
    assert_eq!(refusal.kind(), &pelton_error::ErrorKind::Unsupported);
    assert!(refusal.to_string().contains("whose texts begin alike"), "{refusal}");
}
