//! Plain DataFusion over tables in memory: the second opinion on every expected row. Of Pelton it has the rules of numbers,
//! without which it would give other types, and wrong sums.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use pelton_engine::{from_datafusion, parse, with_numbers};
use pelton_error::{Error, Result};

use crate::database::{Answer, Database};
use crate::statement::{LoadStatement, Statement};

/// DataFusion as it comes.
pub(crate) struct DataFusion {
    ctx: SessionContext,
}

impl DataFusion {
    /// Without tables.
    pub(crate) fn new() -> Self {
        let config = SessionConfig::new().with_target_partitions(2);
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        Self { ctx: SessionContext::new_with_state(with_numbers(builder).build()).enable_url_table() }
    }

    async fn collect(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let statement = parse(sql)?.pop().ok_or_else(|| Error::invalid_input("the query is empty"))?;
        let plan = self.ctx.state().statement_to_plan(statement).await.map_err(from_datafusion)?;
        let frame = self.ctx.execute_logical_plan(plan).await.map_err(from_datafusion)?;
        let schema = Arc::clone(frame.schema().inner());
        Ok((schema, frame.collect().await.map_err(from_datafusion)?))
    }

    async fn load(&self, load: LoadStatement) -> Result<Answer> {
        let (schema, added) = self.collect(&load.query).await?;
        let row_count = added.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
        let exists = self.ctx.table_exist(load.table.as_str()).map_err(from_datafusion)?;
        if exists && !load.append && !load.replace {
            return Err(Error::invalid_input(format!("there is a table '{}' already", load.table)));
        }
        let (schema, mut batches) = match exists && load.append {
            true => self.collect(&format!("SELECT * FROM \"{}\"", load.table)).await?,
            false => (schema, Vec::new()),
        };
        for batch in added {
            batches.push(as_table(&batch, &schema).map_err(from_datafusion)?);
        }
        let table = MemTable::try_new(schema, vec![batches]).map_err(from_datafusion)?;
        self.ctx.deregister_table(load.table.as_str()).map_err(from_datafusion)?;
        self.ctx.register_table(load.table.as_str(), Arc::new(table)).map_err(from_datafusion)?;
        Ok(Answer::Changed(row_count))
    }
}

/// The columns of `batch` under the names and types of `schema`.
fn as_table(batch: &RecordBatch, schema: &SchemaRef) -> std::result::Result<RecordBatch, DataFusionError> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| cast(column, field.data_type()))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

#[async_trait]
impl Database for DataFusion {
    fn name(&self) -> &'static str {
        "datafusion"
    }

    async fn run(&mut self, statement: Statement) -> Result<Answer> {
        match statement {
            Statement::Load(load) => self.load(load).await,
            Statement::Drop(table) => {
                match self.ctx.deregister_table(table.as_str()).map_err(from_datafusion)? {
                    Some(_) => Ok(Answer::Changed(0)),
                    None => Err(Error::invalid_input(format!("no table '{table}'"))),
                }
            }
            Statement::Skipping(_) => Err(Error::unsupported("DataFusion's tables in memory skip nothing")),
            Statement::Sql(sql) => {
                let (schema, batches) = self.collect(&sql).await?;
                Ok(Answer::Rows(schema, batches))
            }
        }
    }
}
