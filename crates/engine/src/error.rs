//! Errors across the border to DataFusion, both ways, without losing the kind.

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
        DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => ErrorKind::Io,
        _ => ErrorKind::InvalidInput,
    };
    Error::new(kind, error.to_string())
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
    fn exhausted_memory_names_the_knob() {
        let text =
            "Additional allocation failed with top memory consumers as:\n  a, b.\nError: no 5 MB for a";
        let error = from_datafusion(DataFusionError::ResourcesExhausted(text.into()));
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }));
        let expected = "memory limit reached: no 5 MB for a; raise --memory-limit or select less";
        assert_eq!(error.to_string(), expected);
    }
}
