//! Names that PostgreSQL and DuckDB have for functions of DataFusion.
//!
//! ```text
//!   ceiling(x)      ceil(x)
//!   sign(x)         signum(x)
//!   variance(x)     var(x)
//! ```

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

/// Adds the names to those of the functions that the session has.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    for function in builder.scalar_functions().iter_mut().flatten() {
        let alias = match function.name() {
            "ceil" => "ceiling",
            "signum" => "sign",
            _ => continue,
        };
        *function = Arc::new(function.as_ref().clone().with_aliases([alias]));
    }
    for function in builder.aggregate_functions().iter_mut().flatten() {
        if function.name() == "var" {
            *function = Arc::new(function.as_ref().clone().with_aliases(["variance"]));
        }
    }
    builder
}
