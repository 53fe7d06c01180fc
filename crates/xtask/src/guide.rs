//! `cargo xtask guide`: the guide as pages, and everything that it shows, run.
//!
//! ```text
//!   docs/guide/*.md ─┬─ `sh` blocks, each page in an empty directory of its own
//!                    ├─ `python` blocks, with the package of `cargo xtask python`
//!                    └─ mkdocs build --strict ─▶ build/guide     fails at links and anchors that lead nowhere
//! ```

use std::path::Path;

use crate::environments;
use crate::markdown;
use crate::process::{self, Result};
use crate::readme::{empty, run_page};
use crate::workspace::Workspace;

const PAGES: &str = "docs/guide/";

/// Runs and builds all of it; the remark says how much there was.
pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let pages = workspace.files.iter().filter(|file| file.path.starts_with(PAGES) && file.is_markdown());
    let (mut page_count, mut command_count) = (0, 0);
    let mut failed = Vec::new();
    for page in pages {
        let name = page.path.trim_start_matches(PAGES).trim_end_matches(".md");
        let directory = workspace.root.join("build/guide-pages").join(name);
        match run_page(workspace, &page.path, &directory) {
            Ok(count) => command_count += count,
            Err(message) => failed.push(message),
        }
        if let Err(message) = run_python(workspace, &page.text, &directory) {
            failed.push(format!("{}: {message}", page.path));
        }
        page_count += 1;
    }
    let python = environments::GUIDE.python(&workspace.root)?;
    process::run(&mut process::command(&workspace.root, &python, &["-m", "mkdocs", "build", "--quiet"]))?;
    match failed.is_empty() {
        true => Ok(format!("{page_count} pages, {command_count} commands")),
        false => Err(failed.join("\n")),
    }
}

/// Runs the `python` blocks of a page, as one program, where the package is installed.
fn run_python(workspace: &Workspace, text: &str, directory: &Path) -> Result<()> {
    let blocks = markdown::blocks(text).into_iter().filter(|block| block.language == "python");
    let lines: Vec<String> = blocks.flat_map(|block| block.lines.into_iter().map(|(_, line)| line)).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let python = workspace.root.join("build/python-venv/bin/python");
    if !python.exists() {
        return Err("its Python is run with build/python-venv, which `cargo xtask python` makes".into());
    }
    let directory = directory.join("python");
    empty(&directory)?;
    let program = directory.join("page.py");
    std::fs::write(&program, lines.join("\n")).map_err(|error| format!("{}: {error}", program.display()))?;
    process::run(&mut process::command(&directory, &python, &["page.py"]))
}
