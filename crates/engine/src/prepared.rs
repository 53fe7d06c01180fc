//! Statements that are understood before they are run, with parameters that are filled in later.
//!
//! ```text
//! SQL text ─▶ Prepared ─┬▶ what it would change, its columns, its parameters
//!                       └▶ + one row of values ─▶ Query
//! ```
//!
//! Nothing takes effect before `query_prepared`, not even a definition. So whoever runs statements of others can look
//! at one first, and refuse it. Parameters are `$1`, `$2`, … or `?`, which are numbered from left to right, or names
//! such as `$region`.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SQLOptions;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Value, visit_expressions_mut};
use futures::future::BoxFuture;
use pelton_error::{Error, Result};

use crate::error::from_datafusion;
use crate::planning::PlanSize;
use crate::session::{PeltonSession, Query};
use crate::titles::{Titles, titles_of};

/// A statement that is understood, and neither planned nor run.
#[derive(Debug, Clone)]
pub struct Prepared {
    plan: LogicalPlan,
    titles: Option<Titles>,
    step_count: u64,
    parameters: BTreeMap<ParameterName, DataType>,
}

/// Numbered parameters in order, then named ones by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ParameterName {
    Number(usize),
    Name(String),
}

impl PeltonSession {
    /// Understands the only statement of `sql`; nothing takes effect yet.
    ///
    /// # Errors
    ///
    /// The place of a mistake; which table or column is not there; that there is more than one statement.
    pub fn prepare<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move {
            let mut statements = self.parse(sql)?;
            let mut statement = match statements.len() {
                1 => statements.remove(0),
                0 => return Err(Error::invalid_input("the query is empty")),
                count => return Err(Error::invalid_input(format!("one query expected, {count} found"))),
            };
            number_question_marks(&mut statement, &mut 0);
            let titles = titles_of(&mut statement);
            let plan = self.logical(statement).await?;
            let parameters = parameters(&plan)?;
            let step_count = PlanSize::of(&plan)?.steps;
            Ok(Prepared { plan, titles, step_count, parameters })
        })
    }

    /// Plans `prepared` with the values in the only row of `values`: by position for numbered parameters, by the
    /// column's name for named ones. Definitions take effect here.
    ///
    /// # Errors
    ///
    /// Which value is missing; of planning.
    pub fn query_prepared<'a>(
        &'a self,
        prepared: &'a Prepared,
        values: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<Query>> {
        Box::pin(async move {
            let mut plan = prepared.plan.clone();
            if !prepared.parameters.is_empty() {
                let values = prepared.values(values)?;
                plan = plan.with_param_values(values).map_err(from_datafusion)?;
            }
            Ok(self.plan_logical(plan).await?.titled(prepared.titles.clone()))
        })
    }
}

impl Prepared {
    /// What the statement would do besides giving rows; `None` for a query.
    pub fn change(&self) -> Option<String> {
        let queries =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let error = queries.verify_plan(&self.plan).err()?.strip_backtrace();
        Some(as_written(error.rsplit(": ").next().unwrap_or_default()))
    }

    /// Steps of its plan: scans, joins, projections. What planning it takes, in time and memory, grows with them.
    pub fn step_count(&self) -> u64 {
        self.step_count
    }

    /// The columns of its rows, as far as they are known without the values of parameters.
    pub fn schema(&self) -> SchemaRef {
        match &self.plan {
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => crate::explain::schema(),
            plan => match &self.titles {
                Some(titles) => titles.schema(plan.schema().inner()),
                None => plan.schema().inner().clone(),
            },
        }
    }

    /// One nullable field a parameter, in order; of type Null where the statement does not say.
    pub fn parameter_schema(&self) -> SchemaRef {
        let fields = self.parameters.iter().map(|(name, data_type)| {
            let name = match name {
                ParameterName::Number(number) => format!("${number}"),
                ParameterName::Name(name) => name.clone(),
            };
            Field::new(name, data_type.clone(), true)
        });
        Schema::new(fields.collect::<Vec<_>>()).into()
    }

    /// The values in the only row of `batch`, by the parameters' names.
    fn values(&self, batch: Option<&RecordBatch>) -> Result<ParamValues> {
        let count = self.parameters.len();
        let Some(batch) = batch.filter(|batch| batch.num_rows() == 1) else {
            let rows = batch.map_or(0, RecordBatch::num_rows);
            return Err(Error::invalid_input(format!(
                "the statement has {count} parameters: bind one row of values before it is run, not {rows}"
            )));
        };
        let mut values = HashMap::new();
        for name in self.parameters.keys() {
            let (name, column) = match name {
                ParameterName::Number(number) => (number.to_string(), number - 1),
                ParameterName::Name(name) => (name.clone(), column_named(batch, name)),
            };
            if column >= batch.num_columns() {
                let bound = batch.num_columns();
                return Err(Error::invalid_input(format!(
                    "no value for parameter ${name}: {bound} are bound"
                )));
            }
            let value = ScalarValue::try_from_array(batch.column(column).as_ref(), 0);
            values.insert(name, ScalarAndMetadata::new(value.map_err(from_datafusion)?, None));
        }
        Ok(ParamValues::Map(values))
    }
}

/// `CreateView` as one writes it: `CREATE VIEW`.
fn as_written(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 2);
    for char in name.chars() {
        if char.is_uppercase() && words.ends_with(|before: char| before.is_lowercase()) {
            words.push(' ');
        }
        words.push(char);
    }
    words.to_uppercase()
}

/// The column called `name` or `$name`; one past the last where there is none.
fn column_named(batch: &RecordBatch, name: &str) -> usize {
    let schema = batch.schema();
    let found = schema.fields().iter().position(|field| field.name().trim_start_matches('$') == name);
    found.unwrap_or(batch.num_columns())
}

/// `?` means the next parameter; to the planner it is one name for all of them.
pub(crate) fn number_question_marks(statement: &mut Statement, count: &mut usize) {
    match statement {
        Statement::Statement(statement) => {
            let _: ControlFlow<()> = visit_expressions_mut(statement, |expr| {
                if let Expr::Value(value) = expr
                    && let Value::Placeholder(name) = &mut value.value
                    && name == "?"
                {
                    *count += 1;
                    *name = format!("${count}");
                }
                ControlFlow::Continue(())
            });
        }
        Statement::Explain(explain) => number_question_marks(&mut explain.statement, count),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => {}
    }
}

fn parameters(plan: &LogicalPlan) -> Result<BTreeMap<ParameterName, DataType>> {
    let types = plan.get_parameter_types().map_err(from_datafusion)?;
    let named = types.into_iter().map(|(id, data_type)| {
        let name = id.trim_start_matches('$');
        let name = match name.parse() {
            Ok(number) => ParameterName::Number(number),
            Err(_) => ParameterName::Name(name.to_owned()),
        };
        (name, data_type.unwrap_or(DataType::Null))
    });
    Ok(named.collect())
}
