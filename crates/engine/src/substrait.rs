//! Plans in Substrait's form, as other systems write them: bytes in, a plan for this session out.
//!
//! A plan names its tables and functions; both are looked up here, in the session and in the functions that
//! `datafusion-substrait` knows. Bytes may be protobuf or its JSON form; which one is told by the first byte.

use std::panic::AssertUnwindSafe;

use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion_substrait::logical_plan::consumer::from_substrait_plan;
use datafusion_substrait::serializer::deserialize_bytes;
use datafusion_substrait::substrait::proto::Plan;
use futures::FutureExt;
use pelton_error::{Error, ErrorKind, Result};

use crate::error::from_datafusion;

/// The plan that `bytes` describe, over the tables of `state`.
///
/// # Errors
///
/// `InvalidInput` where the bytes are no plan, or name a table that is not there; `Unsupported` where they ask for a
/// function or relation that is not known.
pub(crate) async fn logical_plan(state: &SessionState, bytes: &[u8]) -> Result<LogicalPlan> {
    let plan = decode(bytes)?;
    check(&plan)?;
    // The library takes parts of a plan for given that a malformed one lacks, and panics.
    let built = AssertUnwindSafe(from_substrait_plan(state, &plan)).catch_unwind().await;
    match built {
        Ok(Ok(plan)) => Ok(plan),
        Ok(Err(error)) => Err(explained(error, &plan)),
        Err(_) => Err(malformed("a part is missing that the plan refers to")),
    }
}

fn decode(bytes: &[u8]) -> Result<Plan> {
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if is_json {
        return serde_json::from_slice(bytes)
            .map_err(|error| malformed("not its JSON form").with_source(error));
    }
    let plan =
        deserialize_bytes(bytes).map_err(|error| malformed("not protobuf").with_source(error.to_string()))?;
    Ok(*plan)
}

/// Refuses what decodes but is no plan: few bytes do not.
fn check(plan: &Plan) -> Result<()> {
    match plan.relations.as_slice() {
        [] => Err(malformed("it has no relation; is the file empty, or something else?")),
        [_] => Ok(()),
        many => Err(Error::unsupported(format!(
            "the Substrait plan has {} relations; write one plan a query",
            many.len()
        ))),
    }
}

fn malformed(what: &str) -> Error {
    Error::invalid_input(format!("the bytes are not a Substrait plan: {what}"))
}

/// Says whose plan it is, where the plan says so.
fn explained(error: DataFusionError, plan: &Plan) -> Error {
    let producer = plan.version.as_ref().map_or("", |version| version.producer.as_str());
    let whose = if producer.is_empty() { String::new() } else { format!(" (written by {producer})") };
    let is_unknown =
        matches!(error.find_root(), DataFusionError::NotImplemented(_) | DataFusionError::Substrait(_));
    let error = from_datafusion(error);
    let message = format!("the Substrait plan{whose}: {error}");
    match is_unknown {
        true => Error::new(ErrorKind::Unsupported, message),
        false => Error::new(error.kind().clone(), message),
    }
}
