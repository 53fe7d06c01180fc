//! A URL as somebody types it, taken apart.
//!
//! ```text
//!   s3://bucket/sales/year=2024/*.parquet        https://host:8080/files/a%20b.parquet
//!   └── base ─┘ └── folder ───┘ └pattern┘        └──── base ─────┘ └────── key ──────┘
//! ```
//!
//! Keys of S3 are taken as they stand, as the AWS command does; `%20` in a path of HTTP is a space.

use glob::{MatchOptions, Pattern};
use object_store::path::Path;
use pelton_error::{Error, Result};
use url::Url;

/// What makes a path a pattern.
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// True for `s3://…`, `s3a://…`, `http://…` and `https://…`, whatever follows.
pub fn is_url(text: &str) -> bool {
    scheme_of(text).is_some()
}

fn scheme_of(text: &str) -> Option<&'static str> {
    let (scheme, _) = text.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" => Some("s3"),
        "http" => Some("http"),
        "https" => Some("https"),
        _ => None,
    }
}

/// Where objects are: one, those below a folder, or those that match a pattern.
#[derive(Debug, Clone)]
pub struct Location {
    base: Url,
    /// The object or the folder, up to the first folder with a wildcard.
    root: Path,
    is_folder: bool,
    pattern: Option<Pattern>,
}

impl Location {
    /// Takes `text` apart.
    ///
    /// # Errors
    ///
    /// `InvalidInput` names the URL and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| Error::invalid_input(format!("'{}': {what}", without_secrets(text)));
        let scheme = scheme_of(text).ok_or_else(|| {
            wrong("objects are named s3://bucket/key, https://host/path or http://host/path")
        })?;
        let rest = &text[text.find("://").map_or(0, |at| at + 3)..];
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        let base = base_url(scheme, authority).map_err(|what| wrong(&what))?;
        if scheme != "s3" && key.contains(['?', '#']) {
            return Err(wrong("URLs with a query (such as signed ones) are not read; name the file itself"));
        }
        let key = if scheme == "s3" {
            key.to_owned()
        } else {
            percent_decoded(key).ok_or_else(|| wrong("no UTF-8"))?
        };
        let (root, pattern) = split_pattern(&key);
        let pattern = pattern.map(|pattern| {
            Pattern::new(&pattern).map_err(|error| wrong(&format!("not a pattern: {}", error.msg)))
        });
        Ok(Self {
            base,
            is_folder: root.is_empty() || root.ends_with('/'),
            root: Path::parse(root)
                .map_err(|_| wrong("a folder without a name, or '.' or '..', in the path"))?,
            pattern: pattern.transpose()?,
        })
    }

    /// Files of this machine: an existing path, or a pattern.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where the path is no text, or the pattern is none.
    pub fn of_path(text: &str) -> Result<Self> {
        let wrong = |what: &str| Error::invalid_input(format!("'{text}': {what}"));
        let is_there = std::path::Path::new(text).exists();
        let (root, pattern) = if is_there { (text, None) } else { split_pattern(text) };
        let pattern = pattern.map(|pattern| {
            Pattern::new(&pattern).map_err(|error| wrong(&format!("not a pattern: {}", error.msg)))
        });
        let root = if root.is_empty() { "." } else { root };
        let absolute = std::path::Path::new(root).canonicalize();
        let absolute = absolute.map_err(|error| wrong(&format!("no such directory ({error})")))?;
        Ok(Self {
            base: Url::parse("file:///").map_err(|error| wrong(&error.to_string()))?,
            is_folder: absolute.is_dir(),
            root: Path::from_absolute_path(&absolute).map_err(|_| wrong("a path that is no text"))?,
            pattern: pattern.transpose()?,
        })
    }

    /// Scheme and host, or bucket: what a store is opened for.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The object, or the folder that everything meant is below of.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// True where the location can only be a folder.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// True where the location has wildcards.
    pub fn is_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// The full name of the object at `path`.
    pub fn url_of(&self, path: &Path) -> String {
        url_text(&self.base, path.as_ref())
    }

    /// The rest of `path` below the root; nothing where it is the root.
    pub fn path_below<'a>(&self, path: &'a Path) -> &'a str {
        below(&self.root, path).unwrap_or_default()
    }

    /// Whether `path`, which is below the root, is meant; folders below that of a pattern are not.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
        below(&self.root, path).is_some_and(|rest| pattern.matches_with(rest, options))
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pattern = self.pattern.as_ref().map_or("", Pattern::as_str);
        let slash = if self.is_folder && !self.root.as_ref().is_empty() { "/" } else { "" };
        write!(f, "{}{slash}{pattern}", url_text(&self.base, self.root.as_ref()))
    }
}

/// The rest of `path` below folder `root`.
pub(crate) fn below<'a>(root: &Path, path: &'a Path) -> Option<&'a str> {
    if root.as_ref().is_empty() {
        return Some(path.as_ref());
    }
    path.as_ref().strip_prefix(root.as_ref())?.strip_prefix('/')
}

/// A URL to show; `base` ends where the path begins.
pub(crate) fn url_text(base: &Url, path: &str) -> String {
    if base.scheme() == "file" {
        return format!("/{path}");
    }
    let base = base.as_str().trim_end_matches('/');
    format!("{base}/{path}")
}

/// Scheme and authority as a URL; what is wrong where they are none.
fn base_url(scheme: &str, authority: &str) -> std::result::Result<Url, String> {
    if authority.is_empty() {
        return Err(match scheme {
            "s3" => "the bucket is missing: s3://bucket/key".to_owned(),
            _ => format!("the host is missing: {scheme}://host/path"),
        });
    }
    if authority.contains('@') {
        return Err("names and passwords do not belong into a URL; S3 takes AWS_ACCESS_KEY_ID".to_owned());
    }
    Url::parse(&format!("{scheme}://{authority}"))
        .map_err(|error| format!("'{authority}' is not a host or bucket ({error})"))
}

/// `text` without a password before an `@`, to be shown.
fn without_secrets(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let authority_end = text[start..].find('/').map_or(text.len(), |at| start + at);
    match text[start..authority_end].rfind('@') {
        Some(at) => format!("{}…{}", &text[..start], &text[start + at..]),
        None => text.split('?').next().unwrap_or(text).to_owned(),
    }
}

/// The part before the first folder with a wildcard, and that folder with all after it.
fn split_pattern(key: &str) -> (&str, Option<String>) {
    match key.find(WILDCARDS) {
        None => (key, None),
        Some(wildcard) => {
            let split = key[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
            (&key[..split], Some(key[split..].to_owned()))
        }
    }
}

/// `text` with `%20` and the like as what they stand for; `None` where that is no text.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = |offset: usize| bytes.get(index + offset).and_then(|byte| (*byte as char).to_digit(16));
        match (bytes[index], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                index += 3;
            }
            (byte, _, _) => {
                decoded.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, String, bool, Option<String>) {
        let location = Location::parse(text).unwrap();
        let pattern = location.pattern.as_ref().map(|pattern| pattern.as_str().to_owned());
        (location.base.to_string(), location.root.to_string(), location.is_folder, pattern)
    }

    #[test]
    fn a_location_falls_into_base_root_and_pattern() {
        let text = |text: &str| text.to_owned();
        let cases = [
            ("s3://b/a/c.parquet", ("s3://b", "a/c.parquet", false, None)),
            ("S3A://b/a/", ("s3://b", "a", true, None)),
            ("s3://b", ("s3://b", "", true, None)),
            ("s3://b/a/y=*/c?.parquet", ("s3://b", "a", true, Some("y=*/c?.parquet"))),
            ("s3://b/*.csv", ("s3://b", "", true, Some("*.csv"))),
            ("s3://b/a%20b/c d#1.csv", ("s3://b", "a%20b/c d#1.csv", false, None)),
            ("http://h:80/a%20b.csv", ("http://h/", "a b.csv", false, None)),
        ];
        for (given, (base, root, is_folder, pattern)) in cases {
            assert_eq!(parsed(given), (text(base), text(root), is_folder, pattern.map(text)), "{given}");
        }
    }

    #[test]
    fn a_pattern_does_not_cross_folders() {
        let location = Location::parse("s3://b/a/*/x-*.csv").unwrap();
        let takes = |path: &str| location.takes(&Path::parse(path).unwrap());
        assert!(takes("a/y=1/x-2.csv"));
        assert!(!takes("a/y=1/z=2/x-2.csv") && !takes("a/x-2.csv") && !takes("ab/y=1/x-2.csv"));
    }

    #[test]
    fn what_is_no_location_is_explained_without_secrets() {
        let message = |text: &str| Location::parse(text).unwrap_err().to_string();
        assert!(message("s3:///key").contains("the bucket is missing"));
        assert!(message("ftp://host/file").contains("https://host/path"));
        assert!(message("s3://b/a//c").contains("'s3://b/a//c'"));
        assert!(message("s3://b/[").contains("not a pattern"));
        let signed = message("https://host/a.csv?X-Amz-Signature=secret");
        assert!(signed.contains("with a query") && !signed.contains("secret"), "{signed}");
        let password = message("https://me:secret@host/a.csv");
        assert!(password.contains("password") && !password.contains("secret"), "{password}");
    }

    #[test]
    fn urls_are_told_from_paths() {
        assert!(is_url("s3://b/k") && is_url("HTTPS://h/p"));
        assert!(!is_url("a/b.csv") && !is_url("file:///a") && !is_url("C:/a"));
    }
}
