//! Rows as the result: each takes a place in the output columns.
//!
//! Where only the first rows by a key are asked for, rows beyond a threshold take none. The host raises the threshold
//! from morsel to morsel, so it is an argument; where the key is a packed column it is a range filter like any other,
//! compared among packed bits. Where rows are asked for in an order, the words that they are sorted by come behind their
//! columns (`sort_words.rs`), and last the number of their place.

use pelton_error::{Error, Result};

use super::args::Arg;
use super::block::Block;
use super::expr;
use super::filter::FilterPlan;
use super::layout::{OrderLayout, RowsLayout, SinkLayout, TopLayout};
use super::sink::{RowCode, store, values_of};
use super::sort_words::sort_words;
use super::source::RowScope;
use super::value::{Form, Value};
use super::waiting::Waiting;
use crate::ir::{Expr, RowOrder, TopK, Type};

/// The rows that are asked for.
pub(super) struct Wanted<'w> {
    pub(super) columns: &'w [Expr],
    pub(super) top: Option<&'w TopK>,
    pub(super) order: Option<&'w RowOrder>,
}

/// Generates the output of a row. `is_repeated`: it may come several times.
pub(super) fn materialize(
    wanted: &Wanted<'_>,
    plan: &FilterPlan,
    is_repeated: bool,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<RowCode> {
    let Wanted { columns, top, order } = *wanted;
    let top_layout = top.map(|top| leave_out(top, plan, scope, block)).transpose()?.flatten();
    // The run looks at the keys of what came.
    let key = top.filter(|_| top_layout.is_some()).map(|top| &top.key);
    let columns: Vec<Expr> = columns.iter().chain(key).cloned().collect();
    let of_slice = block.is_slice().then(|| row_values(&columns, order, scope, block)).transpose()?;
    let args = &mut scope.kernel.args;
    let (count, capacity) = (args.pointer(Arg::OutputCount, "u64"), args.word(Arg::OutputCapacity));
    let (place, arrived) = match block.is_slice() && !is_repeated {
        true => (places_of_slice(&count, block), Waiting::arrive(false, block)),
        false => {
            block.each_row();
            let arrived = Waiting::arrive(is_repeated, block);
            (block.define("u64", "w", format!("reserve_row({count})")), arrived)
        }
    };
    arrived.wait_if(&format!("{place} >= {capacity}"), scope, block);
    let (mut values, order) = of_slice.map_or_else(|| row_values(&columns, order, scope, block), Ok)?;
    if order.is_some() {
        values.push(Value::new(format!("i32({place})"), Type::I32, None));
    }
    let arrays = |index| (Arg::Output(index), Arg::OutputValid(index));
    let columns = store(&values, &place, arrays, scope, block)?;
    Ok(RowCode {
        text: String::new(),
        prologue: String::new(),
        epilogue: String::new(),
        shared_bytes: 0,
        sink: SinkLayout::Rows(RowsLayout { columns, top: top_layout, order }),
    })
}

/// Takes places from `count` for all rows of a slice that have come so far, at once: cores that write to one word wait for
/// each other. Gives the place of a row.
pub(super) fn places_of_slice(count: &str, block: &mut Block) -> String {
    let next = block.name("n");
    block.slice_line(format!("u64 {next} = atomic_add({count}, u64(ones(live)));"));
    block.define_slice("u64", "w", |places| format!("EACH_LIVE_LANE {places}[lane] = {next}++;"))
}

/// What a row has: its columns, then the words that rows are sorted by.
fn row_values(
    columns: &[Expr],
    order: Option<&RowOrder>,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<(Vec<Value>, Option<OrderLayout>)> {
    let values = values_of(columns, scope, block)?.into_iter().map(Value::in_array);
    let mut values: Vec<Value> = values.collect();
    let order = order.map(|order| sort_words(order, scope, block)).transpose()?;
    let order = order.map(|(words, layout)| {
        values.extend(words);
        layout
    });
    Ok((values, order))
}

/// Opens the condition under which a row is not beyond the threshold, where no range filter has seen to that. `None`
/// for keys that 64 bits do not hold: then all rows come.
fn leave_out(
    top: &TopK,
    plan: &FilterPlan,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<Option<TopLayout>> {
    let layout = TopLayout {
        is_descending: top.is_descending,
        keeps_ties: top.keeps_ties,
        row_count: top.row_count,
        source_column: super::runtime_filter::source_column(&top.key)
            .filter(|column| *column < scope.kernel.source.len()),
        range: plan.top_range(),
    };
    if layout.range.is_some() {
        return Ok(Some(layout));
    }
    let key = expr::generate(&top.key, scope, block)?;
    match key.form {
        Form::I32 | Form::I64 => {}
        Form::I128 => return Ok(None),
        _ => return Err(Error::unsupported(format!("the first rows by a key of type {:?}", key.ty))),
    }
    let sign = if top.is_descending { ">=" } else { "<=" };
    let within = format!("i64({}) {sign} i64({})", key.code, scope.kernel.args.word(Arg::TopThreshold));
    block.keep_if(&match &key.valid {
        Some(valid) => format!("!{valid} || {within}"),
        None => within,
    });
    Ok(Some(layout))
}
