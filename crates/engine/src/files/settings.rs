//! What a session says about text files that queries name: `SET pelton.infer_rows = 'all'`.
//!
//! The words are those of `pelton load`, so that a file means the same loaded and queried in place.

use std::any::Any;
use std::str::FromStr;

use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::Result;
use pelton_error::Error;
use pelton_files::{
    InputFormat, TextOptions, parse_char, parse_column_types, parse_optional_char, type_name,
};

use crate::error::to_datafusion;

/// The settings, and what each is for.
const KEYS: [(&str, &str); 10] = [
    ("input_format", "Format of files whose names do not tell it: parquet, csv, json, arrow"),
    ("infer_rows", "Rows that types of CSV and JSON are inferred from: auto, all or a number"),
    ("column_types", "Types of columns of CSV and JSON: name=TYPE,name=TYPE"),
    ("null", "Texts that stand for NULL in CSV beside the empty field, comma-separated"),
    ("delimiter", "Field delimiter of CSV; empty: by the name of the file"),
    ("quote", "Encloses fields of CSV; empty: nothing does"),
    ("escape", "Escapes a character in a quoted field of CSV; empty: none but a doubled quote"),
    ("comment", "Lines of CSV that begin with it are skipped; empty: none"),
    ("encoding", "Encoding of CSV and JSON: utf-8, latin1, windows-1252, utf-16, utf-16be"),
    ("header", "Whether CSV has a header line: auto, true or false"),
];

/// How files that queries name are read.
#[derive(Debug, Clone, Default)]
pub struct FileSettings {
    /// Of text files.
    pub text: TextOptions,
    /// Of files whose names do not tell it.
    pub input_format: Option<InputFormat>,
}

impl FileSettings {
    fn set_key(&mut self, key: &str, value: &str) -> pelton_error::Result<()> {
        let text = &mut self.text;
        match key {
            "input_format" => self.input_format = some(value).map(InputFormat::from_str).transpose()?,
            "infer_rows" => text.infer_rows = value.parse()?,
            "column_types" => text.column_types = parse_column_types(value)?,
            "null" => {
                text.nulls = value.split(',').filter(|null| !null.is_empty()).map(str::to_owned).collect();
            }
            "delimiter" => {
                text.delimiter = some(value).map(|value| parse_char("a delimiter", value)).transpose()?
            }
            "quote" => text.quote = parse_optional_char("a quote", value)?,
            "escape" => text.escape = parse_optional_char("an escape", value)?,
            "comment" => text.comment = parse_optional_char("a comment character", value)?,
            "encoding" => text.encoding = value.parse()?,
            "header" => {
                text.header = match value.to_ascii_lowercase().as_str() {
                    "auto" | "" => None,
                    "true" => Some(true),
                    "false" => Some(false),
                    _ => {
                        return Err(Error::invalid_input(format!(
                            "pelton.header is auto, true or false, not '{value}'"
                        )));
                    }
                };
            }
            _ => {
                let keys = KEYS.map(|(key, _)| format!("pelton.{key}")).join(", ");
                return Err(Error::invalid_input(format!(
                    "there is no setting pelton.{key}; there are {keys}"
                )));
            }
        }
        Ok(())
    }

    fn value(&self, key: &str) -> String {
        let text = &self.text;
        let character = |byte: Option<u8>| byte.map_or(String::new(), |byte| byte.escape_ascii().to_string());
        match key {
            "input_format" => self.input_format.map_or(String::new(), |format| format.name().to_owned()),
            "infer_rows" => text.infer_rows.to_string(),
            "column_types" => {
                let types = text.column_types.iter();
                types
                    .map(|(name, data_type)| format!("{name}={}", type_name(data_type)))
                    .collect::<Vec<_>>()
                    .join(",")
            }
            "null" => text.nulls.join(","),
            "delimiter" => character(text.delimiter),
            "quote" => character(text.quote),
            "escape" => character(text.escape),
            "comment" => character(text.comment),
            "encoding" => text.encoding.to_string(),
            _ => text.header.map_or("auto".to_owned(), |header| header.to_string()),
        }
    }
}

/// `value`, where there is one.
fn some(value: &str) -> Option<&str> {
    (!value.is_empty()).then_some(value)
}

impl ConfigExtension for FileSettings {
    const PREFIX: &'static str = "pelton";
}

impl ExtensionOptions for FileSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let mut changed = self.clone();
        changed.set_key(key, value).and_then(|()| changed.text.check()).map_err(to_datafusion)?;
        *self = changed;
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |(key, description): &(&str, &'static str)| ConfigEntry {
            key: format!("{}.{key}", Self::PREFIX),
            value: Some(self.value(key)),
            description,
        };
        KEYS.iter().map(entry).collect()
    }
}
