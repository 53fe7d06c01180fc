//! Errors as Python raises them: a class for each kind, the message as the command prints it.

use pelton_error::{Error, ErrorKind};
use pyo3::prelude::*;

/// The exception that `error` is in Python.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    match exception(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(problem) => problem,
    }
}

fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("pelton._errors")?.getattr(class_name(error.kind()))?;
    match error.kind() {
        ErrorKind::OutOfMemory { tier, requested_bytes, available_bytes } => {
            class.call1((error.to_string(), tier.to_string(), requested_bytes, available_bytes))
        }
        _ => class.call1((error.to_string(),)),
    }
}

fn class_name(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::OutOfMemory { .. } => "OutOfMemoryError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::InvalidInput => "InvalidInputError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Io => "IoError",
        ErrorKind::DeviceLost => "DeviceLostError",
    }
}

/// Turns the error of a `Result` into an exception.
pub(crate) trait OrRaise<T> {
    /// The value, or the error as an exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for pelton_error::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}
