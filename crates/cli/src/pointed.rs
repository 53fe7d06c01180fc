//! Errors of statements as the command shows them: the message, the line it is about, carets under the place, what may
//! have been meant.

use pelton_engine::PeltonSession;
use pelton_error::{Error, ErrorKind};
use pelton_sqltext::{Part, complaint, drawn};

use crate::paint::{Paint, Shade};
use crate::screen;

/// Columns where there is no terminal to ask.
const PLAIN_COLUMNS: usize = 100;

/// `error` of running `sql`, its message followed by the place. What is not the statement's fault is left as it is.
pub(crate) fn pointed(error: Error, sql: &str, session: &PeltonSession) -> Error {
    pointed_in(error, sql, session, Paint::of_stderr(), screen::stderr_columns())
}

/// As the command shows the `error` of running `sql`, its message followed by the place, but without colours: for a
/// program that shows it somewhere else.
pub fn pointed_plainly(error: Error, sql: &str, session: &PeltonSession) -> Error {
    pointed_in(error, sql, session, Paint::off(), PLAIN_COLUMNS)
}

fn pointed_in(error: Error, sql: &str, session: &PeltonSession, paint: Paint, columns: usize) -> Error {
    if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) {
        return error;
    }
    let complaint = complaint(&error.to_string(), sql, &session.table_names());
    let text = drawn(&complaint, sql, columns, |part, text| match part {
        Part::Carets => paint.shade(Shade::Error, text),
        Part::Hint => paint.shade(Shade::Hint, text),
        Part::Margin => paint.shade(Shade::Dim, text),
    });
    Error::new(error.kind().clone(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_engine::SessionOptions;

    #[test]
    fn colours_come_only_where_they_are_on() {
        let session = PeltonSession::open(None, &SessionOptions::default()).unwrap();
        let shown = |paint: Paint| {
            let error = Error::invalid_input("No field named x. Valid fields are y.");
            pointed_in(error, "SELECT x", &session, paint, 80).to_string()
        };
        assert!(shown(Paint::on()).contains("\x1b[1;31m^\x1b[0m"));
        assert!(shown(Paint::off()).contains('^') && !shown(Paint::off()).contains('\x1b'));
    }
}
