//! No program panics because nobody reads its output: `println!` and its like do, so they stay in tests, examples and
//! the tools of this repository. Commands write through `crates/cli/src/console.rs`.

use crate::rust_text;
use crate::tidy::Finding;
use crate::workspace::File;

const MACROS: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];
/// Crates that are tools of developers, whose output somebody reads.
const TOOLS: [&str; 3] = ["crates/xtask/", "crates/sqltest/", "crates/testkit/"];

/// Finds them in the sources of all other crates.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    files.iter().filter(|file| is_program(&file.path)).flat_map(findings).collect()
}

fn is_program(path: &str) -> bool {
    let is_source = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    is_source && !path.contains("/tests") && !TOOLS.iter().any(|tool| path.starts_with(tool))
}

fn findings(file: &File) -> Vec<Finding> {
    let code = rust_text::split(&file.text).code;
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let found = code.lines().enumerate().filter_map(|(index, line)| {
        let name = MACROS.iter().find(|name| is_called(line, name))?;
        let message =
            format!("{name} panics where the output is closed; write through the console of the command");
        Some(Finding::new(&file.path, index + 1, message))
    });
    found.collect()
}

/// True where `line` calls the macro `name`, not one whose name ends so.
fn is_called(line: &str, name: &str) -> bool {
    let is_border = |before: Option<char>| before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    line.match_indices(name).any(|(at, _)| is_border(line[..at].chars().next_back()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::file;

    #[test]
    fn macros_that_panic_are_found_in_programs_alone() {
        let text = "//! A.\nfn f() {\n    eprintln!(\"x\");\n}\n";
        let found = check(&[file("crates/cli/src/a.rs", text), file("crates/xtask/src/a.rs", text)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/cli/src/a.rs", 3));
        let fine = "//! println!\n#[cfg(test)]\nfn g() {}\nfn f() { log_println!(\"println!\") }\n";
        assert_eq!(check(&[file("crates/load/src/a.rs", fine)]).len(), 0);
        let tests = "//! A.\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn f() { println!() }\n}\n";
        assert_eq!(check(&[file("crates/cli/src/a.rs", tests)]).len(), 0);
        assert_eq!(
            check(&[file("crates/cli/src/a/tests.rs", text), file("crates/cli/examples/a.rs", text)]).len(),
            0
        );
    }
}
