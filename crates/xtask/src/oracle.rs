//! Answers to the benchmark queries, held against DuckDB's on the same rows.
//!
//! ```text
//!   pelton generate ──▶ Parquet files ──┬─▶ pelton load ──▶ tables ──▶ pelton sql ─┐
//!                                       └─▶ DuckDB ────────────────────────────────┴─▶ tests/oracle/compare.py
//! ```
//!
//! 1. A Python environment of its own in `build/oracle-venv`, made once, with what `requirements.txt` pins.
//! 2. The comparison's own tests.
//! 3. For each data set: generate, load with what a user would declare (star links, clustering), compare.
//!
//! The clustering of the fact table and the two-level links of TPC-H are on purpose: skipping that drops a
//! row it should not drop shows here as a wrong answer.

use std::path::Path;

use crate::environments;
use crate::process::{self, Result};
use crate::readme::empty;
use crate::workspace::Workspace;

/// A data set at the scale it is compared at.
struct DataSet {
    name: &'static str,
    scale: &'static str,
    /// Every table after those it refers to.
    tables: &'static [Table],
    /// The queries that run as generated kernels too; none: all of them.
    on_host: &'static [&'static str],
}

/// A table and what is declared of it when it is loaded.
struct Table {
    name: &'static str,
    /// As `pelton load --star` takes them.
    star: &'static [&'static str],
    /// As `pelton load --cluster-by` takes it.
    cluster_by: Option<&'static str>,
}

const fn plain(name: &'static str) -> Table {
    Table { name, star: &[], cluster_by: None }
}

const DATA_SETS: [DataSet; 4] = [
    DataSet {
        name: "ssb",
        scale: "0.1",
        tables: &[
            plain("customer"),
            plain("supplier"),
            plain("part"),
            plain("date"),
            Table {
                name: "lineorder",
                star: &[
                    "lo_custkey=customer.c_custkey",
                    "lo_suppkey=supplier.s_suppkey",
                    "lo_partkey=part.p_partkey",
                    "lo_orderdate=date.d_datekey",
                ],
                cluster_by: Some("auto:customer.c_region,supplier.s_region,date.d_year,lo_discount"),
            },
        ],
        on_host: &[],
    },
    DataSet {
        name: "tpch",
        scale: "0.1",
        tables: &[
            plain("region"),
            Table { name: "nation", star: &["n_regionkey=region.r_regionkey"], cluster_by: None },
            Table { name: "customer", star: &["c_nationkey=nation.n_nationkey"], cluster_by: None },
            Table { name: "supplier", star: &["s_nationkey=nation.n_nationkey"], cluster_by: None },
            plain("part"),
            Table {
                name: "partsupp",
                star: &["ps_partkey=part.p_partkey", "ps_suppkey=supplier.s_suppkey"],
                cluster_by: None,
            },
            Table {
                name: "orders",
                star: &["o_custkey=customer.c_custkey"],
                cluster_by: Some("o_orderdate"),
            },
            Table {
                name: "lineitem",
                star: &[
                    "l_orderkey=orders.o_orderkey",
                    "l_partkey=part.p_partkey",
                    "l_suppkey=supplier.s_suppkey",
                ],
                cluster_by: Some("l_shipdate"),
            },
        ],
        on_host: &[],
    },
    DataSet {
        name: "taxi",
        scale: "0.02",
        tables: &[Table { name: "trips", star: &[], cluster_by: Some("fare_amount") }],
        on_host: &[],
    },
    // 200,000 rows. Many queries differ in a column alone; compiling all of them would take minutes.
    DataSet {
        name: "hits",
        scale: "0.002",
        tables: &[plain("hits")],
        on_host: &["Q8", "Q18", "Q22", "Q26", "Q29", "Q39", "Q42"],
    },
];

/// Small row groups, so that small data has enough of them to skip.
const ROW_GROUP_ROWS: &str = "16384";

/// Compares all data sets; `target/release/pelton` is there.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let python = environments::ORACLE.python(&workspace.root)?;
    let own_tests = ["-m", "unittest", "discover", "--quiet", "tests/oracle"];
    process::run(&mut process::command(&workspace.root, &python, &own_tests))?;
    let mut failed = Vec::new();
    for set in &DATA_SETS {
        if let Err(message) = compare(workspace, &python, set) {
            eprintln!("oracle: {}: {message}", set.name);
            failed.push(set.name);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("answers differ or are missing: {}", failed.join(", ")))
    }
}

fn compare(workspace: &Workspace, python: &Path, set: &DataSet) -> Result<()> {
    let directory = workspace.root.join("build/oracle").join(set.name);
    empty(&directory)?;
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let (data, warehouse) = (path("data"), path("warehouse"));
    pelton(workspace, &["generate", set.name, "--scale", set.scale, "--out", &data, "--quiet"])?;
    for table in set.tables {
        pelton(workspace, &load_args(table, &data, &warehouse))?;
    }
    let queries = workspace.root.join("queries").join(set.name).to_string_lossy().into_owned();
    let binary = workspace.pelton().to_string_lossy().into_owned();
    // As they would run on this machine, and as generated kernels compiled for the host.
    [("auto", [].as_slice()), ("host", set.on_host)].into_iter().try_for_each(|(device, only)| {
        let mut args = vec![
            "tests/oracle/compare.py",
            "--device",
            device,
            "--data",
            &data,
            "--queries",
            &queries,
            "--pelton",
            &binary,
            "--warehouse",
            &warehouse,
            "--scale",
            set.scale,
        ];
        if !only.is_empty() {
            args.push("--only");
            args.extend(only);
        }
        process::run(&mut process::command(&workspace.root, python, &args))
    })
}

fn load_args<'a>(table: &'a Table, data: &str, warehouse: &'a str) -> Vec<std::borrow::Cow<'a, str>> {
    let mut args: Vec<std::borrow::Cow<'a, str>> =
        vec!["load".into(), "--warehouse".into(), warehouse.into()];
    args.extend(["--table".into(), table.name.into(), "--quiet".into()]);
    args.extend(["--row-group-rows".into(), ROW_GROUP_ROWS.into()]);
    for link in table.star {
        args.extend(["--star".into(), (*link).into()]);
    }
    if let Some(columns) = table.cluster_by {
        args.extend(["--cluster-by".into(), columns.into()]);
    }
    args.push(format!("{data}/{}", table.name).into());
    args
}

fn pelton<A: AsRef<str>>(workspace: &Workspace, args: &[A]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    process::run(&mut process::command(&workspace.root, workspace.pelton(), &args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_after_those_they_refer_to() {
        for set in &DATA_SETS {
            for (position, table) in set.tables.iter().enumerate() {
                for link in table.star {
                    let (_, dimension) = link.split_once('=').unwrap();
                    let (dimension, _) = dimension.split_once('.').unwrap();
                    let is_before = set.tables[..position].iter().any(|earlier| earlier.name == dimension);
                    assert!(is_before, "{}: {} refers to {dimension}", set.name, table.name);
                }
            }
        }
    }

    #[test]
    fn a_load_declares_links_and_clustering() {
        let lineorder = DATA_SETS[0].tables.last().unwrap();
        let line = load_args(lineorder, "d", "w").join(" ");
        assert!(line.starts_with("load --warehouse w --table lineorder"), "{line}");
        assert!(line.contains("--star lo_orderdate=date.d_datekey"), "{line}");
        assert!(line.ends_with("d/lineorder"), "{line}");
    }
}
