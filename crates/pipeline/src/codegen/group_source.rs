//! The groups of an earlier pipeline as the source of this one: read where they lie, by place, and never copied.
//!
//! ```text
//!   row group   the places from c[0] on; all of a row group are one page
//!   row         a place that has a group: its key is the place, the word of its slot, or words behind its state
//! ```

use super::args::{Arg, Args};
use super::block::Block;
use super::layout::{GroupKind, GroupLayout, KeyDomain, WordKind};
use super::value::{Form, Value, i64_constant};
use crate::ir::Type;

/// Places of a row group at most.
pub const ROW_GROUP_PLACES: u64 = 1 << 30;
/// A row group is one page.
pub(super) const ONE_PAGE: &str = "const u32 page_rows = 1u << 30;";
/// The place of row `r` of `lane`.
pub(super) const PLACE: &str = "const u64 place = c[0] + (u64(v) << 10) + position_of(r, lane);";

/// Leaves of the mask the places that have a group.
pub(super) fn occupied(layout: &GroupLayout, args: &mut Args, body: &mut Block) {
    if layout.kind == GroupKind::Global {
        return;
    }
    let groups = args.pointer(Arg::SourceGroups, "const u64");
    body.open("EACH_LANE {");
    body.line("const u32 all = AT(mask);");
    body.line("u32 keep = 0;");
    body.line("UNROLL_4");
    body.open("for (u32 r = 0; r < 32; r++) {");
    body.open("if (all >> r & 1) {");
    body.line(PLACE);
    body.line(format!("keep |= u32(load({groups} + place * {}) != 0) << r;", layout.width()));
    body.close();
    body.close();
    body.line("AT(mask) = keep;");
    body.close();
    body.line("if (!any_lane(mask)) continue;");
}

/// Column `index` of the group at `place`.
pub(super) fn load(layout: &GroupLayout, index: usize, args: &mut Args, block: &mut Block) -> Value {
    let groups = args.pointer(Arg::SourceGroups, "const u64");
    let width = layout.width();
    let word = |word: usize| format!("load({groups} + place * {width} + {word})");
    if let Some(output) = index.checked_sub(layout.key_count()) {
        let column = &layout.columns()[index];
        let output = &layout.outputs[output];
        let valid = output.count_word.filter(|_| column.is_nullable);
        let valid = valid.map(|count| block.define("bool", "n", format!("{} != 0", word(count))));
        let high = match layout.words[output.word] {
            WordKind::AddLow { .. } => word(output.word + 1),
            _ => format!("u64(i64({}) >> 63)", word(output.word)),
        };
        let name = match (column.form, layout.words[output.word]) {
            (Form::View, _) => {
                let heap = args.pointer(Arg::SourceTextHeap, "const u64");
                let kept = block.define("u64", "x", word(output.word));
                let name = block.define("TextView", "x", format!("kept_text({heap}, {kept})"));
                let value = Value::new(name, column.ty, None).with_valid(valid);
                return Value { form: Form::View, kept: Some(kept), ..value };
            }
            // Tables are looked up by the number of a text, whether or not it is NULL.
            (Form::Id, _) => {
                let number = format!("u32({})", word(output.word));
                let number =
                    valid.as_ref().map_or(number.clone(), |valid| format!("({valid} ? {number} : 0u)"));
                block.define("u32", "x", number)
            }
            (Form::F64, WordKind::Min | WordKind::Max) => {
                block.define("f64", "x", format!("of_order(i64({}))", word(output.word)))
            }
            _ => from_words(column.form, &word(output.word), &high, block),
        };
        let value = Value::new(name, column.ty, column.bounds).with_valid(valid);
        return Value { form: column.form, dictionary: column.dictionary.clone(), ..value };
    }
    if let Some(wide) = &layout.wide {
        let key = &wide.keys[index];
        let name = from_words(key.column.form, &word(key.word), &word(key.word + 1), block);
        let null_word = wide.null_word.filter(|_| key.column.is_nullable);
        let valid = null_word
            .map(|null_word| block.define("bool", "n", format!("!({} >> {index} & 1)", word(null_word))));
        let value = Value::new(name, key.column.ty, key.column.bounds).with_valid(valid);
        let mut value = Value { form: key.column.form, ..value };
        value.dictionary = key.column.dictionary.clone();
        return value;
    }
    let packed = match layout.kind {
        GroupKind::Hashed => {
            format!("load({} + place)", args.pointer(Arg::SourceGroupKeys, "const u64"))
        }
        _ => "place".into(),
    };
    let stride: u64 = layout.keys[..index].iter().map(KeyDomain::count).product();
    let key = &layout.keys[index];
    let column = &layout.columns()[index];
    let number = block.define("u64", "k", format!("{packed} / {stride}ull % {}ull", key.count()));
    let code = match key.ty {
        Type::Bool => format!("{number} == 1"),
        Type::Text => format!("u32({number})"),
        _ => format!("{}(i64({number} + u64({})))", column.form.c_type(), i64_constant(key.min as i64)),
    };
    let valid = key.is_nullable.then(|| block.define("bool", "n", format!("{number} != {}ull", key.size)));
    let name = block.define(column.form.c_type(), "x", code);
    let mut value = Value::new(name, key.ty, column.bounds).with_valid(valid);
    value.dictionary = key.dictionary.clone();
    value
}

/// A value of `form` from a word, or from two.
fn from_words(form: Form, low: &str, high: &str, block: &mut Block) -> String {
    let code = match form {
        Form::Bool => format!("{low} != 0"),
        Form::I32 => format!("i32(i64({low}))"),
        Form::I64 => format!("i64({low})"),
        Form::I128 => format!("i128((u128({high}) << 64) | u128({low}))"),
        Form::F64 => format!("of_bits({low})"),
        Form::Id => format!("u32({low})"),
        Form::Short => format!("(u128({high}) << 64) | u128({low})"),
        Form::View | Form::Kept => unreachable!("no group has views"),
    };
    block.define(form.c_type(), "x", code)
}
