//! Aggregates whose frames may move on.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
};
use datafusion::scalar::ScalarValue;

use super::anew::Anew;
use super::folded::{deviation, variance};
use super::truth::Truth;

/// What DataFusion computes by subtraction, or not at all.
const NAMES: [&str; 10] = [
    "var",
    "var_pop",
    "stddev",
    "stddev_pop",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "string_agg",
    "median",
];

/// What it does not compute of distinct doubles.
const OF_DISTINCT: [&str; 2] = ["sum", "avg"];

/// And what it computes by subtraction of pairs.
const OF_PAIRS: [&str; 12] = [
    "covar_samp",
    "covar_pop",
    "corr",
    "regr_slope",
    "regr_intercept",
    "regr_count",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
];

/// `inner` for frames that move on, if it is one of these and not yet made for that; `is_distinct`: it is called with DISTINCT.
pub(super) fn sliding(inner: &Arc<AggregateUDF>, is_distinct: bool) -> Option<Arc<AggregateUDF>> {
    let name = inner.name();
    let is_listed =
        NAMES.contains(&name) || OF_PAIRS.contains(&name) || is_distinct && OF_DISTINCT.contains(&name);
    if !is_listed || inner.inner().is::<Sliding>() {
        return None;
    }
    Some(Arc::new(AggregateUDF::from(Sliding { inner: Arc::clone(inner) })))
}

/// All of `inner` but for its frames.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sliding {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Sliding {
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
        let data_type = args.expr_fields.first().map(|field| field.data_type());
        match (self.inner.name(), data_type) {
            // What is distinct has to be counted, and is left to the ways below.
            _ if args.is_distinct => {}
            ("var", Some(DataType::Float64)) => return Ok(variance(true)),
            ("var_pop", Some(DataType::Float64)) => return Ok(variance(false)),
            ("stddev", Some(DataType::Float64)) => return Ok(deviation(true)),
            ("stddev_pop", Some(DataType::Float64)) => return Ok(deviation(false)),
            ("bool_and", Some(DataType::Boolean)) => return Ok(Box::new(Truth::new(true))),
            ("bool_or", Some(DataType::Boolean)) => return Ok(Box::new(Truth::new(false))),
            _ => {}
        }
        // What has none for such frames says so by an error, or by one that takes nothing out.
        if !OF_PAIRS.contains(&self.inner.name())
            && let Ok(sliding) = self.inner.create_sliding_accumulator(args.clone())
            && sliding.supports_retract_batch()
        {
            return Ok(sliding);
        }
        Ok(Box::new(Anew::new(&self.inner, &args)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    /// In reverse only where that makes no difference: texts would be joined backwards.
    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Identical => ReversedUDAF::Identical,
            ReversedUDAF::NotSupported | ReversedUDAF::Reversed(_) => ReversedUDAF::NotSupported,
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}
