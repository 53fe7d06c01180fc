//! Packing keys into one number, and looking them up.

use pelton_error::Result;

use super::args::Arg;
use super::block::Block;
use super::expr;
use super::layout::KeyDomain;
use super::source::RowScope;
use super::value::{Form, Value, i64_constant};
use crate::ir::Expr;

/// A key as a number from 0, without NULL: below `size` where the domain has it.
fn offset(value: &Value, domain: &KeyDomain) -> String {
    match value.form {
        Form::Bool | Form::Id => format!("u64({})", value.code),
        _ if domain.min == 0 => format!("u64(i64({}))", value.code),
        _ => format!("(u64(i64({})) - u64({}))", value.code, i64_constant(domain.min as i64)),
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

/// Whether direct table `table` has the keys.
pub(super) fn bitmap_test(
    table: usize,
    keys: &[Expr],
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<String> {
    let (condition, key) = probe_key(table, keys, scope, block)?;
    let bitmap = scope.kernel.args.pointer(Arg::Bitmap(table), "const u32");
    Ok(format!("{condition} && bitmap_holds({bitmap}, {key})"))
}

/// The condition under which keys may be in table `table`, and their packed key.
pub(super) fn probe_key(
    table: usize,
    keys: &[Expr],
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<(String, String)> {
    let values = keys.iter().map(|key| expr::generate(key, scope, block)).collect::<Result<Vec<_>>>()?;
    let built = scope.kernel.tables[table].as_ref().expect("tables are built before they are probed");
    let domains = built.layout.keys.clone();
    assert_eq!(values.len(), domains.len(), "a probe has the keys of its build");
    Ok(packed_key_within(&values, &domains, block))
}
