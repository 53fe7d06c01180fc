//! What PostgreSQL and DuckDB write and DataFusion 55 does not plan, in the words that it does.
//!
//! ```text
//!   mod(a, b)                         (a % b)
//!   year(d), dayname(d)               extract(year FROM d), to_char(d, '%A')         DuckDB's
//!   CAST('2024-02-29 12:34' AS TIMESTAMP), DATE ' 2024-02-29'        with seconds, without blanks around
//!   INTERVAL '1 day 02:00', INTERVAL '1-2' YEAR TO MONTH             with the names of units (interval_texts.rs)
//!   t AT TIME ZONE z                  timezone(z, t)                                  zones.rs
//!   localtimestamp, localtime         to_local_time(now()), its time of day
//!   l[2:], l[:3]                      l[2:2147483647], l[1:3]
//!   (s).name                          (s)['name']
//!   trim(both from t)                 trim(both ' ' from t)                           before the text is parsed
//!   ROLLUP ((a, b), c)                GROUPING SETS ((a, b, c), (a, b), ())
//!   GROUPING SETS (ROLLUP (a), (b))   GROUPING SETS ((a), (), (b))
//! ```
//!
//! Operators whose meaning depends on types are in `interval_products.rs`, names of functions with the same arguments in
//! `synonyms.rs`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Subscript,
    Value, VisitorMut, visit_expressions_mut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::dialect::PeltonDialect;
use crate::interval_texts::{write_interval, write_interval_text};
use crate::parse::visit_sql;

/// Functions by name and number of arguments, and what they are short for.
const FUNCTIONS: [(&str, usize, &str); 18] = [
    ("mod", 2, "$1 % $2"),
    ("century", 1, "extract(century FROM $1)"),
    ("decade", 1, "extract(decade FROM $1)"),
    ("year", 1, "extract(year FROM $1)"),
    ("quarter", 1, "extract(quarter FROM $1)"),
    ("month", 1, "extract(month FROM $1)"),
    ("week", 1, "extract(week FROM $1)"),
    ("day", 1, "extract(day FROM $1)"),
    ("hour", 1, "extract(hour FROM $1)"),
    ("minute", 1, "extract(minute FROM $1)"),
    ("second", 1, "extract(second FROM $1)"),
    ("dayofweek", 1, "extract(dow FROM $1)"),
    ("dayofyear", 1, "extract(doy FROM $1)"),
    ("dayname", 1, "to_char($1, '%A')"),
    ("monthname", 1, "to_char($1, '%B')"),
    ("last_day", 1, "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)"),
    ("struct_extract", 2, "get_field($1, $2)"),
    (
        "make_timestamp",
        6,
        "CAST(make_date($1, $2, $3) AS TIMESTAMP) + (make_time($4, $5, 0) - TIME '00:00:00') + $6 * INTERVAL '1 second'",
    ),
];

/// `date_diff(part, a, b)`, the boundaries of a part that lie between, by part.
const DIFFERENCES: [(&str, &str); 8] = [
    ("year", "extract(year FROM $3) - extract(year FROM $2)"),
    (
        "quarter",
        "(extract(year FROM $3) - extract(year FROM $2)) * 4 + extract(quarter FROM $3) - extract(quarter FROM $2)",
    ),
    (
        "month",
        "(extract(year FROM $3) - extract(year FROM $2)) * 12 + extract(month FROM $3) - extract(month FROM $2)",
    ),
    ("week", "(CAST(date_trunc('week', $3) AS DATE) - CAST(date_trunc('week', $2) AS DATE)) / 7"),
    ("day", "CAST($3 AS DATE) - CAST($2 AS DATE)"),
    (
        "hour",
        "CAST((extract(epoch FROM date_trunc('hour', $3)) - extract(epoch FROM date_trunc('hour', $2))) / 3600 AS BIGINT)",
    ),
    (
        "minute",
        "CAST((extract(epoch FROM date_trunc('minute', $3)) - extract(epoch FROM date_trunc('minute', $2))) / 60 AS BIGINT)",
    ),
    (
        "second",
        "CAST(extract(epoch FROM date_trunc('second', $3)) - extract(epoch FROM date_trunc('second', $2)) AS BIGINT)",
    ),
];

/// What the session's clock reads when the query begins, by its names.
const LOCAL_TIMES: [(&str, &str); 2] =
    [("localtimestamp", "to_local_time(now())"), ("localtime", "CAST(to_local_time(now()) AS TIME)")];

/// Keys of the largest CUBE that is written out, in 4096 sets.
const CUBE_KEYS_MAX: usize = 12;

/// Gives `trim(both from t)` the blank that it trims.
pub(crate) fn write_blanks(tokens: &mut Vec<TokenWithSpan>) {
    let is = |token: &Token, keywords: &[Keyword]| match token {
        Token::Word(word) => word.quote_style.is_none() && keywords.contains(&word.keyword),
        _ => false,
    };
    let is_trim = |window: &[usize], tokens: &[TokenWithSpan]| {
        let [trim, paren, side, from] = window else { return false };
        is(&tokens[*trim].token, &[Keyword::TRIM])
            && tokens[*paren].token == Token::LParen
            && is(&tokens[*side].token, &[Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING])
            && is(&tokens[*from].token, &[Keyword::FROM])
    };
    let words: Vec<usize> =
        (0..tokens.len()).filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_))).collect();
    let sides: Vec<usize> =
        words.windows(4).filter(|window| is_trim(window, tokens)).map(|window| window[2]).collect();
    for side in sides.into_iter().rev() {
        let span = tokens[side].span;
        for token in [Token::SingleQuotedString(" ".to_owned()), Token::Whitespace(Whitespace::Space)] {
            tokens.insert(side + 1, TokenWithSpan { token, span });
        }
    }
}

/// Writes `statement` in words that are planned.
pub(crate) fn write_spellings(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Spellings);
}

struct Spellings;

impl VisitorMut for Spellings {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call) => {
                let local_time = match (&call.args, call.name.0.as_slice()) {
                    (FunctionArguments::None, [name]) => name.as_ident().and_then(local_time),
                    _ => None,
                };
                if let Some(meant) = local_time.or_else(|| meant_by(call)) {
                    *expr = meant;
                }
            }
            Expr::Cast { expr: text, data_type, .. } => {
                if let Expr::Value(value) = text.as_mut() {
                    write_time(&mut value.value, data_type);
                    write_interval_text(&mut value.value, data_type);
                }
            }
            Expr::TypedString(text) => write_time(&mut text.value.value, &text.data_type),
            Expr::Interval(interval) => write_interval(interval),
            Expr::AtTimeZone { timestamp, time_zone } => {
                let args = [time_zone.as_ref().clone(), timestamp.as_ref().clone()];
                *expr = written("timezone($1, $2)", &args);
            }
            Expr::Identifier(name) => {
                if let Some(meant) = local_time(name) {
                    *expr = meant;
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let is_computed = !matches!(**root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                access_chain.iter_mut().for_each(|access| write_access(access, is_computed));
            }
            Expr::Rollup(keys) if keys.iter().any(|key| key.len() != 1) => {
                *expr = Expr::GroupingSets(rolled_up(keys));
            }
            Expr::Cube(keys) if keys.iter().any(|key| key.len() != 1) && keys.len() <= CUBE_KEYS_MAX => {
                *expr = Expr::GroupingSets(cubed(keys));
            }
            Expr::GroupingSets(sets) if sets.iter().any(|set| sets_in(set).is_some()) => {
                let written = std::mem::take(sets).into_iter();
                *sets = written.flat_map(|set| sets_in(&set).unwrap_or(vec![set])).collect();
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// What `localtimestamp` and `localtime` mean.
fn local_time(name: &Ident) -> Option<Expr> {
    local_time_text(name).map(|text| written(text, &[]))
}

/// Whether `name` is no column but what the clock reads.
pub(crate) fn is_local_time(name: &Ident) -> bool {
    local_time_text(name).is_some()
}

fn local_time_text(name: &Ident) -> Option<&'static str> {
    let is_meant = |known: &str| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(known);
    LOCAL_TIMES.iter().find(|(known, _)| is_meant(known)).map(|(_, text)| *text)
}

/// What `call` is short for.
fn meant_by(call: &Function) -> Option<Expr> {
    let is_short = |name: &str| {
        matches!(name, "date_diff" | "datediff") || FUNCTIONS.iter().any(|(known, ..)| name == *known)
    };
    let (name, args) = plain_call(call, is_short)?;
    let text = match (name.as_str(), args.as_slice()) {
        ("date_diff" | "datediff", [Expr::Value(part), _, _]) => {
            let Value::SingleQuotedString(part) = &part.value else { return None };
            let part = part.to_lowercase();
            DIFFERENCES.iter().find(|(known, _)| part == *known)?.1
        }
        (name, args) => FUNCTIONS.iter().find(|(known, count, _)| name == *known && args.len() == *count)?.2,
    };
    Some(nested(written(text, &args)))
}

/// The expression of `text`, with `args` for its parameters.
pub(crate) fn written(text: &str, args: &[Expr]) -> Expr {
    let parser = Parser::new(&PeltonDialect).try_with_sql(text);
    let mut meant = parser.and_then(|mut parser| parser.parse_expr()).expect("texts of this file are SQL");
    let _ = visit_expressions_mut(&mut meant, |part| {
        if let Expr::Value(value) = part
            && let Value::Placeholder(number) = &value.value
            && let Ok(number) = number[1..].parse::<usize>()
        {
            *part = nested(args[number - 1].clone());
        }
        ControlFlow::<()>::Continue(())
    });
    meant
}

/// What keeps its place in a statement that is written out as text.
fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Nested(_) => expr,
        other => Expr::Nested(Box::new(other)),
    }
}

/// The name of `call` and its arguments, if it is a call of a scalar function of such a name.
fn plain_call(call: &Function, is_meant: impl Fn(&str) -> bool) -> Option<(String, Vec<Expr>)> {
    let [name] = call.name.0.as_slice() else { return None };
    let name = folded(name.as_ident()?);
    if !is_meant(&name) {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_plain = call.over.is_none()
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty()
        && matches!(call.parameters, FunctionArguments::None)
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty();
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let args = args.collect::<Option<Vec<Expr>>>()?;
    is_plain.then_some((name, args))
}

/// The name that is meant: in small letters, unless it is quoted.
fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// Takes blanks around a date or timestamp that is written out away, and gives its time seconds.
fn write_time(value: &mut Value, data_type: &DataType) {
    if !matches!(data_type, DataType::Date | DataType::Timestamp(..) | DataType::Datetime(_)) {
        return;
    }
    let Value::SingleQuotedString(text) = value else { return };
    let trimmed = text.trim();
    let is_digits =
        |part: &str| matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit());
    let time = trimmed.split_once([' ', 'T']).and_then(|(_, time)| time.split_once(':'));
    let has_no_seconds =
        time.is_some_and(|(hours, minutes)| is_digits(hours) && minutes.len() == 2 && is_digits(minutes));
    if has_no_seconds {
        *text = format!("{trimmed}:00");
    } else if trimmed.len() < text.len() {
        *text = trimmed.to_owned();
    }
}

/// Gives a slice both of its bounds, and a field of what is computed its name as text.
fn write_access(access: &mut AccessExpr, is_computed: bool) {
    let number = |number: i32| Some(Expr::Value(Value::Number(number.to_string(), false).into()));
    match access {
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
            *lower_bound = lower_bound.take().or_else(|| number(1));
            *upper_bound = upper_bound.take().or_else(|| number(i32::MAX)); // a list has no more
        }
        AccessExpr::Dot(Expr::Identifier(name)) if is_computed => {
            let index = Expr::Value(Value::SingleQuotedString(folded(name)).into());
            *access = AccessExpr::Subscript(Subscript::Index { index });
        }
        _ => {}
    }
}

/// The sets of ROLLUP, from the finest.
fn rolled_up(keys: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=keys.len()).rev().map(|count| keys[..count].concat()).collect()
}

/// The sets of CUBE.
fn cubed(keys: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let count = keys.len();
    let set = |number: usize| {
        let is_kept = |key: &usize| number >> (count - 1 - key) & 1 == 1;
        (0..count).filter(is_kept).flat_map(|key| keys[key].clone()).collect()
    };
    (0..1_usize << count).rev().map(set).collect()
}

/// The sets of a ROLLUP or CUBE that stands among grouping sets, where the parser takes it for a function.
fn sets_in(set: &[Expr]) -> Option<Vec<Vec<Expr>>> {
    let [Expr::Function(call)] = set else { return None };
    let (name, args) = plain_call(call, |name| matches!(name, "rollup" | "cube"))?;
    let keys = args.into_iter().map(|arg| match arg {
        Expr::Tuple(columns) => columns,
        Expr::Nested(column) => vec![*column],
        column => vec![column],
    });
    let keys: Vec<Vec<Expr>> = keys.collect();
    match name.as_str() {
        "rollup" => Some(rolled_up(&keys)),
        "cube" if keys.len() <= CUBE_KEYS_MAX => Some(cubed(&keys)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::titles::untitle;

    fn check(sql: &str, expected: &str) {
        let mut statement = parse(sql).unwrap().remove(0);
        untitle(&mut statement);
        assert_eq!(statement.to_string(), expected, "{sql}");
    }

    #[test]
    fn functions_are_written_out_and_arguments_keep_their_place() {
        check("SELECT mod(a + 1, 2) * 3", "SELECT ((a + 1) % 2) * 3");
        check("SELECT MOD(mod(a, 7), b)", "SELECT ((a % 7) % b)");
        check("SELECT year(d)", "SELECT (EXTRACT(YEAR FROM d))");
        check("SELECT dayname(x + 1)", "SELECT (to_char((x + 1), '%A'))");
        check("SELECT date_diff('DAY', a, b)", "SELECT (CAST(b AS DATE) - CAST(a AS DATE))");
        for sql in ["SELECT mod(a)", "SELECT year(d) OVER ()", "SELECT s.mod(a, b)", "SELECT \"MOD\"(a, b)"] {
            check(sql, sql);
        }
    }

    #[test]
    fn every_function_and_difference_is_sql() {
        for (name, count, _) in super::FUNCTIONS {
            let sql = format!("SELECT {name}({})", vec!["x"; count].join(", "));
            assert!(parse(&sql).unwrap()[0].to_string().starts_with("SELECT ("), "{sql}");
        }
        for (part, _) in super::DIFFERENCES {
            let sql = format!("SELECT date_diff('{part}', x, y)");
            assert!(parse(&sql).unwrap()[0].to_string().starts_with("SELECT ("), "{sql}");
        }
    }

    #[test]
    fn zones_are_arguments_and_local_times_are_computed() {
        check("SELECT t AT TIME ZONE 'UTC'", "SELECT timezone('UTC', t)");
        check(
            "SELECT a + b AT TIME ZONE z AT TIME ZONE 'Asia/Tokyo'",
            "SELECT a + timezone('Asia/Tokyo', (timezone(z, b)))",
        );
        check("SELECT LOCALTIMESTAMP", "SELECT to_local_time(now())");
        check("SELECT \"localtimestamp\", t.localtime", "SELECT \"localtimestamp\", t.localtime");
    }

    #[test]
    fn times_get_seconds_and_lose_blanks() {
        check("SELECT TIMESTAMP '2024-02-29 12:34'", "SELECT TIMESTAMP '2024-02-29 12:34:00'");
        check("SELECT CAST(' 2024-02-29 ' AS DATE)", "SELECT CAST('2024-02-29' AS DATE)");
        for sql in [
            "SELECT TIMESTAMP '2024-02-29 12:34:56'",
            "SELECT TIMESTAMP '2024-02-29'",
            "SELECT CAST(' 1 ' AS VARCHAR)",
        ] {
            check(sql, sql);
        }
    }

    #[test]
    fn slices_get_bounds_and_fields_are_texts() {
        check("SELECT l[2:], l[:3], l[1:2]", "SELECT l[2:2147483647], l[1:3], l[1:2]");
        check("SELECT ({'a': 5}).A, f(x).\"B\"", "SELECT ({'a': 5})['a'], f(x)['B']");
    }

    #[test]
    fn trim_gets_its_blank() {
        check("SELECT trim(both from t)", "SELECT TRIM(BOTH ' ' FROM t)");
        check("SELECT trim(LEADING FROM trim(t))", "SELECT TRIM(LEADING ' ' FROM TRIM(t))");
        check("SELECT trim(both 'x' from t)", "SELECT TRIM(BOTH 'x' FROM t)");
    }

    #[test]
    fn grouping_sets_are_flat() {
        let group_by = |keys: &str| format!("SELECT a FROM t GROUP BY {keys}");
        for (keys, expected) in [
            ("ROLLUP ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), ())"),
            ("CUBE ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), (c), ())"),
            ("GROUPING SETS (ROLLUP (a), CUBE ((b, c)))", "GROUPING SETS ((a), (), (b, c), ())"),
            ("GROUPING SETS ((a, b), c)", "GROUPING SETS ((a, b), (c))"),
            ("ROLLUP (a, b)", "ROLLUP (a, b)"),
        ] {
            check(&group_by(keys), &group_by(expected));
        }
    }
}
