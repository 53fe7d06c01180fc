//! What expressions see: the columns of a row, as far as the row has come.

use std::sync::Arc;

use pelton_error::Result;

use super::block::Block;
use super::value::Value;
use crate::ir::TextFunction;

/// Gives the columns of the row at hand.
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
}
