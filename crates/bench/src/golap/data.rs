//! Data sets stored in the ways that the experiments compare.
//!
//! ```text
//!   Workload::prepare ──► Parquet, the fact table in clustered order ──┬─► uncompressed: fact tables as plain values
//!                                                                      └─► compressed: the fastest at the storage rate
//! ```
//!
//! Both hold the same rows in the same order and row groups of the same size, so that what they differ in is the bytes.
//! Tables are kept for the next run; their folder's name says how they were made. Tables of other than the fact table
//! and `orders` are small and stored alike in both.

use std::path::PathBuf;

use parquet::basic::Compression;
use pelton_chunk::{Codec, Encoding};
use pelton_datagen::Dataset;
use pelton_engine::{PeltonSession, SessionOptions, from_datafusion};
use pelton_error::{Result, ResultExt};
use pelton_load::{ClusterBy, LoadOptions, LoadRequest, NoProgress, StarLink};
use pelton_store::{Objective, SampleOptions, Warehouse, WriteMode};

use super::Stage;
use crate::export::write_parquet;
use crate::workload::{Prepared, Workload, describe_load, dimensions_first};

/// Tables that take part in a comparison besides the fact table.
const LARGE: [&str; 1] = ["orders"];
/// Row groups of the fact table where the experiment does not vary them: the paper's 16 MiB chunks are about the
/// three hundredth part of a column; fewer suffice to skip by, and keep chunks of small tables worth reading.
const ROW_GROUPS: u64 = 64;
/// Below this a page's header and a request's cost outweigh its values.
const ROW_GROUP_ROWS_MIN: u64 = 1024;
/// The most rows of a row group.
const ROW_GROUP_ROWS_MAX: u64 = 1 << 24;

/// Whether values are stored as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are.
    Plain,
    /// Under the encoding and codec that scan fastest at the storage rate.
    Compressed,
    /// As usual, but without a codec: what kernels decode by themselves.
    Light,
}

impl Form {
    /// As reports write it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Form::Plain => "uncompressed",
            Form::Compressed => "compressed",
            Form::Light => "light",
        }
    }
}

/// A data set as files, and how to make tables of them.
pub(super) struct Data {
    pub(super) workload: Workload,
    pub(super) prepared: Prepared,
    /// Rows of the fact table.
    pub(super) fact_rows: u64,
    /// Its name.
    pub(super) fact: &'static str,
}

/// The order that suits a data set's filters: fewest distinct values first (section 4.4 of the paper).
fn order(dataset: Dataset) -> ClusterBy {
    let columns: &[&str] = match dataset {
        Dataset::Ssb => &["date.d_year", "lo_discount", "lo_quantity"],
        Dataset::Tpch => &["l_shipdate"],
        Dataset::Taxi => &["trip_distance"],
        Dataset::Hits => &["CounterID"],
    };
    ClusterBy::Columns(columns.iter().map(|column| (*column).to_owned()).collect())
}

/// A power of two near `rows / parts`.
pub(super) fn row_group_rows(rows: u64, parts: u64) -> u32 {
    let rows = (rows / parts.max(1)).max(1).next_power_of_two();
    rows.clamp(ROW_GROUP_ROWS_MIN, ROW_GROUP_ROWS_MAX) as u32
}

impl Data {
    /// Makes or finds the files of `dataset`.
    pub(super) fn prepare(stage: &Stage<'_>, dataset: Dataset) -> Result<Self> {
        let options = stage.options;
        let workload = Workload {
            dataset,
            scale: options.scale,
            seed: options.seed,
            dir: options.dir.clone(),
            cluster_by: order(dataset),
            threads: options.threads,
        };
        let prepared = workload.prepare(stage.cancel, stage.say)?;
        let fact = workload.fact_table()?;
        Ok(Self { workload, prepared, fact_rows: fact.row_count, fact: fact.name })
    }

    /// Rows of a row group where they are not varied.
    pub(super) fn usual_rows(&self) -> u32 {
        row_group_rows(self.fact_rows, ROW_GROUPS)
    }

    /// The warehouse of the data set in this form.
    pub(super) fn warehouse(&self, stage: &Stage<'_>, form: Form, row_group_rows: u32) -> Result<PathBuf> {
        let directory = self.directory(stage, "all", form, row_group_rows);
        let tables = pelton_datagen::tables(self.workload.dataset, self.workload.scale)?;
        for table in dimensions_first(self.workload.dataset, &tables) {
            let files = self.files(table.name);
            let is_compared = table.name == self.fact || LARGE.contains(&table.name);
            let form = is_compared.then_some((form, row_group_rows));
            self.load(stage, &directory, table.name, files, form)?;
        }
        Ok(directory)
    }

    /// A warehouse of `columns` of the fact table and the dimension `date`, for the experiments that vary row groups.
    pub(super) fn narrow_warehouse(
        &self,
        stage: &Stage<'_>,
        columns: &[&str],
        form: Form,
        row_group_rows: u32,
    ) -> Result<PathBuf> {
        let directory = self.directory(stage, "narrow", form, row_group_rows);
        self.load(stage, &directory, "date", self.files("date"), None)?;
        let files = self.narrow_files(stage, columns)?;
        self.load(stage, &directory, self.fact, files, Some((form, row_group_rows)))?;
        Ok(directory)
    }

    fn directory(&self, stage: &Stage<'_>, what: &str, form: Form, row_group_rows: u32) -> PathBuf {
        let rate = match form {
            Form::Plain | Form::Light => String::new(),
            Form::Compressed => format!("-for-{}", stage.options.storage_bytes_per_s),
        };
        let name = format!("golap-{what}-{}-{row_group_rows}{rate}", form.name());
        self.workload.root().join(name)
    }

    fn files(&self, table: &str) -> String {
        let of = self.prepared.parquet.iter().find(|(name, _)| name == table);
        of.map_or_else(String::new, |(_, directory)| directory.display().to_string())
    }

    /// Loads a table, unless it is there: a load leaves a whole table or none. Without a form it is stored as usual.
    fn load(
        &self,
        stage: &Stage<'_>,
        directory: &PathBuf,
        table: &str,
        files: String,
        form: Option<(Form, u32)>,
    ) -> Result<()> {
        let warehouse = Warehouse::open_or_create(directory)?;
        if warehouse.has_table(table) {
            return Ok(());
        }
        let known = warehouse.tables()?;
        let links = pelton_datagen::star_links(self.workload.dataset, table);
        let links = links.iter().filter(|link| known.iter().any(|name| name == link.dimension_table));
        let star = links.map(|link| StarLink {
            fact_column: link.fact_column.to_owned(),
            dimension_table: link.dimension_table.to_owned(),
            dimension_key: link.dimension_key.to_owned(),
        });
        let request = LoadRequest {
            star: star.collect(),
            options: load_options(stage, form),
            ..LoadRequest::new(table, WriteMode::Create, vec![files])
        };
        let report = pelton_load::load(&warehouse, &request, &NoProgress, stage.cancel)
            .context(|| format!("loading '{table}' into {}", directory.display()))?;
        let form = form.map_or("as usual", |(form, _)| form.name());
        (stage.say)(&format!("{form}: {}", describe_load(table, &report)));
        Ok(())
    }

    /// The fact table's order with fewer columns, as Parquet.
    fn narrow_files(&self, stage: &Stage<'_>, columns: &[&str]) -> Result<String> {
        let out = self.workload.root().join("golap-narrow");
        let path = out.join("part-00000.parquet");
        // The file appears under its name only when it is complete.
        if !path.exists() {
            std::fs::create_dir_all(&out).context(|| format!("creating '{}'", out.display()))?;
            // One thread: row groups leave a scan in table order.
            let options = SessionOptions { threads: Some(1), ..SessionOptions::default() };
            let options = SessionOptions { device: pelton_engine::DeviceChoice::Cpu, ..options };
            let session = PeltonSession::open(Some(self.prepared.warehouse.clone()), &options)?;
            let sql = format!("SELECT {} FROM {}", columns.join(", "), self.fact);
            let query = stage.pool.block_on(session.query(&sql))?;
            let stream = stage.pool.block_on(query.stream())?;
            let schema = query.schema();
            let batches =
                futures::executor::block_on_stream(stream).map(|batch| batch.map_err(from_datafusion));
            write_parquet(&path, &schema, Compression::SNAPPY, batches)?;
        }
        Ok(out.display().to_string())
    }
}

fn load_options(stage: &Stage<'_>, form: Option<(Form, u32)>) -> LoadOptions {
    let threads = stage.options.threads;
    let defaults = LoadOptions { thread_count: threads, ..LoadOptions::default() };
    let choose = match form {
        None => return defaults,
        Some((Form::Plain, rows)) => SampleOptions {
            codecs: vec![Codec::None],
            force_encoding: Some(Encoding::PLAIN),
            force_codec: Some(Codec::None),
            row_group_rows: vec![rows],
            ..defaults.choose
        },
        Some((Form::Light, rows)) => {
            SampleOptions { force_codec: Some(Codec::None), row_group_rows: vec![rows], ..defaults.choose }
        }
        Some((Form::Compressed, rows)) => SampleOptions {
            objective: Objective::Fastest { storage_bytes_per_s: stage.options.storage_bytes_per_s },
            row_group_rows: vec![rows],
            cores: threads,
            ..defaults.choose
        },
    };
    LoadOptions { choose, ..defaults }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_groups_are_powers_of_two_within_their_bounds() {
        assert_eq!(row_group_rows(300_000, 64), 8192);
        assert_eq!(row_group_rows(10, 64), 1024);
        assert_eq!(row_group_rows(1 << 40, 2), 1 << 24);
    }
}
