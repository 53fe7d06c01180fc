//! Host inputs: rows that the CPU computes and that are copied to the device, column by column as kernels hold them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use datafusion::physical_plan::ExecutionPlan;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Bounds, Column, Pipeline, Source, Type};
use pelton_pipeline::{Dictionary, RowColumn, RowValues, Rows, TextSource};

use super::builder::{Flow, Parameters, PipelineBuilder};
use super::lower::Needed;
use super::text::texts;
use super::value::{Value, kernel_type, type_bounds};

/// A plan of the CPU whose rows are copied to the device.
#[derive(Debug, Clone)]
pub(super) struct HostInput {
    /// What makes them.
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The columns of the plan that are copied.
    columns: Vec<usize>,
    /// What kernels hold each as.
    types: Vec<Type>,
}

impl HostInput {
    /// Columns `needed` of `plan`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for columns of types that kernels do not hold.
    pub(super) fn try_new(plan: &Arc<dyn ExecutionPlan>, needed: &Needed) -> Result<Self> {
        if needed.is_empty() {
            return Err(Error::unsupported("rows without columns are not copied to the device"));
        }
        let schema = plan.schema();
        let types = needed.iter().map(|&column| kernel_type(schema.field(column).data_type()));
        let types = types.collect::<Result<Vec<Type>>>()?;
        Ok(Self { plan: Arc::clone(plan), columns: needed.iter().copied().collect(), types })
    }

    /// The rows as a source, host input `number`.
    pub(super) fn flow(&self, number: usize, parameters: &Parameters) -> Flow {
        let schema = self.plan.schema();
        let mut outputs = vec![None; schema.fields().len()];
        let mut sources = Vec::with_capacity(self.columns.len());
        for (index, (&column, &ty)) in self.columns.iter().zip(&self.types).enumerate() {
            let field = schema.field(column);
            sources.push(Column {
                name: field.name().clone(),
                ty,
                is_nullable: field.is_nullable(),
                bounds: type_bounds(field.data_type()),
                text: (ty == Type::Text).then(|| Arc::new(TextToCome) as Arc<dyn TextSource>),
            });
            outputs[column] = Some(Value::column(index, field.data_type().clone(), field.is_nullable()));
        }
        let name = format!("host input {number}");
        let builder = PipelineBuilder::new(Source::HostInput(number), sources, name, None, parameters);
        Flow { builder, outputs }
    }

    /// `batches` of the plan as kernels take them.
    ///
    /// # Errors
    ///
    /// Where Arrow cannot put batches together; `Unsupported` for more distinct texts than have numbers.
    pub(super) fn rows(&self, batches: &[RecordBatch]) -> Result<Rows> {
        let row_count = batches.iter().map(RecordBatch::num_rows).sum();
        let columns = self.columns.iter().zip(&self.types).map(|(&column, &ty)| {
            let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(column).as_ref()).collect();
            match parts.is_empty() {
                true => Ok(empty(ty)),
                false => row_column(&concat(&parts).map_err(arrow_error)?, ty),
            }
        });
        Ok(Rows { row_count, columns: columns.collect::<Result<_>>()? })
    }
}

/// Says of the columns of `pipeline`, which reads `rows`, what those rows say: bounds, NULLs, dictionaries.
pub(super) fn describe_by_rows(pipeline: &mut Pipeline, rows: &Rows) {
    for (column, brought) in pipeline.columns.iter_mut().zip(&rows.columns) {
        column.is_nullable = brought.valid.is_some();
        if column.bounds.is_some() {
            // Without any value every bound holds: the narrowest is the cheapest.
            column.bounds = bounds_of(brought).or(Some(Bounds { min: 0, max: 0 }));
        }
        if let RowValues::Text { dictionary, .. } = &brought.values {
            let dictionary = Arc::clone(dictionary);
            column.text = Some(Arc::new(KnownText(dictionary)));
        }
    }
}

/// The least and the greatest of the values that are not NULL; `None` without any.
fn bounds_of(column: &RowColumn) -> Option<Bounds> {
    fn range(values: impl Iterator<Item = i128>, valid: Option<&Vec<bool>>) -> Option<Bounds> {
        let is_valid = |row: usize| valid.is_none_or(|valid| valid[row]);
        let values = values.enumerate().filter(|(row, _)| is_valid(*row)).map(|(_, value)| value);
        values.fold(None, |bounds: Option<Bounds>, value| {
            let Bounds { min, max } = bounds.unwrap_or(Bounds { min: value, max: value });
            Some(Bounds { min: min.min(value), max: max.max(value) })
        })
    }
    let valid = column.valid.as_ref();
    match &column.values {
        RowValues::I32(values) => range(values.iter().map(|&value| value.into()), valid),
        RowValues::I64(values) => range(values.iter().map(|&value| value.into()), valid),
        RowValues::I128(values) => range(values.iter().copied(), valid),
        RowValues::Bool(_) | RowValues::F64(_) | RowValues::Text { .. } => None,
    }
}

fn empty(ty: Type) -> RowColumn {
    let values = match ty {
        Type::Bool => RowValues::Bool(Vec::new()),
        Type::I32 => RowValues::I32(Vec::new()),
        Type::I64 => RowValues::I64(Vec::new()),
        Type::I128 => RowValues::I128(Vec::new()),
        Type::F64 => RowValues::F64(Vec::new()),
        Type::Text => RowValues::Text { ids: Vec::new(), dictionary: Arc::default() },
    };
    RowColumn { values, valid: None }
}

/// `array`, which kernels hold as `ty`.
fn row_column(array: &ArrayRef, ty: Type) -> Result<RowColumn> {
    let valid = (array.null_count() > 0).then(|| (0..array.len()).map(|row| array.is_valid(row)).collect());
    let values = match ty {
        Type::Bool => RowValues::Bool(array.as_boolean().values().iter().map(u8::from).collect()),
        Type::I32 => {
            let array = cast(array, &DataType::Int32).map_err(arrow_error)?;
            RowValues::I32(array.as_primitive::<Int32Type>().values().to_vec())
        }
        Type::I64 => {
            let array = cast(array, &DataType::Int64).map_err(arrow_error)?;
            RowValues::I64(array.as_primitive::<Int64Type>().values().to_vec())
        }
        Type::I128 => RowValues::I128(array.as_primitive::<Decimal128Type>().values().to_vec()),
        Type::F64 => RowValues::F64(array.as_primitive::<Float64Type>().values().to_vec()),
        Type::Text => numbered(&texts(array))?,
    };
    Ok(RowColumn { values, valid })
}

/// Texts as numbers of a dictionary of their own.
fn numbered(texts: &[Option<&[u8]>]) -> Result<RowValues> {
    let mut numbers: HashMap<&[u8], u32> = HashMap::new();
    let mut dictionary = Dictionary::default();
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        let Some(text) = text else {
            ids.push(0);
            continue;
        };
        let next = u32::try_from(numbers.len())
            .map_err(|_| Error::unsupported("more distinct texts than 32-bit numbers"))?;
        let number = *numbers.entry(text).or_insert(next);
        if number == next {
            dictionary.entries.push(text)?;
        }
        ids.push(number);
    }
    Ok(RowValues::Text { ids, dictionary: Arc::new(dictionary) })
}

fn arrow_error(error: datafusion::arrow::error::ArrowError) -> Error {
    crate::error::from_datafusion(error.into())
}

/// The dictionary of rows that are not made yet.
#[derive(Debug)]
struct TextToCome;

impl TextSource for TextToCome {
    fn dictionary(&self) -> Result<Arc<Dictionary>> {
        Err(Error::unsupported("the texts of a host input are known only once its rows are made"))
    }
}

/// The dictionary of rows that are made.
#[derive(Debug)]
struct KnownText(Arc<Dictionary>);

impl TextSource for KnownText {
    fn dictionary(&self) -> Result<Arc<Dictionary>> {
        Ok(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Date32Array, Int64Array, StringViewArray};

    #[test]
    fn texts_are_numbered_as_they_come() {
        let array: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b"), None, Some("a"), Some("b")]));
        let column = row_column(&array, Type::Text).unwrap();
        assert_eq!(column.valid, Some(vec![true, false, true, true]));
        let RowValues::Text { ids, dictionary } = column.values else { panic!("text") };
        assert_eq!((ids[0], ids[2], ids[3]), (0, 1, 0));
        assert_eq!(dictionary.entries.iter().collect::<Vec<_>>(), [b"b", b"a"]);
    }

    #[test]
    fn bounds_leave_null_out() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(7), Some(-2)]));
        let bounds = bounds_of(&row_column(&array, Type::I64).unwrap()).unwrap();
        assert_eq!((bounds.min, bounds.max), (-2, 7));
        let all_null: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
        assert_eq!(bounds_of(&row_column(&all_null, Type::I64).unwrap()), None);
    }

    #[test]
    fn dates_are_numbers_of_days() {
        let array: ArrayRef = Arc::new(Date32Array::from(vec![8036]));
        let column = row_column(&array, Type::I32).unwrap();
        assert!(matches!(column.values, RowValues::I32(days) if days == [8036]));
    }
}
