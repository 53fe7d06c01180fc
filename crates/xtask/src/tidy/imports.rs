//! The import tables of ARCHITECTURE.md, held against what manifests say.
//!
//! 1. "crate, may use, in tests": each crate's Pelton dependencies are exactly those of its row, so that the
//!    table is the graph and not an upper bound of it.
//! 2. "library, only in": a library named there is a dependency of the crates of its row at most.
//! 3. A dependency that no source of the crate names is not needed.

use crate::markdown;
use crate::rust_text;
use crate::tidy::{ARCHITECTURE, Finding, word_positions};
use crate::workspace::{Dependency, File, Package, short_name};

const CRATES_HEADER: [&str; 3] = ["crate", "may use", "in tests also"];
const LIBRARIES_HEADER: [&str; 2] = ["library", "only in"];

/// Checks 1 and 2.
pub(super) fn tables(packages: &[Package], architecture: &str) -> Vec<Finding> {
    let missing = |header: &[&str]| {
        vec![Finding::new(
            ARCHITECTURE,
            0,
            format!("no table with the columns {}; add it", header.join(", ")),
        )]
    };
    let crates = markdown::table(architecture, &CRATES_HEADER)
        .map_or_else(|| missing(&CRATES_HEADER), |rows| crate_rows(packages, &rows));
    let libraries = markdown::table(architecture, &LIBRARIES_HEADER)
        .map_or_else(|| missing(&LIBRARIES_HEADER), |rows| library_rows(packages, &rows));
    [crates, libraries].concat()
}

fn crate_rows(packages: &[Package], rows: &[markdown::Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        match rows.iter().find(|row| row.cells[0] == package.name) {
            None => findings.push(Finding::new(
                ARCHITECTURE,
                0,
                format!("the table of crates has no row for {}; add one", package.name),
            )),
            Some(row) => {
                for (column, is_for_tests) in [(1, false), (2, true)] {
                    findings.extend(compare(package, row, column, is_for_tests));
                }
            }
        }
    }
    let is_known = |row: &&markdown::Row| packages.iter().any(|package| package.name == row.cells[0]);
    findings.extend(rows.iter().filter(|row| !is_known(row)).map(|row| {
        Finding::new(ARCHITECTURE, row.line, format!("there is no crate {}; remove the row", row.cells[0]))
    }));
    findings
}

/// One cell of the table against one half of a manifest.
fn compare(package: &Package, row: &markdown::Row, column: usize, is_for_tests: bool) -> Vec<Finding> {
    let allowed = row.cells.get(column).map_or(Vec::new(), |cell| markdown::items(cell));
    let used: Vec<&str> = package
        .dependencies
        .iter()
        .filter(|dependency| {
            dependency.is_for_tests == is_for_tests && dependency.name.starts_with("pelton-")
        })
        .map(|dependency| short_name(&dependency.name))
        .collect();
    let test_words = if is_for_tests { " in tests" } else { "" };
    let undeclared = used.iter().filter(|name| !allowed.contains(name)).map(|name| {
        Finding::new(
            &format!("crates/{}/Cargo.toml", package.name),
            0,
            format!(
                "{} uses {name}{test_words}, which {ARCHITECTURE}:{} does not allow; remove the dependency, or add \
                 the arrow to the table and say why in the review",
                package.name, row.line
            ),
        )
    });
    let unused = allowed.iter().filter(|name| !used.contains(name)).map(|name| {
        Finding::new(
            ARCHITECTURE,
            row.line,
            format!("{} does not use {name}{test_words}; remove it from the row", package.name),
        )
    });
    undeclared.chain(unused).collect()
}

fn library_rows(packages: &[Package], rows: &[markdown::Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in rows {
        let allowed = row.cells.get(1).map_or(Vec::new(), |cell| markdown::items(cell));
        let uses = |package: &&Package| {
            package.dependencies.iter().any(|dependency| is_normal(dependency, &row.cells[0]))
        };
        let users: Vec<&str> = packages.iter().filter(uses).map(|package| package.name.as_str()).collect();
        findings.extend(users.iter().filter(|user| !allowed.contains(user)).map(|user| {
            Finding::new(
                &format!("crates/{user}/Cargo.toml"),
                0,
                format!(
                    "{user} depends on {}, which {ARCHITECTURE}:{} keeps to {}; move the code there",
                    row.cells[0],
                    row.line,
                    allowed.join(", ")
                ),
            )
        }));
        findings.extend(allowed.iter().filter(|name| !users.contains(name)).map(|name| {
            Finding::new(
                ARCHITECTURE,
                row.line,
                format!("{name} does not depend on {}; remove it from the row", row.cells[0]),
            )
        }));
    }
    findings
}

fn is_normal(dependency: &Dependency, name: &str) -> bool {
    dependency.name == name && !dependency.is_for_tests
}

/// Check 3.
pub(super) fn unused(packages: &[Package], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let sources: Vec<String> = files
            .iter()
            .filter(|file| file.is_rust() && file.crate_name() == Some(&package.name))
            .map(|file| code_and_doc_tests(&file.text))
            .collect();
        let is_named = |dependency: &Dependency| {
            // One that is renamed may be there for a feature of the package that sources name.
            [&dependency.called, &dependency.name].into_iter().any(|name| {
                let word = name.replace('-', "_");
                sources.iter().any(|source| !word_positions(source, &word).is_empty())
            })
        };
        findings.extend(package.dependencies.iter().filter(|dependency| !is_named(dependency)).map(
            |dependency| {
                Finding::new(
                    &format!("crates/{}/Cargo.toml", package.name),
                    0,
                    format!("no source of {} names {}; remove the dependency", package.name, dependency.name),
                )
            },
        ));
    }
    findings
}

/// Examples in doc comments are code too.
fn code_and_doc_tests(text: &str) -> String {
    let halves = rust_text::split(text);
    let docs = halves.comments.lines().filter(|line| {
        let line = line.trim_start();
        line.starts_with("///") || line.starts_with("//!")
    });
    docs.fold(halves.code, |mut text, line| {
        text.push('\n');
        text.push_str(line);
        text
    })
}

/// Every crate has a paragraph: a heading or a bold name in ARCHITECTURE.md.
pub(super) fn described(packages: &[Package], architecture: &str) -> Vec<Finding> {
    let has_paragraph = |package: &&Package| {
        let openings = [format!("**`{}`**", package.name), format!("### {}", package.name)];
        markdown::prose_lines(architecture).iter().any(|(_, line)| {
            openings.iter().any(|opening| line.trim_start_matches("- ").starts_with(opening))
        })
    };
    let message = |package: &Package| {
        format!(
            "no paragraph opens with **`{}`**; say what it is for and what it does not know",
            package.name
        )
    };
    let missing = packages.iter().filter(|package| !has_paragraph(package));
    missing.map(|package| Finding::new(ARCHITECTURE, 0, message(package))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::file;

    const TABLES: &str = "\
| crate | may use | in tests also |
| --- | --- | --- |
| `chunk` | | |
| `store` | `chunk` | `testkit` |

| library | only in |
| --- | --- |
| `arrow` | `store` |

**`chunk`**: bytes.
";

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency = |&(name, is_for_tests): &(&str, bool)| Dependency {
            name: name.to_owned(),
            called: name.to_owned(),
            is_for_tests,
        };
        Package { name: name.to_owned(), dependencies: dependencies.iter().map(dependency).collect() }
    }

    fn good() -> Vec<Package> {
        vec![
            package("chunk", &[]),
            package("store", &[("pelton-chunk", false), ("pelton-testkit", true), ("arrow", false)]),
        ]
    }

    fn messages(findings: &[Finding]) -> String {
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn manifests_that_follow_the_tables_pass() {
        assert_eq!(tables(&good(), TABLES), []);
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_found() {
        let mut packages = good();
        packages[0] = package("chunk", &[("pelton-store", false)]);
        assert!(messages(&tables(&packages, TABLES)).contains("chunk uses store, which ARCHITECTURE.md:3"));
        packages[0] = package("chunk", &[("pelton-store", true)]);
        assert!(messages(&tables(&packages, TABLES)).contains("chunk uses store in tests"));
    }

    #[test]
    fn an_arrow_that_nobody_follows_is_found() {
        let mut packages = good();
        packages[1] = package("store", &[("pelton-testkit", true), ("arrow", false)]);
        assert!(messages(&tables(&packages, TABLES)).contains("ARCHITECTURE.md:4: store does not use chunk"));
    }

    #[test]
    fn missing_and_leftover_rows_are_found() {
        let mut packages = good();
        packages.push(package("load", &[]));
        packages.remove(0);
        let found = messages(&tables(&packages, TABLES));
        assert!(found.contains("no row for load"), "{found}");
        assert!(found.contains("ARCHITECTURE.md:3: there is no crate chunk"), "{found}");
        assert_eq!(tables(&packages, "no tables").len(), 2);
    }

    #[test]
    fn a_restricted_library_outside_its_crates_is_found() {
        let mut packages = good();
        packages[0] = package("chunk", &[("arrow", false)]);
        assert!(messages(&tables(&packages, TABLES)).contains("chunk depends on arrow"));
        packages[0] = package("chunk", &[("arrow", true)]);
        assert_eq!(tables(&packages, TABLES), [], "tests may use any library");
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let packages = [package("store", &[("pelton-chunk", false), ("xxhash-rust", false)])];
        let named = file("crates/store/src/lib.rs", "//! ```\n//! use pelton_chunk::Column;\n//! ```\n");
        let found = messages(&unused(&packages, &[named]));
        assert!(found.contains("names xxhash-rust") && !found.contains("pelton-chunk"), "{found}");
    }

    #[test]
    fn a_crate_without_a_paragraph_is_found() {
        let found = messages(&described(&good(), TABLES));
        assert!(found.contains("**`store`**") && !found.contains("**`chunk`**"), "{found}");
    }
}
