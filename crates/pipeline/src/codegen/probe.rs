//! Packing keys into one number, or hashing them to one, and looking them up.

use pelton_error::Result;

use super::args::Arg;
use super::block::Block;
use super::expr;
use super::layout::KeyDomain;
use super::source::RowScope;
use super::value::{Form, Value, i64_constant};
use crate::ir::{Expr, Type};

/// A key as a number from 0, without NULL: below `size` where the domain has it.
fn offset(value: &Value, domain: &KeyDomain) -> String {
    match value.form {
        Form::Bool | Form::Id => format!("u64({})", value.code),
        _ if domain.min == 0 => format!("(u64)i64({})", value.code),
        _ => format!("((u64)i64({}) - u64({}))", value.code, i64_constant(domain.min as i64)),
    }
}

/// The packed key of keys that are known to lie in their domains; NULL keys count as one more value.
pub(super) fn packed_key(values: &[Value], domains: &[KeyDomain], block: &mut Block) -> String {
    let mut stride = 1u64;
    let mut terms = Vec::with_capacity(values.len());
    for (value, domain) in values.iter().zip(domains) {
        let offset = offset(value, domain);
        let number = match &value.valid {
            Some(valid) => format!("({valid} ? {offset} : {}ull)", domain.size),
            None => offset,
        };
        terms.push(if stride == 1 { number } else { format!("{number} * {stride}ull") });
        stride = stride.saturating_mul(domain.count());
    }
    let sum = if terms.is_empty() { "0ull".into() } else { terms.join(" + ") };
    block.define("u64", "k", sum)
}

/// The condition that keys are not NULL and lie in their domains, and then their packed key.
pub(super) fn packed_key_within(
    values: &[Value],
    domains: &[KeyDomain],
    block: &mut Block,
) -> (String, String) {
    let mut conditions = Vec::new();
    let mut terms = Vec::with_capacity(values.len());
    let mut stride = 1u64;
    for (value, domain) in values.iter().zip(domains) {
        conditions.extend(value.valid.clone());
        if value.form == Form::I128 {
            // Beyond 64 bits nothing can match, because keys of tables are within.
            conditions.push(format!("{} == i64({})", value.code, value.code));
        }
        let offset = block.define("u64", "o", offset(value, domain));
        let is_inside = value.bounds.is_some_and(|bounds| {
            bounds.min >= domain.min && bounds.max < domain.min + i128::from(domain.size)
        });
        if !is_inside {
            conditions.push(format!("{offset} < {}ull", domain.size));
        }
        terms.push(if stride == 1 { offset } else { format!("{offset} * {stride}ull") });
        stride = stride.saturating_mul(domain.count());
    }
    let condition = if conditions.is_empty() { "true".into() } else { conditions.join(" && ") };
    let key = block.define("u64", "k", terms.join(" + "));
    (condition, key)
}

/// The words of a key, by which it is hashed and compared: those of equal keys are equal however the two sides hold them.
/// Both sides have one type.
fn words_of_key(key: &Value) -> Vec<String> {
    let code = &key.code;
    match key.ty {
        Type::I128 => vec![format!("u64(i128({code}))"), format!("u64(i128({code}) >> 64)")],
        Type::F64 => vec![format!("bits_of(float_key({code}))")],
        Type::Bool | Type::I32 | Type::I64 => vec![format!("(u64)i64({code})")],
        Type::Text => unreachable!("texts are looked up by their hashes"),
    }
}

/// The words of all keys, as an array; its name.
pub(super) fn words_of_keys(keys: &[Value], block: &mut Block) -> String {
    let words: Vec<String> = keys.iter().flat_map(words_of_key).collect();
    let name = block.name("k");
    block.line(format!("const u64 {name}[{}] = {{{}}};", words.len(), words.join(", ")));
    name
}

/// The packed key of keys that are hashed, of which `words` are the words.
pub(super) fn hashed_key(words: &str, block: &mut Block) -> String {
    block.define("u64", "k", format!("hash_of_words({words}) >> 2"))
}

/// The condition under which row `row` of table `table` has the keys of which `words` are the words.
pub(super) fn has_keys(table: usize, words: &str, row: &str, scope: &mut RowScope<'_, '_>) -> String {
    let layout =
        &scope.kernel.tables[table].as_ref().expect("tables are built before they are probed").layout;
    let keys: Vec<_> = layout.payload.iter().cloned().enumerate().skip(layout.brought_columns()).collect();
    let of_row = keys.into_iter().flat_map(|(index, key)| {
        let array = scope.kernel.args.pointer(Arg::Payload(table, index), key.form.array_type());
        words_of_key(&Value::new(format!("{array}[{row}]"), key.ty, key.bounds))
    });
    let equal = of_row.enumerate().map(|(word, code)| format!("{code} == {words}[{word}]"));
    equal.collect::<Vec<_>>().join(" && ")
}

/// Whether direct table `table` has the keys.
pub(super) fn bitmap_test(
    table: usize,
    keys: &[Expr],
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<String> {
    let ProbeKey { condition, key, .. } = probe_key(table, keys, scope, block)?;
    Ok(is_in_bitmap(table, &condition, &key, scope, block))
}

/// Whether `condition` holds and direct table `table` has the packed key.
pub(super) fn is_in_bitmap(
    table: usize,
    condition: &str,
    key: &str,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> String {
    let bitmap = scope.kernel.args.pointer(Arg::Bitmap(table), "const u32");
    if !block.is_slice() {
        return format!("{condition} && bitmap_holds({bitmap}, {key})");
    }
    let at = block.place("u64", &format!("({condition}) ? {key} : 0ull"));
    format!("(u32({condition}) & u32(bitmap_holds({bitmap}, {at})))")
}

/// What is looked up in a table.
pub(super) struct ProbeKey {
    /// Without this there is no match.
    pub(super) condition: String,
    /// The packed key.
    pub(super) key: String,
    /// The words that a row must have to match besides this packed key, where that is a hash of them.
    pub(super) words: Option<String>,
}

/// How keys are looked up in table `table`.
pub(super) fn probe_key(
    table: usize,
    keys: &[Expr],
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<ProbeKey> {
    let values = keys.iter().map(|key| expr::generate(key, scope, block)).collect::<Result<Vec<_>>>()?;
    let built = scope.kernel.tables[table].as_ref().expect("tables are built before they are probed");
    if built.layout.compared_keys == 0 {
        let domains = built.layout.keys.clone();
        assert_eq!(values.len(), domains.len(), "a probe has the keys of its build");
        let (condition, key) = packed_key_within(&values, &domains, block);
        return Ok(ProbeKey { condition, key, words: None });
    }
    let of_build = built.layout.payload[built.layout.brought_columns()..].iter().map(|key| key.ty);
    assert!(
        values.iter().map(|key| key.ty).eq(of_build),
        "keys of a probe have the types of those of its build"
    );
    let valid = values.iter().filter_map(|key| key.valid.clone()).collect::<Vec<_>>();
    let condition = if valid.is_empty() { "true".into() } else { valid.join(" && ") };
    let words = words_of_keys(&values, block);
    let key = hashed_key(&words, block);
    Ok(ProbeKey { condition, key, words: Some(words) })
}
