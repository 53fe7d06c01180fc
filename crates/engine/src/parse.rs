//! From SQL text to statements: in Pelton's dialect, within a depth that planning can stand, long chains balanced.
//!
//! ```text
//!   text ─▶ tokens ─▶ depth.rs: refused where it nests too deep
//!             └▶ parser (dialect.rs) ─▶ statements ─▶ numbers with an exponent are doubles ─▶ balance.rs
//! ```

use datafusion::error::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Tokenizer, TokenizerError};
use pelton_error::{Error, Result};

use crate::balance::balance;
use crate::depth;
use crate::dialect::PeltonDialect;
use crate::error::from_datafusion;
use crate::numbers::write_doubles;

/// Splits `sql` into statements, as [`PeltonSession::parse`](crate::PeltonSession::parse) does: for DataFusion sessions of
/// one's own, whose numbers with an exponent are doubles only if they are parsed here.
///
/// # Errors
///
/// The place of what is no SQL, and of what nests too deep.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let tokens = Tokenizer::new(&PeltonDialect, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error: TokenizerError| from_datafusion(ParserError::from(error).into()))?;
    depth::check(&tokens)?;
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
    statements.iter_mut().for_each(write_doubles);
    statements.iter_mut().for_each(balance);
    Ok(statements)
}

fn is_recursion(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::SQL(error, _) if matches!(**error, ParserError::RecursionLimitExceeded))
}
