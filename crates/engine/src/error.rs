//! Errors across the border to DataFusion, both ways, without losing the kind.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use pelton_error::{Error, ErrorKind, Tier};

/// A Pelton error as DataFusion carries it.
pub(crate) fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A DataFusion error as Pelton reports it: our own errors come back as they were, the rest by what the
/// caller can do about them.
pub fn from_datafusion(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(source) => match source.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => find_ours(other.as_ref())
                .unwrap_or_else(|| Error::new(ErrorKind::Io, "query failed").with_source(other)),
        },
        DataFusionError::Context(message, inner) => from_datafusion(*inner).context(message),
        DataFusionError::Diagnostic(_, inner) => from_datafusion(*inner),
        DataFusionError::Shared(inner) => find_ours(&inner).unwrap_or_else(|| classify(&inner)),
        other => find_ours(&other).unwrap_or_else(|| classify(&other)),
    }
}

/// The Pelton error somewhere in the chain of sources, said once and without what was put around it on the way: the
/// libraries between it and here repeat their sources.
fn find_ours(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut source = Some(error);
    while let Some(current) = source {
        if let Some(ours) = current.downcast_ref::<Error>() {
            return Some(Error::new(ours.kind().clone(), ours.to_string()));
        }
        source = current.source();
    }
    None
}

fn classify(error: &DataFusionError) -> Error {
    let kind = match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => {
            return Error::new(
                ErrorKind::OutOfMemory { tier: Tier::Host, requested_bytes: 0, available_bytes: 0 },
                format!(
                    "memory limit reached: {}; raise --memory-limit or select less",
                    refused(&error.to_string())
                ),
            );
        }
        // What the system said is lost where DataFusion closes the file.
        DataFusionError::Internal(text) if text.contains("finalizing writes") => {
            let message = "writing the rows of COPY failed; see whether the target may be written to and whether its \
                           disk is full, or name another";
            return Error::new(ErrorKind::Io, message);
        }
        DataFusionError::ExecutionJoin(task) if task.is_panic() => {
            let message =
                "the statement met a bug, which a message on standard error locates; please report it";
            return Error::new(ErrorKind::Unsupported, message);
        }
        DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => ErrorKind::Io,
        _ => ErrorKind::InvalidInput,
    };
    Error::new(kind, of_number(error).unwrap_or_else(|| error.to_string()))
}

/// What was wrong with a number, in one line; `None` where it was something else.
fn of_number(error: &DataFusionError) -> Option<String> {
    if let Some((_, types)) = error.to_string().split_once("Output scale of ") {
        let types = types.split(" would exceed").next().unwrap_or_default();
        return Some(format!(
            "a product {types} has more than 38 digits after the point; cast an operand to DOUBLE, or to a DECIMAL \
             with fewer"
        ));
    }
    let DataFusionError::ArrowError(root, _) = error.find_root() else { return None };
    Some(match root.as_ref() {
        ArrowError::DivideByZero => "Divide by zero; NULLIF(divisor, 0) gives NULL instead".to_owned(),
        ArrowError::ArithmeticOverflow(text) => format!("{text}; cast an operand to a wider type"),
        ArrowError::CastError(text) if text.contains("cast value") => {
            format!("{text}; TRY_CAST gives NULL instead")
        }
        _ => return None,
    })
}

/// What was refused: the last line of DataFusion's text, without the list of who holds what before it.
fn refused(text: &str) -> &str {
    let last = text.lines().last().unwrap_or(text);
    last.trim_start_matches("Resources exhausted: ").trim_start_matches("Error: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_errors_survive_the_round_trip() {
        let error = from_datafusion(to_datafusion(Error::corrupt("chunk 3 differs")).context("reading"));
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        assert!(error.to_string().contains("chunk 3 differs"), "{error}");
    }

    #[test]
    fn the_error_of_a_store_is_said_once() {
        let ours = Error::invalid_input("there is no object 's3://b/k'");
        let store = object_store::Error::NotFound { path: "k".into(), source: Box::new(ours) };
        let error = from_datafusion(DataFusionError::ObjectStore(Box::new(store)).context("scanning"));
        assert_eq!(error.kind(), &ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "scanning: there is no object 's3://b/k'");
    }

    #[test]
    fn a_copy_that_is_not_finished_is_no_bug() {
        let text = "Error encountered while finalizing writes! Partial results may have been written to ObjectStore!";
        let error = from_datafusion(DataFusionError::Internal(text.into()));
        assert_eq!(error.kind(), &ErrorKind::Io);
        assert!(
            error.to_string().contains("disk is full, or name another") && !error.to_string().contains("bug"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_panic_of_a_task_is_a_bug() {
        let panic = tokio::spawn(async { panic!("of this test") }).await.unwrap_err();
        let error = from_datafusion(DataFusionError::ExecutionJoin(Box::new(panic)).context("sorting"));
        assert!(error.to_string().contains("met a bug"), "{error}");
    }

    #[test]
    fn numbers_are_spoken_of_without_what_libraries_put_around_them() {
        let check = |error, expected: &str| {
            let error = DataFusionError::ArrowError(Box::new(error), None).context("Optimizer rule x failed");
            assert!(from_datafusion(error).to_string().ends_with(expected), "{expected}");
        };
        check(ArrowError::DivideByZero, "Divide by zero; NULLIF(divisor, 0) gives NULL instead");
        check(
            ArrowError::CastError("Can't cast value 9".into()),
            "Can't cast value 9; TRY_CAST gives NULL instead",
        );
    }

    #[test]
    fn exhausted_memory_names_the_knob() {
        let text =
            "Additional allocation failed with top memory consumers as:\n  a, b.\nError: no 5 MB for a";
        let error = from_datafusion(DataFusionError::ResourcesExhausted(text.into()));
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }));
        let expected = "memory limit reached: no 5 MB for a; raise --memory-limit or select less";
        assert_eq!(error.to_string(), expected);
    }
}
