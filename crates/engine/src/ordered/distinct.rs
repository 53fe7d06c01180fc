//! Distinct values in their order: `array_agg(DISTINCT v ORDER BY v DESC)`, `string_agg(DISTINCT t, ',' ORDER BY t)`.
//!
//! Both sort their values themselves once they have them all, so rows may come in any order. DataFusion 55 has them as
//! functions that may as well run over rows in reverse: beside another order of the same values, or over rows that are known
//! to be in the opposite order, it turns ORDER BY round and tells the function, which does not listen where values are
//! distinct. Here they have no reverse.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::scalar::ScalarValue;

/// Functions that sort distinct values themselves.
const NAMES: [&str; 2] = ["array_agg", "string_agg"];

/// Whether `call` gives distinct values in an order.
pub(super) fn sorts_itself(call: &AggregateFunction) -> bool {
    call.params.distinct && !call.params.order_by.is_empty() && NAMES.contains(&call.func.name())
}

/// What to compute `call` by, if it [`sorts_itself`] and is not computed by that already.
pub(super) fn in_its_order(call: &AggregateFunction) -> Option<Arc<AggregateUDF>> {
    let is_new = sorts_itself(call) && !call.func.inner().is::<SortsItself>();
    is_new.then(|| Arc::new(AggregateUDF::from(SortsItself { inner: Arc::clone(&call.func) })))
}

/// All of `inner` but for its reverse.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SortsItself {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for SortsItself {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    /// A wish alone. Without one, expressions that are given other columns would lose their ORDER BY.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::SoftRequirement
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _is_ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }
}
