//! `x SIMILAR TO pattern`: patterns of SQL:2003, which match a whole text, as the regexes that DataFusion executes.
//!
//! DataFusion 55 takes the pattern itself for a regex and looks for it anywhere in the text. PostgreSQL translates it, and
//! so does this rule: a constant while it plans, any other pattern by a function that is named as PostgreSQL's.
//!
//! ```text
//!   x SIMILAR TO 'a%|b_'        ─▶   x ~ '(?s)^(a.*|b.)$'
//!   x NOT SIMILAR TO 'a.b'      ─▶   x !~ '(?s)^(a\.b)$'
//!   x SIMILAR TO p ESCAPE '!'   ─▶   x ~ similar_to_escape(p, '!')
//! ```
//!
//! What a pattern consists of:
//!
//! ```text
//!   pattern                     regex            matches
//!   %                           .*               any text, also over several lines
//!   _                           .                one character, also the end of a line
//!   | * + ? {m,n}               the same         as in a regex
//!   (a|b)                       (?:a|b)          as in a regex
//!   [a-c] [^a-c] [[:alpha:]]    the same         one of, or none of, these characters; % and _ are two of them
//!   \%                          %                the character itself; ESCAPE names another one than the backslash
//!   \d \w \s \D \W \S           [0-9] \w …       a class of characters, as in PostgreSQL
//!   anything else: a . ^ $      a \. \^ \$       itself
//! ```
//!
//! The whole pattern is the only group that captures: DataFusion reads `^(ab|cd)$` as IN ('ab', 'cd').

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::str::Chars;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, AsArray, StringArray, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Like, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use pelton_error::Error;

use crate::error::to_datafusion;
use crate::simplify::map_expressions;

/// What escapes where ESCAPE names nothing else.
const ESCAPE: char = '\\';

/// A part of a regex, or what is wrong with the pattern.
type Translated<T> = std::result::Result<T, String>;

/// Runs before types are coerced, which then happens to both sides of the regex match.
#[derive(Debug)]
pub(crate) struct SimilarPatterns;

impl AnalyzerRule for SimilarPatterns {
    fn name(&self) -> &str {
        "pelton_similar_patterns"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(with_regexes)?.data)
    }
}

fn with_regexes(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(matches!(part, Expr::SimilarTo(_))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    map_expressions(plan, &|expr| expr.transform_up(as_regex_match))
}

fn as_regex_match(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::SimilarTo(Like { negated, expr: text, pattern, escape_char, case_insensitive }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let constant = match pattern.as_ref() {
        Expr::Literal(value, _) if value.is_null() => {
            return Ok(Transformed::yes(lit(ScalarValue::Boolean(None))));
        }
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    };
    let regex = match constant {
        Some(constant) => lit(regex_of(constant, escape_char.unwrap_or(ESCAPE))?),
        None => similar_to_escape(*pattern, escape_char),
    };
    let op = match (negated, case_insensitive) {
        (false, false) => Operator::RegexMatch,
        (false, true) => Operator::RegexIMatch,
        (true, false) => Operator::RegexNotMatch,
        (true, true) => Operator::RegexNotIMatch,
    };
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: text, op, right: Box::new(regex) })))
}

/// `similar_to_escape(pattern)`, or with an escape character after it.
fn similar_to_escape(pattern: Expr, escape_char: Option<char>) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(SimilarToEscape::new())));
    let escape = escape_char.map(|escape| lit(escape.to_string()));
    FUNCTION.call(std::iter::once(pattern).chain(escape).collect())
}

/// The regex of a pattern that rows have, or that is known after planning.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SimilarToEscape {
    signature: Signature,
}

impl SimilarToEscape {
    fn new() -> Self {
        let texts = vec![TypeSignature::String(1), TypeSignature::String(2)];
        Self { signature: Signature::one_of(texts, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for SimilarToEscape {
    fn name(&self) -> &str {
        "similar_to_escape"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), DataType::Utf8, is_nullable).into())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let escape = match args.args.get(1) {
            Some(ColumnarValue::Scalar(escape)) => {
                escape.try_as_str().flatten().and_then(|text| text.chars().next())
            }
            Some(ColumnarValue::Array(_)) => None,
            None => Some(ESCAPE),
        };
        let Some(escape) = escape else { return internal_err!("the escape character is no constant") };
        let (patterns, is_constant) = match &args.args[0] {
            ColumnarValue::Array(patterns) => (Arc::clone(patterns), false),
            // The operator refuses a constant NULL.
            ColumnarValue::Scalar(null) if null.is_null() => {
                (null.to_array_of_size(args.number_rows)?, false)
            }
            ColumnarValue::Scalar(pattern) => (pattern.to_array()?, true),
        };
        let regexes = regexes_of(cast(&patterns, &DataType::Utf8)?.as_string(), escape)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&regexes, 0)?),
            false => ColumnarValue::Array(Arc::new(regexes)),
        })
    }
}

fn regexes_of(patterns: &StringArray, escape: char) -> Result<StringArray> {
    let mut known: HashMap<&str, String> = HashMap::new();
    let mut regexes = StringBuilder::with_capacity(patterns.len(), 0);
    for pattern in patterns.iter() {
        let Some(pattern) = pattern else {
            regexes.append_null();
            continue;
        };
        let regex = match known.entry(pattern) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(regex_of(pattern, escape)?),
        };
        regexes.append_value(regex);
    }
    Ok(regexes.finish())
}

/// The regex that matches what `pattern` is similar to.
///
/// # Errors
///
/// `InvalidInput` where it is no pattern, with the pattern.
fn regex_of(pattern: &str, escape: char) -> Result<String> {
    let checked = translated(pattern, escape).and_then(|regex| match regex_syntax::parse(&regex) {
        Ok(_) => Ok(regex),
        Err(regex_syntax::Error::Parse(error)) => Err(error.kind().to_string()),
        Err(regex_syntax::Error::Translate(error)) => Err(error.kind().to_string()),
        Err(other) => Err(other.to_string()),
    });
    checked.map_err(|reason| {
        let message = format!("the pattern '{pattern}' of SIMILAR TO is invalid: {reason}");
        to_datafusion(Error::invalid_input(message))
    })
}

/// The regex of `pattern`. Of what may be wrong, parentheses, brackets and escapes are looked at here.
fn translated(pattern: &str, escape: char) -> Translated<String> {
    let mut regex = String::with_capacity(pattern.len() + 16);
    regex.push_str("(?s)^(");
    let mut depth = 0usize;
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        match character {
            _ if character == escape => escaped(rest.next(), escape)?.write(&mut regex),
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '[' => bracket(&mut rest, escape, &mut regex)?,
            '(' => {
                depth += 1;
                regex.push_str("(?:");
            }
            // It would close the group of the whole pattern.
            ')' if depth == 0 => return Err(format!("a ) closes nothing; {escape}) matches a parenthesis")),
            ')' => {
                depth -= 1;
                regex.push(')');
            }
            '|' | '*' | '+' | '?' | '{' | '}' => regex.push(character),
            other => Item::Character(other).write(&mut regex),
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

/// What stands for one character of a text.
#[derive(Debug, Clone, Copy)]
enum Item {
    /// Itself.
    Character(char),
    /// One of a class, in the form that a regex has in brackets and, with brackets of its own, outside.
    Class(&'static str),
}

impl Item {
    fn write(self, regex: &mut String) {
        match self {
            Self::Character(character) => {
                if regex_syntax::is_meta_character(character) {
                    regex.push('\\');
                }
                regex.push(character);
            }
            Self::Class(class) => regex.push_str(class),
        }
    }
}

/// What `character` is behind the escape character.
fn escaped(character: Option<char>, escape: char) -> Translated<Item> {
    Ok(match character {
        None => {
            return Err(format!("it ends with its escape character; {escape}{escape} matches a {escape}"));
        }
        Some(sign) if sign == escape || !sign.is_ascii_alphanumeric() => Item::Character(sign),
        Some('d') => Item::Class("[0-9]"),
        Some('D') => Item::Class("[^0-9]"),
        Some('s') => Item::Class(r"\s"),
        Some('S') => Item::Class(r"\S"),
        Some('w') => Item::Class(r"\w"),
        Some('W') => Item::Class(r"\W"),
        Some(other) => {
            return Err(format!(
                "{escape}{other} means nothing; of letters and digits, only d, s and w are escaped"
            ));
        }
    })
}

/// Writes a bracket expression, from behind its `[` to its `]`.
fn bracket(rest: &mut Chars<'_>, escape: char, regex: &mut String) -> Translated<()> {
    regex.push('[');
    if rest.as_str().starts_with('^') {
        rest.next();
        regex.push('^');
    }
    let mut is_first = true;
    // A ] that comes first is a character.
    while is_first || !rest.as_str().starts_with(']') {
        is_first = false;
        let low = item(rest, escape)?;
        low.write(regex);
        let after = rest.as_str();
        if after.starts_with('-') && !after.starts_with("-]") {
            rest.next();
            let high = item(rest, escape)?;
            if !matches!((low, high), (Item::Character(_), Item::Character(_))) {
                return Err("a range begins or ends with a class of characters".to_owned());
            }
            regex.push('-');
            high.write(regex);
        }
    }
    rest.next();
    regex.push(']');
    Ok(())
}

/// The next item in brackets.
fn item(rest: &mut Chars<'_>, escape: char) -> Translated<Item> {
    let unclosed = || format!("a [ is not closed; {escape}[ matches a bracket");
    let character = rest.next().ok_or_else(unclosed)?;
    if character == escape {
        return escaped(rest.next(), escape);
    }
    let after = rest.as_str();
    match (character, after.chars().next()) {
        ('[', Some(':')) => {
            let (name, behind) = after[1..].split_once(":]").ok_or_else(unclosed)?;
            *rest = behind.chars();
            class(name).ok_or_else(|| format!("there is no class of characters [:{name}:]"))
        }
        ('[', Some('.' | '=')) => Err("classes such as [.a.] and [=a=] are not supported".to_owned()),
        _ => Ok(Item::Character(character)),
    }
}

/// The class of characters of POSIX or SQL that has this name; letters of all languages, as in PostgreSQL, and digits of
/// ASCII.
fn class(name: &str) -> Option<Item> {
    Some(Item::Class(match name.to_ascii_lowercase().as_str() {
        "alpha" => r"\p{Alphabetic}",
        "lower" => r"\p{Lowercase}",
        "upper" => r"\p{Uppercase}",
        "digit" => "0-9",
        "alnum" => r"\p{Alphabetic}\p{Nd}",
        "xdigit" => "0-9A-Fa-f",
        "space" | "whitespace" => r"\s",
        "blank" => r" \t",
        "punct" => r"\p{P}\p{S}",
        "cntrl" => r"\p{Cc}",
        "graph" => r"\p{L}\p{M}\p{N}\p{P}\p{S}",
        "print" => r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}",
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(escape: char, cases: &[(&str, &str)]) {
        for (pattern, expected) in cases {
            let regex = regex_of(pattern, escape).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex, format!("(?s)^({expected})$"), "{pattern}");
        }
    }

    #[test]
    fn signs_of_patterns_become_those_of_regexes() {
        check(
            '\\',
            &[
                ("", ""),
                ("abc%", "abc.*"),
                ("a_c|%d", "a.c|.*d"),
                ("(a|b)+x{2,3}c?d*", "(?:a|b)+x{2,3}c?d*"),
                ("((a)|b)", "(?:(?:a)|b)"),
                ("^a.b$", r"\^a\.b\$"),
                ("a-b#~&]ä", r"a\-b\#\~\&\]ä"),
            ],
        );
    }

    #[test]
    fn what_is_escaped_is_itself_or_a_class() {
        check(
            '\\',
            &[
                (r"a\%b\_c\\d", r"a%b_c\\d"),
                (r"\(\|\)\[\{", r"\(\|\)\[\{"),
                (r"\d+\D\w\W\s\S", r"[0-9]+[^0-9]\w\W\s\S"),
            ],
        );
        check('!', &[(r"a!%b\c!!", r"a%b\\c!"), (r"\d!d", r"\\d[0-9]")]);
        check('%', &[("%%a%_", "%a_")]);
        check('d', &[("dd", "d")]);
    }

    #[test]
    fn brackets_hold_characters() {
        check(
            '\\',
            &[
                ("[abc]%", "[abc].*"),
                ("[^a-c]", "[^a-c]"),
                ("[%_.(|^$]", r"[%_\.\(\|\^\$]"),
                ("[]a]", r"[\]a]"),
                ("[^]a]", r"[^\]a]"),
                ("[a[b]", r"[a\[b]"),
                ("[a-c-]", r"[a-c\-]"),
                ("[-a]", r"[\-a]"),
                ("[--9&&~~]", r"[\--9\&\&\~\~]"),
                (r"[\]\d]", r"[\][0-9]]"),
                ("[[:alpha:]_]", r"[\p{Alphabetic}_]"),
                ("[^[:DIGIT:]x-z]", "[^0-9x-z]"),
            ],
        );
        for name in ["alpha", "lower", "upper", "digit", "alnum", "xdigit", "space", "whitespace"] {
            assert!(regex_of(&format!("[[:{name}:]]"), '\\').is_ok(), "{name}");
        }
        for name in ["blank", "punct", "cntrl", "graph", "print"] {
            assert!(regex_of(&format!("[^[:{name}:]]"), '\\').is_ok(), "{name}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_an_error_that_shows_it() {
        for pattern in [
            "a(",
            "a)",
            "a)|(b",
            "(?i)a",
            "*a",
            "a|+",
            "a{3,2}",
            "a{x}",
            "[a",
            "[]",
            "[^]",
            "[b-a]",
            "[a-[:digit:]]",
            "[[:letters:]]",
            "[[:alpha]",
            "[[.a.]]",
            r"a\",
            r"\q",
            r"\1",
            r"[\]",
        ] {
            let error = regex_of(pattern, '\\').unwrap_err().to_string();
            assert!(error.contains(&format!("'{pattern}'")), "{pattern}: {error}");
            assert!(!error.contains('\n'), "{pattern}: {error}");
        }
    }

    #[test]
    fn rows_have_patterns_of_their_own() {
        let patterns = StringArray::from(vec![Some("a%"), None, Some("b"), Some("a%")]);
        let regexes = regexes_of(&patterns, '\\').unwrap();
        let expected = [Some("(?s)^(a.*)$"), None, Some("(?s)^(b)$"), Some("(?s)^(a.*)$")];
        assert_eq!(regexes.iter().collect::<Vec<_>>(), expected);
        assert!(regexes_of(&StringArray::from(vec!["a", "("]), '\\').is_err());
    }
}
