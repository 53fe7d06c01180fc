//! A data set made ready: Parquet files and Pelton tables of the same rows in the same order.
//!
//! ```text
//! DIR/<dataset>-sf<scale>/parquet/<table>/part-*.parquet          as generated
//!                        /warehouse/<table>/                      Pelton tables
//!                        /sorted/<fact>/part-00000.parquet        the fact table in its clustered order
//! ```
//!
//! What an earlier run finished is used again; a marker file says with which parameters it was made.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use parquet::basic::Compression;
use pelton_datagen::{Dataset, TableSpec};
use pelton_engine::{PeltonSession, SessionOptions};
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_load::{CancelFlag, ClusterBy, LoadOptions, LoadReport, LoadRequest, NoProgress, StarLink};
use pelton_store::{Warehouse, WriteMode};

use crate::export::{Export, write_parquet};

/// Which data, where, in which order.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The data set.
    pub dataset: Dataset,
    /// Its scale factor.
    pub scale: f64,
    /// Seed of the generators.
    pub seed: u64,
    /// Directory that holds everything made.
    pub dir: PathBuf,
    /// Order of the fact table.
    pub cluster_by: ClusterBy,
    /// Threads for making it.
    pub threads: usize,
}

/// Where the pieces are, and what it took to make them (`None`: found from an earlier run).
#[derive(Debug)]
pub struct Prepared {
    /// The warehouse with all tables.
    pub warehouse: PathBuf,
    /// For each table, the directory of its Parquet files in the same row order.
    pub parquet: Vec<(String, PathBuf)>,
    /// What loading reported, by table.
    pub loads: Vec<LoadReport>,
}

impl Workload {
    /// `DIR/<dataset>-sf<scale>`.
    pub fn root(&self) -> PathBuf {
        self.dir.join(format!("{}-sf{}", self.dataset, self.scale))
    }

    /// The table that the others describe: the first of the data set, by the generators' contract.
    pub fn fact_table(&self) -> Result<TableSpec> {
        Ok(pelton_datagen::tables(self.dataset, self.scale)?.swap_remove(0))
    }

    /// Makes what is missing. `say` is told each step.
    pub fn prepare(&self, cancel: &CancelFlag, say: &dyn Fn(&str)) -> Result<Prepared> {
        let root = self.root();
        std::fs::create_dir_all(&root).context(|| format!("creating '{}'", root.display()))?;
        let tables = pelton_datagen::tables(self.dataset, self.scale)?;
        let parquet = root.join("parquet");
        for table in &tables {
            self.export(table, &parquet, cancel, say)?;
        }
        let warehouse = self.warehouse_dir();
        let loads = self.load_all(&warehouse, &parquet, &tables, cancel, say)?;
        let fact = tables[0].name;
        let mut sources: Vec<(String, PathBuf)> =
            tables.iter().map(|table| (table.name.to_owned(), parquet.join(table.name))).collect();
        if self.cluster_by != ClusterBy::None {
            sources[0].1 = self.export_in_table_order(&warehouse, fact, say)?;
        }
        Ok(Prepared { warehouse, parquet: sources, loads })
    }

    /// Tables of another order are other tables.
    fn warehouse_dir(&self) -> PathBuf {
        self.root().join(format!("warehouse{}", self.order_suffix()))
    }

    fn order_suffix(&self) -> String {
        match &self.cluster_by {
            ClusterBy::None => String::new(),
            ClusterBy::Auto(columns) => format!("-auto-{}", columns.join("-")),
            ClusterBy::Columns(columns) => format!("-by-{}", columns.join("-")),
        }
    }

    fn export(&self, table: &TableSpec, out: &Path, cancel: &CancelFlag, say: &dyn Fn(&str)) -> Result<()> {
        let marker =
            Marker::new(&out.join(table.name), format!("seed {} rows {}", self.seed, table.row_count));
        if marker.stands() {
            return Ok(());
        }
        let started = Instant::now();
        let export = Export {
            dataset: self.dataset,
            scale: self.scale,
            seed: self.seed,
            compression: Compression::SNAPPY,
            threads: self.threads,
        };
        let written = export.write_table(table, out, &AtomicU64::new(0), cancel)?;
        let (megabytes, seconds) = (written.bytes as f64 / 1e6, started.elapsed().as_secs_f64());
        say(&format!(
            "generated {}: {} rows, {megabytes:.1} MB of Parquet in {seconds:.1} s",
            table.name, written.rows
        ));
        marker.set()
    }

    fn load_all(
        &self,
        directory: &Path,
        parquet: &Path,
        tables: &[TableSpec],
        cancel: &CancelFlag,
        say: &dyn Fn(&str),
    ) -> Result<Vec<LoadReport>> {
        let warehouse = Warehouse::open_or_create(directory)?;
        let existing = warehouse.tables()?;
        let mut loads = Vec::new();
        for table in dimensions_first(self.dataset, tables) {
            if existing.iter().any(|name| name == table.name) {
                continue;
            }
            let report = pelton_load::load(
                &warehouse,
                &self.load_request(table, tables, parquet),
                &NoProgress,
                cancel,
            )?;
            say(&describe_load(table.name, &report));
            loads.push(report);
        }
        Ok(loads)
    }

    fn load_request(&self, table: &TableSpec, tables: &[TableSpec], parquet: &Path) -> LoadRequest {
        let links = pelton_datagen::star_links(self.dataset, table.name);
        let star = links.iter().map(|link| StarLink {
            fact_column: link.fact_column.to_owned(),
            dimension_table: link.dimension_table.to_owned(),
            dimension_key: link.dimension_key.to_owned(),
        });
        let is_fact = table.name == tables[0].name;
        LoadRequest {
            cluster_by: if is_fact { self.cluster_by.clone() } else { ClusterBy::None },
            star: star.collect(),
            options: LoadOptions { thread_count: self.threads, ..LoadOptions::default() },
            ..LoadRequest::new(
                table.name,
                WriteMode::Create,
                vec![parquet.join(table.name).display().to_string()],
            )
        }
    }

    /// Writes the fact table as Parquet in the order in which Pelton stores it, so that the peer has the same.
    fn export_in_table_order(&self, warehouse: &Path, fact: &str, say: &dyn Fn(&str)) -> Result<PathBuf> {
        let out = self.root().join(format!("sorted{}", self.order_suffix())).join(fact);
        let marker = Marker::new(&out, format!("seed {}", self.seed));
        if marker.stands() {
            return Ok(out);
        }
        std::fs::create_dir_all(&out).context(|| format!("creating '{}'", out.display()))?;
        let runtime = tokio::runtime::Runtime::new().context(|| "starting the thread pool".into())?;
        // One thread: row groups leave a scan in table order.
        let options = SessionOptions { threads: Some(1), ..SessionOptions::default() };
        let session = PeltonSession::open(Some(warehouse.to_owned()), &options)?;
        let query = runtime.block_on(session.query(&format!("SELECT * FROM {fact}")))?;
        let stream = runtime.block_on(query.stream())?;
        let schema = query.schema();
        let batches = futures::executor::block_on_stream(stream)
            .map(|batch| batch.map_err(pelton_engine::from_datafusion));
        write_parquet(&out.join("part-00000.parquet"), &schema, Compression::SNAPPY, batches)?;
        say(&format!("wrote {fact} as Parquet in the same order"));
        marker.set()?;
        Ok(out)
    }
}

/// A file beside a directory that says it is complete, and with which parameters it was made.
struct Marker {
    path: PathBuf,
    text: String,
}

impl Marker {
    fn new(directory: &Path, text: String) -> Self {
        Self { path: directory.with_extension("complete"), text }
    }

    fn stands(&self) -> bool {
        std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
    }

    fn set(&self) -> Result<()> {
        std::fs::write(&self.path, &self.text).map_err(|error| {
            Error::new(ErrorKind::Io, format!("writing '{}'", self.path.display())).with_source(error)
        })
    }
}

/// Every table after the tables it refers to.
pub fn dimensions_first(dataset: Dataset, tables: &[TableSpec]) -> Vec<&TableSpec> {
    let mut ordered: Vec<&TableSpec> = Vec::new();
    while ordered.len() < tables.len() {
        let is_placed = |name: &str, ordered: &[&TableSpec]| ordered.iter().any(|table| table.name == name);
        let next = tables.iter().find(|table| {
            let links = pelton_datagen::star_links(dataset, table.name);
            !is_placed(table.name, &ordered)
                && links.iter().all(|link| is_placed(link.dimension_table, &ordered))
        });
        ordered.push(next.expect("references between tables have no cycle"));
    }
    ordered
}

/// One line on a finished load.
pub fn describe_load(table: &str, report: &LoadReport) -> String {
    let ratio = report.raw_bytes as f64 / report.stored_bytes.max(1) as f64;
    format!(
        "loaded {table}: {} rows, {:.1} MB raw to {:.1} MB stored ({ratio:.2}x) in {:.1} s, {:.0} MB/s",
        report.row_count,
        report.raw_bytes as f64 / 1e6,
        report.stored_bytes as f64 / 1e6,
        report.duration().as_secs_f64(),
        report.raw_bytes as f64 / 1e6 / report.duration().as_secs_f64().max(1e-9),
    )
}
