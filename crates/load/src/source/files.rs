//! From what the user names - files, globs, directories - to a list of files with their formats.
//!
//! The order is the order of the rows: inputs as given, the files of a glob or directory by path. Hidden
//! files and those whose names begin with `_` (markers of other engines) are skipped.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use pelton_error::{Error, Result, ResultExt};

use crate::request::InputFormat;

/// How a text file is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// A file to read and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub(crate) path: PathBuf,
    pub(crate) format: InputFormat,
    pub(crate) compression: Compression,
    pub(crate) bytes: u64,
}

/// The files that `inputs` name, in order, and a warning for each directory in which some were left out.
pub(crate) fn list(inputs: &[String], forced: Option<InputFormat>) -> Result<(Vec<ListedFile>, Vec<String>)> {
    let mut files = Vec::new();
    let mut warnings = Vec::new();
    for input in inputs {
        let found_before = files.len();
        for path in expand(input)? {
            if path.is_dir() {
                list_directory(&path, forced, &mut files, &mut warnings)?;
            } else {
                files.push(listed(path, forced)?);
            }
        }
        if files.len() == found_before {
            return Err(Error::invalid_input(format!(
                "'{input}' has no file to load; known are .parquet, .csv, .tsv, .tbl, .json, .jsonl, .ndjson, .arrow, \
                 .ipc and .feather, or name the format"
            )));
        }
    }
    if files.is_empty() {
        return Err(Error::invalid_input("no input named; give files, globs or directories"));
    }
    Ok((files, warnings))
}

/// The path itself where it exists, else what it matches as a glob.
fn expand(input: &str) -> Result<Vec<PathBuf>> {
    if Path::new(input).exists() {
        return Ok(vec![PathBuf::from(input)]);
    }
    if !input.contains(['*', '?', '[']) {
        return Err(Error::invalid_input(format!("no file or directory '{input}'")));
    }
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
    let matches = glob::glob_with(input, options)
        .map_err(|error| Error::invalid_input(format!("'{input}' is not a glob")).with_source(error))?;
    let mut paths = Vec::new();
    for path in matches {
        paths.push(path.map_err(|error| {
            let doing = format!("reading {}", error.path().display());
            Error::io(doing, error.into())
        })?);
    }
    paths.sort();
    Ok(paths)
}

fn list_directory(
    directory: &Path,
    forced: Option<InputFormat>,
    files: &mut Vec<ListedFile>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let doing = || format!("reading directory {}", directory.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).context(doing)? {
        paths.push(entry.context(doing)?.path());
    }
    paths.sort();
    let mut left_out = Vec::new();
    for path in paths.into_iter().filter(|path| !is_skipped(path)) {
        if path.is_dir() {
            list_directory(&path, forced, files, warnings)?;
        } else if forced.is_some() || format_of(&path).is_some() {
            files.push(listed(path, forced)?);
        } else {
            left_out.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        warnings.push(format!("left out of {}, unknown format: {names}", directory.display()));
    }
    Ok(())
}

fn is_skipped(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(['.', '_']))
}

fn listed(path: PathBuf, forced: Option<InputFormat>) -> Result<ListedFile> {
    let format = forced.or_else(|| format_of(&path)).ok_or_else(|| {
        Error::invalid_input(format!(
            "{}: the name does not tell the format; name it (parquet, csv, json or arrow)",
            path.display()
        ))
    })?;
    let compression = compression_of(&path);
    if compression != Compression::None && !matches!(format, InputFormat::Csv | InputFormat::Json) {
        return Err(Error::unsupported(format!(
            "{}: only CSV and JSON files may be compressed as a whole; decompress it first",
            path.display()
        )));
    }
    let bytes = fs::metadata(&path).context(|| format!("opening {}", path.display()))?.len();
    Ok(ListedFile { path, format, compression, bytes })
}

fn compression_of(path: &Path) -> Compression {
    match extension(path).as_deref() {
        Some("gz") => Compression::Gzip,
        Some("zst") => Compression::Zstd,
        _ => Compression::None,
    }
}

/// The format that the name tells, looking through `.gz` and `.zst`.
fn format_of(path: &Path) -> Option<InputFormat> {
    match inner_extension(path)?.as_str() {
        "parquet" | "pq" => Some(InputFormat::Parquet),
        "csv" | "tsv" | "tbl" => Some(InputFormat::Csv),
        "json" | "jsonl" | "ndjson" => Some(InputFormat::Json),
        "arrow" | "arrows" | "ipc" | "feather" => Some(InputFormat::Arrow),
        _ => None,
    }
}

/// The extension in lower case, without `.gz` and `.zst`.
pub(crate) fn inner_extension(path: &Path) -> Option<String> {
    match compression_of(path) {
        Compression::None => extension(path),
        Compression::Gzip | Compression::Zstd => extension(&path.with_extension("")),
    }
}

fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(inputs: &[String], forced: Option<InputFormat>) -> Vec<String> {
        let (files, _) = list(inputs, forced).unwrap();
        files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn files_come_sorted_within_each_input_and_in_the_order_of_inputs() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for name in ["c.csv", "a.csv.gz", "b/2.jsonl", "b/1.PARQUET", ".hidden.csv", "_SUCCESS", "notes.txt"]
        {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let root = dir.path().display().to_string();
        let all = vec![root.clone()];
        assert_eq!(names(&all, None), ["a.csv.gz", "1.PARQUET", "2.jsonl", "c.csv"]);
        let (_, warnings) = list(&all, None).unwrap();
        assert_eq!(warnings, [format!("left out of {root}, unknown format: notes.txt")]);
        assert_eq!(
            names(&[format!("{root}/*.csv"), format!("{root}/b")], None),
            ["c.csv", "1.PARQUET", "2.jsonl"]
        );
        assert_eq!(names(&[format!("{root}/notes.txt")], Some(InputFormat::Csv)), ["notes.txt"]);
    }

    #[test]
    fn inputs_that_name_nothing_are_refused() {
        let message = |input: &str| list(&[input.to_string()], None).unwrap_err().to_string();
        assert_eq!(message("/no/such.csv"), "no file or directory '/no/such.csv'");
        assert!(message("/no/such/*.csv").starts_with("'/no/such/*.csv' has no file to load"));
        assert_eq!(
            list(&[], None).unwrap_err().to_string(),
            "no input named; give files, globs or directories"
        );
    }
}
