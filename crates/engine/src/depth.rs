//! How deep a statement may nest. Plans are trees that are walked by recursion, so a statement deep enough would end
//! the process for want of stack, whoever sent it.
//!
//! ```text
//!   a + b + c + (d * e * f)      a chain is as deep as it has operators, and what is in parentheses goes below it
//!   a IN (1, 2, 3, …)            a list is as deep as its deepest item, however long it is
//! ```
//!
//! Tokens are counted before anything is parsed: those between commas, with the deepest of each pair of parentheses
//! among them, are no fewer than the levels of the tree that they become.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use pelton_error::{Error, Result};

/// Tokens in a row, which are at most half as many levels. Planning takes time by the square of the levels: a sum of
/// 800 terms some seconds (two cores, both busy otherwise, 2026-11), so more than this would be no use to anybody.
const TOKENS_MAX: usize = 4000;

/// Stack for threads that plan and run statements of up to this depth: 32 KiB a level. Sums of 3000 terms ended a
/// process whose threads had the usual 2 MiB, and did not end one whose threads had this.
pub const STACK_BYTES: usize = 64 << 20;

/// What is inside one pair of parentheses: tokens since the last comma, and the most that there were between commas.
#[derive(Default)]
struct Level {
    tokens: usize,
    tokens_max: usize,
}

impl Level {
    fn end_item(&mut self) {
        self.tokens_max = self.tokens_max.max(self.tokens);
        self.tokens = 0;
    }
}

/// # Errors
///
/// That a statement of `sql` might nest too deep. What cannot be split into tokens is left to the parser to report.
pub(crate) fn check(sql: &str) -> Result<()> {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else { return Ok(()) };
    let (mut outer, mut level) = (Vec::new(), Level::default());
    for token in tokens {
        match token {
            Token::Whitespace(_) => continue,
            Token::Comma | Token::SemiColon => level.end_item(),
            Token::LParen | Token::LBracket => {
                level.tokens += 1;
                outer.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket => {
                level.end_item();
                let inside = level.tokens_max;
                level = outer.pop().unwrap_or_default();
                level.tokens += inside;
            }
            _ => level.tokens += 1,
        }
        if level.tokens > TOKENS_MAX {
            return Err(Error::invalid_input(format!(
                "the statement nests too deep: more than {TOKENS_MAX} words and signs without a comma between them; \
                 write long chains of OR as IN (…), or join with a table of the values"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_chains_are_refused_and_long_lists_are_not() {
        let chain = |count: usize| format!("SELECT {}", vec!["1"; count].join(" + "));
        let list = format!("SELECT * FROM t WHERE a IN ({})", vec!["1"; 100_000].join(", "));
        assert!(check(&chain(1900)).is_ok());
        assert!(check(&list).is_ok());
        assert!(check(&chain(100_000)).unwrap_err().to_string().contains("nests too deep"));
    }

    #[test]
    fn depth_adds_up_across_parentheses() {
        let chain = |inside: &str| format!("({inside}{})", " + 1".repeat(700));
        let once = chain("1");
        let nested = (0..5).fold("1".to_owned(), |inside, _| chain(&inside));
        assert!(check(&once).is_ok());
        assert!(check(&nested).is_err());
        assert!(check(&vec![once; 20].join(", ")).is_ok(), "beside each other they are not deep");
    }

    #[test]
    fn parentheses_that_do_not_match_are_left_to_the_parser() {
        assert!(check(")))((").is_ok());
        assert!(check("SELECT 'open").is_ok());
    }
}
