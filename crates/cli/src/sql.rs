//! `pelton sql`: statements in, rows out.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pelton_engine::{
    FileSettings, Filters, Links, OverflowChecks, PeltonSession, Query, RuntimeOptions, ScanOptions,
    SessionOptions, memory_shares,
};
use pelton_error::{Error, Result, ResultExt};
use pelton_io::{IoMode, IoOptions};
use pelton_zone::{SkipKind, SkipKinds};

use crate::args::{FiltersArg, IoModeArg, OverflowChecksArg, SessionArgs, SqlArgs, TextArgs, WarehouseArgs};
use crate::limits::limit_single_run;
use crate::meter::Meter;
use crate::output::Output;
use crate::pointed::pointed;
use crate::profile::ProfileFile;
use crate::run::{Runner, print_stats, write_rows};
use crate::{cancel, console, screen};
use pelton_sqltext::{Piece, pieces};

pub(crate) fn run(args: SqlArgs) -> Result<()> {
    let sql = statements(&args)?;
    output(&args).form()?;
    let profile = args.profile.as_deref().map(ProfileFile::begin).transpose()?;
    let options = query_options(&args.session, &args.text)?;
    limit_single_run(options.memory_limit_bytes);
    let session = PeltonSession::open(existing_warehouse(&args.warehouse)?, &options)?;
    let mut runner = Runner::new(args.session.threads, cancel::flag_on_ctrl_c()?)?;
    let result = run_statements(&mut runner, &Arc::new(session), &sql, &args, profile.as_ref());
    runner.end();
    result
}

/// The text to run: that of the command line, of a file, or of what is piped in; none beside a Substrait plan.
fn statements(args: &SqlArgs) -> Result<String> {
    match (&args.query, &args.file, &args.substrait) {
        (Some(query), ..) if query != "-" => Ok(without_mark(query.clone())),
        (_, Some(file), _) => read_statements(file),
        (None, None, Some(_)) => Ok(String::new()),
        _ => read_statements(Path::new("-")),
    }
}

/// Parses all of `sql`, then runs statement after statement.
fn run_statements(
    runner: &mut Runner,
    session: &Arc<PeltonSession>,
    sql: &str,
    args: &SqlArgs,
    profile: Option<&ProfileFile>,
) -> Result<()> {
    if let Some(file) = args.substrait.clone() {
        let planner = Arc::clone(session);
        let planned = async move { crate::substrait::plan(&planner, &file).await };
        return run_one(runner, args, profile.map(|profile| (profile, "")), planned);
    }
    let statements = session.parse(sql).map_err(|error| pointed(error, sql, session))?;
    if statements.is_empty() {
        return Err(Error::invalid_input(
            "there is no statement to run; write one in quotes, name a file with --file, or pipe statements in",
        ));
    }
    if statements.len() > 1 && args.output.is_some() {
        return Err(Error::invalid_input(format!(
            "--output takes the rows of one query, {} statements found",
            statements.len()
        )));
    }
    let texts = statement_texts(sql, statements.len());
    let last = statements.len() - 1;
    for (index, (statement, text)) in statements.into_iter().zip(texts).enumerate() {
        let planner = Arc::clone(session);
        let profile = profile.filter(|_| index == last).map(|profile| (profile, text));
        run_one(runner, args, profile, async move { planner.plan(statement).await })
            .map_err(|error| pointed(error, text, session))?;
    }
    Ok(())
}

/// Runs the query that `planned` gives and writes its rows, and its profile where one is wanted of this text.
fn run_one(
    runner: &mut Runner,
    args: &SqlArgs,
    profile: Option<(&ProfileFile, &str)>,
    planned: impl Future<Output = Result<Query>> + Send + 'static,
) -> Result<()> {
    let started = Instant::now();
    let (meter, output) = (Meter::start(), output(args));
    let (drawer, is_traced) = (Arc::clone(&meter), profile.is_some());
    let (query, ran) = runner.run_blocking(&meter, async move {
        let query = planned.await?;
        let query = Arc::new(if is_traced { query.traced() } else { query });
        let ran = write_rows(Arc::clone(&query), output, drawer).await;
        Ok((query, ran))
    })?;
    if let Some((profile, sql)) = profile {
        // Also of a query that failed: one wants to see how far it came. Its own error is the one to show.
        let taken = profile.write(&query, sql, query.planning_time(), args.session.device);
        if ran.is_ok() {
            taken?;
            console::say(format_args!("profile written to {}", profile.path().display()));
        }
    }
    let ran = ran?;
    screen::show(ran.held.as_deref().unwrap_or_default(), false)?;
    if args.stats {
        print_stats(&ran, started.elapsed())?;
    }
    Ok(())
}

/// Where rows go.
fn output(args: &SqlArgs) -> Output {
    Output {
        format: args.format,
        path: args.output.clone(),
        max_rows: args.max_rows,
        all_rows_by: "--max-rows 0",
        is_held: false,
    }
}

/// The text of each statement; all of `sql` for each where it cannot be told apart.
fn statement_texts(sql: &str, count: usize) -> Vec<&str> {
    let texts: Vec<&str> = pieces(sql)
        .into_iter()
        .map(|(_, piece)| match piece {
            Piece::Statement(text) | Piece::Command(text) => text,
        })
        .collect();
    if texts.len() == count { texts } else { vec![sql; count] }
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn read_statements(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context(|| "reading standard input".into())?;
        return Ok(without_mark(text));
    }
    std::fs::read_to_string(file).map(without_mark).context(|| format!("reading '{}'", file.display()))
}

/// `text` without the byte order mark that some editors begin files with, so that places in it are those that one sees.
fn without_mark(text: String) -> String {
    text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
}

/// The warehouse's directory; `None` where the default one does not exist, so that files can be queried alone.
pub(crate) fn named_warehouse(args: &WarehouseArgs) -> Result<Option<PathBuf>> {
    let exists = args.warehouse.try_exists().context(|| format!("opening '{}'", args.warehouse.display()))?;
    if !exists && args.warehouse == Path::new("warehouse") {
        return Ok(None);
    }
    Ok(Some(args.warehouse.clone()))
}

/// As [`named_warehouse`]; none, too, where the one that the environment names is not there yet: files need none.
pub(crate) fn existing_warehouse(args: &WarehouseArgs) -> Result<Option<PathBuf>> {
    let is_of_environment =
        std::env::var_os("PELTON_WAREHOUSE").is_some_and(|named| args.warehouse == Path::new(&named));
    if is_of_environment && !args.warehouse.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    named_warehouse(args)
}

/// The session that the flags describe, with how it reads text files.
pub(crate) fn query_options(session: &SessionArgs, text: &TextArgs) -> Result<SessionOptions> {
    let files = FileSettings { text: text.options()?, input_format: None };
    Ok(SessionOptions { files, ..session_options(session)? })
}

/// The session that the flags describe.
pub(crate) fn session_options(args: &SessionArgs) -> Result<SessionOptions> {
    if args.batch_rows == 0 {
        return Err(Error::invalid_input("--batch-rows must be at least 1"));
    }
    let mode = match args.io {
        IoModeArg::Auto => IoMode::Auto,
        IoModeArg::Direct => IoMode::Direct,
        IoModeArg::Buffered => IoMode::Buffered,
    };
    let filters = match args.filters {
        FiltersArg::Branching => Filters::Branching,
        FiltersArg::Predicated => Filters::Predicated,
    };
    let overflow_checks = match args.overflow_checks {
        OverflowChecksArg::WhereNeeded => OverflowChecks::WhereNeeded,
        OverflowChecksArg::Everywhere => OverflowChecks::Everywhere,
    };
    let (memory_limit_bytes, host_kernel_bytes) = memory_shares(args.memory_limit.bytes(), args.device);
    Ok(SessionOptions {
        threads: args.threads,
        batch_rows: args.batch_rows,
        memory_limit_bytes,
        host_kernel_bytes,
        spill: args.spill.options(),
        io: IoOptions { mode, ring: !args.no_io_uring, ..IoOptions::default() },
        scan: scan_options(&args.skip)?,
        reorder_joins: !args.no_join_order,
        device: args.device,
        device_count: args.devices,
        device_memory_limit_bytes: args.device_memory_limit,
        pin: args.pin.clone(),
        cache_plans: !args.no_plan_cache,
        runtime: RuntimeOptions {
            decompress: args.decompress,
            device_cache_bytes: args.device_cache,
            pinned_cache_bytes: args.pinned_cache,
            pinned_memory_limit_bytes: args.pinned_memory_limit,
            links: args.no_multi_link.then(Links::default),
            filters,
            overflow_checks,
            ..RuntimeOptions::default()
        },
        ..SessionOptions::default()
    })
}

/// What `kinds` lets scans skip by: `all`, `none`, or a comma-separated choice.
///
/// # Errors
///
/// `InvalidInput` names the kinds that there are.
pub fn scan_options(kinds: &str) -> Result<ScanOptions> {
    match kinds {
        "all" => return Ok(ScanOptions::default()),
        "none" => {
            let off =
                ScanOptions { skip: SkipKinds::NONE, sideways: false, dynamic: false, ..Default::default() };
            return Ok(off);
        }
        _ => {}
    }
    let mut options =
        ScanOptions { skip: SkipKinds::NONE, sideways: false, dynamic: false, ..Default::default() };
    for kind in kinds.split(',') {
        match kind.trim() {
            "nulls" => options.skip = options.skip.with(SkipKind::Nulls),
            "minmax" => options.skip = options.skip.with(SkipKind::MinMax),
            "histogram" => options.skip = options.skip.with(SkipKind::Histogram),
            "bloom" => options.skip = options.skip.with(SkipKind::Bloom),
            "sideways" => options.sideways = true,
            "dynamic" => options.dynamic = true,
            other => {
                return Err(Error::invalid_input(format!(
                    "--skip knows nulls, minmax, histogram, bloom, sideways, dynamic, all and none; not '{other}'"
                )));
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_kinds_are_read_by_name() {
        let options = scan_options("minmax,sideways").unwrap();
        assert!(options.skip.contains(SkipKind::MinMax) && !options.skip.contains(SkipKind::Bloom));
        assert!(options.sideways && !options.dynamic);
        assert_eq!(scan_options("all").unwrap(), ScanOptions::default());
        assert!(scan_options("none").unwrap().skip == SkipKinds::NONE);
        assert!(scan_options("magic").unwrap_err().to_string().contains("'magic'"));
    }
}
