//! Words of PostgreSQL that sqlparser 0.62 does not take from this dialect, as words that it does.
//!
//! ```text
//!   AS [NOT] MATERIALIZED (SELECT …          AS (SELECT …
//!   FETCH FIRST (1 + 1) ROWS ONLY            LIMIT (1 + 1)
//!   TABLE a                                  FROM a
//! ```
//!
//! Whether rows of a WITH are kept is Pelton's choice. FETCH FIRST with a number alone is the parser's. A query begins with
//! FROM as it does with SELECT. Each word stays in its place, so that errors name the right one.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Writes what the parser does not know as what it knows.
pub(crate) fn write_known(tokens: &mut [TokenWithSpan]) {
    let is_written = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let mut words: Vec<&mut Token> =
        tokens.iter_mut().filter(|token| is_written(token)).map(|token| &mut token.token).collect();
    for at in 0..words.len() {
        match keyword(&words, Some(at)) {
            Some(Keyword::MATERIALIZED) => leave_out_materialized(&mut words, at),
            Some(Keyword::FETCH) => write_limit(&mut words, at),
            Some(Keyword::TABLE) if is_query(&words, at) => *words[at] = Token::make_keyword("FROM"),
            _ => {}
        }
    }
}

/// The keyword at a place, where there is one.
fn keyword(words: &[&mut Token], at: Option<usize>) -> Option<Keyword> {
    match words.get(at?)? {
        Token::Word(word) if word.keyword != Keyword::NoKeyword => Some(word.keyword),
        _ => None,
    }
}

fn is_parenthesis(words: &[&mut Token], at: Option<usize>) -> bool {
    at.and_then(|at| words.get(at)).is_some_and(|word| **word == Token::LParen)
}

/// A table may be called so too, with the names of its columns in parentheses: a query tells the two apart.
fn leave_out_materialized(words: &mut [&mut Token], at: usize) {
    use Keyword::{AS, FROM, NOT, SELECT, TABLE, VALUES, WITH};
    let begins_query = is_parenthesis(words, Some(at + 1))
        && (is_parenthesis(words, Some(at + 2))
            || matches!(keyword(words, Some(at + 2)), Some(FROM | SELECT | TABLE | VALUES | WITH)));
    let before = [1, 2].map(|count| keyword(words, at.checked_sub(count)));
    let first = match before {
        [Some(AS), _] => at,
        [Some(NOT), Some(AS)] => at - 1,
        _ => return,
    };
    if begins_query {
        words[first..=at].iter_mut().for_each(|word| leave_out(word));
    }
}

/// A count that is computed, where the parser takes a number alone.
fn write_limit(words: &mut [&mut Token], at: usize) {
    use Keyword::{FIRST, NEXT, ONLY, ROW, ROWS};
    if !matches!(keyword(words, Some(at + 1)), Some(FIRST | NEXT)) || !is_parenthesis(words, Some(at + 2)) {
        return;
    }
    let Some(count) = words[at + 2..].iter().scan(0_usize, deeper).position(|depth| depth == 0) else {
        return;
    };
    let after = at + 2 + count + 1;
    if matches!(keyword(words, Some(after)), Some(ROW | ROWS))
        && keyword(words, Some(after + 1)) == Some(ONLY)
    {
        *words[at] = Token::make_keyword("LIMIT");
        for at in [at + 1, after, after + 1] {
            leave_out(words[at]);
        }
    }
}

/// The parentheses that are open after `word`.
fn deeper(depth: &mut usize, word: &&mut Token) -> Option<usize> {
    match **word {
        Token::LParen => *depth += 1,
        Token::RParen => *depth = depth.saturating_sub(1),
        _ => {}
    }
    Some(*depth)
}

/// Whether TABLE at this place begins a query: at the beginning, after a WITH, in parentheses behind a keyword, or in a set
/// operation.
fn is_query(words: &[&mut Token], at: usize) -> bool {
    use Keyword::{ALL, AS, COPY, DISTINCT, EXCEPT, EXISTS, FROM, IN, INTERSECT, UNION};
    let names_table = matches!(words.get(at + 1).map(|word| &**word), Some(Token::Word(_)));
    // A column may be called so: SELECT sum(x) TABLE FROM t.
    if !names_table || keyword(words, Some(at + 1)) == Some(FROM) {
        return false;
    }
    let Some(before) = at.checked_sub(1) else { return true };
    let further = before.checked_sub(1);
    match (&*words[before], keyword(words, Some(before))) {
        (Token::SemiColon | Token::RParen, _) | (_, Some(UNION | EXCEPT | INTERSECT)) => true,
        (_, Some(ALL | DISTINCT)) => matches!(keyword(words, further), Some(UNION | EXCEPT | INTERSECT)),
        (Token::LParen, _) => matches!(keyword(words, further), Some(AS | COPY | EXISTS | FROM | IN)),
        _ => false,
    }
}

fn leave_out(word: &mut Token) {
    *word = Token::Whitespace(Whitespace::Space);
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::dialect::PeltonDialect;

    /// `sql` as it is given to the parser, with one space between words.
    fn written(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&PeltonDialect, sql).tokenize_with_location().unwrap();
        write_known(&mut tokens);
        let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_the_parser_knows_is_written() {
        for (sql, expected) in [
            ("WITH s AS MATERIALIZED (SELECT 1) SELECT 2", "WITH s AS (SELECT 1) SELECT 2"),
            ("WITH s (k) AS NOT MATERIALIZED ((SELECT 1)) SELECT 2", "WITH s (k) AS ((SELECT 1)) SELECT 2"),
            ("SELECT 1 FETCH FIRST (1 + (1)) ROWS ONLY", "SELECT 1 LIMIT (1 + (1))"),
            ("SELECT 1 OFFSET 2 ROWS FETCH NEXT (1) ROW ONLY", "SELECT 1 OFFSET 2 ROWS LIMIT (1)"),
            ("TABLE a", "FROM a"),
            ("SELECT 1 UNION ALL TABLE a", "SELECT 1 UNION ALL FROM a"),
            ("WITH s AS (TABLE a) TABLE s", "WITH s AS (FROM a) FROM s"),
        ] {
            assert_eq!(written(sql), expected, "{sql}");
        }
    }

    #[test]
    fn other_meanings_of_the_words_stay() {
        for sql in [
            "SELECT * FROM t AS materialized (a, b)",
            "SELECT 1 FETCH FIRST (1 + 1) ROWS WITH TIES",
            "SELECT 1 FETCH FIRST (1",
            "SELECT 1 FETCH FIRST 2 ROWS ONLY",
            "CREATE TABLE a (b INT)",
            "CREATE EXTERNAL TABLE a STORED AS PELTON LOCATION 'a'",
            "SELECT \"table\" FROM \"fetch\"",
            "SHOW TABLE",
            "SELECT sum(x) TABLE FROM t",
        ] {
            assert_eq!(written(sql), sql);
        }
    }
}
