//! Files of records, run one after the other.

use std::path::{Path, PathBuf};

use pelton_engine::DeviceChoice;
use pelton_error::{Error, Result, ResultExt};
use sqllogictest::{Record, RecordOutput, Runner};

use crate::config::Config;
use crate::database::{Connection, Database};
use crate::oracle::DataFusion;
use crate::pelton::Pelton;

/// What runs the records.
#[derive(Debug, Clone)]
pub enum Engine {
    /// Pelton under a configuration.
    Pelton(Box<Config>),
    /// DataFusion over tables in memory.
    DataFusion,
}

impl Engine {
    /// Pelton under `config`.
    pub fn pelton(config: Config) -> Self {
        Self::Pelton(Box::new(config))
    }

    /// Whether what kernels can do runs as kernels.
    fn has_kernels(&self) -> bool {
        matches!(self, Self::Pelton(config) if config.session.device == DeviceChoice::Host)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pelton(config) => config.name,
            Self::DataFusion => "datafusion",
        }
    }

    fn connect(&self, scratch: &Path) -> Result<Connection> {
        let database: Box<dyn Database> = match self {
            Self::Pelton(config) => Box::new(Pelton::new(config, scratch)?),
            Self::DataFusion => Box::new(DataFusion::new()),
        };
        Ok(Connection(database))
    }
}

/// Runs every `.slt` file in `directory`, each with a warehouse of its own below `scratch`. Gives the number of
/// statements and queries that were run; records that `onlyif` or `skipif` left out do not count.
///
/// # Errors
///
/// The first record of each file that failed, with its place; all files are run.
pub fn run_files(engine: &Engine, directory: &Path, scratch: &Path) -> Result<usize> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context(|| "starting the thread pool".into())?;
    let (mut count, mut failures) = (0, Vec::new());
    for file in slt_files(directory)? {
        match runtime.block_on(run_file(engine, &file, scratch)) {
            Ok(run) => count += run,
            Err(failure) => failures.push(failure),
        }
    }
    println!("{}: {count} records", engine.name());
    if failures.is_empty() {
        return Ok(count);
    }
    Err(Error::invalid_input(format!(
        "{}: {} files failed\n{}",
        engine.name(),
        failures.len(),
        failures.join("\n")
    )))
}

fn slt_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let listing = || format!("listing {}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).context(listing)? {
        let path = entry.context(listing)?.path();
        if path.extension().is_some_and(|extension| extension == "slt") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

async fn run_file(engine: &Engine, file: &Path, scratch: &Path) -> std::result::Result<usize, String> {
    let mut runner = Runner::new(|| {
        let connection = engine.connect(scratch);
        async { connection }
    });
    runner.add_label(engine.name());
    if matches!(engine, Engine::DataFusion) {
        runner.add_label("no_skipping");
    }
    if engine.has_kernels() {
        runner.add_label("kernels");
    }
    runner.with_column_validator(|actual, expected| expected.is_empty() || actual.len() == expected.len());
    let mut count = 0;
    for record in sqllogictest::parse_file(file).map_err(|error| error.to_string())? {
        let counts = matches!(record, Record::Statement { .. } | Record::Query { .. });
        let output = runner.run_async(record).await.map_err(|error| error.to_string())?;
        count += usize::from(counts && !matches!(output, RecordOutput::Nothing));
    }
    Ok(count)
}
