//! `pelton load`: files in, a table out, or nothing at all.

use pelton_engine::{bytes_text, counted};
use pelton_error::{Error, Result};
use pelton_load::{
    CancelFlag, ClusterBy, DISK_BYTES_PER_S, InputFormat, LoadOptions, LoadReport, LoadRequest, Purpose,
    StarLink,
};
use pelton_store::{Objective, SampleOptions, Warehouse, WriteMode};

use crate::args::{InputFormatArg, LoadArgs, ObjectiveArg, PurposeArg};
use crate::limits::limit_process;
use crate::progress::LoadBar;
use crate::{cancel, console};

pub(crate) fn run(args: LoadArgs) -> Result<()> {
    limit_process(args.memory_limit.bytes());
    load_files(&args, &cancel::flag_on_ctrl_c()?)
}

/// Loads what `args` name, until `cancel` is set.
///
/// # Errors
///
/// Of the load; names the table.
pub(crate) fn load_files(args: &LoadArgs, cancel: &CancelFlag) -> Result<()> {
    let request = request(args)?;
    let warehouse = Warehouse::open_or_create(&args.warehouse.warehouse)?;
    let bar = LoadBar::new(args.quiet);
    let result = pelton_load::load(&warehouse, &request, &bar, cancel);
    bar.finish();
    let report = result.map_err(|error| error.context(format!("loading '{}'", args.table)))?;
    if !args.quiet {
        print_report(&args.table, &report);
    }
    Ok(())
}

fn request(args: &LoadArgs) -> Result<LoadRequest> {
    Ok(LoadRequest {
        table: args.table.clone(),
        mode: match (args.append, args.replace) {
            (true, _) => WriteMode::Append,
            (_, true) => WriteMode::Replace,
            _ => WriteMode::Create,
        },
        inputs: args.files.clone(),
        format: args.format.map(|format| match format {
            InputFormatArg::Parquet => InputFormat::Parquet,
            InputFormatArg::Csv => InputFormat::Csv,
            InputFormatArg::Json => InputFormat::Json,
            InputFormatArg::Arrow => InputFormat::Arrow,
        }),
        text: args.text.options()?,
        columns: None,
        is_scratch: false,
        cluster_by: cluster_by(args.cluster_by.as_deref()),
        star: args.star.iter().map(|link| star_link(link)).collect::<Result<_>>()?,
        options: load_options(args)?,
    })
}

fn load_options(args: &LoadArgs) -> Result<LoadOptions> {
    let defaults = LoadOptions::default();
    Ok(LoadOptions {
        choose: SampleOptions {
            row_group_rows: args.row_group_rows.clone(),
            page_rows: args.page_rows,
            force_codec: args.force_codec.as_deref().map(str::parse).transpose()?,
            force_encoding: args.force_encoding.as_deref().map(str::parse).transpose()?,
            ..choose(args)
        },
        sample_ratio: args.sample,
        sample_row_groups_max: defaults.sample_row_groups_max,
        seed: args.seed,
        memory_limit_bytes: args.memory_limit.bytes().unwrap_or(u64::MAX),
        spill: args.spill.options(),
        thread_count: args.threads.unwrap_or(defaults.thread_count),
    })
}

/// Among which encodings, and what for.
fn choose(args: &LoadArgs) -> SampleOptions {
    let objective = match (args.objective, args.storage_rate) {
        (None, None) => return purpose(args.purpose).choose(),
        (Some(ObjectiveArg::Smallest), _) => Objective::Smallest,
        (Some(ObjectiveArg::Fastest) | None, rate) => {
            Objective::Fastest { storage_bytes_per_s: rate.unwrap_or(DISK_BYTES_PER_S) }
        }
    };
    SampleOptions { objective, ..SampleOptions::default() }
}

fn purpose(asked: Option<PurposeArg>) -> Purpose {
    match asked {
        Some(PurposeArg::Auto) | None => Purpose::Auto,
        Some(PurposeArg::Gpu) => Purpose::Gpu,
        Some(PurposeArg::Cpu) => Purpose::Cpu,
        Some(PurposeArg::Archive) => Purpose::Archive,
    }
}

/// The order of rows that a text such as `auto`, `auto:a,b` or `a,b` asks for.
pub fn cluster_by(text: Option<&str>) -> ClusterBy {
    // Names as SQL quotes them are welcome too.
    let column = |name: &str| name.trim().trim_matches('"').to_owned();
    let columns = |list: &str| list.split(',').map(column).collect::<Vec<_>>();
    match text {
        None | Some("none") => ClusterBy::None,
        Some("auto") => ClusterBy::Auto(Vec::new()),
        Some(text) => match text.strip_prefix("auto:") {
            Some(list) => ClusterBy::Auto(columns(list)),
            None => ClusterBy::Columns(columns(text)),
        },
    }
}

/// The link that `fact_column=dimension.key` declares.
///
/// # Errors
///
/// `InvalidInput` shows the form.
pub fn star_link(text: &str) -> Result<StarLink> {
    let parts = text.split_once('=').and_then(|(fact, rest)| Some((fact, rest.split_once('.')?)));
    match parts {
        Some((fact_column, (dimension_table, dimension_key))) => Ok(StarLink {
            fact_column: fact_column.trim().to_owned(),
            dimension_table: dimension_table.trim().to_owned(),
            dimension_key: dimension_key.trim().to_owned(),
        }),
        None => Err(Error::invalid_input(format!(
            "--star '{text}' should read fact_column=dimension.key, such as lo_custkey=customer.c_custkey"
        ))),
    }
}

fn print_report(table: &str, report: &LoadReport) {
    for warning in &report.warnings {
        console::say(format_args!("warning: {warning}"));
    }
    console::say(format_args!(
        "{table}: {} in {}; {} raw, {} stored ({:.2}x), {} of skipping metadata; {:.2} s, {}/s raw",
        counted(report.row_count, "row"),
        counted(report.row_group_count, "row group"),
        bytes_text(report.raw_bytes),
        bytes_text(report.stored_bytes),
        report.raw_bytes as f64 / report.stored_bytes.max(1) as f64,
        bytes_text(report.metadata_bytes),
        report.duration().as_secs_f64(),
        bytes_text((report.raw_bytes as f64 / report.duration().as_secs_f64().max(1e-9)) as u64),
    ));
    if report.spilled_bytes > 0 {
        console::say(format_args!(
            "spilled {} to stay within the memory limit",
            bytes_text(report.spilled_bytes)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_by_is_read_in_its_three_forms() {
        assert_eq!(cluster_by(None), ClusterBy::None);
        assert_eq!(cluster_by(Some("auto")), ClusterBy::Auto(vec![]));
        assert_eq!(cluster_by(Some("auto:a, b")), ClusterBy::Auto(vec!["a".into(), "b".into()]));
        assert_eq!(cluster_by(Some("a,d.b")), ClusterBy::Columns(vec!["a".into(), "d.b".into()]));
    }

    #[test]
    fn star_links_are_read_or_explained() {
        let link = star_link("lo_custkey=customer.c_custkey").unwrap();
        assert_eq!((link.dimension_table.as_str(), link.dimension_key.as_str()), ("customer", "c_custkey"));
        assert!(star_link("lo_custkey").unwrap_err().to_string().contains("fact_column=dimension.key"));
    }
}
