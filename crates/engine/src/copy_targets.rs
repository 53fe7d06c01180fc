//! What the target of a COPY says: the format and the compression of a file, by its endings, and which file it is.
//!
//! ```text
//!   TO 'rows.tsv'              STORED AS CSV OPTIONS ('format.delimiter' '<tab>')
//!   TO 'rows.json.gz'          STORED AS JSON OPTIONS ('format.compression' 'gzip')
//!   TO 'rows[1].csv'           TO 'file:///here/rows%5B1%5D.csv'
//! ```
//!
//! DataFusion knows the last ending alone, and takes a name for the pattern of others.

use std::path::Path;

use datafusion::sql::parser::{CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::Value;
use pelton_error::{Error, Result, ResultExt};
use url::Url;

/// Writes out what the target of a COPY says.
///
/// # Errors
///
/// Names a target that cannot be written.
pub(crate) fn write_targets(statement: &mut Statement) -> Result<()> {
    match statement {
        Statement::CopyTo(copy) => {
            if !copy.partitioned_by.is_empty() {
                check_partitions(copy)?;
            } else if !copy.target.ends_with('/') {
                write_endings(copy)?;
            }
            write_name(copy)
        }
        Statement::Explain(explain) => write_targets(&mut explain.statement),
        _ => Ok(()),
    }
}

/// DataFusion's writer of Arrow files, which it keeps to itself, puts NULL keys into the folder of 0 or of the empty text.
fn check_partitions(copy: &CopyToStatement) -> Result<()> {
    let is_arrow = match &copy.stored_as {
        Some(format) => format.eq_ignore_ascii_case("ARROW"),
        None => copy.target.to_ascii_lowercase().ends_with(".arrow"),
    };
    match is_arrow {
        true => Err(Error::unsupported("PARTITIONED BY with Arrow files; write Parquet, CSV or JSON")),
        false => Ok(()),
    }
}

fn write_endings(copy: &mut CopyToStatement) -> Result<()> {
    let name = copy.target.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let (name, compression) = match name.rsplit_once('.') {
        Some((stem, "gz")) => (stem, Some("gzip")),
        Some((stem, "zst")) => (stem, Some("zstd")),
        _ => (name.as_str(), None),
    };
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let format = match ending {
        Some("csv" | "tsv") => Some("CSV"),
        Some("json" | "jsonl" | "ndjson") => Some("JSON"),
        Some("parquet") => Some("PARQUET"),
        Some("arrow" | "feather") => Some("ARROW"),
        _ => None,
    };
    let Some(format) = copy.stored_as.clone().or(format.map(str::to_owned)) else { return Ok(()) };
    let is_binary = ["PARQUET", "ARROW"].iter().any(|binary| format.eq_ignore_ascii_case(binary));
    if compression.is_some() && is_binary {
        return Err(Error::invalid_input(format!(
            "'{}': Parquet and Arrow files are not compressed as a whole; leave out the last ending",
            copy.target
        )));
    }
    if ending == Some("tsv") && format.eq_ignore_ascii_case("CSV") {
        write_option(copy, "delimiter", "\t");
    }
    if let Some(compression) = compression {
        write_option(copy, "compression", compression);
    }
    copy.stored_as = Some(format);
    Ok(())
}

/// Adds an option of the format, where the statement does not say it itself.
fn write_option(copy: &mut CopyToStatement, name: &str, value: &str) {
    let is_it =
        |key: &str| key.eq_ignore_ascii_case(name) || key.eq_ignore_ascii_case(&format!("format.{name}"));
    if !copy.options.iter().any(|(key, _)| is_it(key)) {
        copy.options.push((format!("format.{name}"), Value::SingleQuotedString(value.to_owned())));
    }
}

/// A name that would be read as a pattern becomes the URL of its file.
fn write_name(copy: &mut CopyToStatement) -> Result<()> {
    let name = &copy.target;
    let is_url = !Path::new(name).is_absolute() && Url::parse(name).is_ok();
    if is_url || !name.contains(['?', '*', '[']) {
        return Ok(());
    }
    let path = std::path::absolute(name).context(|| format!("'{name}'"))?;
    let url = match name.ends_with('/') || path.is_dir() {
        true => Url::from_directory_path(path),
        false => Url::from_file_path(path),
    };
    let url = url.map_err(|()| Error::invalid_input(format!("'{name}' is no name of a file")))?;
    copy.target = url.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    fn written(target: &str) -> String {
        parse(&format!("COPY t TO {target}")).unwrap()[0].to_string()
    }

    #[test]
    fn endings_say_format_and_compression() {
        for (target, expected) in [
            ("'a.tsv'", "COPY t TO a.tsv STORED AS CSV OPTIONS ('format.delimiter' '\t')"),
            ("'a.CSV.GZ'", "COPY t TO a.CSV.GZ STORED AS CSV OPTIONS ('format.compression' 'gzip')"),
            ("'a.ndjson.zst'", "COPY t TO a.ndjson.zst STORED AS JSON OPTIONS ('format.compression' 'zstd')"),
            (
                "'a.csv.gz' OPTIONS (compression 'uncompressed')",
                "COPY t TO a.csv.gz STORED AS CSV OPTIONS ('compression' 'uncompressed')",
            ),
            ("'b/a.feather'", "COPY t TO b/a.feather STORED AS ARROW"),
            ("'a.data' STORED AS JSON", "COPY t TO a.data STORED AS JSON"),
            ("'a.xlsx'", "COPY t TO a.xlsx"),
        ] {
            let plain = |text: String| text.replace(['\'', ' '], "");
            assert_eq!(plain(written(target)), plain(expected.to_owned()), "{target}");
        }
        let error = parse("COPY t TO 'a.parquet.gz'").unwrap_err().to_string();
        assert!(error.contains("leave out the last ending"), "{error}");
        let error = parse("COPY t TO 'a' STORED AS ARROW PARTITIONED BY (k)").unwrap_err().to_string();
        assert!(error.contains("write Parquet"), "{error}");
    }

    #[test]
    fn a_name_is_no_pattern() {
        let [question, bracket] = ["'/d/a?.csv'", "'/d/[a/b.csv'"].map(written);
        assert!(question.contains("file:///d/a%3F.csv"), "{question}");
        assert!(bracket.contains("file:///d/") && bracket.contains("a/b.csv"), "{bracket}");
        assert!(written("'s3://b/a?.csv'").contains("s3://b/a?.csv"));
    }
}
