//! The shape of the manifest's JSON, and the way between it and [`Manifest`].

use pelton_error::{Error, Result};
use pelton_zone::Scalar;
use serde::{Deserialize, Serialize};

use super::{Manifest, SegmentEntry};
use crate::format::SegmentId;
use crate::plan::{Candidate, ColumnChoice};
use crate::schema::{ColumnSchema, TableSchema};
use crate::sideways::{SidewaysColumn, SidewaysLink, TableId};
use crate::summary::ColumnSummary;

#[derive(Serialize, Deserialize)]
pub(super) struct ManifestRecord {
    id: Hex,
    generation: u64,
    row_group_rows: u32,
    page_rows: u32,
    columns: Vec<ColumnRecord>,
    segments: Vec<SegmentRecord>,
    sideways: Vec<SidewaysRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cluster_by: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct ColumnRecord {
    name: String,
    #[serde(rename = "type")]
    logical: String,
    nullable: bool,
    summary: SummaryRecord,
    choice: Option<ChoiceRecord>,
}

#[derive(Serialize, Deserialize)]
struct SummaryRecord {
    min: Option<ScalarRecord>,
    max: Option<ScalarRecord>,
    bounds_exact: bool,
    has_nan: bool,
    null_count: u64,
    distinct_count: u64,
    stored_bytes: u64,
    raw_bytes: u64,
    metadata_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct ChoiceRecord {
    encoding: String,
    forced: bool,
    sample_rows: u64,
    sample_raw_bytes: u64,
    candidates: Vec<CandidateRecord>,
}

#[derive(Serialize, Deserialize)]
struct CandidateRecord {
    encoding: String,
    row_group_rows: u32,
    stored_bytes: u64,
    decode_bytes_per_s: u64,
    cost: f64,
}

#[derive(Serialize, Deserialize)]
struct SegmentRecord {
    id: Hex,
    data_bytes: u64,
    meta_bytes: u64,
    meta_checksum: Hex,
    rows: u64,
    sideways: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct SidewaysRecord {
    path: Vec<LinkRecord>,
    column: String,
    dimension_ids: Vec<Hex>,
    #[serde(rename = "type")]
    logical: String,
}

#[derive(Serialize, Deserialize)]
struct LinkRecord {
    fact_column: String,
    dimension_table: String,
    dimension_key: String,
}

/// 64 bits as 16 hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[derive(Clone)]
struct Hex(u64);

impl From<Hex> for String {
    fn from(hex: Hex) -> String {
        format!("{:016x}", hex.0)
    }
}

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        u64::from_str_radix(&text, 16)
            .map(Hex)
            .map_err(|error| format!("'{text}' is no hexadecimal number: {error}"))
    }
}

/// A value as JSON holds it without loss: `{"int":"-5"}`, `{"float":"3ff0000000000000"}` (its bits),
/// `{"bytes":"4153"}` (hexadecimal).
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScalarRecord {
    Int(String),
    Float(Hex),
    Bytes(String),
}

impl From<&Scalar> for ScalarRecord {
    fn from(scalar: &Scalar) -> Self {
        match scalar {
            Scalar::Int(value) => Self::Int(value.to_string()),
            Scalar::Float(value) => Self::Float(Hex(value.to_bits())),
            Scalar::Bytes(value) => Self::Bytes(value.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}

impl TryFrom<ScalarRecord> for Scalar {
    type Error = Error;

    fn try_from(record: ScalarRecord) -> Result<Self> {
        let wrong = |text: &str| Error::corrupt(format!("'{text}' is no value of a column summary"));
        Ok(match record {
            ScalarRecord::Int(text) => Scalar::Int(text.parse().map_err(|_| wrong(&text))?),
            ScalarRecord::Float(bits) => Scalar::Float(f64::from_bits(bits.0)),
            ScalarRecord::Bytes(text) => Scalar::Bytes(bytes_from_hex(&text).ok_or_else(|| wrong(&text))?),
        })
    }
}

fn bytes_from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.bytes().map(|digit| char::from(digit).to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let pairs = digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2))?;
    Some(pairs.map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

impl From<&Manifest> for ManifestRecord {
    fn from(manifest: &Manifest) -> Self {
        let columns = manifest.schema.columns.iter().zip(&manifest.summaries).enumerate();
        Self {
            id: Hex(manifest.id.0),
            generation: manifest.generation,
            row_group_rows: manifest.row_group_rows,
            page_rows: manifest.page_rows,
            columns: columns
                .map(|(index, (column, summary))| ColumnRecord {
                    name: column.name.clone(),
                    logical: column.logical.to_string(),
                    nullable: column.nullable,
                    summary: summary.into(),
                    choice: manifest.choices.get(index).map(ChoiceRecord::from),
                })
                .collect(),
            segments: manifest.segments.iter().map(SegmentRecord::from).collect(),
            sideways: manifest.sideways.iter().map(SidewaysRecord::from).collect(),
            cluster_by: manifest.cluster_by.clone(),
        }
    }
}

impl TryFrom<ManifestRecord> for Manifest {
    type Error = Error;

    fn try_from(record: ManifestRecord) -> Result<Self> {
        let mut columns = Vec::new();
        let mut summaries = Vec::new();
        let mut choices = Vec::new();
        for column in record.columns {
            summaries.push(column.summary.try_into()?);
            if let Some(choice) = column.choice {
                choices.push(choice.into_choice(column.name.clone())?);
            }
            columns.push(ColumnSchema {
                logical: column.logical.parse()?,
                name: column.name,
                nullable: column.nullable,
            });
        }
        Ok(Self {
            id: TableId(record.id.0),
            generation: record.generation,
            schema: TableSchema::new(columns).map_err(|error| Error::corrupt(error.to_string()))?,
            row_group_rows: record.row_group_rows,
            page_rows: record.page_rows,
            segments: record.segments.into_iter().map(SegmentEntry::from).collect(),
            summaries,
            choices,
            sideways: record.sideways.into_iter().map(SidewaysColumn::try_from).collect::<Result<_>>()?,
            cluster_by: record.cluster_by,
        })
    }
}

impl From<&ColumnSummary> for SummaryRecord {
    fn from(summary: &ColumnSummary) -> Self {
        Self {
            min: summary.min.as_ref().map(ScalarRecord::from),
            max: summary.max.as_ref().map(ScalarRecord::from),
            bounds_exact: summary.bounds_exact,
            has_nan: summary.has_nan,
            null_count: summary.null_count,
            distinct_count: summary.distinct_count,
            stored_bytes: summary.stored_bytes,
            raw_bytes: summary.raw_bytes,
            metadata_bytes: summary.metadata_bytes,
        }
    }
}

impl TryFrom<SummaryRecord> for ColumnSummary {
    type Error = Error;

    fn try_from(record: SummaryRecord) -> Result<Self> {
        Ok(Self {
            min: record.min.map(Scalar::try_from).transpose()?,
            max: record.max.map(Scalar::try_from).transpose()?,
            bounds_exact: record.bounds_exact,
            has_nan: record.has_nan,
            null_count: record.null_count,
            distinct_count: record.distinct_count,
            stored_bytes: record.stored_bytes,
            raw_bytes: record.raw_bytes,
            metadata_bytes: record.metadata_bytes,
        })
    }
}

impl From<&ColumnChoice> for ChoiceRecord {
    fn from(choice: &ColumnChoice) -> Self {
        let candidates = choice.candidates.iter().map(|candidate| CandidateRecord {
            encoding: candidate.encoding.to_string(),
            row_group_rows: candidate.row_group_rows,
            stored_bytes: candidate.stored_bytes,
            decode_bytes_per_s: candidate.decode_bytes_per_s,
            cost: candidate.cost,
        });
        Self {
            encoding: choice.encoding.to_string(),
            forced: choice.forced,
            sample_rows: choice.sample_rows,
            sample_raw_bytes: choice.sample_raw_bytes,
            candidates: candidates.collect(),
        }
    }
}

impl ChoiceRecord {
    fn into_choice(self, column: String) -> Result<ColumnChoice> {
        let candidates = self.candidates.into_iter().map(|candidate| {
            Ok(Candidate {
                encoding: candidate.encoding.parse()?,
                row_group_rows: candidate.row_group_rows,
                stored_bytes: candidate.stored_bytes,
                decode_bytes_per_s: candidate.decode_bytes_per_s,
                cost: candidate.cost,
            })
        });
        Ok(ColumnChoice {
            column,
            encoding: self.encoding.parse()?,
            forced: self.forced,
            sample_rows: self.sample_rows,
            sample_raw_bytes: self.sample_raw_bytes,
            candidates: candidates.collect::<Result<_>>()?,
        })
    }
}

impl From<&SegmentEntry> for SegmentRecord {
    fn from(segment: &SegmentEntry) -> Self {
        Self {
            id: Hex(segment.id.0),
            data_bytes: segment.data_bytes,
            meta_bytes: segment.meta_bytes,
            meta_checksum: Hex(segment.meta_checksum),
            rows: segment.row_count,
            sideways: segment.sideways.clone(),
        }
    }
}

impl From<SegmentRecord> for SegmentEntry {
    fn from(record: SegmentRecord) -> Self {
        Self {
            id: SegmentId(record.id.0),
            data_bytes: record.data_bytes,
            meta_bytes: record.meta_bytes,
            meta_checksum: record.meta_checksum.0,
            row_count: record.rows,
            sideways: record.sideways,
        }
    }
}

impl From<&SidewaysColumn> for SidewaysRecord {
    fn from(sideways: &SidewaysColumn) -> Self {
        let path = sideways.path.iter().map(|link| LinkRecord {
            fact_column: link.fact_column.clone(),
            dimension_table: link.dimension_table.clone(),
            dimension_key: link.dimension_key.clone(),
        });
        Self {
            path: path.collect(),
            column: sideways.column.clone(),
            dimension_ids: sideways.dimension_ids.iter().map(|id| Hex(id.0)).collect(),
            logical: sideways.logical.to_string(),
        }
    }
}

impl TryFrom<SidewaysRecord> for SidewaysColumn {
    type Error = Error;

    fn try_from(record: SidewaysRecord) -> Result<Self> {
        let path = record.path.into_iter().map(|link| SidewaysLink {
            fact_column: link.fact_column,
            dimension_table: link.dimension_table,
            dimension_key: link.dimension_key,
        });
        Ok(Self {
            path: path.collect(),
            column: record.column,
            dimension_ids: record.dimension_ids.iter().map(|id| TableId(id.0)).collect(),
            logical: record.logical.parse()?,
        })
    }
}
