//! From SQL text to statements: in Pelton's dialect, within a depth that planning can stand, long chains balanced.
//!
//! ```text
//!   text ─▶ tokens (known_words.rs, copy_options.rs) ─▶ depth.rs: refused where it nests too deep
//!             └▶ parser (dialect.rs) ─▶ statements (copy_targets.rs, collations.rs) ─▶ balance.rs ─▶ titles.rs
//!                                    ─▶ numbers with an exponent are doubles ─▶ zones.rs ─▶ like_escapes.rs
//!                                    ─▶ fetch_first.rs ─▶ null_treatments.rs ─▶ window_specs.rs
//!                                    ─▶ any_lists.rs ─▶ short_forms.rs ─▶ shadowed_names.rs
//!                                    ─▶ spellings.rs ─▶ balance.rs
//!                                    ─▶ columns of VALUES with a double are doubles
//! ```

use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::{CopyToSource, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{VisitMut, VisitorMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};
use pelton_error::{Error, Result};

use crate::any_lists::write_alls;
use crate::balance::balance;
use crate::collations::drop_collations;
use crate::copy_options::write_options;
use crate::copy_targets::write_targets;
use crate::depth;
use crate::dialect::PeltonDialect;
use crate::error::from_datafusion;
use crate::fetch_first::write_limits;
use crate::known_words::write_known;
use crate::like_escapes::write_backslashes;
use crate::null_treatments::write_null_treatments;
use crate::numbers::{write_columns, write_doubles};
use crate::shadowed_names::rename_shadowing;
use crate::short_forms::write_out;
use crate::spellings::{write_blanks, write_spellings};
use crate::titles::write_titles;
use crate::window_specs::{drop_no_others, write_windows};
use crate::zones::write_zone_settings;

/// Splits `sql` into statements, as [`PeltonSession::parse`](crate::PeltonSession::parse) does: for DataFusion sessions of
/// one's own, whose numbers with an exponent are doubles only if they are parsed here.
///
/// A byte order mark before the text, which editors write, is skipped.
///
/// # Errors
///
/// The place of what is no SQL, and of what nests too deep.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let sql = sql.strip_prefix('\u{feff}').unwrap_or(sql);
    let tokens = Tokenizer::new(&PeltonDialect, sql).tokenize_with_location();
    let mut tokens =
        tokens.map_err(|error: TokenizerError| from_datafusion(ParserError::from(error).into()))?;
    refuse_copy_from(&tokens)?;
    write_known(&mut tokens);
    write_options(&mut tokens)?;
    depth::check(&tokens)?;
    drop_no_others(&mut tokens);
    write_blanks(&mut tokens);
    let parser = DFParserBuilder::new(tokens)
        .with_dialect(&PeltonDialect)
        .with_recursion_limit(depth::PARSER_DEPTH_MAX)
        .build();
    let mut parser = parser.map_err(from_datafusion)?;
    let parsed = parser.parse_statements();
    let parsed = parsed.map_err(|error| match is_recursion(&error) {
        true => {
            let place = parser.parser.peek_token().span.start;
            let depth = depth::PARSER_DEPTH_MAX;
            Error::invalid_input(format!(
                "the statement nests too deep for the parser, which descends {depth} levels; name inner queries in WITH \
                 at Line: {}, Column: {}",
                place.line, place.column
            ))
        }
        false => from_datafusion(error),
    });
    let mut statements: Vec<Statement> = parsed?.into();
    statements.iter_mut().try_for_each(write_targets)?;
    statements.iter_mut().try_for_each(drop_collations)?;
    // Expressions are written out for titles, which takes stack by their depth, and rules below may make new chains.
    statements.iter_mut().for_each(balance);
    statements.iter_mut().for_each(write_titles);
    statements.iter_mut().for_each(write_doubles);
    statements.iter_mut().try_for_each(write_zone_settings)?;
    statements.iter_mut().try_for_each(write_backslashes)?;
    statements.iter_mut().try_for_each(write_limits)?;
    statements.iter_mut().for_each(write_null_treatments);
    statements.iter_mut().try_for_each(write_windows)?;
    statements.iter_mut().for_each(write_alls);
    statements.iter_mut().for_each(write_out);
    statements.iter_mut().for_each(rename_shadowing);
    statements.iter_mut().for_each(write_spellings);
    statements.iter_mut().for_each(balance);
    statements.iter_mut().for_each(write_columns);
    Ok(statements)
}

/// Shows `visitor` what of `statement` is SQL's own; DataFusion's statements have it in different places.
pub(crate) fn visit_sql<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::Explain(explain) => visit_sql(&mut explain.statement, visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Says how rows of a file come into a table, which COPY does in PostgreSQL and DuckDB.
fn refuse_copy_from(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let is_keyword = |token: &TokenWithSpan, keyword: Keyword| match &token.token {
        Token::Word(word) => word.keyword == keyword,
        _ => false,
    };
    // Only at the start of a statement; `COPY (SELECT … FROM …) TO` has a parenthesis where the name would be.
    let mut is_start = true;
    while let Some(token) = words.next() {
        if is_start && is_keyword(token, Keyword::COPY) {
            let rest: Vec<&TokenWithSpan> =
                words.clone().take_while(|token| token.token != Token::SemiColon).collect();
            let name = rest.iter().take_while(|token| matches!(token.token, Token::Word(_) | Token::Period));
            let name: Vec<&TokenWithSpan> =
                name.take_while(|token| !is_keyword(token, Keyword::FROM)).copied().collect();
            let mut after = &rest[name.len()..];
            // The list of columns.
            if after.first().is_some_and(|token| token.token == Token::LParen)
                && let Some(end) = after.iter().position(|token| token.token == Token::RParen)
            {
                after = &after[end + 1..];
            }
            if !name.is_empty() && after.first().is_some_and(|token| is_keyword(token, Keyword::FROM)) {
                let name: String = name.iter().map(|token| token.token.to_string()).collect();
                let file = after.get(1).map_or_else(|| "'file'".to_owned(), |token| token.token.to_string());
                let place = after[0].span.start;
                return Err(Error::unsupported(format!(
                    "COPY … FROM is not supported, as tables are changed by loads alone: `pelton load --table {name} \
                     --append {file}` adds the rows of a file, column by column of the same name, and CREATE TABLE \
                     {name} AS SELECT * FROM {file} makes a table of them at Line: {}, Column: {}",
                    place.line, place.column
                )));
            }
        }
        is_start = token.token == Token::SemiColon;
    }
    Ok(())
}

fn is_recursion(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::SQL(error, _) if matches!(**error, ParserError::RecursionLimitExceeded))
}
