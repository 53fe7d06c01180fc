//! From what the user names - files, globs, directories, URLs of objects - to a list of files with their formats.
//!
//! The order is the order of the rows: inputs as given, the files of a glob or directory by path. Hidden
//! files and those whose names begin with `_` (markers of other engines) are skipped. Folders below the one that was
//! named, or below the one before the first wildcard, may name columns: `year=2024/`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use pelton_error::{CancelFlag, Error, Result, ResultExt};
use pelton_remote::{Location, Object, Objects, StoreOptions, is_url};

use crate::options::InputFormat;
use crate::place::Place;

/// How a text file is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// A file to read and how.
#[derive(Debug, Clone)]
pub(crate) struct ListedFile {
    pub(crate) place: Place,
    pub(crate) format: InputFormat,
    pub(crate) compression: Compression,
    pub(crate) bytes: u64,
    /// When it last changed, where that is known.
    pub(crate) modified: Option<SystemTime>,
    /// Its path below the folder that was named; the name alone where it was named itself.
    pub(crate) path_below: String,
}

impl ListedFile {
    /// As it is named in messages.
    pub(crate) fn name(&self) -> String {
        self.place.name()
    }
}

/// A file as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    /// When it last changed.
    pub modified: SystemTime,
    name: String,
    path_below: String,
    format: InputFormat,
    bytes: u64,
}

/// The files of a request, in the order of their rows.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    pub(crate) files: Vec<ListedFile>,
    /// What was left out.
    pub(crate) warnings: Vec<String>,
}

impl Listed {
    /// What tells whether the files are still those, and read alike. `None` where that is not known of all.
    pub fn stamp(&self) -> Option<Vec<FileStamp>> {
        let stamp = |file: &ListedFile| {
            let (name, path_below) = (file.name(), file.path_below.clone());
            Some(FileStamp {
                name,
                path_below,
                format: file.format,
                bytes: file.bytes,
                modified: file.modified?,
            })
        };
        self.files.iter().map(stamp).collect()
    }

    /// The path of each file below the folder that was named, in order.
    pub fn paths_below(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path_below.as_str())
    }

    /// Bytes of all files as they are stored.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The format that all files have; `None` where they differ.
    pub fn format(&self) -> Option<InputFormat> {
        let first = self.files.first()?.format;
        self.files.iter().all(|file| file.format == first).then_some(first)
    }
}

/// The endings of names that tell a format.
const KNOWN: &str = ".parquet, .csv, .tsv, .tbl, .json, .jsonl, .ndjson, .arrow, .ipc and .feather; text also with .gz or .zst";

/// The files that `inputs` name, in order, and a warning for each directory in which some were left out. Listing objects
/// ends once `cancel` is set.
///
/// # Errors
///
/// `InvalidInput` where an input names nothing, something of an unknown format, or a folder of several formats.
pub fn list(inputs: &[String], forced: Option<InputFormat>, cancel: &CancelFlag) -> Result<Listed> {
    let mut listing = Listing { forced, objects: None, files: Vec::new(), warnings: Vec::new() };
    for input in inputs {
        let found_before = listing.files.len();
        if is_url(input) {
            listing.add_objects(input, cancel)?;
        } else {
            listing.add_paths(input)?;
        }
        check_found(input, &listing.files[found_before..])?;
    }
    if listing.files.is_empty() {
        return Err(Error::invalid_input("no input named; give files, globs, directories or URLs"));
    }
    Ok(Listed { files: listing.files, warnings: listing.warnings })
}

/// The same of objects that were listed before: what `input` means, each with its path below the folder that was named.
///
/// # Errors
///
/// As [`list`].
pub fn list_found(input: &str, found: Vec<(Object, String)>, forced: Option<InputFormat>) -> Result<Listed> {
    let mut listing = Listing { forced, objects: None, files: Vec::new(), warnings: Vec::new() };
    listing.add_found(input, found)?;
    check_found(input, &listing.files)?;
    Ok(Listed { files: listing.files, warnings: listing.warnings })
}

/// Whether a folder holds anything below it that can be read.
pub fn has_files(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !is_skipped(path))
        .any(|path| if path.is_dir() { has_files(&path) } else { format_of(&path).is_some() })
}

/// Refuses an input that names nothing, or files of several formats: which of them are meant?
fn check_found(input: &str, found: &[ListedFile]) -> Result<()> {
    let Some(first) = found.first() else {
        return Err(Error::invalid_input(format!(
            "'{input}' names no file that can be read: is the path right? Known endings are {KNOWN}"
        )));
    };
    if found.iter().all(|file| file.format == first.format) {
        return Ok(());
    }
    let formats = [InputFormat::Parquet, InputFormat::Csv, InputFormat::Json, InputFormat::Arrow];
    let counts = formats.iter().filter_map(|format| {
        let mut of_format = found.iter().filter(|file| file.format == *format);
        let example = of_format.next()?.name();
        let example = example.rsplit('/').next().unwrap_or_default();
        Some(format!("{} of {} (such as {example})", of_format.count() + 1, format.name()))
    });
    let is_deep = found.iter().any(|file| file.path_below.contains('/'));
    let folder = input.split(WILDCARDS).next().unwrap_or_default();
    let folder = match input.contains(WILDCARDS) {
        true => folder.rsplit_once('/').map_or("", |(folder, _)| folder),
        false => folder.trim_end_matches('/'),
    };
    let slash = if folder.is_empty() { "" } else { "/" };
    let ending = extension(first.place.path()).unwrap_or_default();
    Err(Error::invalid_input(format!(
        "'{input}' holds files of several formats: {}; choose one with a pattern, such as '{folder}{slash}{}*.{ending}'",
        counts.collect::<Vec<_>>().join(", "),
        if is_deep { "**/" } else { "" },
    )))
}

/// What was found so far.
struct Listing {
    forced: Option<InputFormat>,
    /// Started with the first URL.
    objects: Option<Arc<Objects>>,
    files: Vec<ListedFile>,
    warnings: Vec<String>,
}

impl Listing {
    fn add_paths(&mut self, input: &str) -> Result<()> {
        let root = fixed_folder(input);
        let is_marker = |name: &str| name.starts_with('_');
        // As in folders, and in stores; a pattern may ask for them.
        let takes_markers = input[root.as_os_str().len()..].split('/').any(is_marker);
        let is_marked = |path: &Path| {
            let below = path.strip_prefix(root).unwrap_or(path);
            !takes_markers && below.iter().filter_map(OsStr::to_str).any(is_marker)
        };
        let mut added: Option<PathBuf> = None;
        for path in expand(input)? {
            // What lies in a folder follows it: `**/*` means folders and, once more, what they hold.
            if is_marked(&path) || added.as_ref().is_some_and(|folder| path.starts_with(folder)) {
                continue;
            }
            if path.is_dir() {
                self.add_directory(&path, root)?;
                added = Some(path);
            } else {
                self.add_file(path, root)?;
            }
        }
        Ok(())
    }

    fn add_directory(&mut self, directory: &Path, root: &Path) -> Result<()> {
        let doing = || format!("reading directory {}", directory.display());
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory).context(doing)? {
            paths.push(entry.context(doing)?.path());
        }
        paths.sort();
        let mut left_out = Vec::new();
        for path in paths.into_iter().filter(|path| !is_skipped(path)) {
            if path.is_dir() {
                self.add_directory(&path, root)?;
            } else if self.forced.is_some() || format_of(&path).is_some() {
                self.add_file(path, root)?;
            } else {
                left_out.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
            }
        }
        self.warn_of(&directory.display().to_string(), &left_out);
        Ok(())
    }

    fn add_file(&mut self, path: PathBuf, root: &Path) -> Result<()> {
        let metadata = fs::metadata(&path).context(|| format!("opening {}", path.display()))?;
        let path_below = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let mut file = listed(Place::Disk(path), self.forced, metadata.len(), path_below)?;
        file.modified = metadata.modified().ok();
        self.files.push(file);
        Ok(())
    }

    /// The objects that a URL means.
    fn add_objects(&mut self, input: &str, cancel: &CancelFlag) -> Result<()> {
        let objects = match &mut self.objects {
            Some(objects) => objects,
            none => none.insert(Objects::start(StoreOptions::default(), cancel)?),
        };
        let found = objects.list_blocking(input)?;
        self.add_found(input, found)
    }

    /// In a folder, objects of unknown format are left out; what a pattern or name means is wanted.
    fn add_found(&mut self, input: &str, found: Vec<(Object, String)>) -> Result<()> {
        let is_pattern = Location::parse(input)?.is_pattern();
        let mut left_out = Vec::new();
        for (object, path_below) in found {
            let is_wanted = is_pattern || path_below.is_empty() || self.forced.is_some();
            if !is_wanted && format_of(Path::new(object.path().as_ref())).is_none() {
                left_out.push(path_below);
                continue;
            }
            let bytes = object.bytes();
            self.files.push(listed(Place::Store(object), self.forced, bytes, path_below)?);
        }
        self.warn_of(input, &left_out);
        Ok(())
    }

    fn warn_of(&mut self, folder: &str, left_out: &[String]) {
        if !left_out.is_empty() {
            self.warnings.push(format!("left out of {folder}, unknown format: {}", left_out.join(", ")));
        }
    }
}

/// The folder that `input` names, or the one before its first wildcard. A file has none: its own folder says nothing.
fn fixed_folder(input: &str) -> &Path {
    if Path::new(input).exists() {
        return Path::new(input);
    }
    let wildcard = input.find(WILDCARDS).unwrap_or(input.len());
    Path::new(&input[..input[..wildcard].rfind('/').map_or(0, |slash| slash + 1)])
}

/// What makes a path a glob.
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// The path itself where it exists, else what it matches as a glob.
fn expand(input: &str) -> Result<Vec<PathBuf>> {
    if Path::new(input).exists() {
        return Ok(vec![PathBuf::from(input)]);
    }
    if !input.contains(WILDCARDS) {
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

fn is_skipped(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(['.', '_']))
}

fn listed(place: Place, forced: Option<InputFormat>, bytes: u64, path_below: String) -> Result<ListedFile> {
    let name = place.name();
    let format = forced.or_else(|| format_of(place.path())).ok_or_else(|| {
        Error::invalid_input(format!(
            "{name}: the name does not tell the format; known endings are {KNOWN}, or name the format (--format when \
             loading, SET pelton.input_format = 'csv' for queries)"
        ))
    })?;
    let compression = compression_of(place.path());
    if compression != Compression::None && !matches!(format, InputFormat::Csv | InputFormat::Json) {
        return Err(Error::unsupported(format!(
            "{name}: only CSV and JSON files may be compressed as a whole; decompress it first"
        )));
    }
    Ok(ListedFile { place, format, compression, bytes, modified: None, path_below })
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
        let listed = list(inputs, forced, &CancelFlag::new()).unwrap();
        listed
            .files
            .iter()
            .map(|file| file.place.path().file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn files_come_sorted_within_each_input_and_in_the_order_of_inputs() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for name in ["c.csv", "a.csv.gz", "b/2.csv", "b/1.CSV", ".hidden.csv", "_SUCCESS", "notes.txt"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let root = dir.path().display().to_string();
        let all = vec![root.clone()];
        assert_eq!(names(&all, None), ["a.csv.gz", "1.CSV", "2.csv", "c.csv"]);
        let listed = list(&all, None, &CancelFlag::new()).unwrap();
        assert_eq!(listed.warnings, [format!("left out of {root}, unknown format: notes.txt")]);
        assert_eq!(names(&[format!("{root}/*.csv"), format!("{root}/b")], None), ["c.csv", "1.CSV", "2.csv"]);
        assert_eq!(names(&[format!("{root}/notes.txt")], Some(InputFormat::Csv)), ["notes.txt"]);
    }

    #[test]
    fn a_pattern_that_means_folders_and_their_files_gives_each_file_once() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["a/b", "_temporary"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for name in ["1.csv", "a/2.csv", "a/b/3.csv", "a.csv", "_SUCCESS", "_temporary/4.csv"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        for pattern in ["**/*", "*"] {
            let mut found = names(&[format!("{}/{pattern}", dir.path().display())], None);
            found.sort();
            assert_eq!(found, ["1.csv", "2.csv", "3.csv", "a.csv"], "{pattern}");
        }
        assert_eq!(names(&[format!("{}/_*/*.csv", dir.path().display())], None), ["4.csv"]);
    }

    #[test]
    fn inputs_that_name_nothing_are_refused() {
        let message =
            |input: &str| list(&[input.to_string()], None, &CancelFlag::new()).unwrap_err().to_string();
        assert_eq!(message("/no/such.csv"), "no file or directory '/no/such.csv'");
        assert!(message("/no/such/*.csv").starts_with("'/no/such/*.csv' names no file that can be read"));
        assert_eq!(
            list(&[], None, &CancelFlag::new()).unwrap_err().to_string(),
            "no input named; give files, globs, directories or URLs"
        );
    }

    #[test]
    fn a_folder_of_several_formats_is_refused_with_a_pattern_that_chooses() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for name in ["1.csv", "2.tsv", "b/3.parquet"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let root = dir.path().display().to_string();
        let message = list(std::slice::from_ref(&root), None, &CancelFlag::new()).unwrap_err().to_string();
        assert_eq!(
            message,
            format!(
                "'{root}' holds files of several formats: 1 of parquet (such as 3.parquet), 2 of csv (such as 1.csv); \
                 choose one with a pattern, such as '{root}/**/*.csv'"
            )
        );
        assert_eq!(
            names(&[format!("{root}/*.*sv"), format!("{root}/b")], None),
            ["1.csv", "2.tsv", "3.parquet"]
        );
        assert_eq!(names(&[root], Some(InputFormat::Csv)).len(), 3);
    }

    #[test]
    fn paths_begin_below_the_folder_that_was_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("y=1/m=2")).unwrap();
        fs::write(dir.path().join("y=1/m=2/a.csv"), "x").unwrap();
        let root = dir.path().display();
        let below =
            |input: String| list(&[input], None, &CancelFlag::new()).unwrap().files[0].path_below.clone();
        assert_eq!(below(format!("{root}")), "y=1/m=2/a.csv");
        assert_eq!(below(format!("{root}/y=*/*/*.csv")), "y=1/m=2/a.csv");
        assert_eq!(below(format!("{root}/y=1/m=*")), "m=2/a.csv");
        assert_eq!(below(format!("{root}/y=1/m=2/a.csv")), "");
    }
}
