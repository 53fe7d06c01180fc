//! The engine under test: a session over a warehouse of its own.

use std::path::Path;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use pelton_engine::PeltonSession;
use pelton_error::{Error, Result};
use pelton_load::{CancelFlag, ClusterBy, LoadRequest, NoProgress, StarLink, load_batches};
use pelton_store::{SampleOptions, Warehouse, WriteMode};
use tempfile::TempDir;

use crate::config::Config;
use crate::database::{Answer, Database};
use crate::statement::{LoadStatement, Statement};

/// A session, its warehouse and how tables are loaded into it.
pub(crate) struct Pelton {
    config: Config,
    session: PeltonSession,
    warehouse: Warehouse,
    _directory: TempDir,
}

impl Pelton {
    /// An empty warehouse somewhere below `base`.
    pub(crate) fn new(config: &Config, base: &Path) -> Result<Self> {
        let directory =
            tempfile::tempdir_in(base).map_err(|error| Error::io("making a temporary warehouse", error))?;
        let warehouse = Warehouse::open_or_create(directory.path())?;
        let session = PeltonSession::open(Some(directory.path().to_owned()), &config.session)?;
        Ok(Self { config: config.clone(), session, warehouse, _directory: directory })
    }

    async fn load(&self, load: LoadStatement) -> Result<Answer> {
        let query = self.session.query(&load.query).await?;
        let batches = query.collect().await?;
        let rows = batches.into_iter().filter(|batch| batch.num_rows() > 0).map(Ok);
        let rows: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> = Box::new(rows);
        let request = self.request(load);
        let loading = || {
            load_batches(&self.warehouse, &request, &query.schema(), rows, &NoProgress, &CancelFlag::new())
        };
        tokio::task::block_in_place(loading).map(|report| Answer::Changed(report.row_count))
    }

    fn request(&self, load: LoadStatement) -> LoadRequest {
        let mut options = self.config.load.clone();
        if let Some(rows) = load.row_group_rows {
            options.choose = SampleOptions { row_group_rows: vec![rows], ..options.choose };
        }
        let is_auto = load.cluster_by.first().is_some_and(|column| column.eq_ignore_ascii_case("auto"));
        let mode = match (load.append, load.replace) {
            (true, _) => WriteMode::Append,
            (_, true) => WriteMode::Replace,
            _ => WriteMode::Create,
        };
        LoadRequest {
            cluster_by: match (load.cluster_by.is_empty(), is_auto) {
                (true, _) => ClusterBy::None,
                (_, true) => ClusterBy::Auto(load.cluster_by[1..].to_vec()),
                _ => ClusterBy::Columns(load.cluster_by),
            },
            star: load
                .star
                .into_iter()
                .map(|(fact_column, dimension_table, dimension_key)| StarLink {
                    fact_column,
                    dimension_table,
                    dimension_key,
                })
                .collect(),
            options,
            ..LoadRequest::new(load.table, mode, Vec::new())
        }
    }

    async fn skipping(&self, sql: &str) -> Result<Answer> {
        let query = self.session.query(sql).await?;
        query.collect().await?;
        let row = |report: pelton_engine::ScanReport| {
            let skipped = |(by, skipped): (&pelton_engine::SkippedBy, &pelton_engine::Skipped)| {
                format!("{}:{}", by.name(), skipped.row_groups)
            };
            let kinds: Vec<String> = report.skipped.iter().map(skipped).collect();
            let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(",") };
            vec![report.table, report.row_groups_total.to_string(), report.row_groups_read.to_string(), kinds]
        };
        Ok(Answer::Text(query.scan_reports()?.into_iter().map(row).collect()))
    }
}

#[async_trait]
impl Database for Pelton {
    fn name(&self) -> &'static str {
        "pelton"
    }

    async fn run(&mut self, statement: Statement) -> Result<Answer> {
        match statement {
            Statement::Load(load) => self.load(load).await,
            Statement::Drop(table) => self.warehouse.drop_table(&table).map(|()| Answer::Changed(0)),
            Statement::Skipping(sql) => self.skipping(&sql).await,
            Statement::Sql(sql) => {
                let query = self.session.query(&sql).await?;
                Ok(Answer::Rows(query.schema(), query.collect().await?))
            }
        }
    }
}
