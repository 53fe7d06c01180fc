//! A warehouse in a temporary directory, and the same rows in plain DataFusion as the oracle.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use pelton_engine::{PeltonSession, Query, SessionOptions, parse, with_numbers};
use pelton_load::{CancelFlag, LoadOptions, LoadRequest, NoProgress, StarLink, load_batches};
use pelton_store::{SampleOptions, Warehouse, WriteMode};

/// Tables on disk beside the oracle's in memory.
pub(crate) struct Tables {
    directory: tempfile::TempDir,
    oracle: SessionContext,
    /// What columns are stored as that can be.
    encoding: Option<&'static str>,
}

impl Tables {
    pub(crate) fn new() -> Self {
        // Plain DataFusion but for its numbers: `sum` of BIGINT would be of another type.
        let state = with_numbers(SessionStateBuilder::new().with_default_features()).build();
        let oracle = SessionContext::new_with_state(state);
        Self { directory: tempfile::tempdir().unwrap(), oracle, encoding: None }
    }

    /// As `new`; columns that can have it are stored in this encoding, such as `fsst+plain`.
    #[allow(dead_code)] // not every test forces encodings
    pub(crate) fn stored_as(encoding: &'static str) -> Self {
        Self { encoding: Some(encoding), ..Self::new() }
    }

    /// Loads `rows` as table `name` in row groups of `row_group_rows`.
    pub(crate) fn add(&self, name: &str, rows: RecordBatch, row_group_rows: u32, star: Vec<StarLink>) {
        let warehouse = Warehouse::open_or_create(self.directory.path()).unwrap();
        let request = LoadRequest {
            star,
            options: LoadOptions {
                choose: SampleOptions {
                    row_group_rows: vec![row_group_rows],
                    page_rows: 1024,
                    force_encoding: self.encoding.map(|encoding| encoding.parse().unwrap()),
                    ..Default::default()
                },
                ..LoadOptions::default()
            },
            ..LoadRequest::new(name, WriteMode::Replace, vec![])
        };
        let batches = vec![Ok(rows.clone())].into_iter();
        let loaded = load_batches(
            &warehouse,
            &request,
            &rows.schema(),
            Box::new(batches),
            &NoProgress,
            &CancelFlag::new(),
        );
        loaded.unwrap();
        let _ = self.oracle.deregister_table(name);
        self.oracle.register_batch(name, rows).unwrap();
    }

    #[allow(dead_code)] // not every test opens sessions that open
    pub(crate) fn session(&self, options: &SessionOptions) -> PeltonSession {
        PeltonSession::open(Some(self.directory.path().to_owned()), options).unwrap()
    }

    #[allow(dead_code)] // not every test opens the warehouse by itself
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    #[allow(dead_code)] // not every test opens sessions that fail
    pub(crate) fn try_session(&self, options: &SessionOptions) -> pelton_error::Result<PeltonSession> {
        PeltonSession::open(Some(self.directory.path().to_owned()), options)
    }

    /// Changes bytes all over the data files of table `name`.
    #[allow(dead_code)] // not every test damages tables
    pub(crate) fn damage(&self, name: &str) {
        for entry in std::fs::read_dir(self.directory.path().join(name)).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("data-") {
                let mut bytes = std::fs::read(&path).unwrap();
                bytes.iter_mut().step_by(64).for_each(|byte| *byte ^= 1);
                std::fs::write(&path, bytes).unwrap();
            }
        }
    }

    /// The oracle's answer, drawn.
    #[allow(dead_code)] // not every test compares with it
    pub(crate) async fn expected(&self, sql: &str) -> String {
        let statement = parse(sql).unwrap().remove(0);
        let plan = self.oracle.state().statement_to_plan(statement).await.unwrap();
        let batches = self.oracle.execute_logical_plan(plan).await.unwrap().collect().await.unwrap();
        pretty_format_batches(&batches).unwrap().to_string()
    }
}

/// Runs `sql` to its end; gives the answer, drawn, and the query to ask what it read.
#[allow(dead_code)] // not every test draws answers
pub(crate) async fn run(session: &PeltonSession, sql: &str) -> (String, Query) {
    let query = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = query.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches: Vec<RecordBatch> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
    (pretty_format_batches(&batches).unwrap().to_string(), query)
}

/// Columns of 64-bit integers.
#[allow(dead_code)] // not every test has tables of integers alone
pub(crate) fn integers(columns: &[(&str, Vec<i64>)]) -> RecordBatch {
    let columns = columns
        .iter()
        .map(|(name, values)| (*name, Arc::new(arrow::array::Int64Array::from(values.clone())) as _, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}
