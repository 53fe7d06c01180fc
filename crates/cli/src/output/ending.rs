//! What the name of a file says about how rows are written to it: `rows.csv.gz` is CSV, compressed with gzip.

use std::path::Path;

use pelton_error::{Error, Result};

use crate::args::Format;

/// Compression of a whole file of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Endings that are known, for the message about one that is not.
const KNOWN: &str =
    ".csv, .tsv, .json, .jsonl, .ndjson, .md, .txt (each also .gz and .zst), .parquet, .arrow and .feather";

/// The format of the file `path`: the one asked for, else that of its ending.
///
/// # Errors
///
/// `InvalidInput` where neither says, and where a binary format is to be compressed once more.
pub(crate) fn format_of_file(path: &Path, asked: Option<Format>) -> Result<(Format, Compression)> {
    let (format, compression) = of_path(path);
    let shown = path.display();
    let Some(format) = asked.or(format) else {
        return Err(Error::invalid_input(format!(
            "the ending of '{shown}' does not say how to write rows; known endings are {KNOWN}; for any other name \
             say the format (--format, in the shell .mode)"
        )));
    };
    if compression != Compression::None && matches!(format, Format::Parquet | Format::Arrow) {
        return Err(Error::invalid_input(format!(
            "'{shown}': Parquet and Arrow files are not compressed as a whole; leave out the last ending"
        )));
    }
    Ok((format, compression))
}

/// What the endings of `path` say.
pub(crate) fn of_path(path: &Path) -> (Option<Format>, Compression) {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let (name, compression) = match name.rsplit_once('.') {
        Some((stem, "gz")) => (stem.to_owned(), Compression::Gzip),
        Some((stem, "zst")) => (stem.to_owned(), Compression::Zstd),
        _ => (name, Compression::None),
    };
    let format = name.rsplit_once('.').and_then(|(_, ending)| match ending {
        "csv" => Some(Format::Csv),
        "tsv" => Some(Format::Tsv),
        "json" | "jsonl" | "ndjson" => Some(Format::Json),
        "md" => Some(Format::Markdown),
        "txt" => Some(Format::Table),
        "parquet" => Some(Format::Parquet),
        "arrow" | "feather" => Some(Format::Arrow),
        _ => None,
    });
    (format, compression)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_says_format_and_compression() {
        use Compression::{Gzip, None as Plain, Zstd};
        for (name, expected) in [
            ("a.csv", (Some(Format::Csv), Plain)),
            ("dir.csv/a.TSV.GZ", (Some(Format::Tsv), Gzip)),
            ("a.b.ndjson.zst", (Some(Format::Json), Zstd)),
            ("a.feather", (Some(Format::Arrow), Plain)),
            ("a.xlsx", (None, Plain)),
            ("a.gz", (None, Gzip)),
            ("csv", (None, Plain)),
        ] {
            assert_eq!(of_path(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn an_ending_that_says_nothing_is_an_error_with_the_known_ones() {
        for name in ["a.xlsx", "a", "a.gz"] {
            let error = format_of_file(Path::new(name), None).unwrap_err().to_string();
            assert!(
                error.contains(&format!("'{name}'")) && error.contains(".tsv") && error.contains("--format"),
                "{error}"
            );
            assert_eq!(format_of_file(Path::new(name), Some(Format::Csv)).unwrap().0, Format::Csv);
        }
        let error = format_of_file(Path::new("a.parquet.gz"), None).unwrap_err().to_string();
        assert!(error.contains("leave out the last ending"), "{error}");
    }
}
