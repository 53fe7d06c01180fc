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
            Err(other) => Error::new(ErrorKind::Io, "query failed").with_source(other),
        },
        DataFusionError::Context(message, inner) => from_datafusion(*inner).context(message),
        DataFusionError::Diagnostic(_, inner) => from_datafusion(*inner),
        DataFusionError::Shared(inner) => match find_ours(&inner) {
            Some(kind) => Error::new(kind, inner.to_string()),
            None => classify(&inner),
        },
        DataFusionError::ArrowError(source, backtrace) => {
            let error = DataFusionError::ArrowError(source, backtrace);
            match find_ours(&error) {
                Some(kind) => Error::new(kind, error.to_string()),
                None => classify(&error),
            }
        }
        other => classify(&other),
    }
}

/// The kind of a Pelton error somewhere in the chain of sources.
fn find_ours(error: &DataFusionError) -> Option<ErrorKind> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = source {
        if let Some(ours) = current.downcast_ref::<Error>() {
            return Some(ours.kind().clone());
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
                format!("{error}; raise --memory-limit or select less"),
            );
        }
        DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => ErrorKind::Io,
        _ => ErrorKind::InvalidInput,
    };
    Error::new(kind, error.to_string())
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
    fn exhausted_memory_names_the_knob() {
        let error = from_datafusion(DataFusionError::ResourcesExhausted("hash table".into()));
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }));
        assert!(error.to_string().contains("--memory-limit"), "{error}");
    }
}
