//! Scans of Pelton tables as sources of pipelines.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Bounds, Column, Expr, Source, TableScan, Type};
use pelton_scan::TextForm;
use pelton_store::Table;
use pelton_zone::Scalar;
use pelton_zone::SkipKinds;

use super::builder::{Flow, PipelineBuilder};
use super::device::{DeviceHandle, TableText};
use super::lower::{Lowering, Needed};
use super::value::{LateText, Value, is_text, kernel_type, type_bounds};
use crate::error::from_datafusion;
use crate::scan::PeltonScanExec;

impl Lowering<'_> {
    /// The rows of a scan: its row groups, its conjuncts as filters. Its dynamic filters are offers and left aside.
    ///
    /// # Errors
    ///
    /// `Unsupported` for columns and conjuncts that kernels do not take.
    pub(super) fn scan(&mut self, scan: &PeltonScanExec, needed: &Needed) -> Result<Flow> {
        let table = scan.table();
        if scan.fetch_rows().is_some() {
            return Err(Error::unsupported(format!(
                "the scan of '{}' stops at a number of rows",
                table.name()
            )));
        }
        let conjuncts = scan.ordered_conjuncts().map_err(from_datafusion)?;
        let tested = super::lower::columns_of(&conjuncts);
        let stored = || needed.iter().filter(|output| Some(**output) != scan.row_number_output());
        let mut read: Needed = stored().map(|&output| scan.projection()[output]).collect();
        let is_handed_on = |column: &usize| stored().any(|&output| scan.projection()[output] == *column);
        let mut handed_on = Needed::new();
        let mut views = Needed::new();
        read.extend(&tested);
        for &column in &read {
            let access = self.text_access(table, column, tested.contains(&column), is_handed_on(&column))?;
            if matches!(access, TextAccess::Row) {
                handed_on.insert(column);
            }
            if matches!(access, TextAccess::View) {
                views.insert(column);
            }
        }
        self.has_late |= !handed_on.is_empty() || !views.is_empty();
        read.retain(|column| !handed_on.contains(column));
        if read.is_empty() {
            read.insert(smallest_column(table)?);
        }
        let columns: Vec<usize> = read.into_iter().collect();
        let sources = columns.iter().map(|&column| match views.contains(&column) {
            true => Ok(view_column(table, column)),
            false => source_column(table, column, self.device),
        });
        let sources = sources.collect::<Result<Vec<Column>>>()?;
        let mut values = values_by_table_column(table, &columns, &sources);
        for column in handed_on.into_iter().chain(views) {
            let view = columns.iter().position(|other| *other == column);
            values.insert(column, late_text(table, column, view));
        }
        let source = Source::Table(TableScan {
            table: Arc::clone(table),
            columns,
            row_groups: scan.row_groups().to_vec(),
            uses_runtime_filters: scan.options().dynamic && scan.options().skip != SkipKinds::NONE,
        });
        let (name, scanned) = (table.name().to_owned(), Some(scan.clone()));
        let builder = PipelineBuilder::new(source, sources, name, scanned, &self.parameters);
        filtered(builder, scan, needed, &conjuncts, &values)
    }

    /// How kernels come by a column: only texts without a dictionary are not simply read. Of small tables a dictionary is
    /// made, with which kernels can do most.
    fn text_access(
        &self,
        table: &Arc<Table>,
        column: usize,
        is_tested: bool,
        is_handed_on: bool,
    ) -> Result<TextAccess> {
        if !is_text(table.arrow_schema().field(column).data_type())
            || pelton_scan::text_form(table, column)? == TextForm::Dictionary
            || table.row_count() <= LATE_ROWS_MIN
        {
            return Ok(TextAccess::Value);
        }
        Ok(match self.views {
            Some(asked) if is_tested || asked.contains(&(table.id(), column)) => TextAccess::View,
            Some(_) => TextAccess::Row,
            None if pelton_scan::may_have_dictionary(table, column)? => TextAccess::Value,
            None if is_tested && !is_handed_on => TextAccess::View,
            None => {
                let name = table.schema().columns[column].name.clone();
                return Err(Error::unsupported(format!(
                    "column '{name}' of table '{}' is text without a dictionary",
                    table.name()
                )));
            }
        })
    }
}

/// The column of which the fewest bytes are stored, of those that are read as they are: kernels find the rows by it.
fn smallest_column(table: &Table) -> Result<usize> {
    let fields = table.arrow_schema();
    let is_plain =
        |column: &usize| kernel_type(fields.field(*column).data_type()).is_ok_and(|ty| ty != Type::Text);
    let plain = (0..fields.fields().len()).filter(is_plain);
    let smallest = plain.min_by_key(|column| table.column_summary(*column).stored_bytes);
    smallest.ok_or_else(|| Error::unsupported(format!("'{}' has no column but texts", table.name())))
}

/// How kernels come by a column.
enum TextAccess {
    /// They read its values, or the numbers of its dictionary.
    Value,
    /// They know the row that it is in.
    Row,
    /// They read its bytes, and know the row.
    View,
}

/// Of smaller tables a dictionary is made at once. A guess.
const LATE_ROWS_MIN: u64 = 4096;

/// Text column `column` of `table`, of which kernels know the row, and the bytes in column `view` of the pipeline.
pub(super) fn late_text(table: &Arc<Table>, column: usize, view: Option<usize>) -> Value {
    let field = table.arrow_schema().field(column).clone();
    Value {
        expr: Expr::RowNumber,
        data_type: field.data_type().clone(),
        is_nullable: field.is_nullable(),
        bounds: None,
        late: Some(LateText {
            table: Arc::clone(table),
            column,
            further: Arc::default(),
            extract: None,
            view,
            hash: None,
            constants: Arc::default(),
            brought_by: Vec::new(),
        }),
    }
}

/// The number of a row in its table.
fn row_number() -> Value {
    Value { expr: Expr::RowNumber, data_type: DataType::Int64, is_nullable: false, bounds: None, late: None }
}

/// Adds the scan's filters, over table columns, and picks its outputs.
fn filtered(
    builder: PipelineBuilder,
    scan: &PeltonScanExec,
    needed: &Needed,
    conjuncts: &[Arc<dyn datafusion::physical_expr::PhysicalExpr>],
    values: &BTreeMap<usize, Value>,
) -> Result<Flow> {
    let schema = scan.table().arrow_schema();
    let by_table_column = (0..schema.fields().len()).map(|column| values.get(&column).cloned()).collect();
    let mut flow = Flow { builder, outputs: by_table_column };
    for conjunct in conjuncts {
        let condition = flow.exprs(&schema).condition(conjunct)?;
        flow.builder.filter(condition);
    }
    let mut outputs = vec![None; scan.projection().len() + usize::from(scan.row_number_output().is_some())];
    for &output in needed {
        outputs[output] = Some(match scan.row_number_output() {
            Some(number) if number == output => row_number(),
            _ => flow.output(scan.projection()[output])?.clone(),
        });
    }
    Ok(Flow { outputs, ..flow })
}

fn values_by_table_column(table: &Table, columns: &[usize], sources: &[Column]) -> BTreeMap<usize, Value> {
    let schema = table.arrow_schema();
    let values = columns.iter().zip(sources).enumerate().map(|(index, (&column, source))| {
        let data_type = schema.field(column).data_type().clone();
        let bounds = match source.ty {
            Type::Text => Some(entry_numbers(table.column_summary(column).distinct_count)),
            _ => source.bounds,
        };
        (column, Value { bounds, ..Value::column(index, data_type, source.is_nullable) })
    });
    values.collect()
}

/// Text column `column` of `table` as its bytes.
fn view_column(table: &Table, column: usize) -> Column {
    Column {
        name: table.schema().columns[column].name.clone(),
        ty: Type::Text,
        is_nullable: table.column_summary(column).null_count > 0,
        bounds: None,
        text: None,
    }
}

/// What is known of column `column` of `table` before it is read.
fn source_column(table: &Arc<Table>, column: usize, device: &Arc<DeviceHandle>) -> Result<Column> {
    let schema = table.arrow_schema();
    let field = schema.field(column);
    let named = |error: Error| error.context(format!("column '{}' of '{}'", field.name(), table.name()));
    let ty = kernel_type(field.data_type()).map_err(named)?;
    let summary = table.column_summary(column);
    let text: Option<Arc<dyn pelton_pipeline::TextSource>> = match ty {
        Type::Text => Some(Arc::new(TableText::new(table, column, device))),
        _ => None,
    };
    Ok(Column {
        name: field.name().clone(),
        ty,
        is_nullable: summary.null_count > 0,
        bounds: bounds(field.data_type(), summary.min.as_ref(), summary.max.as_ref()),
        text,
    })
}

/// The numbers of as many entries, give or take a few percent.
fn entry_numbers(distinct_count: u64) -> Bounds {
    Bounds { min: 0, max: i128::from(distinct_count) }
}

/// Bounds by the summary of the column, else by its type.
fn bounds(data_type: &DataType, min: Option<&Scalar>, max: Option<&Scalar>) -> Option<Bounds> {
    let by_type = type_bounds(data_type)?;
    match (min, max) {
        (Some(Scalar::Int(min)), Some(Scalar::Int(max))) => Some(Bounds { min: *min, max: *max }),
        _ => Some(by_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_bounds_a_column_more_closely_than_its_type() {
        let known = bounds(&DataType::Int32, Some(&Scalar::Int(3)), Some(&Scalar::Int(9))).unwrap();
        assert_eq!((known.min, known.max), (3, 9));
        let unknown = bounds(&DataType::Int32, None, None).unwrap();
        assert_eq!(unknown.max, i128::from(i32::MAX));
        assert_eq!(bounds(&DataType::Float64, Some(&Scalar::Float(1.0)), Some(&Scalar::Float(2.0))), None);
    }
}
