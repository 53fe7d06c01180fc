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
//!   regexp_replace(t, 'a', '$1')      regexp_replace(t, 'a', '$$1')                   replacement_texts.rs
//!   CAST('1:2' AS TIME)               CAST('01:02:00' AS TIME)
//!   ~a, |/ a, ||/ a                   a XOR CAST(-1 AS TINYINT), sqrt(a), cbrt(a)
//!   date_trunc('century', t), age(t)  truncate_to_years(100, t), age(current_date, t)   calendar.rs
//!   stddev(DISTINCT x)                sqrt(var_samp(DISTINCT x))
//!   array_remove(l, x)                array_remove_all(l, x), which is PostgreSQL's
//!   ROLLUP ((a, b), c)                GROUPING SETS ((a, b, c), (a, b), ())
//!   GROUPING SETS (ROLLUP (a), (b))   GROUPING SETS ((a), (), (b))
//! ```
//!
//! Operators whose meaning depends on types are in `interval_products.rs`, names of functions with the same arguments in
//! `synonyms.rs`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Subscript, UnaryOperator, Value, VisitorMut, visit_expressions_mut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::dialect::PeltonDialect;
use crate::interval_texts::{write_interval, write_interval_text};
use crate::parse::visit_sql;
use crate::replacement_texts::write_replacement;

/// Functions by name and number of arguments, and what they are short for.
const FUNCTIONS: [(&str, usize, &str); 22] = [
    ("mod", 2, "$1 % $2"),
    ("xor", 2, "$1 XOR $2"),
    ("age", 1, "age(current_date, $1)"),
    ("array_remove", 2, "array_remove_all($1, $2)"),
    ("array_replace", 3, "array_replace_all($1, $2, $3)"),
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

/// `date_trunc(part, a)` of what is longer than a year, by part.
const TRUNCATIONS: [(&str, &str); 6] = [
    ("decade", "truncate_to_years(10, $2)"),
    ("decades", "truncate_to_years(10, $2)"),
    ("century", "truncate_to_years(100, $2)"),
    ("centuries", "truncate_to_years(100, $2)"),
    ("millennium", "truncate_to_years(1000, $2)"),
    ("millennia", "truncate_to_years(1000, $2)"),
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
                write_replacement(call);
                let local_time = match (&call.args, call.name.0.as_slice()) {
                    (FunctionArguments::None, [name]) => name.as_ident().and_then(local_time),
                    _ => None,
                };
                let meant = local_time.or_else(|| meant_by(call)).or_else(|| deviation_of_distinct(call));
                if let Some(meant) = meant {
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
            Expr::UnaryOp { op, expr: operand } => {
                let text = match op {
                    UnaryOperator::BitwiseNot => Some("$1 XOR CAST(-1 AS TINYINT)"),
                    UnaryOperator::PGSquareRoot => Some("sqrt($1)"),
                    UnaryOperator::PGCubeRoot => Some("cbrt($1)"),
                    _ => None,
                };
                if let Some(text) = text {
                    let meant = nested(written(text, std::slice::from_ref(operand.as_ref())));
                    *expr = meant;
                }
            }
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
        matches!(name, "date_diff" | "datediff" | "date_trunc" | "datetrunc")
            || FUNCTIONS.iter().any(|(known, ..)| name == *known)
    };
    let (name, args) = plain_call(call, is_short)?;
    let text = match (name.as_str(), args.as_slice()) {
        ("date_diff" | "datediff", [Expr::Value(part), _, _]) => of_part(&DIFFERENCES, &part.value)?,
        ("date_trunc" | "datetrunc", [Expr::Value(part), _]) => of_part(&TRUNCATIONS, &part.value)?,
        (name, args) => FUNCTIONS.iter().find(|(known, count, _)| name == *known && args.len() == *count)?.2,
    };
    Some(nested(written(text, &args)))
}

/// The text for `part` among `texts`.
fn of_part(texts: &[(&str, &'static str)], part: &Value) -> Option<&'static str> {
    let Value::SingleQuotedString(part) = part else { return None };
    let part = part.to_lowercase();
    texts.iter().find(|(known, _)| part == *known).map(|(_, text)| *text)
}

/// The standard deviation of distinct values by their variance; DataFusion 55 has no other.
fn deviation_of_distinct(call: &Function) -> Option<Expr> {
    let [name] = call.name.0.as_slice() else { return None };
    let variance = match folded(name.as_ident()?).as_str() {
        "stddev" | "stddev_samp" => "var_samp",
        "stddev_pop" => "var_pop",
        _ => return None,
    };
    let FunctionArguments::List(list) = &call.args else { return None };
    if list.duplicate_treatment != Some(DuplicateTreatment::Distinct) {
        return None;
    }
    let variance = Function { name: Ident::new(variance).into(), ..call.clone() };
    Some(nested(written("sqrt($1)", &[Expr::Function(variance)])))
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
pub(crate) fn plain_call(call: &Function, is_meant: impl Fn(&str) -> bool) -> Option<(String, Vec<Expr>)> {
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

/// Takes blanks around a date, time or timestamp that is written out away, and gives its time of day two digits a part.
fn write_time(value: &mut Value, data_type: &DataType) {
    let is_time = matches!(data_type, DataType::Time(..));
    if !is_time && !matches!(data_type, DataType::Date | DataType::Timestamp(..) | DataType::Datetime(_)) {
        return;
    }
    let Value::SingleQuotedString(text) = value else { return };
    let trimmed = text.trim();
    let written = match trimmed.find([' ', 'T']) {
        Some(place) => {
            let (date, time) = trimmed.split_at(place + 1);
            clock(time).map(|time| format!("{date}{time}"))
        }
        None if is_time => clock(trimmed),
        None => None,
    };
    let written = written.unwrap_or_else(|| trimmed.to_owned());
    if written != *text {
        *text = written;
    }
}

/// `text` with two digits each for hours, minutes and seconds; `None` where it has none of these, or more.
fn clock(text: &str) -> Option<String> {
    let (whole, fraction) = text.find('.').map_or((text, ""), |point| text.split_at(point));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = whole.split(':').collect();
    if parts.iter().any(|&part| !matches!(part.len(), 1 | 2) || !is_digits(part)) {
        return None;
    }
    if fraction.strip_prefix('.').is_some_and(|digits| !is_digits(digits)) {
        return None;
    }
    match parts.as_slice() {
        [hours, minutes] if fraction.is_empty() => Some(format!("{hours:0>2}:{minutes:0>2}:00")),
        [hours, minutes, seconds] => Some(format!("{hours:0>2}:{minutes:0>2}:{seconds:0>2}{fraction}")),
        _ => None,
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
        for (part, _) in super::TRUNCATIONS {
            let sql = format!("SELECT date_trunc('{part}', x)");
            assert!(parse(&sql).unwrap()[0].to_string().starts_with("SELECT (truncate_to_years("), "{sql}");
        }
    }

    #[test]
    fn operators_before_their_operand_are_functions() {
        check("SELECT ~a + 1", "SELECT ((a + 1) XOR CAST(-1 AS TINYINT))");
        check("SELECT |/ 25.0, ||/ b", "SELECT (sqrt(25.0)), (cbrt(b))");
        check("SELECT xor(a, b)", "SELECT (a XOR b)");
        check("SELECT -a ^ 2", "SELECT -a ^ 2");
    }

    #[test]
    fn deviations_of_distinct_values_are_roots_of_variances() {
        check("SELECT stddev(DISTINCT x)", "SELECT (sqrt((var_samp(DISTINCT x))))");
        check(
            "SELECT STDDEV_POP(DISTINCT x) FILTER (WHERE y) OVER (ORDER BY z)",
            "SELECT (sqrt((var_pop(DISTINCT x) FILTER (WHERE y) OVER (ORDER BY z))))",
        );
        for sql in ["SELECT stddev(x)", "SELECT stddev(ALL x)", "SELECT s.stddev(DISTINCT x)"] {
            check(sql, sql);
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
        check("SELECT TIMESTAMP '2024-02-29T1:2:3.5'", "SELECT TIMESTAMP '2024-02-29T01:02:03.5'");
        check("SELECT CAST('1:2' AS TIME)", "SELECT CAST('01:02:00' AS TIME)");
        check("SELECT TIME ' 1:2:3.45'", "SELECT TIME '01:02:03.45'");
        for sql in [
            "SELECT TIMESTAMP '2024-02-29 12:34:56'",
            "SELECT TIMESTAMP '2024-02-29'",
            "SELECT TIMESTAMP '2024-02-29 12:34:56+02:00'",
            "SELECT TIME '1:2.5'",
            "SELECT TIME '1:2 PM'",
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
