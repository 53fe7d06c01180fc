//! Errors as gRPC carries them: the kind becomes the code, the message stays what the command line would print.
//!
//! ```text
//!   OutOfMemory   RESOURCE_EXHAUSTED      Corrupt      DATA_LOSS
//!   Unsupported   UNIMPLEMENTED           Io           UNAVAILABLE, the caller may try again
//!   InvalidInput  INVALID_ARGUMENT        DeviceLost   INTERNAL
//!   Cancelled     CANCELLED
//! ```

use pelton_engine::PeltonSession;
use pelton_error::{Error, ErrorKind};
use pelton_sqltext::{complaint, drawn};
use tonic::{Code, Status};

/// Messages travel in a header; clients take 8 KiB of headers at least, and escapes make three bytes of one.
const MESSAGE_BYTES_MAX: usize = 2048;

/// Columns of the line of a statement that a message shows.
const COLUMNS: usize = 100;

/// The status of `error`.
pub(crate) fn of(error: &Error) -> Status {
    let code = match error.kind() {
        ErrorKind::OutOfMemory { .. } => Code::ResourceExhausted,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::InvalidInput => Code::InvalidArgument,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Corrupt => Code::DataLoss,
        ErrorKind::Io => Code::Unavailable,
        ErrorKind::DeviceLost => Code::Internal,
    };
    Status::new(code, shortened(error.to_string()))
}

/// The status of the `error` of planning or running `sql`: where it is the statement's fault with the place, and what may
/// have been meant, as the shell shows them.
pub(crate) fn of_statement(error: Error, sql: &str, session: &PeltonSession) -> Status {
    if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) {
        return of(&error);
    }
    let complaint = complaint(&error.to_string(), sql, &session.table_names());
    let text = drawn(&complaint, sql, COLUMNS, |_, text| text);
    of(&Error::new(error.kind().clone(), text))
}

/// A request that breaks the protocol: what it should have been.
pub(crate) fn malformed(what: &str, error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(shortened(format!("{what} cannot be read: {error}")))
}

/// The end of `message` gives way where it is too long for a header.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_code_and_keeps_its_text() {
        let status = of(&Error::invalid_input("no table 't'"));
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "no table 't'"));
        assert_eq!(of(&Error::corrupt("x")).code(), Code::DataLoss);
        assert_eq!(of(&Error::cancelled()).code(), Code::Cancelled);
        assert_eq!(of(&Error::unsupported("x")).code(), Code::Unimplemented);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let status = of(&Error::invalid_input("ü".repeat(5000)));
        assert!(status.message().len() <= MESSAGE_BYTES_MAX + 4, "{}", status.message().len());
        assert!(status.message().ends_with("ü…"));
    }
}
