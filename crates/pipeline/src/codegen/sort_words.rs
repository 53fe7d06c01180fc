//! Sort keys as unsigned words, whose order is that of the keys.
//!
//! ```text
//!   key       number, from 0 to the greatest that it may be        integers: less the least one; doubles: their bits in
//!                                                                   order; texts: entries of a sorted dictionary, or their beginning
//!     descending    the greatest less the number
//!     NULL          0, and all others 1 more; or 1 more than all others; where no number is left, a bit of its own
//!   keys      a ‖ b ‖ c          as many bits each as its greatest number has
//!   words     ...aaaa│aabbbbbb│cccccccc      cut into words of 64 bits from the right: sorted by the last word first
//! ```
//!
//! What is known of columns makes keys narrow: a flag and a date are one word of 13 bits, which a radix sort goes over
//! twice. Of a text without a dictionary a key has the first 15 bytes: whoever sorts puts those in order that begin alike.
//! (Normalised keys: Graefe, "Implementing Sorting in Database Systems", 2006, section 2.2.)

use pelton_error::{Error, Result};

use super::block::Block;
use super::expr;
use super::layout::{OrderLayout, TextKey};
use super::source::RowScope;
use super::text_extremes::in_order;
use super::value::{Form, Value};
use crate::ir::{Bounds, RowOrder, SHORT_TEXT_BYTES, SortKey, Type};

/// Bits of a word.
const WORD_BITS: u32 = 64;
/// The lowest byte of a text's beginning where the text goes on beyond it (cuda/pipeline/text.h).
const GOES_ON: u8 = SHORT_TEXT_BYTES as u8 + 1;

/// Some bits of the keys: the lowest of `code`, in which no others are set.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    /// A name or an expression of type u64 that is cheap to repeat.
    code: String,
    /// 1 to 64.
    bits: u32,
}

/// A key as a number.
struct Number {
    /// Of type u128 where `is_wide`, else u64.
    code: String,
    greatest: u128,
    is_wide: bool,
}

/// Generates the words that a row is sorted by, the one that decides first before the others.
///
/// # Errors
///
/// `Unsupported` for integers without bounds, and for texts that are not found again where they begin alike.
pub(super) fn sort_words(
    order: &RowOrder,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<(Vec<Value>, OrderLayout)> {
    let (mut fields, mut key_bits, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for (number, key) in order.keys.iter().enumerate() {
        let value = expr::generate(&key.key, scope, block)?;
        let value = in_order(value, scope, block)?;
        if value.form == Form::View {
            texts.push(text_key(number, key, &value)?);
        }
        let of_key = fields_of(&value, key, block)?;
        key_bits.push(of_key.iter().map(|field| field.bits).sum());
        fields.extend(of_key);
    }
    let words = pack(&fields);
    let word_bits = words.iter().map(|parts| parts.iter().map(|part| part.bits).sum()).collect();
    let values = words.iter().map(|parts| {
        let code = parts.iter().map(WordPart::code).collect::<Vec<_>>().join(" | ");
        let name = block.define("u64", "o", code);
        Value::new(format!("i64({name})"), Type::I64, None)
    });
    let (row_count, windows) = (order.row_count, order.windows.clone());
    Ok((values.collect(), OrderLayout { word_bits, key_bits, texts, row_count, windows }))
}

/// What is known of key `number`, a view.
fn text_key(number: usize, key: &SortKey, value: &Value) -> Result<TextKey> {
    let unknown = || Error::unsupported("a sort by text without a dictionary, which nobody finds again");
    let column = key.text.ok_or_else(unknown)?;
    // Numbers of 128 bits are left for NULL.
    let before = u8::from(key.nulls_first && value.valid.is_some());
    let goes_on = before + if key.is_descending { 0 } else { GOES_ON };
    Ok(TextKey { key: number, column, is_descending: key.is_descending, goes_on })
}

/// The bits of `value` as `key`, the highest first; none where all rows have the same.
fn fields_of(value: &Value, key: &SortKey, block: &mut Block) -> Result<Vec<Field>> {
    let Number { code, greatest, is_wide } = number_of(value)?;
    let ty = if is_wide { "u128" } else { "u64" };
    let constant = |number: u128| if is_wide { wide_constant(number) } else { format!("{number}ull") };
    let all = if is_wide { u128::MAX } else { u64::MAX.into() };
    let code = if key.is_descending { format!("{} - ({code})", constant(greatest)) } else { code };
    let mut fields = Vec::new();
    let (code, greatest) = match &value.valid {
        None => (code, greatest),
        Some(valid) if greatest < all && key.nulls_first => {
            (format!("{valid} ? {ty}({code}) + 1 : {ty}(0)"), greatest + 1)
        }
        Some(valid) if greatest < all => {
            (format!("{valid} ? {ty}({code}) : {}", constant(greatest + 1)), greatest + 1)
        }
        Some(valid) => {
            let sign = if key.nulls_first { "" } else { "!" };
            fields.push(Field { code: format!("u64({sign}{valid})"), bits: 1 });
            (format!("{valid} ? {ty}({code}) : {ty}(0)"), greatest)
        }
    };
    let bits = u128::BITS - greatest.leading_zeros();
    if bits == 0 {
        return Ok(fields);
    }
    let name = block.define(ty, "k", code);
    if bits > WORD_BITS {
        fields.push(Field { code: format!("u64({name} >> 64)"), bits: bits - WORD_BITS });
    }
    fields.push(Field { code: format!("u64({name})"), bits: bits.min(WORD_BITS) });
    Ok(fields)
}

/// How far apart two values may be: of no value at all, 0.
fn span_of(bounds: Bounds) -> u128 {
    if bounds.min > bounds.max { 0 } else { bounds.max.wrapping_sub(bounds.min) as u128 }
}

fn number_of(value: &Value) -> Result<Number> {
    let code = &value.code;
    let narrow = |code: String, greatest: u128| Number { code, greatest, is_wide: false };
    Ok(match (value.form, &value.dictionary) {
        (Form::Bool, _) => narrow(format!("u64({code} ? 1 : 0)"), 1),
        (Form::I32 | Form::I64, _) => {
            let bounds =
                value.bounds.ok_or_else(|| Error::unsupported("a sort by integers without bounds"))?;
            // A difference modulo 2^64 that lies below that.
            let (least, greatest) = (bounds.min as i64 as u64, span_of(bounds));
            narrow(format!("(u64)i64({code}) - {least}ull"), greatest)
        }
        (Form::I128, _) => match value.bounds {
            Some(bounds) => {
                let greatest = span_of(bounds);
                let least = wide_constant(bounds.min as u128);
                let is_wide = greatest > u64::MAX.into();
                let ty = if is_wide { "u128" } else { "u64" };
                Number { code: format!("{ty}(u128({code}) - {least})"), greatest, is_wide }
            }
            None => {
                let code = format!("u128({code}) ^ {}", wide_constant(1 << 127));
                Number { code, greatest: u128::MAX, is_wide: true }
            }
        },
        (Form::F64, _) => narrow(format!("u64(order_of_bits({code})) ^ {}ull", 1_u64 << 63), u64::MAX.into()),
        (Form::Id, Some(dictionary)) => {
            narrow(format!("u64({code})"), dictionary.entries.len().saturating_sub(1) as u128)
        }
        (Form::Short, _) => Number { code: code.clone(), greatest: u128::MAX, is_wide: true },
        (Form::View, _) => Number {
            code: format!("text_prefix({code})"),
            greatest: u128::MAX << 8 | u128::from(GOES_ON),
            is_wide: true,
        },
        (Form::Id | Form::Kept, _) => {
            return Err(Error::unsupported("a sort by text without a dictionary"));
        }
    })
}

/// Some bits of a field, at their place in a word.
#[derive(Debug, PartialEq, Eq)]
struct WordPart {
    field: String,
    /// The lowest of its bits.
    from: u32,
    bits: u32,
    /// Where that comes to lie.
    to: u32,
    /// Bits above these are set in the field.
    has_more: bool,
}

impl WordPart {
    fn code(&self) -> String {
        let Self { field, from, bits, to, has_more } = self;
        let shifted = if *from > 0 { format!("({field} >> {from})") } else { field.clone() };
        let mask = u64::MAX >> (WORD_BITS - bits);
        let masked = if *has_more { format!("({shifted} & {mask}ull)") } else { shifted };
        if *to > 0 { format!("({masked} << {to})") } else { masked }
    }
}

/// `fields`, the highest first, as words, the highest first: full ones but for that.
fn pack(fields: &[Field]) -> Vec<Vec<WordPart>> {
    let mut words: Vec<Vec<WordPart>> = Vec::new();
    let mut used = WORD_BITS;
    for field in fields.iter().rev() {
        let mut from = 0;
        while from < field.bits {
            if used == WORD_BITS {
                words.push(Vec::new());
                used = 0;
            }
            let bits = (field.bits - from).min(WORD_BITS - used);
            let has_more = from + bits < field.bits;
            let part = WordPart { field: field.code.clone(), from, bits, to: used, has_more };
            words.last_mut().expect("it was just pushed").push(part);
            (from, used) = (from + bits, used + bits);
        }
    }
    words.reverse();
    words
}

fn wide_constant(number: u128) -> String {
    format!("((u128({}ull) << 64) | u128({}ull))", (number >> 64) as u64, number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Expr;

    fn field(code: &str, bits: u32) -> Field {
        Field { code: code.into(), bits }
    }

    fn codes(fields: &[Field]) -> Vec<String> {
        let code = |parts: &Vec<WordPart>| parts.iter().map(WordPart::code).collect::<Vec<_>>().join(" | ");
        pack(fields).iter().map(code).collect()
    }

    fn fields(value: &Value, is_descending: bool, nulls_first: bool) -> (String, Vec<u32>) {
        let mut block = Block::default();
        let key = SortKey { key: Expr::Column(0), is_descending, nulls_first, text: None };
        let fields = fields_of(value, &key, &mut block).unwrap();
        (block.into_text(), fields.iter().map(|field| field.bits).collect())
    }

    #[test]
    fn narrow_keys_share_a_word() {
        assert_eq!(codes(&[field("a", 1), field("b", 12)]), ["b | (a << 12)"]);
        assert_eq!(codes(&[]), Vec::<String>::new());
        assert_eq!(codes(&[field("a", 64)]), ["a"]);
    }

    #[test]
    fn words_but_the_first_are_full() {
        let found = codes(&[field("a", 1), field("b", 64)]);
        assert_eq!(found, ["a", "b"]);
        let found = codes(&[field("a", 40), field("b", 40), field("c", 40)]);
        assert_eq!(found, ["(b >> 24) | (a << 16)", "c | ((b & 16777215ull) << 40)"]);
        let found = codes(&[field("a", 64), field("b", 1)]);
        assert_eq!(found, ["(a >> 63)", "b | ((a & 9223372036854775807ull) << 1)"]);
    }

    #[test]
    fn bounds_say_how_many_bits_a_key_has() {
        let bits = |min, max, valid: Option<&str>| {
            let bounds = Some(Bounds { min, max });
            fields(&Value::new("x", Type::I64, bounds).with_valid(valid.map(str::to_owned)), false, true).1
        };
        assert_eq!(bits(5, 5, None), Vec::<u32>::new(), "a constant decides nothing");
        assert_eq!(bits(5, 5, Some("v")), [1]);
        assert_eq!(bits(-1, 254, None), [8]);
        assert_eq!(bits(-1, 254, Some("v")), [9], "NULL is one more");
        assert_eq!(bits(i64::MIN.into(), i64::MAX.into(), None), [64]);
        assert_eq!(bits(i64::MIN.into(), i64::MAX.into(), Some("v")), [1, 64]);
        assert_eq!(bits(i64::MIN.into(), i128::from(i64::MAX) - 1, Some("v")), [64]);
    }

    #[test]
    fn masks_tell_the_bits_of_the_first_keys() {
        let layout = |word_bits: &[u32], key_bits: &[u32]| OrderLayout {
            word_bits: word_bits.to_vec(),
            key_bits: key_bits.to_vec(),
            texts: Vec::new(),
            row_count: None,
            windows: None,
        };
        let one = layout(&[13], &[1, 12]);
        assert_eq!(
            (one.masks_of(0), one.masks_of(1), one.masks_of(2)),
            (vec![0], vec![0x1000], vec![0x1FFF])
        );
        // 16 bits of b are in the first word, 24 in the second, with all of c.
        let two = layout(&[56, 64], &[40, 40, 40]);
        assert_eq!(two.masks_of(1), [((1 << 40) - 1) << 16, 0]);
        assert_eq!(two.masks_of(2), [(1 << 56) - 1, u64::MAX << 40]);
        assert_eq!(two.masks_of(3), [(1 << 56) - 1, u64::MAX]);
        assert_eq!(layout(&[64, 64], &[64, 64]).masks_of(1), [u64::MAX, 0]);
        // A key that all rows have in common decides nothing, and no key makes no word.
        assert_eq!(layout(&[13], &[0, 13]).masks_of(1), [0]);
        assert_eq!(layout(&[], &[0, 0]).masks_of(2), [] as [u64; 0]);
    }

    #[test]
    fn the_lowest_byte_of_a_key_is_found_wherever_words_are_cut() {
        let mut layout = OrderLayout {
            word_bits: vec![8, 64, 64],
            key_bits: vec![8, 128],
            texts: Vec::new(),
            row_count: None,
            windows: None,
        };
        assert_eq!(layout.lowest_byte(1, &[0xAB, 1, 0xCD]), 0xCD);
        assert_eq!(layout.lowest_byte(0, &[0xAB, 1, 0xCD]), 0xAB);
        // 60 bits of the last key, after which the byte is cut in two.
        (layout.word_bits, layout.key_bits) = (vec![60, 64, 64], vec![128, 60]);
        assert_eq!(layout.lowest_byte(0, &[0, 0xB, 0xA << 60]), 0xBA);
        (layout.word_bits, layout.key_bits) = (vec![64, 64, 64], vec![128, 64]);
        assert_eq!(layout.lowest_byte(0, &[0, 0xBA, u64::MAX]), 0xBA);
    }

    #[test]
    fn texts_that_go_on_are_told_from_others_and_from_null() {
        let text = |is_descending, nulls_first, valid: Option<&str>| {
            let key = SortKey { key: Expr::Column(0), is_descending, nulls_first, text: Some(3) };
            let value = Value { form: Form::View, ..Value::new("x", Type::Text, None) };
            let value = value.with_valid(valid.map(str::to_owned));
            let mut block = Block::default();
            let bits: u32 = fields_of(&value, &key, &mut block).unwrap().iter().map(|field| field.bits).sum();
            assert_eq!(bits, 128, "NULL takes no bit");
            let found = text_key(7, &key, &value).unwrap();
            assert_eq!((found.key, found.column, found.is_descending), (7, 3, is_descending));
            found.goes_on
        };
        assert_eq!([text(false, true, None), text(true, true, None)], [16, 0]);
        assert_eq!([text(false, true, Some("v")), text(true, true, Some("v"))], [17, 1]);
        assert_eq!([text(false, false, Some("v")), text(true, false, Some("v"))], [16, 0]);
    }

    #[test]
    fn wide_keys_are_two_fields() {
        let wide = Value { form: Form::I128, ..Value::new("x", Type::I128, None) };
        assert_eq!(fields(&wide, true, false).1, [64, 64]);
        let valid = wide.clone().with_valid(Some("v".into()));
        assert_eq!(fields(&valid, true, false).1, [1, 64, 64]);
        let bounds = Some(Bounds { min: -(10_i128.pow(20)), max: 10_i128.pow(20) });
        let bounded = Value { form: Form::I128, ..Value::new("x", Type::I128, bounds) };
        assert_eq!(fields(&bounded, false, false).1, [4, 64]);
    }
}
