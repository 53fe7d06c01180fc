//! NULL keys: of joins in which NULL matches NULL, and of `NOT IN`.
//!
//! ```text
//!   k IS NOT DISTINCT FROM j      keys (k, or 0 where it is NULL; whether it is NULL), of both sides
//!
//!   x NOT IN (SELECT y …)         true where there is no y at all, even for NULL
//!                                 else not true where x is NULL, or any y is
//!                                 else true where no y is x
//!
//!   pipeline 0   y ─► table 0
//!   pipeline 1   y ─► count(*), count(y)                       a scan of its own
//!   pipeline 2   groups of pipeline 1 ─► table 1, of one row
//!   pipeline 3   x ─► look up in table 1 ─► filter: no y, or x and all y known ─► look up in table 0: anti
//! ```

use datafusion::arrow::datatypes::DataType;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Column, CompareOp, Expr, Literal, ProbeKind, Sink, Source, Type,
};

use super::super::builder::{Flow, PipelineBuilder};
use super::super::lower::{Lowering, columns_of};
use super::super::value::{Value, kernel_type};
use super::BUILD_HOST_INPUT_ROWS_MAX;
use super::roles::{Roles, constant_key};

/// Keys of which those that may be NULL are two each: the value, and whether there is none. Both sides have the same.
///
/// # Errors
///
/// `Unsupported` for types that are no keys.
pub(super) fn nulls_as_keys(build: &[Value], probe: &[Value]) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut build_keys, mut probe_keys) = (Vec::new(), Vec::new());
    for (built, probed) in build.iter().zip(probe) {
        match built.is_nullable || probed.is_nullable {
            true => {
                build_keys.extend(value_and_null(built)?);
                probe_keys.extend(value_and_null(probed)?);
            }
            false => {
                build_keys.push(built.clone());
                probe_keys.push(probed.clone());
            }
        }
    }
    Ok((build_keys, probe_keys))
}

fn value_and_null(key: &Value) -> Result<[Value; 2]> {
    let nothing = match kernel_type(&key.data_type)? {
        Type::I32 => Literal::I32(0),
        Type::I64 => Literal::I64(0),
        Type::I128 => Literal::I128(0),
        Type::F64 => Literal::F64(0.0),
        Type::Bool => Literal::Bool(false),
        Type::Text => return Err(Error::unsupported(format!("{} as the key of a join", key.data_type))),
    };
    let is_null = Expr::IsNull(Box::new(key.expr.clone()));
    let value = Expr::Case {
        branches: vec![(is_null.clone(), Expr::Literal(nothing))],
        otherwise: Some(Box::new(key.expr.clone())),
    };
    let is_null = Expr::Cast { input: Box::new(is_null), to: Type::I32 };
    let of = |expr, data_type| Value { expr, data_type, is_nullable: false, bounds: None, late: None };
    Ok([of(value, key.data_type.clone()), of(is_null, DataType::Int32)])
}

impl Lowering<'_> {
    /// Leaves out rows of `probe` that are no result of `NOT IN` whatever the table holds. What is left goes through an
    /// anti join.
    ///
    /// # Errors
    ///
    /// `Unsupported` as for the build side itself.
    pub(super) fn without_unknown(
        &mut self,
        roles: &Roles<'_>,
        build_key: &Value,
        probe: &mut Flow,
        probe_key: &Value,
    ) -> Result<()> {
        if !build_key.is_nullable && !probe_key.is_nullable {
            return Ok(());
        }
        let [key] = roles.build_keys.as_slice() else {
            return Err(Error::unsupported("NOT IN over several columns"));
        };
        let needed = columns_of([*key]);
        let mut counted = self.flow_or_host_input(roles.build, &needed, BUILD_HOST_INPUT_ROWS_MAX)?;
        let key = counted.exprs(&roles.build.schema()).counted(key, false)?;
        let count = |input| Aggregate { function: AggregateFunction::Count, input };
        let aggregates = vec![count(None), count(Some(key.expr))];
        let sink = Sink::Aggregate { keys: Vec::new(), aggregates, expected: None };
        let pipeline = self.finish(counted.builder, "count of", sink);

        let column = |name: &str| Column {
            name: name.into(),
            ty: Type::I64,
            is_nullable: false,
            bounds: None,
            text: None,
        };
        let columns = vec![column("rows"), column("rows that are not NULL")];
        let name = format!("groups of pipeline {pipeline}");
        let counts = PipelineBuilder::new(Source::Groups(pipeline), columns, name, None, &self.parameters);
        let payload = [0, 1].map(|index| Value::column(index, DataType::Int64, false));
        let table = self.build(counts, &[constant_key()], &payload)?;
        let keys = vec![constant_key().expr];
        let counts = probe.builder.probe(table, keys, ProbeKind::Inner, payload.into(), None);
        let equal = |left: &Expr, right: Expr| Expr::Compare {
            op: CompareOp::Eq,
            left: Box::new(left.clone()),
            right: Box::new(right),
        };
        let (rows, known) = (&counts[0].expr, &counts[1].expr);
        let is_known = Expr::Not(Box::new(Expr::IsNull(Box::new(probe_key.expr.clone()))));
        probe.builder.filter(Expr::Or(vec![
            equal(rows, Expr::Literal(Literal::I64(0))),
            Expr::And(vec![equal(rows, known.clone()), is_known]),
        ]));
        Ok(())
    }
}
