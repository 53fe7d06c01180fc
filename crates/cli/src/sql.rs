//! `pelton sql`: statements in, rows out.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt;
use pelton_engine::{
    PeltonSession, Query, STACK_BYTES, ScanOptions, SessionOptions, bytes_text, from_datafusion,
};
use pelton_error::{Error, Result, ResultExt};
use pelton_store::{IoMode, IoOptions};
use pelton_zone::{SkipKind, SkipKinds};

use crate::args::{IoModeArg, SessionArgs, SqlArgs, WarehouseArgs};
use crate::cancel;
use crate::output::RowWriter;

pub(crate) fn run(args: SqlArgs) -> Result<()> {
    let sql = match (&args.query, &args.file) {
        (Some(query), _) => query.clone(),
        (None, Some(file)) => read_statements(file)?,
        (None, None) => unreachable!("the command line requires one of them"),
    };
    let session =
        PeltonSession::open(existing_warehouse(&args.warehouse)?, &session_options(&args.session)?)?;
    let flag = cancel::flag_on_ctrl_c()?;
    let runtime = tokio_runtime(args.session.threads)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        // Nobody listens any more once the query is cancelled.
        let _ = sender.send(run_statements(&session, &sql, &args).await);
    });
    let result = cancel::wait_blocking(&receiver, &flag);
    // Readers and spill files go with their owners; a task that is still running must not delay the prompt.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

fn read_statements(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context(|| "reading standard input".into())?;
        return Ok(text);
    }
    std::fs::read_to_string(file).context(|| format!("reading '{}'", file.display()))
}

/// The warehouse's directory; `None` where the default one does not exist, so that files can be queried alone.
pub(crate) fn existing_warehouse(args: &WarehouseArgs) -> Result<Option<PathBuf>> {
    let exists = args.warehouse.try_exists().context(|| format!("opening '{}'", args.warehouse.display()))?;
    if !exists && args.warehouse == Path::new("warehouse") {
        return Ok(None);
    }
    Ok(Some(args.warehouse.clone()))
}

/// The session that the flags describe.
pub(crate) fn session_options(args: &SessionArgs) -> Result<SessionOptions> {
    if args.batch_rows == 0 || args.threads == Some(0) {
        return Err(Error::invalid_input("--batch-rows and --threads must be at least 1"));
    }
    let mode = match args.io {
        IoModeArg::Auto => IoMode::Auto,
        IoModeArg::Direct => IoMode::Direct,
        IoModeArg::Buffered => IoMode::Buffered,
    };
    Ok(SessionOptions {
        threads: args.threads,
        batch_rows: args.batch_rows,
        memory_limit_bytes: args.memory_limit,
        io: IoOptions { mode, ring: !args.no_io_uring, ..IoOptions::default() },
        scan: scan_options(&args.skip)?,
        reorder_joins: !args.no_join_order,
        device: args.device,
        device_mem_cap_bytes: args.device_mem_cap,
        pin: args.pin.clone(),
        ..SessionOptions::default()
    })
}

fn scan_options(kinds: &str) -> Result<ScanOptions> {
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

pub(crate) fn tokio_runtime(threads: Option<usize>) -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.thread_stack_size(STACK_BYTES).enable_all().build().context(|| "starting the thread pool".into())
}

async fn run_statements(session: &PeltonSession, sql: &str, args: &SqlArgs) -> Result<()> {
    let statements = session.parse(sql)?;
    if statements.is_empty() {
        return Err(Error::invalid_input("the query is empty"));
    }
    if statements.len() > 1 && args.output.is_some() {
        return Err(Error::invalid_input(format!(
            "--output takes the rows of one query, {} statements found",
            statements.len()
        )));
    }
    for statement in statements {
        let started = Instant::now();
        let query = session.plan(statement).await?;
        let rows = write_rows(&query, args).await?;
        if args.stats {
            print_stats(&query, rows, started.elapsed())?;
        }
    }
    Ok(())
}

async fn write_rows(query: &Query, args: &SqlArgs) -> Result<usize> {
    if query.is_explanation() && args.format == crate::args::Format::Table && args.output.is_none() {
        return print_explanation(query).await;
    }
    let schema = query.schema();
    if schema.fields().is_empty() {
        return query.collect().await.map(|_| 0); // a definition: nothing to show
    }
    let mut stream = query.stream().await?;
    let mut writer = RowWriter::open(args.format, &schema, args.output.as_deref(), args.max_rows)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(from_datafusion)?;
        rows += batch.num_rows();
        writer.write(batch)?;
    }
    writer.finish()?;
    Ok(rows)
}

/// An explanation is text to read, not a table of two cells.
async fn print_explanation(query: &Query) -> Result<usize> {
    use arrow::array::AsArray;
    use std::io::Write;
    let batches = query.collect().await?;
    let mut out = std::io::stdout().lock();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let text = |column: usize| batch.column(column).as_string::<i32>().value(row).to_owned();
            write!(out, "── {}\n{}\n", text(0), text(1)).context(|| "writing the result".into())?;
        }
    }
    Ok(0)
}

fn print_stats(query: &Query, rows: usize, elapsed: Duration) -> Result<()> {
    let reports = query.scan_reports()?;
    let read: u64 = reports.iter().map(|report| report.bytes_read).sum();
    let skipped: u64 = reports.iter().map(|report| report.bytes_skipped()).sum();
    let raw: u64 = reports.iter().map(|report| report.raw_bytes).sum();
    let bold = if std::io::stderr().is_terminal() { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    eprintln!(
        "{}{rows} rows in {:.3} s{}; read {}, skipped {}, {}/s effective",
        bold.0,
        elapsed.as_secs_f64(),
        bold.1,
        bytes_text(read),
        bytes_text(skipped),
        bytes_text((raw as f64 / elapsed.as_secs_f64().max(1e-9)) as u64),
    );
    Ok(())
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
