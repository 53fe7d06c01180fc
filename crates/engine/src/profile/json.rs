//! JSON text, written front to back: what the profile of a query needs and no more.

use std::fmt::{Display, Write};

/// Writes one JSON value. Commas are its business; who opens an object or list closes it.
#[derive(Debug, Default)]
pub(super) struct JsonWriter {
    text: String,
    /// True where the next item of the innermost object or list needs no comma before it.
    is_first: Vec<bool>,
    /// True right behind a field's name.
    is_after_name: bool,
}

impl JsonWriter {
    /// What was written.
    pub(super) fn finish(self) -> String {
        assert!(self.is_first.is_empty(), "an object or list is left open");
        self.text
    }

    /// `{ … }`, its fields written by `fields`.
    pub(super) fn object(&mut self, fields: impl FnOnce(&mut Self)) {
        self.nested('{', '}', fields);
    }

    /// `[ … ]`, its items written by `items`.
    pub(super) fn list(&mut self, items: impl FnOnce(&mut Self)) {
        self.nested('[', ']', items);
    }

    /// The name of the field whose value comes next.
    pub(super) fn field(&mut self, name: &str) -> &mut Self {
        self.string(name);
        self.text.push(':');
        self.is_after_name = true;
        self
    }

    /// A text.
    pub(super) fn string(&mut self, text: &str) {
        self.begin_value();
        self.text.push('"');
        for char in text.chars() {
            match char {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\t' => self.text.push_str("\\t"),
                // Control characters must be escaped; the others may not end the script element of a page.
                '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    write!(self.text, "\\u{:04x}", char as u32).expect("writing to a string");
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }

    /// A whole number.
    pub(super) fn number(&mut self, number: impl Display) {
        self.begin_value();
        write!(self.text, "{number}").expect("writing to a string");
    }

    /// A number with a fraction; what JSON has no number for is `null`.
    pub(super) fn float(&mut self, number: f64) {
        if number.is_finite() { self.number(number) } else { self.null() }
    }

    /// `null`.
    pub(super) fn null(&mut self) {
        self.number("null");
    }

    /// What `write` makes of the value, or `null`.
    pub(super) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.null(),
        }
    }

    fn nested(&mut self, open: char, close: char, inside: impl FnOnce(&mut Self)) {
        self.begin_value();
        self.text.push(open);
        self.is_first.push(true);
        inside(self);
        self.is_first.pop();
        self.text.push(close);
    }

    fn begin_value(&mut self) {
        if std::mem::take(&mut self.is_after_name) {
            return;
        }
        if let Some(is_first) = self.is_first.last_mut()
            && !std::mem::take(is_first)
        {
            self.text.push(',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_between_items_and_nowhere_else() {
        let mut json = JsonWriter::default();
        json.object(|json| {
            json.field("a").number(1);
            json.field("b").list(|json| {
                json.number(2);
                json.list(|_| {});
                json.object(|json| json.field("c").null());
            });
            json.field("d").float(f64::NAN);
        });
        assert_eq!(json.finish(), r#"{"a":1,"b":[2,[],{"c":null}],"d":null}"#);
    }

    #[test]
    fn texts_are_escaped_and_cannot_end_a_script() {
        let mut json = JsonWriter::default();
        json.string("a\"b\\c\nd\u{1}</script>é");
        assert_eq!(json.finish(), r#""a\"b\\c\nd\u0001\u003c/script\u003eé""#);
    }
}
