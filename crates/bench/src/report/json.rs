//! A report as JSON: the fields of `docs/specs/experiment.md`, and no others.

use serde_json::{Value, json};

use super::{Grid, Outcome, Quoted, Report, Row, Shape};

/// Version of the form.
const VERSION: u32 = 2;

pub(super) fn render(report: &Report) -> String {
    let settings: serde_json::Map<String, Value> =
        report.settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let value = json!({
        "version": VERSION,
        "experiment": report.experiment,
        "title": report.title,
        "paper": report.paper,
        "machines": report.machines,
        "scale": report.scale,
        "settings": settings,
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "grids": report.grids.iter().map(grid).collect::<Vec<_>>(),
        "shapes": report.shapes.iter().map(shape).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn row(row: &Row) -> Value {
    let (ours, missing) = match &row.ours {
        Outcome::Done(ours) => (
            json!({
                "mean": ours.mean,
                "standard_error": ours.standard_error,
                "best": ours.best,
                "repetitions": ours.repetitions,
                "is_unsteady": ours.is_unsteady(),
            }),
            Value::Null,
        ),
        Outcome::Missing(what) => (Value::Null, json!(what)),
    };
    json!({
        "figure": row.figure,
        "machine": row.machine,
        "what": row.what,
        "unit": row.unit,
        "paper": row.paper.as_ref().map(quoted),
        "ours": ours,
        "missing": missing,
        "ratio": row.ratio(),
        "is_input": row.is_input,
        "tag": row.tag.name(),
        "note": row.note,
    })
}

fn quoted(quoted: &Quoted) -> Value {
    json!({ "value": quoted.value(), "low": quoted.low, "high": quoted.high, "is_derived": quoted.is_derived })
}

fn grid(grid: &Grid) -> Value {
    json!({
        "title": grid.title,
        "machine": grid.machine,
        "tag": grid.tag.name(),
        "labels": grid.labels,
        "cells": grid.cells,
    })
}

fn shape(shape: &Shape) -> Value {
    json!({ "id": shape.id, "machine": shape.machine, "holds": shape.holds.name(), "detail": shape.detail })
}
