//! Plans in words.

use std::fmt::Write as _;

use pelton_pipeline::ir::{Plan, Source};

/// The plan, without what its tables hold.
pub(crate) fn describe(plan: &Plan) -> String {
    let mut text = format!("tables without a key twice: {:?}\n", plan.unique_tables);
    for pipeline in &plan.pipelines {
        let source = match &pipeline.source {
            Source::HostInput(number) => format!("host input {number}"),
            Source::Groups(from) => format!("groups of pipeline {from}"),
            Source::Table(scan) => format!(
                "table {} of {} rows, columns {:?}, {} of {} row groups, runtime filters: {}",
                scan.table.name(),
                scan.table.row_count(),
                scan.columns,
                scan.row_groups.len(),
                scan.table.row_group_count(),
                scan.uses_runtime_filters,
            ),
        };
        let _ = writeln!(text, "{}: {source}", pipeline.name);
        for (at, column) in pipeline.columns.iter().enumerate() {
            let (name, ty, nullable) = (&column.name, column.ty, column.is_nullable);
            let _ = writeln!(text, "  column {at} {name}: {ty:?}, nullable: {nullable}, {:?}", column.bounds);
        }
        pipeline.ops.iter().for_each(|op| {
            let _ = writeln!(text, "  {op:?}");
        });
        let _ = writeln!(text, "  {:?}", pipeline.sink);
    }
    text
}
