//! Functions whose result may be far larger than their arguments ask for room before they make it.
//!
//! ```text
//!   lpad, repeat, range, concat, …  ──▶ size of the result, computed from the arguments ──▶ fits: the function itself
//!                                                                                      └──▶ does not: OutOfMemory
//!   replace, regexp_replace         ──▶ bound on the size ──▶ does not fit: half of the rows at a time, down to one
//! ```
//!
//! Rust ends a process that is refused memory, so the question comes first. A function with constant arguments is
//! evaluated while a query is planned; a result of more than 4 KiB stays a call then, so that what it takes is asked for
//! with the number of rows that it is repeated for.
//!
//! Functions that keep the order of their argument only in a range of values are in the same hands: where nobody knows the
//! range, DataFusion 55 has an error for it, and a query that sorts by `abs(length(word))` would end with it.

mod size;

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, StructFieldMapping,
};
use pelton_error::{Error, ErrorKind, Tier};
use pelton_limits::{NoRoom, bytes_text, process_room};

use crate::error::to_datafusion;
use crate::extract;
use size::Size;

/// A constant larger than this is not made while a query is planned.
const CONSTANT_BYTES_MAX: u64 = 4 << 10;
/// A result below this size is made without asking.
const ASK_BYTES: u64 = 1 << 20;

/// Functions that ask for the range of their argument when they are asked for their order.
const ORDERED_IN_RANGES: [&str; 11] =
    ["abs", "acos", "acosh", "asin", "atanh", "cosh", "ln", "log", "log10", "log2", "sqrt"];

thread_local! {
    static IS_FOLDING: Cell<bool> = const { Cell::new(false) };
}

/// `work`, which plans: constants that it evaluates stay small.
pub(crate) async fn folding<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let before = IS_FOLDING.replace(true);
        let polled = work.as_mut().poll(context);
        IS_FOLDING.set(before);
        polled
    })
    .await
}

/// `builder` with bounds around the functions that need one.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    if let Some(functions) = builder.scalar_functions() {
        for function in functions {
            let size = Size::of(function.name());
            if size.is_some() || ORDERED_IN_RANGES.contains(&function.name()) {
                let inner = Arc::clone(function);
                *function = Arc::new(ScalarUDF::new_from_impl(Bounded { inner, size }));
            }
        }
    }
    builder
}

/// `function` without the bounds around it.
pub(crate) fn unbounded(function: &ScalarUDF) -> &ScalarUDF {
    function.inner().downcast_ref::<Bounded>().map_or(function, |bounded| &bounded.inner)
}

/// A function that asks for room first, if it has a size.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    size: Option<Size>,
}

impl Bounded {
    /// As `invoke_with_args`, with some rows at a time where the size is not known exactly.
    fn invoke(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(parts) = extract::of_args(&self.inner, &args.args) {
            return Ok(parts); // no longer than the texts
        }
        let rows = args.number_rows;
        let sized = self.size.and_then(|size| Some((size, size.bytes(&args.args, rows)?)));
        let Some((size, bytes)) = sized else { return self.inner.invoke_with_args(args) };
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if is_constant && bytes > CONSTANT_BYTES_MAX && IS_FOLDING.get() {
            // Planning goes on with the call as it stands.
            return Err(DataFusionError::Execution(format!(
                "{} is too large for a constant",
                self.inner.name()
            )));
        }
        if bytes < ASK_BYTES {
            return self.inner.invoke_with_args(args);
        }
        if is_constant && size.is_loose() {
            return self.constant(args, bytes / rows.max(1) as u64);
        }
        match process_room(bytes) {
            Ok(()) => self.inner.invoke_with_args(args),
            Err(_) if size.is_loose() && rows > 1 => self.by_halves(&args),
            Err(no_room) => Err(self.refused(no_room, rows)),
        }
    }

    /// One value for all rows, of at most `bytes`; how large it is shows once it is made.
    fn constant(&self, args: ScalarFunctionArgs, bytes: u64) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        process_room(bytes).map_err(|no_room| self.refused(no_room, 1))?;
        let value = self.inner.invoke_with_args(args)?;
        if let ColumnarValue::Scalar(value) = &value {
            let all = (value.size() as u64).saturating_mul(rows as u64);
            process_room(all).map_err(|no_room| self.refused(no_room, rows))?;
        }
        Ok(value)
    }

    fn by_halves(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, middle) = (args.number_rows, args.number_rows / 2);
        let halves: Vec<ArrayRef> = [(0, middle), (middle, rows - middle)]
            .into_iter()
            .map(|(first, count)| {
                let mut part = args.clone();
                part.number_rows = count;
                for arg in &mut part.args {
                    if let ColumnarValue::Array(array) = arg {
                        *array = array.slice(first, count);
                    }
                }
                self.invoke(part)?.into_array(count)
            })
            .collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(concat(&[&halves[0], &halves[1]])?))
    }

    fn refused(&self, no_room: NoRoom, rows: usize) -> DataFusionError {
        let NoRoom { requested_bytes, available_bytes, limit_bytes } = no_room;
        let kind = ErrorKind::OutOfMemory { tier: Tier::Host, requested_bytes, available_bytes };
        let rows = if rows == 1 { "one row".to_owned() } else { format!("a batch of {rows} rows") };
        let message = format!(
            "memory limit reached: {} would make {} of {rows}; the limit is {}, which leaves {} with its slack; raise \
             --memory-limit, or take fewer rows at a time with --batch-rows",
            self.inner.name(),
            bytes_text(requested_bytes),
            bytes_text(limit_bytes),
            bytes_text(available_bytes),
        );
        to_datafusion(Error::new(kind, message))
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.invoke(args)
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Self { inner, size: self.size }))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    #[expect(deprecated, reason = "what the inner function says is said on")]
    fn is_nullable(&self, args: &[Expr], schema: &dyn ExprSchema) -> bool {
        self.inner.is_nullable(args, schema)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.preimage(args, literal, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        // Nothing is known of a range that it cannot use.
        self.inner.output_ordering(inputs).or(Ok(SortProperties::Unordered))
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn struct_field_mapping(&self, literals: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.inner.struct_field_mapping(literals)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.placement(args)
    }
}
