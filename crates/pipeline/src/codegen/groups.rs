//! Aggregation: words of state per group, and how rows add to them.
//!
//! ```text
//!   no keys        in registers of each lane, added up at the end
//!   few groups     in shared memory of each block (on the host, of each thread), several copies so that lanes seldom meet,
//!                  added up at the end
//!   some groups    in memory, at the group's packed key
//!   many           in memory, at the slot that the packed key hashes to
//!   wide keys      in memory, at the slot that the hash of several words leads to
//! ```
//!
//! Aggregates that are the same share their words, and those over one expression share its value and the count of what is
//! not NULL: AVG is a sum and a count, and often stands beside either.

use pelton_error::{Error, Result};

use super::args::Arg;
use super::arithmetic::{SumWidth, sum_width};
use super::block::Block;
use super::checks::Checks;
use super::expr;
use super::layout::{
    AggregateOutput, GroupKind, GroupLayout, PayloadColumn, SinkLayout, WideKey, WideKeys, WordKind,
    hashed_slots, packed_domains,
};
use super::probe;
use super::scope::Scope;
use super::shared_groups::{share, shared_copies, thread_copies};
use super::sink::RowCode;
use super::source::RowScope;
use super::text_extremes;
use super::value::{Form, Value, i64_constant};
use super::waiting::Waiting;
use crate::ir::{Aggregate, AggregateFunction, Bounds, Expr, Type};

/// What bounds the choice of a layout.
pub(super) struct Limits {
    /// Groups with keys are to be found by hashing.
    pub(super) is_hashed: bool,
    /// The most packed keys of groups by position, however few groups there may be.
    pub(super) direct_keys_max: u64,
    /// Groups that a hashed table would begin with room for.
    pub(super) groups_expected: u64,
    /// The most bytes of groups that are by position since a hashed table would take as many.
    pub(super) direct_bytes_max: u64,
    /// How many times the bytes of a hashed table these may be.
    pub(super) direct_ratio_max: u64,
    /// The most packed keys of a table by position.
    pub(super) table_keys_max: u64,
    /// Shared memory taken already.
    pub(super) shared_offset: usize,
    /// Shared memory left.
    pub(super) shared_bytes_max: usize,
    /// Rows that may come; the greatest number where nobody knows.
    pub(super) row_count: u64,
    /// A row may come several times, for several matches.
    pub(super) is_repeated: bool,
}

impl Limits {
    /// Whether groups of so many packed keys, with so many words of state each, are found by position.
    fn are_direct(&self, packed_key_count: u64, words: u64) -> bool {
        if self.is_hashed {
            return false;
        }
        let direct_bytes = packed_key_count.saturating_mul(words * 8);
        let hashed_bytes =
            hashed_slots(packed_key_count, self.groups_expected).saturating_mul((words + 1) * 8);
        let bytes_max = hashed_bytes.saturating_mul(self.direct_ratio_max).min(self.direct_bytes_max);
        packed_key_count <= self.direct_keys_max || direct_bytes <= bytes_max
    }
}

/// A value that a row adds to a word.
pub(super) struct Contribution {
    pub(super) word: usize,
    pub(super) kind: WordKind,
    pub(super) value: Value,
    /// Adds 1 for each value that is not NULL, in place of the value.
    is_count: bool,
}

/// Generates the update of the row's group. `keep`: only where this is true, which without keys takes no branch.
pub(super) fn aggregate(
    keys: &[Expr],
    aggregates: &[Aggregate],
    keep: Option<String>,
    limits: &Limits,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<RowCode> {
    let key_values = keys.iter().map(|key| expr::generate(key, scope, block)).collect::<Result<Vec<_>>>()?;
    let (mut words, outputs, contributions) = state_of(aggregates, limits, scope, block)?;
    let packed = packed_domains(&key_values, "a group key");
    let wide = match packed {
        Some(_) => None,
        None => Some(wide_keys(&key_values, &mut words)?),
    };
    let (domains, packed_key_count) = packed.unwrap_or((Vec::new(), u64::MAX));
    let kind = match () {
        () if keys.is_empty() => GroupKind::Global,
        () if wide.is_some() => GroupKind::Wide,
        () if limits.are_direct(packed_key_count, words.len() as u64) => GroupKind::Direct,
        () => GroupKind::Hashed,
    };
    let state_bytes = (packed_key_count as usize).saturating_mul(words.len() * 8);
    let copies = if kind == GroupKind::Direct && !words.iter().any(|word| word.is_text()) {
        match block.is_slice() || block.is_row_of_slice() {
            true => thread_copies(state_bytes),
            false => shared_copies(state_bytes, limits.shared_bytes_max),
        }
    } else {
        0
    };
    let layout =
        GroupLayout { kind, keys: domains, wide, packed_key_count, words, outputs, shared_copies: copies };
    let code = RowCode {
        text: String::new(),
        prologue: String::new(),
        epilogue: String::new(),
        shared_bytes: state_bytes.saturating_mul(copies as usize),
        sink: SinkLayout::Groups(layout.clone()),
    };
    Ok(match kind {
        GroupKind::Global => {
            in_registers(code, &layout, &contributions, (keep.as_deref(), limits), scope, block)
        }
        GroupKind::Wide => {
            let key = wide_key_words(&key_values, &layout, block);
            in_memory(code, &layout, &key, &contributions, limits, scope, block)
        }
        _ => {
            let group = probe::packed_key(&key_values, &layout.keys, block);
            in_memory(code, &layout, &group, &contributions, limits, scope, block)
        }
    })
}

/// Places for keys behind `words`, the state of a group.
fn wide_keys(keys: &[Value], words: &mut Vec<WordKind>) -> Result<WideKeys> {
    let first_word = words.len();
    let mut wide = Vec::with_capacity(keys.len());
    for key in keys {
        wide.push(WideKey { column: PayloadColumn::of(key)?, word: words.len() });
        words.extend(std::iter::repeat_n(WordKind::Key, key.form.bytes().div_ceil(8)));
    }
    let null_word = keys.iter().any(|key| key.valid.is_some()).then_some(words.len());
    if null_word.is_some() {
        if keys.len() > 64 {
            return Err(Error::unsupported(format!("{} group keys that may be NULL", keys.len())));
        }
        words.push(WordKind::Key);
    }
    Ok(WideKeys { keys: wide, first_word, word_count: words.len() - first_word, null_word })
}

/// The words of a row's keys, as an array.
fn wide_key_words(keys: &[Value], layout: &GroupLayout, block: &mut Block) -> String {
    let wide = layout.wide.as_ref().expect("wide groups have wide keys");
    let mut words = Vec::with_capacity(wide.word_count);
    for key in keys {
        let of = |word: String| match &key.valid {
            Some(valid) => format!("({valid} ? {word} : 0ull)"),
            None => word,
        };
        let code = &key.code;
        match key.form {
            Form::I128 | Form::Short => {
                words.push(of(format!("u64(u128({code}))")));
                words.push(of(format!("u64(u128({code}) >> 64)")));
            }
            Form::F64 => words.push(of(format!("bits_of(float_key({code}))"))),
            Form::Bool | Form::Id => words.push(of(format!("u64({code})"))),
            Form::I32 | Form::I64 => words.push(of(format!("(u64)i64({code})"))),
            Form::View | Form::Kept => unreachable!("no key is a view"),
        }
    }
    if wide.null_word.is_some() {
        let bits = keys
            .iter()
            .enumerate()
            .filter_map(|(index, key)| key.valid.as_ref().map(|valid| format!("u64(!{valid}) << {index}")));
        words.push(bits.collect::<Vec<_>>().join(" | "));
    }
    let name = block.name("k");
    block.line(format!("const u64 {name}[{}] = {{{}}};", words.len(), words.join(", ")));
    name
}

type State = (Vec<WordKind>, Vec<AggregateOutput>, Vec<Contribution>);

/// The words of a group's state, word 0 for the rows, and what a row adds to them.
fn state_of(
    aggregates: &[Aggregate],
    limits: &Limits,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<State> {
    let mut words = vec![WordKind::Add];
    let mut outputs = Vec::with_capacity(aggregates.len());
    let mut contributions = Vec::new();
    let mut inputs: Vec<(&Expr, Value, usize)> = Vec::new();
    for (index, aggregate) in aggregates.iter().enumerate() {
        if let Some(same) = aggregates[..index].iter().position(|other| other == aggregate) {
            outputs.push(AggregateOutput::clone(&outputs[same]));
            continue;
        }
        let Some(input) = &aggregate.input else {
            let bounds = Some(count_bounds(limits.row_count));
            outputs.push(count_output(0, bounds));
            continue;
        };
        let known = inputs.iter().find(|(other, ..)| *other == input).cloned();
        let (value, count_word) = match known {
            Some((_, value, count_word)) => (value, count_word),
            None => {
                let value = expr::generate(input, scope, block)?;
                let count_word = count_word(&value, &mut words, &mut contributions);
                inputs.push((input, value.clone(), count_word));
                (value, count_word)
            }
        };
        let value = match (aggregate.function, value.form) {
            (AggregateFunction::Min | AggregateFunction::Max, Form::Id) => {
                text_extremes::in_order(value, scope, block)?
            }
            _ => value,
        };
        if aggregate.function == AggregateFunction::Count {
            let bounds = Some(count_bounds(limits.row_count));
            outputs.push(count_output(count_word, bounds));
            continue;
        }
        let kind = word_kind(aggregate.function, &value, limits, scope)?;
        let word = words.len();
        words.push(kind);
        let ty = match (kind, value.ty) {
            (WordKind::AddLow { .. }, _) => Type::I128,
            (WordKind::Add, Type::I32) => Type::I64,
            (_, ty) => ty,
        };
        if let WordKind::AddLow { .. } = kind {
            words.push(WordKind::AddHigh);
        }
        let bounds = match aggregate.function {
            AggregateFunction::Sum => value.bounds.and_then(|bounds| sum_bounds(bounds, limits.row_count)),
            _ => value.bounds,
        };
        let dictionary = value.dictionary.clone();
        outputs.push(AggregateOutput { ty, word, count_word: Some(count_word), bounds, dictionary });
        contributions.push(Contribution { word, kind, value, is_count: false });
    }
    Ok((words, outputs, contributions))
}

/// The word that counts the values that are not NULL.
fn count_word(value: &Value, words: &mut Vec<WordKind>, contributions: &mut Vec<Contribution>) -> usize {
    if value.valid.is_none() {
        return 0;
    }
    let word = words.len();
    words.push(WordKind::Add);
    contributions.push(Contribution { word, kind: WordKind::Add, value: value.clone(), is_count: true });
    word
}

fn count_output(word: usize, bounds: Option<Bounds>) -> AggregateOutput {
    AggregateOutput { ty: Type::I64, word, count_word: None, bounds, dictionary: None }
}

/// What a count of at most so many rows lies between.
fn count_bounds(row_count: u64) -> Bounds {
    Bounds { min: 0, max: row_count.min(i64::MAX as u64).into() }
}

/// What sums of at most so many values between `bounds` lie between.
fn sum_bounds(bounds: Bounds, row_count: u64) -> Option<Bounds> {
    let count = i128::from(row_count.max(1));
    let (min, max) =
        (bounds.min.min(bounds.min.checked_mul(count)?), bounds.max.max(bounds.max.checked_mul(count)?));
    Some(Bounds { min, max })
}

fn word_kind(
    function: AggregateFunction,
    value: &Value,
    limits: &Limits,
    scope: &mut RowScope<'_, '_>,
) -> Result<WordKind> {
    let refuse = || Error::unsupported(format!("{function:?} of {:?}", value.ty));
    match (function, value.form) {
        (AggregateFunction::Sum, Form::F64) => Ok(WordKind::AddDouble),
        (AggregateFunction::Sum, Form::I32 | Form::I64 | Form::I128) => {
            Ok(match sum_width(value, limits.row_count, scope) {
                SumWidth::Narrow => WordKind::Add,
                SumWidth::Wide => WordKind::AddLow { check: None },
                SumWidth::Checked => WordKind::AddLow {
                    check: Some(scope.checks().add(format!("sum of {:?} may overflow", value.ty))),
                },
            })
        }
        (AggregateFunction::Min, Form::I32 | Form::I64 | Form::F64 | Form::Id) => Ok(WordKind::Min),
        (AggregateFunction::Max, Form::I32 | Form::I64 | Form::F64 | Form::Id) => Ok(WordKind::Max),
        (AggregateFunction::Min, Form::View | Form::Short) => Ok(WordKind::LeastText),
        (AggregateFunction::Max, Form::View | Form::Short) => Ok(WordKind::GreatestText),
        _ => Err(refuse()),
    }
}

fn register_type(kind: WordKind) -> &'static str {
    match kind {
        WordKind::Add | WordKind::Key => "u64",
        WordKind::AddLow { .. } | WordKind::AddHigh => "u128",
        WordKind::AddDouble => "f64",
        WordKind::Min | WordKind::Max => "i64",
        WordKind::LeastText | WordKind::GreatestText => unreachable!("texts are in no register"),
    }
}

/// The value as a word's register holds it.
fn as_word(contribution: &Contribution) -> String {
    let code = &contribution.value.code;
    match (contribution.is_count, contribution.kind) {
        (true, _) => "1ull".into(),
        (_, WordKind::Add | WordKind::Key) => format!("(u64)i64({code})"),
        (_, WordKind::AddLow { .. } | WordKind::AddHigh) => format!("u128(i128({code}))"),
        (_, WordKind::AddDouble) => code.clone(),
        (_, WordKind::Min | WordKind::Max) if contribution.value.form == Form::F64 => {
            format!("order_of_bits({code})")
        }
        (_, WordKind::Min | WordKind::Max) => format!("i64({code})"),
        (_, WordKind::LeastText | WordKind::GreatestText) => unreachable!("texts are in no register"),
    }
}

fn guarded(contribution: &Contribution, update: String) -> String {
    match &contribution.value.valid {
        Some(valid) => format!("if ({valid}) {{ {update} }}"),
        None => update,
    }
}

/// What a row that passes does to its lane's register.
fn register_update(contribution: &Contribution) -> String {
    let (word, value) = (contribution.word, as_word(contribution));
    match contribution.kind {
        WordKind::Min => format!("if ({value} < AT(a{word})) AT(a{word}) = {value};"),
        WordKind::Max => format!("if ({value} > AT(a{word})) AT(a{word}) = {value};"),
        kind => register_add(kind, word, &value),
    }
}

fn register_add(kind: WordKind, word: usize, value: &str) -> String {
    match kind {
        WordKind::AddLow { check: Some(check) } => format!(
            "{{ const Checked<i128> sum = checked_add(i128(AT(a{word})), i128({value})); \
             AT(a{word}) = u128(sum.value); {} }}",
            Checks::statement("sum.overflows", check)
        ),
        _ => format!("AT(a{word}) += {value};"),
    }
}

/// The same without a branch: where `keep` is false, the register gets what leaves it as it is.
fn register_update_where(contribution: &Contribution, keep: &str) -> String {
    let (word, value, ty) = (contribution.word, as_word(contribution), register_type(contribution.kind));
    let keep = match &contribution.value.valid {
        Some(valid) => format!("(u32({keep}) & u32({valid}))"),
        None => keep.to_owned(),
    };
    let (choice, sign) = match contribution.kind {
        WordKind::Min => (format!("AT(a{word})"), "<"),
        WordKind::Max => (format!("AT(a{word})"), ">"),
        kind => return register_add(kind, word, &format!("({keep} ? {value} : {ty}(0))")),
    };
    format!("AT(a{word}) = (u32({keep}) & u32({value} {sign} {choice})) ? {value} : {choice};")
}

fn in_registers(
    mut code: RowCode,
    layout: &GroupLayout,
    contributions: &[Contribution],
    (keep, limits): (Option<&str>, &Limits),
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> RowCode {
    let groups = scope.kernel.args.pointer(Arg::Groups, "u64");
    if layout.has_text_heap() {
        let arrived = Waiting::arrive(limits.is_repeated, block);
        let at = |word| format!("{groups} + {word}");
        text_extremes::keep(contributions, keep, at, &arrived, scope, block);
    }
    let keep = if block.is_slice() { Some("(live >> lane & 1)") } else { keep };
    block.each_lane(keep.map_or("AT(a0)++;".into(), |keep| format!("AT(a0) += {keep};")));
    for contribution in contributions.iter().filter(|contribution| !contribution.kind.is_text()) {
        block.each_lane(match keep {
            None => guarded(contribution, register_update(contribution)),
            Some(keep) => register_update_where(contribution, keep),
        });
    }
    let is_register = |kind: WordKind| kind != WordKind::AddHigh && !kind.is_text();
    for (word, kind) in layout.words.iter().enumerate().filter(|(_, kind)| is_register(**kind)) {
        let ty = register_type(*kind);
        let identity = match kind {
            WordKind::Min | WordKind::Max => i64_constant(kind.identity() as i64),
            _ => "0".into(),
        };
        code.prologue += &format!("{ty} a{word}[LANES]; EACH_LANE {{ AT(a{word}) = {identity}; }}\n");
        let (combine, update) = match kind {
            WordKind::Add | WordKind::Key => ("lane_sum", format!("atomic_add({groups} + {word}, all)")),
            // Lanes do not add up what may be too much for them together.
            WordKind::AddLow { check: Some(_) } => {
                let add = atomic_update(*kind, &format!("{groups} + {word}"), &format!("AT(a{word})"));
                code.epilogue += &format!("EACH_LANE {{ if (AT(a{word})) {{ {add} }} }}\n");
                continue;
            }
            WordKind::AddLow { .. } | WordKind::AddHigh => {
                ("lane_sum", format!("atomic_add_128({groups} + {word}, i128(all))"))
            }
            WordKind::AddDouble => ("lane_sum", format!("atomic_add((f64*)({groups} + {word}), all)")),
            WordKind::Min => ("lane_min", format!("atomic_min((i64*)({groups} + {word}), all)")),
            WordKind::Max => ("lane_max", format!("atomic_max((i64*)({groups} + {word}), all)")),
            WordKind::LeastText | WordKind::GreatestText => unreachable!("texts are in no register"),
        };
        code.epilogue +=
            &format!("{{ const {ty} all = {combine}(a{word}); if (IS_FIRST_LANE) {update}; }}\n");
    }
    code
}

/// Adds `value` to the word at `at`, whoever else does.
pub(super) fn atomic_update(kind: WordKind, at: &str, value: &str) -> String {
    update("atomic", kind, at, value)
}

/// Adds `value` to the word at `at`: among all threads (`atomic`) or those of a block (`block`).
fn update(among: &str, kind: WordKind, at: &str, value: &str) -> String {
    match kind {
        WordKind::Add | WordKind::Key => format!("{among}_add({at}, {value});"),
        WordKind::AddLow { check: Some(check) } => {
            Checks::statement(&format!("{among}_add_128_overflows({at}, i128({value}))"), check)
        }
        WordKind::AddLow { .. } | WordKind::AddHigh => format!("{among}_add_128({at}, i128({value}));"),
        WordKind::AddDouble => format!("{among}_add((f64*)({at}), {value});"),
        WordKind::Min => format!("{among}_min((i64*)({at}), {value});"),
        WordKind::Max => format!("{among}_max((i64*)({at}), {value});"),
        WordKind::LeastText | WordKind::GreatestText => unreachable!("texts may find no room"),
    }
}

fn in_memory(
    mut code: RowCode,
    layout: &GroupLayout,
    group: &str,
    contributions: &[Contribution],
    limits: &Limits,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> RowCode {
    block.each_row();
    let args = &mut scope.kernel.args;
    let groups = args.pointer(Arg::Groups, "u64");
    let may_wait = !matches!(layout.kind, GroupKind::Direct) || layout.has_text_heap();
    let arrived = may_wait.then(|| Waiting::arrive(limits.is_repeated, block));
    let place = match layout.kind {
        GroupKind::Hashed => {
            let (keys, mask) = (args.pointer(Arg::GroupKeys, "u64"), args.word(Arg::GroupSlotMask));
            let waiting = args.pointer(Arg::Waiting, "u64");
            let insert = format!("slot_to_insert({keys}, {mask}, {group}, {waiting})");
            let slot = block.define("u64", "s", insert);
            arrived.iter().for_each(|arrived| arrived.wait_if(&format!("{slot} == NO_KEY"), scope, block));
            slot
        }
        GroupKind::Wide => {
            let wide = layout.wide.as_ref().expect("wide groups have wide keys");
            let (tags, mask) = (args.pointer(Arg::GroupKeys, "u64"), args.word(Arg::GroupSlotMask));
            let waiting = args.pointer(Arg::Waiting, "u64");
            let insert = format!(
                "slot_to_insert_wide({tags}, {mask}, {group}, {groups} + {}, {}, {waiting})",
                wide.first_word,
                layout.width()
            );
            let slot = block.define("u64", "s", insert);
            arrived.iter().for_each(|arrived| arrived.wait_if(&format!("{slot} == NO_KEY"), scope, block));
            slot
        }
        _ => group.to_string(),
    };
    let copies = layout.shared_copies;
    // Halves of a 128-bit sum lie side by side, so the words of one copy of one group do.
    let at = |word: usize| match copies {
        0 => format!("{groups} + {place} * {} + {word}", layout.words.len()),
        _ => format!(
            "shared_groups + ({place} * {copies} + (lane & {})) * {} + {word}",
            copies - 1,
            layout.words.len()
        ),
    };
    if let Some(arrived) = arrived.filter(|_| layout.has_text_heap()) {
        text_extremes::keep(contributions, None, at, &arrived, scope, block);
    }
    // Lanes have copies of their own in shared memory, and seldom meet there.
    let is_shared = copies > 0;
    block.line(match is_shared {
        true => format!("block_add({}, 1ull);", at(0)),
        false => format!("count_together({});", at(0)),
    });
    for contribution in contributions.iter().filter(|contribution| !contribution.kind.is_text()) {
        let (to, value) = (at(contribution.word), as_word(contribution));
        let update = match (contribution.kind, contribution.is_count) {
            (WordKind::Add, true) if !is_shared => format!("count_together({to});"),
            (WordKind::Add, false) if !is_shared => format!("add_together({to}, {value});"),
            (kind, _) if is_shared => update("block", kind, &to, &value),
            (kind, _) => atomic_update(kind, &to, &value),
        };
        block.line(guarded(contribution, update));
    }
    if copies > 0 {
        share(&mut code, layout, &groups, limits.shared_offset);
    }
    code
}
