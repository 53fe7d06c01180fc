//! The part of a text that a pattern of its whole takes out, as `regexp_replace(text, '^…(…)…$', '\1')` does.
//!
//! ```text
//!   ^https?://(?:www\.)?([^/]+)/.*$
//!
//!   "http"   "s" or nothing   "://"   "www." or nothing   ( bytes but "/", at least one )   "/"   bytes but "\n"   end
//! ```
//!
//! Such a pattern has few ways to match: what may be left out is taken where that leads to a match, the first one before
//! the others, and as many bytes of a set are taken as there are, since none of them begins what follows. Kernels
//! compute the same (cuda/pipeline/text.h), each text in one pass unless something has to be left out.

use std::ops::Range;

/// What may be left out, at most: as many ways there are to the power of two.
pub const OPTIONAL_MAX: usize = 6;

/// A pattern of a whole text, and which part of it is taken. A text that it does not match is taken as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextExtract {
    steps: Vec<ExtractStep>,
}

/// A piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExtractStep {
    /// These bytes, of which there are some.
    Literal(Vec<u8>),
    /// These bytes, of which there are some, or nothing where they do not lead to a match.
    Optional(Vec<u8>),
    /// As many bytes of a set as there are.
    Bytes {
        /// The set.
        set: ByteSet,
        /// Whether there has to be one.
        is_some: bool,
    },
    /// The part begins here.
    Begin,
    /// The part ends here.
    End,
}

/// A set of bytes: bit `b % 64` of word `b / 64` is byte `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteSet(pub [u64; 4]);

impl ByteSet {
    /// Whether `byte` is in it.
    pub fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    /// The only byte that is not in it.
    pub fn lacks_one(&self) -> Option<u8> {
        let lacking = self.0.map(|word| !word);
        let is_one = lacking.iter().map(|word| word.count_ones()).sum::<u32>() == 1;
        let word = lacking.iter().position(|word| *word != 0)?;
        is_one.then(|| (word * 64) as u8 + lacking[word].trailing_zeros() as u8)
    }
}

impl TextExtract {
    /// A pattern of these steps; `None` where they are not matched in one pass: a byte of a set may begin what follows,
    /// too much may be left out, or the part does not begin once and then end once.
    pub fn new(steps: Vec<ExtractStep>) -> Option<Self> {
        let places = |wanted: &ExtractStep| -> Vec<usize> {
            steps.iter().enumerate().filter(|(_, step)| *step == wanted).map(|(at, _)| at).collect()
        };
        let is_one_part = match (&places(&ExtractStep::Begin)[..], &places(&ExtractStep::End)[..]) {
            ([begin], [end]) => begin < end,
            _ => false,
        };
        let is_empty = |step: &ExtractStep| match step {
            ExtractStep::Literal(bytes) | ExtractStep::Optional(bytes) => bytes.is_empty(),
            _ => false,
        };
        let optional = steps.iter().filter(|step| matches!(step, ExtractStep::Optional(_))).count();
        let is_in_one_pass = (0..steps.len()).all(|at| match &steps[at] {
            ExtractStep::Bytes { set, .. } => ends_set(set, &steps[at + 1..]),
            _ => true,
        });
        let is_held = is_one_part && is_in_one_pass && optional <= OPTIONAL_MAX;
        (is_held && !steps.iter().any(is_empty)).then_some(Self { steps })
    }

    /// Its steps.
    pub fn steps(&self) -> &[ExtractStep] {
        &self.steps
    }

    /// How many of its steps may be left out.
    pub fn optional_count(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, ExtractStep::Optional(_))).count()
    }

    /// Where the part of `text` lies.
    pub fn part_of(&self, text: &[u8]) -> Range<usize> {
        // The first one that may be left out is the highest bit: it is left out last.
        let ways = 1_u32 << self.optional_count();
        (0..ways).find_map(|left_out| self.matched(text, left_out)).unwrap_or(0..text.len())
    }

    /// The part, where the pattern matches without what is `left_out`.
    fn matched(&self, text: &[u8], left_out: u32) -> Option<Range<usize>> {
        let (mut at, mut part, mut optional) = (0, 0..0, self.optional_count());
        for step in &self.steps {
            match step {
                ExtractStep::Literal(bytes) => at += starts_with(&text[at..], bytes)?,
                ExtractStep::Optional(bytes) => {
                    optional -= 1;
                    if left_out >> optional & 1 == 0 {
                        at += starts_with(&text[at..], bytes)?;
                    }
                }
                ExtractStep::Bytes { set, is_some } => {
                    let rest = &text[at..];
                    let count = match set.lacks_one() {
                        Some(byte) => find(byte, rest),
                        None => rest.iter().position(|byte| !set.has(*byte)),
                    };
                    let count = count.unwrap_or(rest.len());
                    if *is_some && count == 0 {
                        return None;
                    }
                    at += count;
                }
                ExtractStep::Begin => part.start = at,
                ExtractStep::End => part.end = at,
            }
        }
        (at == text.len()).then_some(part)
    }
}

/// Whether as many bytes of `set` as there are can be taken before `following`: no fewer would lead to a match.
fn ends_set(set: &ByteSet, following: &[ExtractStep]) -> bool {
    for step in following {
        match step {
            ExtractStep::Literal(bytes) => return bytes.first().is_some_and(|first| !set.has(*first)),
            ExtractStep::Optional(bytes) if bytes.first().is_some_and(|first| !set.has(*first)) => {}
            ExtractStep::Bytes { set: next, is_some }
                if (0..4).all(|word| set.0[word] & next.0[word] == 0) =>
            {
                if *is_some {
                    return true;
                }
            }
            ExtractStep::Begin | ExtractStep::End => {}
            ExtractStep::Optional(_) | ExtractStep::Bytes { .. } => return false,
        }
    }
    true
}

/// The length of `bytes`, where `text` starts with them.
fn starts_with(text: &[u8], bytes: &[u8]) -> Option<usize> {
    text.starts_with(bytes).then_some(bytes.len())
}

/// Where `byte` is first in `text`, looked for in 8 bytes at once.
fn find(byte: u8, text: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let mut words = text.chunks_exact(8);
    for (number, word) in (&mut words).enumerate() {
        let word = u64::from_le_bytes(word.try_into().expect("8 bytes")) ^ (LOW * u64::from(byte));
        // The highest bit of each byte that is 0; of those above the lowest such one it may say so wrongly.
        let zeros = word.wrapping_sub(LOW) & !word & (LOW << 7);
        if zeros != 0 {
            return Some(8 * number + zeros.trailing_zeros() as usize / 8);
        }
    }
    let rest = words.remainder();
    rest.iter().position(|other| *other == byte).map(|at| text.len() - rest.len() + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn but(bytes: &[u8]) -> ByteSet {
        let mut set = [u64::MAX; 4];
        bytes.iter().for_each(|byte| set[usize::from(byte >> 6)] &= !(1 << (byte & 63)));
        ByteSet(set)
    }

    fn literal(text: &str) -> ExtractStep {
        ExtractStep::Literal(text.into())
    }

    fn optional(text: &str) -> ExtractStep {
        ExtractStep::Optional(text.into())
    }

    fn bytes_but(bytes: &str, is_some: bool) -> ExtractStep {
        ExtractStep::Bytes { set: but(bytes.as_bytes()), is_some }
    }

    fn host_of_url() -> TextExtract {
        let steps = vec![
            literal("http"),
            optional("s"),
            literal("://"),
            optional("www."),
            ExtractStep::Begin,
            bytes_but("/", true),
            ExtractStep::End,
            literal("/"),
            bytes_but("\n", false),
        ];
        TextExtract::new(steps).unwrap()
    }

    #[test]
    fn the_part_is_what_the_pattern_takes_out_or_all_of_the_text() {
        let extract = host_of_url();
        let part = |text: &'static str| &text[extract.part_of(text.as_bytes())];
        assert_eq!(part("http://www.example.org/a/b"), "example.org");
        assert_eq!(part("https://example.org/"), "example.org");
        assert_eq!(part("https://www./"), "www."); // what may be left out is left out
        assert_eq!(part("https://www.w/"), "w");
        assert_eq!(part("http://é.日本/é"), "é.日本");
        for whole in
            ["", "http", "http://example.org", "ftp://a/", "http:///a", "http://a/b\nc", "xhttp://a/"]
        {
            assert_eq!(part(whole), whole);
        }
    }

    #[test]
    fn what_is_first_is_left_out_last() {
        let steps = vec![
            ExtractStep::Begin,
            optional("a"),
            ExtractStep::End,
            optional("ab"),
            ExtractStep::Bytes { set: ByteSet([0, 1 << (b'b' - 64), 0, 0]), is_some: false },
        ];
        let extract = TextExtract::new(steps).unwrap();
        assert_eq!(extract.part_of(b"aab"), 0..1);
        assert_eq!(extract.part_of(b"ab"), 0..1, "a and then b's, not nothing and then ab");
        assert_eq!(extract.part_of(b"bb"), 0..0);
        assert_eq!(extract.part_of(b"c"), 0..1, "no match");
    }

    #[test]
    fn patterns_that_take_more_than_one_pass_are_none() {
        let part = |inside: Vec<ExtractStep>| {
            let steps = [vec![ExtractStep::Begin], inside, vec![ExtractStep::End]].concat();
            TextExtract::new(steps)
        };
        assert!(part(vec![bytes_but("/", true), literal("a")]).is_none(), "the set has an a");
        assert!(part(vec![bytes_but("/", true), optional("a"), literal("/")]).is_none());
        assert!(part(vec![bytes_but("/", true), optional("/"), bytes_but("a", false)]).is_none());
        assert!(part(vec![bytes_but("/", true), optional("/"), literal("/a")]).is_some());
        assert!(part(vec![bytes_but("/", true)]).is_some());
        assert!(part(vec![literal("")]).is_none());
        assert!(part(vec![optional("a"); OPTIONAL_MAX + 1]).is_none());
        assert!(TextExtract::new(vec![literal("a")]).is_none(), "no part");
        assert!(TextExtract::new(vec![ExtractStep::End, ExtractStep::Begin]).is_none());
    }

    #[test]
    fn a_byte_is_found_at_every_place() {
        for length in 0..40 {
            for at in 0..=length {
                for (byte, other) in [(b'/', b'0'), (b'/', b'.'), (0, 1), (0xFF, 0xFE), (0x80, 0)] {
                    let mut text = vec![other; length];
                    text[at..].fill(byte);
                    assert_eq!(find(byte, &text), (at < length).then_some(at));
                }
            }
        }
    }

    #[test]
    fn the_only_byte_that_a_set_lacks_is_found() {
        for byte in 0..=u8::MAX {
            assert_eq!(but(&[byte]).lacks_one(), Some(byte));
        }
        assert_eq!(but(&[1, 200]).lacks_one(), None);
        assert_eq!(but(&[]).lacks_one(), None);
    }
}
