//! Values for the parameters of a prepared statement, as clients send them: one row, as Arrow's IPC messages.
//!
//! The messages are looked at before they are decoded, so that what is decoded is small and plain: a schema of simple
//! types, then one row, not compressed. Compressed buffers name the size they expand to, dictionaries and nested
//! types refer to each other; parameters need none of that.

use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::ipc::{MessageHeader, root_as_message};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tonic::Status;

use crate::status::malformed;

/// Bytes that the values of one statement may take.
const VALUES_BYTES_MAX: usize = 4 << 20;
/// What messages are called in errors.
const MESSAGE: &str = "a message with parameters";
/// Parameters that one statement may have.
const PARAMETERS_MAX: usize = 1024;

/// The values bound last to a prepared statement.
#[derive(Default)]
pub(crate) struct Bound(Mutex<Option<RecordBatch>>);

impl Bound {
    /// Replaces the values.
    pub(crate) fn set(&self, values: Option<RecordBatch>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    /// The values.
    pub(crate) fn get(&self) -> Option<RecordBatch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The only row in `messages`; `None` where there is none.
///
/// # Errors
///
/// What the messages should have been.
pub(crate) async fn read(
    mut messages: impl Stream<Item = Result<FlightData, Status>> + Unpin,
) -> Result<Option<RecordBatch>, Status> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    let mut buffers = 0;
    while let Some(message) = messages.next().await {
        let message = message?;
        bytes += message.data_header.len() + message.data_body.len();
        if bytes > VALUES_BYTES_MAX {
            return Err(Status::invalid_argument(format!(
                "the values of parameters take more than {VALUES_BYTES_MAX} bytes; load them as a table and join it"
            )));
        }
        if !message.data_header.is_empty() {
            check(&message, &mut buffers)?;
            kept.push(message);
        }
    }
    let decoded = AssertUnwindSafe(decode(kept)).catch_unwind().await;
    let batches =
        decoded.map_err(|_| malformed("the row of parameters", "its parts contradict each other"))??;
    let mut rows = batches.into_iter().filter(|batch| batch.num_rows() > 0);
    match (rows.next(), rows.next()) {
        (row, None) => Ok(row),
        (_, Some(_)) => Err(one_row_alone()),
    }
}

async fn decode(messages: Vec<FlightData>) -> Result<Vec<RecordBatch>, Status> {
    let messages = futures::stream::iter(messages.into_iter().map(Ok));
    let batches = FlightRecordBatchStream::new_from_flight_data(messages).try_collect().await;
    batches.map_err(|error| malformed("the row of parameters", error))
}

/// Notes the number of buffers that a schema asks for in `buffers`, and holds batches against it.
///
/// # Errors
///
/// What in `message` is more than a row of plain values.
fn check(message: &FlightData, buffers: &mut usize) -> Result<(), Status> {
    let header = root_as_message(&message.data_header).map_err(|error| malformed(MESSAGE, error))?;
    match header.header_type() {
        MessageHeader::Schema => {
            let schema = Schema::try_from(message).map_err(|error| malformed(MESSAGE, error))?;
            *buffers = schema.fields().iter().map(|field| buffer_count(field.data_type())).sum();
            check_schema(&schema)
        }
        MessageHeader::RecordBatch => {
            let batch =
                header.header_as_record_batch().ok_or_else(|| malformed(MESSAGE, "it holds no batch"))?;
            check_batch(&batch, *buffers, message.data_body.len())
        }
        other => {
            let name = other.variant_name().unwrap_or("unknown");
            Err(Status::invalid_argument(format!(
                "parameters are a schema and a batch, not a message '{name}'"
            )))
        }
    }
}

/// The decoder takes the batch's word for where its buffers lie, and panics where they do not.
fn check_batch(batch: &arrow::ipc::RecordBatch, buffers: usize, body_bytes: usize) -> Result<(), Status> {
    if batch.compression().is_some() {
        return Err(Status::invalid_argument("values of parameters are sent without compression"));
    }
    if !(0..=1).contains(&batch.length()) {
        return Err(one_row_alone());
    }
    let nodes = batch.nodes().into_iter().flatten();
    let are_rows =
        nodes.into_iter().all(|node| node.length() == batch.length() && (0..=1).contains(&node.null_count()));
    let spans = batch.buffers().into_iter().flatten();
    let is_inside = |offset: i64, length: i64| {
        let end = offset.checked_add(length);
        offset >= 0 && length >= 0 && end.is_some_and(|end| end as u64 <= body_bytes as u64)
    };
    let are_inside = spans.into_iter().all(|span| is_inside(span.offset(), span.length()));
    let count = batch.buffers().map_or(0, |spans| spans.len());
    if are_rows && are_inside && count == buffers {
        return Ok(());
    }
    Err(malformed(MESSAGE, "its parts contradict each other"))
}

/// Buffers that a value of this plain type is in.
fn buffer_count(data_type: &DataType) -> usize {
    match data_type {
        DataType::Null => 0,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
        _ => 2,
    }
}

fn check_schema(schema: &Schema) -> Result<(), Status> {
    if schema.fields().len() > PARAMETERS_MAX {
        return Err(Status::invalid_argument(format!("a statement may have {PARAMETERS_MAX} parameters")));
    }
    match schema.fields().iter().find(|field| !is_plain(field.data_type())) {
        Some(field) => Err(Status::invalid_argument(format!(
            "parameter '{}' is of type {}; numbers, text, bytes, truth values, dates and times can be bound",
            field.name(),
            field.data_type()
        ))),
        None => Ok(()),
    }
}

/// True for types whose values stand alone.
fn is_plain(data_type: &DataType) -> bool {
    data_type.is_primitive()
        || matches!(data_type, DataType::Null | DataType::Boolean | DataType::FixedSizeBinary(_))
        || matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
        )
}

fn one_row_alone() -> Status {
    Status::invalid_argument(
        "one row of parameters can be bound at a time; run the statement once for each row, or load the rows as a \
         table and join it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, DictionaryArray, Int64Array, StringArray};
    use arrow::datatypes::Int32Type;
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::IpcWriteOptions;
    use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
    use std::sync::Arc;

    fn row(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).unwrap()
    }

    async fn sent(builder: FlightDataEncoderBuilder, batches: Vec<RecordBatch>) -> Vec<FlightData> {
        let batches = futures::stream::iter(batches.into_iter().map(Ok));
        builder.build(batches).try_collect().await.unwrap()
    }

    async fn read_all(messages: Vec<FlightData>) -> Result<Option<RecordBatch>, String> {
        let read = read(futures::stream::iter(messages.into_iter().map(Ok))).await;
        read.map_err(|status| status.message().to_owned())
    }

    fn values() -> RecordBatch {
        row(vec![
            ("$1", Arc::new(Int64Array::from(vec![7]))),
            ("$2", Arc::new(StringArray::from(vec!["ASIA"]))),
        ])
    }

    #[tokio::test]
    async fn one_row_is_read_as_it_was_sent() {
        let messages = sent(FlightDataEncoderBuilder::new(), vec![values()]).await;
        assert_eq!(read_all(messages).await, Ok(Some(values())));
        assert_eq!(read_all(vec![]).await, Ok(None));
    }

    #[tokio::test]
    async fn more_than_one_row_is_refused() {
        let two = row(vec![("$1", Arc::new(Int64Array::from(vec![1, 2])))]);
        let error = read_all(sent(FlightDataEncoderBuilder::new(), vec![two]).await).await.unwrap_err();
        assert!(error.contains("one row"), "{error}");
        let twice = sent(FlightDataEncoderBuilder::new(), vec![values(), values()]).await;
        assert!(read_all(twice).await.unwrap_err().contains("one row"));
    }

    #[tokio::test]
    async fn compressed_values_are_refused_before_they_are_expanded() {
        let options =
            IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
        let messages = sent(FlightDataEncoderBuilder::new().with_options(options), vec![values()]).await;
        assert!(read_all(messages).await.unwrap_err().contains("without compression"));
    }

    #[tokio::test]
    async fn types_that_refer_to_others_are_refused() {
        let coded: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::from_iter(["x"]));
        let builder = FlightDataEncoderBuilder::new().with_dictionary_handling(DictionaryHandling::Resend);
        let error = read_all(sent(builder, vec![row(vec![("$1", coded)])]).await).await.unwrap_err();
        assert!(error.contains("'$1' is of type Dictionary"), "{error}");
    }
}
