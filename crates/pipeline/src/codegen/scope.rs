//! What expressions see: the columns of a row, as far as the row has come.

use std::sync::Arc;

use pelton_error::Result;

use super::args::Args;
use super::block::Block;
use super::checks::Checks;
use super::value::Value;
use crate::ir::TextFunction;

/// Gives the columns of the current row.
pub(crate) trait Scope {
    /// Column `column` of the pipeline, loaded on first use.
    fn column(&mut self, column: usize, block: &mut Block) -> Result<Value>;

    /// `function` of text column `column`.
    fn of_text(
        &mut self,
        column: usize,
        function: &Arc<dyn TextFunction>,
        block: &mut Block,
    ) -> Result<Value>;

    /// The number of the row in its table.
    fn row_number(&mut self, block: &mut Block) -> Result<Value>;

    /// The checks of the kernel.
    fn checks(&mut self) -> &mut Checks;

    /// The arguments of the kernel.
    fn args(&mut self) -> &mut Args;

    /// The code of a number that comes with the arguments, as 64 bits, so that another number is no other program; `None`
    /// where there are too many of them.
    fn literal(&mut self, bits: u64) -> Option<String>;

    /// What must hold for SQL to evaluate the current expression for the current row.
    fn guards(&mut self) -> &mut Vec<String>;

    /// Notes an overflow of `what` where `overflows` holds, the value is not NULL, and SQL would evaluate it.
    fn note_overflow(&mut self, overflows: &str, valid: &Option<String>, what: String, block: &mut Block) {
        self.refuse_where(overflows, valid, format!("{what} may overflow"), block);
    }

    /// The CPU takes the query where `condition` holds, the value is not NULL, and SQL would evaluate it; `what` says
    /// what there is for some row.
    fn refuse_where(&mut self, condition: &str, valid: &Option<String>, what: String, block: &mut Block) {
        let also = valid.iter().chain(self.guards().iter()).map(|condition| format!(" && {condition}"));
        let condition = format!("{condition}{}", also.collect::<String>());
        let number = self.checks().add(what);
        block.note_if(&condition, &Checks::note(number));
    }
}
