//! The windows of a statement, each written out where it is used.
//!
//! ```text
//!   sum(k) OVER (w ORDER BY id) … WINDOW w AS (PARTITION BY day)    ─▶   sum(k) OVER (PARTITION BY day ORDER BY id)
//!   QUALIFY sum(k) OVER w > 1                                       ─▶   QUALIFY sum(k) OVER (PARTITION BY day) > 1
//!   OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 4 PRECEDING)     ─▶   a frame before the first row: always empty
//!   OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE NO OTHERS)           ─▶   OVER (ORDER BY id ROWS 1 PRECEDING)
//!   sum(x) OVER (ORDER BY k                                         ─▶   CASE WHEN k IS NULL
//!                RANGE BETWEEN 2 PRECEDING AND 4 PRECEDING)              THEN sum(x) OVER (ORDER BY k RANGE CURRENT ROW)
//!                                                                        ELSE sum(x) OVER (… a frame that is always empty)
//! ```
//!
//! A row whose key is NULL is at no distance from others: any frame by distances has the rows of keys that are NULL.
//!
//! DataFusion 55 looks up `OVER w` in the SELECT list alone, and ignores a name inside the parentheses: `OVER (w)` was a window
//! over all rows. Frames that end before they start make its operators fail, and
//! sqlparser 0.62 knows no EXCLUDE. The rules of copies are PostgreSQL's: a copy keeps
//! PARTITION BY, may add an ORDER BY where there is none, and has a frame of its own. Windows of a query are not known in its
//! subqueries.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, Value, VisitorMut,
    WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pelton_error::{Error, Result};

use crate::expansion::normal;
use crate::parse::visit_sql;
use crate::spellings::written;

/// More rows than a partition has.
const BEFORE_ALL_ROWS: &str = "1000000000000";

/// Writes out the windows of `statement`.
///
/// # Errors
///
/// `InvalidInput` for names of no window or of two, and for copies that the rules do not allow.
pub(crate) fn write_windows(statement: &mut Statement) -> Result<()> {
    match visit_sql(statement, &mut Writer::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Takes EXCLUDE NO OTHERS, which is what frames do anyway, out of the tokens of a statement.
pub(crate) fn drop_no_others(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, &["OTHERS"])) {
        return;
    }
    let is_written = |place: &usize| !matches!(tokens[*place].token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(is_written).collect();
    let mut dropped = Vec::new();
    for places in places.windows(5) {
        let &[bound, exclude, no, others, end] = places else { continue };
        if is_word(&tokens[bound], &["ROW", "PRECEDING", "FOLLOWING"])
            && is_word(&tokens[exclude], &["EXCLUDE"])
            && is_word(&tokens[no], &["NO"])
            && is_word(&tokens[others], &["OTHERS"])
            && tokens[end].token == Token::RParen
        {
            dropped.extend([exclude, no, others]);
        }
    }
    let mut place = 0..;
    tokens.retain(|_| place.next().is_some_and(|place| dropped.binary_search(&place).is_err()));
}

/// Whether `token` is one of `words`, without quotes.
fn is_word(token: &TokenWithSpan, words: &[&str]) -> bool {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => {
            words.iter().any(|one| word.value.eq_ignore_ascii_case(one))
        }
        _ => false,
    }
}

/// Windows by name, as [`normal`] gives it.
type Windows = HashMap<String, WindowSpec>;

#[derive(Default)]
struct Writer {
    /// The named windows of the queries and SELECTs around what is visited; the last are the ones that are known there.
    known: Vec<Windows>,
}

impl VisitorMut for Writer {
    type Break = Error;

    // An ORDER BY stands outside of the SELECT whose windows it names.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        match query.body.as_ref() {
            SetExpr::Select(select) => self.enter(windows_of(select)),
            _ => self.enter(Ok(Windows::new())),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.known.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.enter(windows_of(select))
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.known.pop();
        select.named_window.clear();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if let Err(error) = self.write_out(function) {
            return ControlFlow::Break(error);
        }
        if let Some(by_null) = by_null(function) {
            *expr = by_null;
        }
        ControlFlow::Continue(())
    }
}

impl Writer {
    fn enter(&mut self, windows: Result<Windows>) -> ControlFlow<Error> {
        match windows {
            Ok(windows) => self.known.push(windows),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    /// Writes out the window of a call, if it has one.
    fn write_out(&self, function: &mut Function) -> Result<()> {
        let Some(over) = function.over.take() else { return Ok(()) };
        let none = Windows::new();
        let windows = self.known.last().unwrap_or(&none);
        let mut window = match over {
            WindowType::NamedWindow(name) => find(windows, &name)?.clone(),
            WindowType::WindowSpec(window) => written_out(windows, window, false)?,
        };
        if let Some(frame) = &mut window.window_frame
            && frame.units != WindowFrameUnits::Range
            && ends_before_start(frame)
        {
            (frame.start_bound, frame.end_bound) = (before_all(), Some(before_all()));
        }
        function.over = Some(WindowType::WindowSpec(window));
        Ok(())
    }
}

/// The windows that `select` names. Each may be a copy of one before it.
fn windows_of(select: &Select) -> Result<Windows> {
    let mut windows = Windows::new();
    for NamedWindowDefinition(name, window) in &select.named_window {
        let window = match window {
            NamedWindowExpr::NamedWindow(other) => find(&windows, other)?.clone(),
            NamedWindowExpr::WindowSpec(window) => written_out(&windows, window.clone(), true)?,
        };
        if windows.insert(normal(name), window).is_some() {
            return Err(Error::invalid_input(format!(
                "WINDOW defines {name} twice; rename one of the windows"
            )));
        }
    }
    Ok(windows)
}

fn find<'a>(windows: &'a Windows, name: &Ident) -> Result<&'a WindowSpec> {
    windows.get(&normal(name)).ok_or_else(|| {
        Error::invalid_input(format!(
            "there is no window {name}; define it in the WINDOW clause of this SELECT"
        ))
    })
}

/// `window` without a name in it; whether it `is_named` itself decides what is said of a frame that cannot be copied.
fn written_out(windows: &Windows, mut window: WindowSpec, is_named: bool) -> Result<WindowSpec> {
    let Some(name) = window.window_name.take() else { return Ok(window) };
    let copied = find(windows, &name)?;
    if !window.partition_by.is_empty() {
        return Err(Error::invalid_input(format!(
            "a copy of window {name} keeps its PARTITION BY; to partition otherwise, leave {name} out of the parentheses"
        )));
    }
    if !window.order_by.is_empty() && !copied.order_by.is_empty() {
        return Err(Error::invalid_input(format!(
            "window {name} has an ORDER BY, which a copy keeps; to order otherwise, leave {name} out of the parentheses"
        )));
    }
    if copied.window_frame.is_some() {
        let is_whole = !is_named && window.order_by.is_empty() && window.window_frame.is_none();
        return Err(Error::invalid_input(match is_whole {
            true => format!(
                "window {name} has a frame, which is not copied; write OVER {name} without parentheses"
            ),
            false => {
                format!("window {name} has a frame, which is not copied; define {name} without its frame")
            }
        }));
    }
    window.partition_by = copied.partition_by.clone();
    if window.order_by.is_empty() {
        window.order_by = copied.order_by.clone();
    }
    Ok(window)
}

/// The bound of a frame that no row of a partition reaches.
fn before_all() -> WindowFrameBound {
    let far = Expr::Value(Value::Number(BEFORE_ALL_ROWS.to_owned(), false).into());
    WindowFrameBound::Preceding(Some(Box::new(far)))
}

/// What a call over a frame by distances that ends before it starts gives: over its peers where the key is NULL, else over
/// nothing. `None` for other frames.
fn by_null(call: &Function) -> Option<Expr> {
    let Some(WindowType::WindowSpec(window)) = &call.over else { return None };
    let frame = window.window_frame.as_ref()?;
    let [key] = window.order_by.as_slice() else { return None };
    if frame.units != WindowFrameUnits::Range || !ends_before_start(frame) {
        return None;
    }
    let over = |units: WindowFrameUnits, bound: WindowFrameBound| {
        let frame = WindowFrame { units, start_bound: bound.clone(), end_bound: Some(bound) };
        let window = WindowSpec { window_frame: Some(frame), ..window.clone() };
        Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), ..call.clone() })
    };
    let peers = over(WindowFrameUnits::Range, WindowFrameBound::CurrentRow);
    let nothing = over(WindowFrameUnits::Rows, before_all());
    Some(written("CASE WHEN $1 IS NULL THEN $2 ELSE $3 END", &[key.expr.clone(), peers, nothing]))
}

/// Whether `frame` ends before it starts, by numbers or intervals that are written down.
fn ends_before_start(frame: &WindowFrame) -> bool {
    use WindowFrameBound::{Following, Preceding};
    match (&frame.start_bound, &frame.end_bound) {
        (Preceding(Some(start)), Some(Preceding(Some(end)))) => is_less(start, end),
        (Following(Some(start)), Some(Following(Some(end)))) => is_less(end, start),
        _ => false,
    }
}

/// Whether both are numbers, or both are lengths of time, and the first is less.
fn is_less(first: &Expr, second: &Expr) -> bool {
    if let Some((first, second)) = lengths(first).zip(lengths(second)) {
        return first != second && first.iter().zip(&second).all(|(first, second)| first <= second);
    }
    number(first).zip(number(second)).is_some_and(|(first, second)| first < second)
}

/// The months, days and nanoseconds of an interval that is written down.
fn lengths(expr: &Expr) -> Option<[i64; 3]> {
    let Expr::Interval(interval) = expr else { return None };
    let Expr::Value(value) = interval.value.as_ref() else { return None };
    let (Value::SingleQuotedString(written) | Value::Number(written, _)) = &value.value else { return None };
    let text = match &interval.leading_field {
        Some(unit) => format!("{written} {unit}"),
        None => written.clone(),
    };
    let length = parse_interval_month_day_nano(&text).ok().filter(|_| interval.last_field.is_none())?;
    Some([length.months.into(), length.days.into(), length.nanoseconds])
}

fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sql` with its windows written out, or why that is refused.
    fn written(sql: &str) -> String {
        match crate::parse::parse(sql) {
            Ok(mut statements) => {
                crate::titles::untitle(&mut statements[0]);
                statements[0].to_string()
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn windows_are_written_out_where_they_are_used() {
        for (sql, meant) in [
            (
                "SELECT f(k) OVER w FROM a WINDOW w AS (PARTITION BY d ORDER BY i)",
                "SELECT f(k) OVER (PARTITION BY d ORDER BY i) FROM a",
            ),
            (
                "SELECT f(k) OVER (w) FROM a WINDOW w AS (PARTITION BY d)",
                "SELECT f(k) OVER (PARTITION BY d) FROM a",
            ),
            (
                "SELECT f(k) OVER (w ORDER BY i ROWS 1 PRECEDING) FROM a WINDOW W AS (PARTITION BY d)",
                "SELECT f(k) OVER (PARTITION BY d ORDER BY i ROWS 1 PRECEDING) FROM a",
            ),
            (
                "SELECT f(k) OVER v FROM a WINDOW w AS (PARTITION BY d), u AS (w ORDER BY i), v AS (u ROWS 1 PRECEDING)",
                "SELECT f(k) OVER (PARTITION BY d ORDER BY i ROWS 1 PRECEDING) FROM a",
            ),
            (
                "SELECT f(k) OVER u FROM a WINDOW w AS (ORDER BY i ROWS 1 PRECEDING), u AS w",
                "SELECT f(k) OVER (ORDER BY i ROWS 1 PRECEDING) FROM a",
            ),
            (
                "SELECT i FROM a WINDOW w AS (ORDER BY i) QUALIFY f(k) OVER w > 1 ORDER BY g(k) OVER w",
                "SELECT i FROM a QUALIFY f(k) OVER (ORDER BY i) > 1 ORDER BY g(k) OVER (ORDER BY i)",
            ),
            (
                "SELECT (SELECT f(k) OVER w FROM b WINDOW w AS (ORDER BY x)), f(k) OVER w FROM a WINDOW w AS (ORDER BY y)",
                "SELECT (SELECT f(k) OVER (ORDER BY x) FROM b), f(k) OVER (ORDER BY y) FROM a",
            ),
            (
                "SELECT f(k) OVER w FROM a WINDOW w AS (ORDER BY x) UNION SELECT f(k) OVER w FROM b WINDOW w AS (ORDER BY y)",
                "SELECT f(k) OVER (ORDER BY x) FROM a UNION SELECT f(k) OVER (ORDER BY y) FROM b",
            ),
        ] {
            assert_eq!(written(sql), written(meant), "{sql}");
        }
    }

    #[test]
    fn copies_follow_the_rules() {
        let of = |over: &str| {
            written(&format!(
                "SELECT f(k) OVER {over} FROM a WINDOW w AS (PARTITION BY d ORDER BY i), v AS (w ROWS 1 PRECEDING)"
            ))
        };
        for (over, words) in [
            ("(w PARTITION BY e)", "keeps its PARTITION BY"),
            ("(w ORDER BY e)", "has an ORDER BY"),
            ("(v)", "write OVER v without parentheses"),
            ("(v ROWS 2 PRECEDING)", "define v without its frame"),
            ("u", "there is no window u"),
            ("(u)", "there is no window u"),
        ] {
            assert!(of(over).contains(words), "{over}: {}", of(over));
        }
        let twice = written("SELECT f(k) OVER w FROM a WINDOW w AS (ORDER BY i), W AS (ORDER BY d)");
        assert!(twice.contains("defines W twice"), "{twice}");
        let later = written("SELECT f(k) OVER u FROM a WINDOW u AS (w), w AS (ORDER BY i)");
        assert!(later.contains("there is no window w"), "{later}");
        let inner = written("SELECT (SELECT f(k) OVER w FROM b) FROM a WINDOW w AS (ORDER BY i)");
        assert!(inner.contains("there is no window w"), "{inner}");
    }

    #[test]
    fn excluding_no_others_is_left_out() {
        for (sql, meant) in [
            (
                "SELECT f(k) OVER (ORDER BY i ROWS 1 PRECEDING EXCLUDE NO OTHERS), g(k) OVER w FROM a \
                 WINDOW w AS (ORDER BY i GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW exclude no others )",
                "SELECT f(k) OVER (ORDER BY i ROWS 1 PRECEDING), g(k) OVER w FROM a \
                 WINDOW w AS (ORDER BY i GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            ),
            ("SELECT others FROM a", "SELECT others FROM a"),
        ] {
            assert_eq!(written(sql), written(meant), "{sql}");
        }
        assert!(
            written("SELECT f(k) OVER (ORDER BY i ROWS 1 PRECEDING EXCLUDE TIES) FROM a").contains("EXCLUDE")
        );
    }

    #[test]
    fn frames_by_distances_that_end_before_they_start_have_rows_of_no_key_alone() {
        let meant = "SELECT CASE WHEN i IS NULL THEN (f(k) OVER (ORDER BY i RANGE BETWEEN CURRENT ROW AND CURRENT ROW)) \
                     ELSE (f(k) OVER (ORDER BY i ROWS BETWEEN 2 PRECEDING AND 4 PRECEDING)) END FROM a";
        for (frame, ends_before) in [
            ("1.5 PRECEDING AND 2 PRECEDING", true),
            ("INTERVAL '1 day' PRECEDING AND INTERVAL '2' DAY PRECEDING", true),
            ("INTERVAL '1 month 3 days' FOLLOWING AND INTERVAL '1 month' FOLLOWING", true),
            ("INTERVAL '2 days' PRECEDING AND INTERVAL '48 hours' PRECEDING", false),
            ("INTERVAL '2 days' PRECEDING AND INTERVAL '1 day' PRECEDING", false),
            ("INTERVAL '1 month' PRECEDING AND INTERVAL '28 days' PRECEDING", false),
        ] {
            let found = written(&format!("SELECT f(k) OVER (ORDER BY i RANGE BETWEEN {frame}) FROM a"));
            assert_eq!(found == written(meant), ends_before, "{frame}: {found}");
        }
    }

    #[test]
    fn frames_that_end_before_they_start_are_before_all_rows() {
        let is_far = |frame: &str| {
            written(&format!("SELECT f(k) OVER (ORDER BY i {frame}) FROM a")).contains(BEFORE_ALL_ROWS)
        };
        assert!(is_far("ROWS BETWEEN 2 PRECEDING AND 4 PRECEDING"));
        assert!(is_far("GROUPS BETWEEN 4 FOLLOWING AND 2 FOLLOWING"));
        assert!(!is_far("ROWS BETWEEN 4 PRECEDING AND 2 PRECEDING"));
        assert!(!is_far("ROWS BETWEEN 2 FOLLOWING AND 2 FOLLOWING"));
        assert!(!is_far("RANGE BETWEEN 4 PRECEDING AND 2 PRECEDING"));
    }
}
