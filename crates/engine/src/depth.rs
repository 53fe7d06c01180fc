//! How deep a statement may nest. Plans are trees that are walked by recursion, so a statement deep enough would end
//! the process for want of stack, whoever sent it.
//!
//! ```text
//!   ((((a))))  CASE WHEN CASE …    a level for each bracket and each CASE that is open
//!   a + b + c - (d * e * f)        a chain is as deep as it has operators, and what is in parentheses goes below it
//!   a IN (1, 2, 3, …)              a list is as deep as its deepest item, however long it is
//!   a OR b OR c …                  AND, OR and UNION are balanced (balance.rs), so they hardly count
//! ```
//!
//! Tokens are counted before anything is parsed, so the error can name the place.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use pelton_error::{Error, Result};

/// Brackets and CASEs that are open at once.
const LEVELS_MAX: usize = 1000;

/// Operators between a leaf and the root of a statement, those of chains and those around them.
const OPERATORS_MAX: usize = 2000;

/// ANDs, ORs and UNIONs in a row: the parser makes them as deep as they are many, before they are balanced.
const LINKS_MAX: usize = 100_000;

/// Recursion that the parser may need for that: a level may be a query in a table in a query.
pub(crate) const PARSER_DEPTH_MAX: usize = 4 * LEVELS_MAX + 2 * OPERATORS_MAX;

/// Stack for threads that plan and run statements of up to this depth. It is reserved, and taken only where it is
/// needed. `deep.rs` among the tests runs statements of the greatest depth on threads with this stack.
pub const STACK_BYTES: usize = 64 << 20;

/// What is inside one pair of brackets, or one CASE.
#[derive(Default)]
struct Level {
    is_case: bool,
    /// Operators since the last separator, with the most that there were inside one of the brackets among them.
    operators: usize,
    inside_max: usize,
    /// The most that there were between separators.
    operators_max: usize,
    /// ANDs, ORs and UNIONs.
    links: usize,
    /// BETWEENs whose AND is still to come.
    betweens: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.operators + self.inside_max
    }

    /// After a comma, AND, OR: what follows stands beside what was before, not above it.
    fn separate(&mut self) {
        self.operators_max = self.operators_max.max(self.depth());
        (self.operators, self.inside_max, self.betweens) = (0, 0, 0);
    }
}

/// # Errors
///
/// That a statement of `tokens` nests too deep, and where.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let (mut outer, mut level) = (Vec::new(), Level::default());
    // Operators around each open bracket; those after it count when it closes.
    let mut around = 0;
    for token in tokens {
        match role(&token.token, &level) {
            Role::Nothing => continue,
            Role::Separator => level.separate(),
            Role::Link => {
                level.separate();
                level.links += 1;
            }
            Role::Operator => level.operators += 1,
            Role::Between => (level.operators, level.betweens) = (level.operators + 1, level.betweens + 1),
            Role::AndOfBetween => level.betweens -= 1,
            Role::Open { is_case } => {
                around += level.operators;
                outer.push(std::mem::replace(&mut level, Level { is_case, ..Level::default() }));
            }
            Role::Close => {
                level.separate();
                let inside = level.operators_max;
                level = outer.pop().unwrap_or_default();
                around -= level.operators.min(around);
                level.inside_max = level.inside_max.max(inside);
            }
        }
        if outer.len() > LEVELS_MAX {
            let what = format!("more than {LEVELS_MAX} levels of parentheses and CASE");
            return Err(too_deep(&what, "name inner queries in WITH", token.span.start));
        }
        if level.links > LINKS_MAX {
            let what = format!("more than {LINKS_MAX} AND, OR and UNION in a row");
            return Err(too_deep(&what, "join with a table of the values", token.span.start));
        }
        if around + level.depth() > OPERATORS_MAX {
            let what = format!("more than {OPERATORS_MAX} operators in a chain");
            return Err(too_deep(
                &what,
                "split the chain, or compute it from rows with sum()",
                token.span.start,
            ));
        }
    }
    Ok(())
}

fn too_deep(what: &str, remedy: &str, place: Location) -> Error {
    let Location { line, column } = place;
    Error::invalid_input(format!(
        "the statement nests too deep: {what}; {remedy} at Line: {line}, Column: {column}"
    ))
}

/// What a token means for depth.
#[derive(PartialEq, Eq)]
enum Role {
    Nothing,
    Separator,
    /// AND, OR and UNION, which are separators too.
    Link,
    Operator,
    Between,
    AndOfBetween,
    Open {
        is_case: bool,
    },
    Close,
}

fn role(token: &Token, level: &Level) -> Role {
    match token {
        Token::Comma | Token::SemiColon => Role::Separator,
        Token::LParen | Token::LBracket | Token::LBrace => Role::Open { is_case: false },
        Token::RParen | Token::RBracket | Token::RBrace => Role::Close,
        Token::Word(word) => match word.keyword {
            Keyword::CASE => Role::Open { is_case: true },
            Keyword::END if level.is_case => Role::Close,
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE if level.is_case => Role::Separator,
            Keyword::BETWEEN => Role::Between,
            Keyword::AND if level.betweens > 0 => Role::AndOfBetween,
            Keyword::AND | Keyword::OR | Keyword::UNION => Role::Link,
            // Whatever else may be an operator, and what goes between the parts of a query.
            Keyword::NoKeyword => Role::Nothing,
            Keyword::NULL
            | Keyword::TRUE
            | Keyword::FALSE
            | Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE => Role::Nothing,
            Keyword::AS | Keyword::ALL | Keyword::DISTINCT | Keyword::BY => Role::Nothing,
            _ => Role::Operator,
        },
        Token::Number(..) | Token::SingleQuotedString(_) | Token::Period => Role::Nothing,
        Token::Whitespace(_) | Token::EOF => Role::Nothing,
        _ => Role::Operator,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::dialect::PeltonDialect;

    fn check(sql: &str) -> Result<()> {
        super::check(&Tokenizer::new(&PeltonDialect, sql).tokenize_with_location().unwrap())
    }

    /// `inner` in `levels` times `before` and `after`.
    fn nested(levels: usize, before: &str, inner: &str, after: &str) -> String {
        format!("SELECT {}{inner}{}", before.repeat(levels), after.repeat(levels))
    }

    #[test]
    fn a_thousand_levels_are_not_too_deep_and_one_more_is() {
        for (before, after) in [
            ("(", ")"),
            ("abs(", ")"),
            ("CASE WHEN a = 1 THEN ", " ELSE 0 END"),
            ("(1 + (SELECT ", "))"),
            ("[", "]"),
        ] {
            let levels = LEVELS_MAX / before.matches(['(', '[']).count().max(1);
            assert!(check(&nested(levels, before, "1", after)).is_ok(), "{before}");
            let error = check(&nested(levels + 1, before, "1", after)).unwrap_err().to_string();
            assert!(error.contains("nests too deep: more than 1000 levels"), "{before}: {error}");
            let column = "SELECT ".len() + levels * before.len() + before.find(['(', '[']).unwrap_or(0) + 1;
            assert!(error.ends_with(&format!(" at Line: 1, Column: {column}")), "{before}: {error}");
        }
    }

    #[test]
    fn long_chains_are_refused_and_long_lists_are_not() {
        let chain = |part: &str, count: usize| format!("SELECT {}", vec!["1"; count].join(part));
        for part in [" + ", " || ", " < ", " IS NULL + ", " BETWEEN 1 AND ", "::int + "] {
            assert!(check(&chain(part, 600)).is_ok(), "{part}");
            assert!(check(&chain(part, 100_000)).is_err(), "{part}");
        }
        for part in [", ", " AND ", " OR ", " UNION ALL SELECT ", " + 1 AND 2 * "] {
            assert!(check(&chain(part, 100_000)).is_ok(), "{part}");
        }
        for part in [" AND ", " OR ", " UNION ALL SELECT "] {
            assert!(check(&chain(part, 1_000_000)).is_err(), "{part}");
        }
        assert!(check(&format!("SELECT CASE {} END", "WHEN a = 1 THEN 2 ".repeat(10_000))).is_ok());
        assert!(check(&format!("SELECT {} a", "NOT ".repeat(100_000))).is_err());
    }

    #[test]
    fn depth_adds_up_across_parentheses() {
        let chain = |inside: &str| format!("({inside}{})", " + 1".repeat(700));
        let once = chain("1");
        let nested = (0..5).fold("1".to_owned(), |inside, _| chain(&inside));
        let before = (0..5).fold("1".to_owned(), |inside, _| format!("({}{inside})", "1 + ".repeat(700)));
        assert!(check(&once).is_ok());
        assert!(check(&nested).is_err());
        assert!(check(&before).is_err());
        assert!(check(&vec![once; 20].join(", ")).is_ok(), "beside each other they are not deep");
    }

    #[test]
    fn brackets_that_do_not_match_are_left_to_the_parser() {
        assert!(check(")))((").is_ok());
        assert!(check("END END CASE").is_ok());
    }
}
