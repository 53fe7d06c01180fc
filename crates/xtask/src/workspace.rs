//! The repository as the checks see it: its text files, and its packages as cargo knows them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{self, Result};

/// Folders that hold sources and documents; the rest of the repository is build output and data.
const FOLDERS: [&str; 6] = ["crates", "docs", "tests", "queries", ".ci", ".cargo"];

/// A repository on disk.
pub(crate) struct Workspace {
    /// Its root directory.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// Its packages, by name.
    pub(crate) packages: Vec<Package>,
    /// Its Rust and Markdown files, by path.
    pub(crate) files: Vec<File>,
}

/// A text file.
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// The folder name of the crate that the file belongs to.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split_once('/').map(|(name, _)| name)
    }
}

/// A workspace member.
pub(crate) struct Package {
    /// Name without the prefix `pelton-`, which is its folder's name.
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a package's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package's.
    pub(crate) name: String,
    /// What sources call it: its name, or what the manifest renames it to.
    pub(crate) called: String,
    /// Under `[dev-dependencies]`.
    pub(crate) is_for_tests: bool,
}

impl Workspace {
    /// The workspace that this program was built from.
    pub(crate) fn open() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let metadata = process::output(&mut process::cargo(
            &root,
            &["metadata", "--format-version", "1", "--no-deps", "--locked"],
        ))?;
        let metadata: Value =
            serde_json::from_str(&metadata).map_err(|error| format!("reading cargo metadata: {error}"))?;
        Ok(Self {
            target: metadata["target_directory"].as_str().map_or_else(|| root.join("target"), PathBuf::from),
            packages: packages(&metadata)?,
            files: files(&root)?,
            root,
        })
    }

    /// The file at `path`, which the project cannot do without.
    pub(crate) fn file(&self, path: &str) -> Result<&File> {
        self.files.iter().find(|file| file.path == path).ok_or_else(|| format!("{path} is missing"))
    }

    /// The `pelton` command, once built.
    pub(crate) fn pelton(&self) -> PathBuf {
        self.target.join("release/pelton")
    }
}

/// The members in `metadata`, the output of `cargo metadata`.
pub(crate) fn packages(metadata: &Value) -> Result<Vec<Package>> {
    let array = |value: &Value, what: &str| {
        value.as_array().cloned().ok_or_else(|| format!("cargo metadata has no list of {what}"))
    };
    let name_of = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for package in array(&metadata["packages"], "packages")? {
        let dependencies = array(&package["dependencies"], "dependencies")?;
        // Nothing names these: they give libraries below them features that other builds of the workspace have.
        let for_features = package["metadata"]["pelton"]["for-features"].as_array();
        let for_features: Vec<String> =
            for_features.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        found.push(Package {
            name: short_name(&name_of(&package)).to_owned(),
            dependencies: dependencies
                .iter()
                .filter(|dependency| !for_features.contains(&name_of(dependency)))
                .map(|dependency| Dependency {
                    name: name_of(dependency),
                    called: dependency["rename"].as_str().map_or(name_of(dependency), str::to_owned),
                    is_for_tests: dependency["kind"] == "dev",
                })
                .collect(),
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// `pelton-store` is `store` everywhere but in manifests.
pub(crate) fn short_name(package: &str) -> &str {
    package.strip_prefix("pelton-").unwrap_or(package)
}

fn files(root: &Path) -> Result<Vec<File>> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), true, &mut paths)?;
    }
    collect(root, false, &mut paths)?;
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let path = path.strip_prefix(root).expect("the walk began at the root");
            Ok(File { path: path.to_string_lossy().replace('\\', "/"), text })
        })
        .collect()
}

/// Adds the Rust and Markdown files of `folder`, and of those below it if `is_deep`.
fn collect(folder: &Path, is_deep: bool, paths: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            if is_deep {
                collect(&path, true, paths)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "md") {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_cargo_metadata() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "pelton-store", "dependencies": [
                { "name": "pelton-chunk", "kind": null },
                { "name": "tempfile", "kind": "dev", "rename": "scratch" } ] },
            { "name": "pelton-chunk", "dependencies": [] } ] });
        let packages = packages(&metadata).unwrap();
        assert_eq!(packages[0].name, "chunk");
        assert_eq!(packages[1].dependencies[0].name, "pelton-chunk");
        assert_eq!(packages[1].dependencies[0].called, "pelton-chunk");
        assert_eq!(packages[1].dependencies[1].called, "scratch");
        assert!(packages[1].dependencies[1].is_for_tests && !packages[1].dependencies[0].is_for_tests);
    }

    #[test]
    fn the_repository_opens_and_knows_its_crates() {
        let workspace = Workspace::open().unwrap();
        assert!(workspace.packages.iter().any(|package| package.name == "xtask"));
        let this = workspace.files.iter().find(|file| file.path == "crates/xtask/src/workspace.rs").unwrap();
        assert_eq!(this.crate_name(), Some("xtask"));
    }
}
