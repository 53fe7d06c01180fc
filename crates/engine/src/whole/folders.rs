//! PARTITIONED BY: rows of each key to a file in the folder that the key names, `year=2024/city=Bonn/`.
//!
//! DataFusion's own looks at the values of NULL rows, which are 0 or empty, and so loses them.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow::compute::{CastOptions, cast_with_options, take_record_batch};
use datafusion::arrow::array::{Array, AsArray, RecordBatch, StringArray, UInt32Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::exec_datafusion_err;
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use object_store::path::Path;
use pelton_error::Error;
use tokio::sync::mpsc;

use crate::error::to_datafusion;

/// The value that stands for NULL in the name of a folder, as Hive has it.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Sends `rows` to files, which it announces to `files` as they come; at most `batches_max` wait for each.
pub(super) async fn split(
    mut rows: SendableRecordBatchStream,
    config: FileSinkConfig,
    batches_max: usize,
    files: mpsc::UnboundedSender<(Path, mpsc::Receiver<RecordBatch>)>,
) -> Result<()> {
    let ended = || exec_datafusion_err!("what writes the files of COPY has ended");
    // Files of an INSERT stand beside those of others.
    let name = format!("{:016x}.{}", RandomState::new().hash_one(std::process::id()), config.file_extension);
    let mut open: HashMap<Path, mpsc::Sender<RecordBatch>> = HashMap::new();
    while let Some(batch) = rows.next().await.transpose()? {
        for (folder, indices) in folders(&batch, &config)? {
            let part = kept(&take_record_batch(&batch, &UInt32Array::from(indices))?, &config)?;
            let file = match open.get(&folder) {
                Some(file) => file.clone(),
                None => {
                    let (sender, receiver) = mpsc::channel(batches_max);
                    files.send((folder.clone().join(name.as_str()), receiver)).map_err(|_| ended())?;
                    open.insert(folder, sender.clone());
                    sender
                }
            };
            file.send(part).await.map_err(|_| ended())?;
        }
    }
    Ok(())
}

/// The rows of each folder.
fn folders(batch: &RecordBatch, config: &FileSinkConfig) -> Result<Vec<(Path, Vec<u32>)>> {
    let names = config.table_partition_cols.iter().map(|(name, _)| name);
    let keys = names.clone().map(|name| texts(batch, name)).collect::<Result<Vec<_>>>()?;
    let mut groups: BTreeMap<Vec<&str>, Vec<u32>> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let key = keys.iter().map(|texts| if texts.is_null(row) { NULL } else { texts.value(row) }).collect();
        groups.entry(key).or_default().push(u32::try_from(row).expect("batches have fewer than 2^32 rows"));
    }
    let folder = |key: Vec<&str>| {
        let root = config.table_paths[0].prefix().clone();
        names.clone().zip(key).fold(root, |folder, (name, text)| folder.join(format!("{name}={text}")))
    };
    Ok(groups.into_iter().map(|(key, indices)| (folder(key), indices)).collect())
}

/// The column `name` as the names of folders have it.
fn texts(batch: &RecordBatch, name: &str) -> Result<StringArray> {
    let column = batch.column_by_name(name);
    let column = column.ok_or_else(|| exec_datafusion_err!("there is no column '{name}' to partition by"))?;
    if column.data_type().is_nested() {
        return Err(to_datafusion(Error::unsupported(format!(
            "PARTITIONED BY column '{name}', which is of type {}; cast it to text",
            column.data_type()
        ))));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let column = match column.data_type() {
        DataType::Date64 => cast_with_options(column, &DataType::Date32, &options)?,
        _ => Arc::clone(column),
    };
    let texts = cast_with_options(&column, &DataType::Utf8, &options)?.as_string::<i32>().clone();
    if texts.iter().flatten().any(|text| text == NULL) {
        return Err(to_datafusion(Error::invalid_input(format!(
            "column '{name}' has the text '{NULL}', which means NULL in the name of a folder; replace it before COPY"
        ))));
    }
    Ok(texts)
}

/// What of `batch` its file holds.
fn kept(batch: &RecordBatch, config: &FileSinkConfig) -> Result<RecordBatch> {
    if config.keep_partition_by_columns {
        return Ok(batch.clone());
    }
    let schema = batch.schema();
    let is_key = |name: &String| config.table_partition_cols.iter().any(|(key, _)| key == name);
    let kept = schema.fields().iter().enumerate().filter(|(_, field)| !is_key(field.name()));
    let indices: Vec<usize> = kept.map(|(index, _)| index).collect();
    Ok(batch.project(&indices)?)
}
