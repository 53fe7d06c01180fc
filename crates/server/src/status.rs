//! Errors as gRPC carries them: the kind becomes the code, the message stays what the command line would print.
//!
//! ```text
//!   OutOfMemory   RESOURCE_EXHAUSTED      Corrupt      DATA_LOSS
//!   Unsupported   UNIMPLEMENTED           Io           UNAVAILABLE, the caller may try again
//!   InvalidInput  INVALID_ARGUMENT        DeviceLost   INTERNAL
//!   Cancelled     CANCELLED
//! ```

use pelton_error::{Error, ErrorKind};
use tonic::{Code, Status};

/// Messages travel in a header; clients take 8 KiB of headers at least, and escapes make three bytes of one.
const MESSAGE_BYTES_MAX: usize = 2048;

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
