//! Options of COPY as PostgreSQL and DuckDB write them, as DataFusion does.
//!
//! ```text
//!   TO 'a.csv' (FORMAT csv, HEADER false)         TO 'a.csv' STORED AS csv OPTIONS ('format.has_header' 'false')
//!   TO 'sales' WITH (FORMAT parquet, PARTITION_BY (year))
//!                                                 TO 'sales' STORED AS parquet PARTITIONED BY (year)
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use pelton_error::{Error, Result};

/// Options that are known, for the message about one that is not.
const KNOWN: &str = "FORMAT, HEADER, DELIMITER, NULL, QUOTE, ESCAPE, DATEFORMAT, TIMESTAMPFORMAT, COMPRESSION, \
                     ROW_GROUP_SIZE and PARTITION_BY";

/// Writes the options of each COPY in `tokens` as DataFusion's parser takes them.
///
/// # Errors
///
/// Names an option that is not known.
pub(crate) fn write_options(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let mut at = 0;
    let mut is_start = true;
    while at < tokens.len() {
        match &tokens[at].token {
            Token::Whitespace(_) => {}
            Token::SemiColon => is_start = true,
            Token::Word(word)
                if matches!(word.keyword, Keyword::EXPLAIN | Keyword::ANALYZE | Keyword::VERBOSE) => {}
            Token::Word(word) if is_start && word.keyword == Keyword::COPY => {
                is_start = false;
                if let Some((first, open)) = list_after_target(tokens, at) {
                    write_list(tokens, first, open)?;
                }
            }
            _ => is_start = false,
        }
        at += 1;
    }
    Ok(())
}

/// Where the options of the COPY at `at` begin, with WITH or their parenthesis, and that parenthesis.
fn list_after_target(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, usize)> {
    let mut depth = 0_usize;
    let mut to = None;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::SemiColon => return None,
            Token::Word(word) if depth == 0 && word.keyword == Keyword::TO => {
                to = Some(index);
                break;
            }
            _ => {}
        }
    }
    let target = written(tokens, to? + 1)?;
    let first = written(tokens, target + 1)?;
    let open = match &tokens[first].token {
        Token::Word(word) if word.keyword == Keyword::WITH => written(tokens, first + 1)?,
        _ => first,
    };
    (tokens[open].token == Token::LParen).then_some((first, open))
}

/// The first token from `at` on that is not a blank.
fn written(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (at..tokens.len()).find(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
}

/// Replaces the list whose parenthesis is at `open`, and WITH before it.
fn write_list(tokens: &mut Vec<TokenWithSpan>, first: usize, open: usize) -> Result<()> {
    let mut depth = 0_usize;
    let mut options: Vec<Vec<Token>> = vec![Vec::new()];
    let mut close = None;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 1 => {
                options.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            close = Some(index);
            break;
        }
        if index > open {
            options.last_mut().expect("there is one from the start").push(token.token.clone());
        }
    }
    // One that is not closed is the parser's to name.
    let Some(close) = close else { return Ok(()) };
    let span = tokens[open].span;
    let spanned = |token| TokenWithSpan { token, span };
    let clauses = clauses(&options)?.into_iter().flat_map(|token| [blank(), token]).map(spanned);
    let clauses: Vec<TokenWithSpan> = clauses.collect();
    drop(tokens.splice(first..=close, clauses));
    Ok(())
}

fn blank() -> Token {
    Token::Whitespace(Whitespace::Space)
}

/// The clauses of DataFusion's COPY that say the same as `options`.
fn clauses(options: &[Vec<Token>]) -> Result<Vec<Token>> {
    let texts = |tokens: &[Token]| tokens.iter().map(text_of).collect::<Vec<_>>().concat();
    let says = |option: &[Token], name: &str| text_of(&option[0]).eq_ignore_ascii_case(name);
    let is_parquet = options.iter().any(|option| {
        option.len() > 1 && says(option, "FORMAT") && texts(&option[1..]).eq_ignore_ascii_case("parquet")
    });
    let mut clauses = Vec::new();
    let mut format_options: Vec<(&str, String)> = Vec::new();
    for option in options {
        let Some((name, value)) = option.split_first() else { continue };
        let key = match text_of(name).to_ascii_uppercase().as_str() {
            "FORMAT" => {
                clauses.extend(["STORED", "AS"].map(Token::make_keyword));
                clauses.push(Token::make_word(&texts(value), None));
                continue;
            }
            "PARTITION_BY" => {
                clauses.extend(["PARTITIONED", "BY"].map(Token::make_keyword));
                let is_list = value.first() == Some(&Token::LParen);
                clauses.extend((!is_list).then_some(Token::LParen));
                clauses.extend(value.iter().cloned());
                clauses.extend((!is_list).then_some(Token::RParen));
                continue;
            }
            "HEADER" => "format.has_header",
            "DELIMITER" | "DELIM" | "SEP" => "format.delimiter",
            "NULL" | "NULLSTR" => "format.null_value",
            "QUOTE" => "format.quote",
            "ESCAPE" => "format.escape",
            "DATEFORMAT" => "format.date_format",
            "TIMESTAMPFORMAT" => "format.timestamp_format",
            "COMPRESSION" => "format.compression",
            "ROW_GROUP_SIZE" => "format.max_row_group_size",
            other => {
                let message = format!("COPY has no option {other}; it has {KNOWN}");
                return Err(Error::invalid_input(message));
            }
        };
        let value = texts(value);
        let value = match (key, value.to_ascii_lowercase().as_str()) {
            ("format.has_header", "" | "on" | "1") => "true".to_owned(),
            ("format.has_header", "off" | "0") => "false".to_owned(),
            ("format.delimiter", "\\t") => "\t".to_owned(),
            ("format.compression", "none") => "uncompressed".to_owned(),
            // DataFusion asks for a level.
            ("format.compression", "zstd") if is_parquet => "zstd(3)".to_owned(),
            ("format.compression", "gzip") if is_parquet => "gzip(6)".to_owned(),
            ("format.compression", "brotli") if is_parquet => "brotli(4)".to_owned(),
            _ => value,
        };
        format_options.push((key, value));
    }
    if !format_options.is_empty() {
        clauses.extend([Token::make_keyword("OPTIONS"), Token::LParen]);
        for (index, (key, value)) in format_options.into_iter().enumerate() {
            clauses.extend((index > 0).then_some(Token::Comma));
            clauses.extend([Token::SingleQuotedString(key.to_owned()), Token::SingleQuotedString(value)]);
        }
        clauses.push(Token::RParen);
    }
    Ok(clauses)
}

/// What a token says, a text without its quotes.
fn text_of(token: &Token) -> String {
    match token {
        Token::Word(word) => word.value.clone(),
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn options_in_parentheses_are_those_of_datafusion() {
        for (ours, theirs) in [
            (
                "COPY t TO 'a.csv' (FORMAT csv, HEADER false)",
                "COPY t TO 'a.csv' STORED AS csv OPTIONS ('format.has_header' 'false')",
            ),
            (
                "COPY (SELECT (1)) TO 'a' WITH (format CSV, header, delimiter ';', NULL 'n/a')",
                "COPY (SELECT (1)) TO 'a' STORED AS CSV OPTIONS ('format.has_header' 'true', 'format.delimiter' ';', \
                 'format.null_value' 'n/a')",
            ),
            (
                "EXPLAIN COPY t TO 'a' (FORMAT parquet, PARTITION_BY (x, \"Y\"))",
                "EXPLAIN COPY t TO 'a' STORED AS parquet PARTITIONED BY (x, \"Y\")",
            ),
            (
                "SELECT 1; COPY t TO 'a' (FORMAT json, PARTITION_BY x)",
                "SELECT 1; COPY t TO 'a' STORED AS json PARTITIONED BY (x)",
            ),
            ("SELECT copy FROM t", "SELECT copy FROM t"),
        ] {
            let [ours, theirs] =
                [ours, theirs].map(|sql| parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}")));
            let text = |statements: &[crate::Statement]| {
                statements.iter().map(ToString::to_string).collect::<Vec<_>>()
            };
            assert_eq!(text(&ours), text(&theirs));
        }
        let error = parse("COPY t TO 'a.csv' (FORCE_QUOTE *)").unwrap_err().to_string();
        assert!(error.contains("FORCE_QUOTE") && error.contains("DELIMITER"), "{error}");
    }
}
