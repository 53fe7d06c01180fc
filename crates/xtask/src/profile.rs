//! Profile pages of real queries, opened in a headless browser and looked at.
//!
//! ```text
//!   pelton sql --profile ─▶ page ─┬▶ DOM: drawn to the end, no message on the console, what must be there is there
//!                                 ├▶ DOM of the page with tests/profile/drive.js: keyboard, search, zoom, looks
//!                                 └▶ screenshots, light and dark ─▶ tests/profile/look.py
//! ```
//!
//! 1. A browser: Chromium or Chrome; where there is none and this is root on Debian, it is installed.
//! 2. Star Schema Benchmark data in `build/profile`, the fact table clustered, so that there is something to skip.
//! 3. One page a case, from one node to hundreds, on the CPU and on kernels for the host, one of a query that fails.
//!
//! The browser resolves no name while it does this: a page that needs the network shows it here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{self, Result};
use crate::readme::empty;
use crate::workspace::Workspace;

/// What the browser is called, the first that is found.
const BROWSERS: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell"];
/// Pixels of a screenshot: a small laptop's.
const SCREEN: (u32, u32) = (1280, 1000);

/// A query whose page is looked at.
struct Case {
    name: &'static str,
    device: &'static str,
    /// A table to pin.
    pin: Option<&'static str>,
    sql: String,
    fails: bool,
    /// Words that the page must show once it is drawn.
    shows: &'static [&'static str],
}

const JOINS: &str = "SELECT d_year, c_region, sum(lo_revenue) AS revenue \
     FROM lineorder, date, customer, supplier, part \
     WHERE lo_orderdate = d_datekey AND lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey \
     AND s_region = 'ASIA' AND p_mfgr = 'MFGR#2' AND d_year < 1995 \
     GROUP BY d_year, c_region ORDER BY revenue DESC";

fn cases() -> Vec<Case> {
    let case = |name, device, sql: &str, shows| Case {
        name,
        device,
        pin: None,
        sql: sql.to_owned(),
        fails: false,
        shows,
    };
    let branch = |number: usize| {
        format!(
            "SELECT s_region, count(*) AS c, {number} AS n FROM supplier WHERE s_suppkey > {number} GROUP BY s_region"
        )
    };
    let many = (0..90).map(branch).collect::<Vec<_>>().join(" UNION ALL ");
    vec![
        case("one", "cpu", "SELECT 1 AS one", &["finished", "No Pelton table is read"]),
        case("planned", "cpu", "EXPLAIN SELECT count(*) FROM lineorder", &["planned", "not run"]),
        case(
            "joins",
            "cpu",
            JOINS,
            &["finished", "lineorder", "skipped: ", "decoding", "files → host memory"],
        ),
        case("kernels", "host", JOINS, &["finished", "pipeline 0", "build from", "kernel", "device memory"]),
        Case { pin: Some("lineorder"), ..case("pinned", "host", JOINS, &["finished", "from pinned memory"]) },
        case("many", "cpu", &many, &["finished", "of 90 scans"]),
        Case {
            name: "failed",
            device: "cpu",
            pin: None,
            sql: "SELECT lo_orderkey / (lo_discount - lo_discount) FROM lineorder".to_owned(),
            fails: true,
            shows: &["failed", "Divide by zero"],
        },
    ]
}

/// Looks at all pages; `target/release/pelton` is there. The remark says with which browser.
pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let tests = workspace.root.join("tests/profile");
    process::run(&mut process::command(
        &tests,
        "python3",
        &["-B", "-m", "unittest", "--quiet", "test_look"],
    ))?;
    let browser = browser(&workspace.root)?;
    let folder = workspace.root.join("build/profile");
    empty(&folder)?;
    let data = Data::make(workspace, &folder)?;
    let cases = cases();
    for case in &cases {
        look_at(&data, &browser, case).map_err(|message| format!("the page '{}': {message}", case.name))?;
    }
    Ok(format!("{} pages in {}", cases.len(), browser.display()))
}

/// The browser, installed if that is possible.
pub(crate) fn browser(root: &Path) -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let is_root =
        process::output(&mut process::command(root, "id", &["-u"])).is_ok_and(|id| id.trim() == "0");
    if is_root {
        let install = ["install", "-q", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"];
        let updated = process::run(&mut process::command(root, "apt-get", &["update", "-q"]));
        updated
            .and_then(|()| process::run(&mut process::command(root, "apt-get", &install)))
            .map_err(missing)?;
    }
    find().ok_or_else(|| missing("there is none".to_owned()))
}

fn find() -> Option<PathBuf> {
    let named = std::env::var_os("PELTON_BROWSER").map(PathBuf::from);
    named.into_iter().chain(BROWSERS.map(PathBuf::from)).find(|browser| {
        let mut version = Command::new(browser);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    })
}

fn missing(why: String) -> String {
    format!(
        "profile pages were not looked at, which takes a browser: {why}. Install it with\n  sudo apt-get install \
         chromium fonts-dejavu-core    (Debian, Ubuntu)\n  sudo dnf install chromium    (Fedora)\nor name one in \
         PELTON_BROWSER"
    )
}

/// Tables to query, and where pages go.
struct Data<'d> {
    workspace: &'d Workspace,
    folder: &'d Path,
}

impl<'d> Data<'d> {
    fn make(workspace: &'d Workspace, folder: &'d Path) -> Result<Self> {
        let data = Self { workspace, folder };
        let (source, warehouse) = (data.path("data"), data.path("warehouse"));
        data.pelton(&["generate", "ssb", "--scale", "0.02", "--out", &source, "--quiet"], true)?;
        let load = ["load", "--warehouse", &warehouse, "--quiet", "--row-group-rows", "4096", "--table"];
        for table in ["customer", "supplier", "part", "date"] {
            data.pelton(&[&load[..], &[table, &format!("{source}/{table}")]].concat(), true)?;
        }
        let links = ["lo_suppkey=supplier.s_suppkey", "lo_orderdate=date.d_datekey"];
        let fact = [
            "lineorder",
            "--star",
            links[0],
            "--star",
            links[1],
            "--cluster-by",
            "date.d_year,supplier.s_region",
        ];
        data.pelton(&[&load[..], &fact, &[&format!("{source}/lineorder")]].concat(), true)?;
        Ok(data)
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// Runs the command, which must succeed or fail as said; its rows are of no interest.
    fn pelton(&self, args: &[&str], must_succeed: bool) -> Result<()> {
        let mut command = process::command(&self.workspace.root, self.workspace.pelton(), args);
        let output = command.stdout(Stdio::null()).output();
        let output =
            output.map_err(|error| format!("cannot start `{}`: {error}", process::text(&command)))?;
        let message = String::from_utf8_lossy(&output.stderr);
        match output.status.success() == must_succeed {
            true => Ok(()),
            false => Err(format!("`{}` ended with {}: {message}", process::text(&command), output.status)),
        }
    }
}

fn look_at(data: &Data<'_>, browser: &Path, case: &Case) -> Result<()> {
    let page = data.path(&format!("{}.html", case.name));
    let json = data.path(&format!("{}.json", case.name));
    for file in [&page, &json] {
        let warehouse = data.path("warehouse");
        let pin = case.pin.map_or(Vec::new(), |table| vec!["--pin", table]);
        let args = ["sql", "--warehouse", &warehouse, "--device", case.device, "--profile", file, &case.sql];
        data.pelton(&[&args[..], &pin].concat(), !case.fails)?;
    }
    let text = read(&page)?;
    let dom = dump(data, browser, &page)?;
    check_dom(&dom, case, node_count(&read(&json)?)?)?;
    let drive = read(&data.workspace.root.join("tests/profile/drive.js").to_string_lossy())?;
    let driven = data.path(&format!("{}-driven.html", case.name));
    write(&driven, &text.replace("</body>", &format!("<script>\n{drive}</script></body>")))?;
    let dom = dump(data, browser, &driven)?;
    match attribute(&dom, "data-driven") {
        Some("ok") => {}
        Some(wrong) => return Err(format!("used by keyboard: {wrong}")),
        None => return Err("used by keyboard, it did not get to the end".to_owned()),
    }
    for looks in ["light", "dark"] {
        screenshot(data, browser, case, &page, looks)?;
    }
    Ok(())
}

/// What must hold of the page once it is drawn.
fn check_dom(dom: &str, case: &Case, nodes: usize) -> Result<()> {
    if attribute(dom, "data-ready") != Some("yes") {
        return Err("it was not drawn to the end".to_owned());
    }
    let drawn = dom.split("<script type=\"application/json\"").next().unwrap_or_default();
    let found = drawn.matches("data-node=\"").count();
    if found != nodes {
        return Err(format!("{found} nodes are drawn of a plan of {nodes}"));
    }
    match case.shows.iter().find(|words| !drawn.contains(**words)) {
        Some(words) => Err(format!("'{words}' is not to be seen")),
        None => Ok(()),
    }
}

/// How many nodes the plan of a profile has.
fn node_count(json: &str) -> Result<usize> {
    fn count(node: &serde_json::Value) -> usize {
        1 + node["children"].as_array().map_or(0, |children| children.iter().map(count).sum())
    }
    let profile: serde_json::Value =
        serde_json::from_str(json).map_err(|error| format!("its JSON does not parse: {error}"))?;
    match profile["format"].as_u64() {
        Some(1) => Ok(count(&profile["plan"])),
        other => Err(format!("its JSON is of form {other:?}, not 1")),
    }
}

/// The value of attribute `name` where it first occurs.
fn attribute<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

/// The page's elements once its scripts have run; a message on its console is an error.
fn dump(data: &Data<'_>, browser: &Path, page: &str) -> Result<String> {
    browse(data, browser, &["--dump-dom", &format!("file://{page}")])
}

fn screenshot(data: &Data<'_>, browser: &Path, case: &Case, page: &str, looks: &str) -> Result<()> {
    let image = data.path(&format!("{}-{looks}.png", case.name));
    let scheme = if looks == "dark" { 0 } else { 1 };
    let (width, height) = SCREEN;
    browse(
        data,
        browser,
        &[
            &format!("--blink-settings=preferredColorScheme={scheme}"),
            &format!("--window-size={width},{height}"),
            &format!("--screenshot={image}"),
            &format!("file://{page}"),
        ],
    )?;
    let (width, height) = (width.to_string(), height.to_string());
    let args = ["tests/profile/look.py", &image, &width, &height, looks];
    process::run(&mut process::command(&data.workspace.root, "python3", &args))
}

/// Runs the browser without a window, a network or a user's settings.
fn browse(data: &Data<'_>, browser: &Path, args: &[&str]) -> Result<String> {
    let settings = format!("--user-data-dir={}", data.path("browser"));
    let mut command = Command::new(browser);
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
    command.args([
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        "--virtual-time-budget=5000",
    ]);
    command.arg(settings).args(args);
    let output =
        command.output().map_err(|error| format!("cannot start `{}`: {error}", process::text(&command)))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if let Some(line) = log.lines().find(|line| line.contains("CONSOLE")) {
        return Err(format!("a message on the console: {line}"));
    }
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("`{}` ended with {}: {log}", process::text(&command), output.status)),
    }
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("reading {path}: {error}"))
}

fn write(path: &str, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| format!("writing {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case { name: "a", device: "cpu", pin: None, sql: String::new(), fails: false, shows: &["finished"] }
    }

    #[test]
    fn a_page_is_found_wanting_by_what_it_lacks() {
        let good = "<html data-ready=\"yes\"><b>finished</b><i data-node=\"0\"></i>";
        assert_eq!(check_dom(good, &case(), 1), Ok(()));
        for (dom, nodes, lacks) in [
            ("<html><b>finished</b>", 0, "to the end"),
            (good, 2, "1 nodes are drawn of a plan of 2"),
            (
                "<html data-ready=\"yes\"><script type=\"application/json\">finished",
                0,
                "'finished' is not to be seen",
            ),
        ] {
            let message = check_dom(dom, &case(), nodes).unwrap_err();
            assert!(message.contains(lacks), "{message}");
        }
    }

    #[test]
    fn nodes_are_counted_through_all_levels() {
        let json = r#"{"format":1,"plan":{"children":[{"children":[]},{"children":[{"children":[]}]}]}}"#;
        assert_eq!(node_count(json), Ok(4));
        assert!(node_count(r#"{"format":2}"#).unwrap_err().contains("form"));
    }

    #[test]
    fn what_is_missing_is_named_with_its_command() {
        let message = missing("there is none".into());
        assert!(
            message.contains("apt-get install chromium") && message.contains("PELTON_BROWSER"),
            "{message}"
        );
    }
}
