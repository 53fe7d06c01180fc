//! What is written is read: all types, all codecs, all ways of reading; and what the metadata says of it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use pelton_chunk::Codec;
use pelton_error::ErrorKind;
use pelton_io::{IoEngine, IoMode, IoOptions};
use pelton_store::{
    SampleOptions, SidewaysColumn, SidewaysLink, Table, TableId, TableWriter, WriteMode, WriteOptions,
    column_to_arrow, encode_row_group, read_chunk, read_chunk_pages_blocking,
};
use pelton_zone::{Scalar, ZoneMap, ZoneOptions};

use crate::fixture::*;

#[test]
fn every_type_and_null_survives_in_every_codec() {
    let batch = batch(0, 2500);
    let place = place();
    let engine = engine();
    for codec in [Codec::None, Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate] {
        let options = SampleOptions { force_codec: Some(codec), ..SampleOptions::default() };
        let plan = plan_for(&batch, &options);
        let table =
            write(&place.warehouse, &codec.to_string(), WriteMode::Create, &batch, &plan).unwrap().commit();
        let table = table.unwrap();
        assert_eq!(read(&engine, &table).unwrap(), batch, "{codec}");
        assert_eq!(table.row_group_count(), 3);
        assert_eq!(table.choices(), plan.columns);
    }
}

#[test]
fn every_way_of_reading_gives_the_same_table() {
    let place = place();
    let batch = batch(5, 2500);
    let table = save(&place.warehouse, "t", WriteMode::Create, &batch).unwrap();
    for mode in [IoMode::Direct, IoMode::Buffered, IoMode::Auto] {
        for ring in [true, false] {
            let engine = IoEngine::start(IoOptions { mode, ring, ..IoOptions::default() }).unwrap();
            assert_eq!(read(&engine, &table).unwrap(), batch, "{mode:?} {ring}");
        }
    }
}

#[test]
fn summaries_and_zone_maps_say_what_is_there() {
    let place = place();
    let batch = batch(0, 2500);
    save(&place.warehouse, "t", WriteMode::Create, &batch).unwrap();
    let table = place.warehouse.table("t").unwrap();
    let column = |name: &str| table.schema().index_of(name).unwrap();

    let id = table.column_summary(column("id"));
    assert_eq!((id.min.clone(), id.max.clone()), (Some(Scalar::Int(0)), Some(Scalar::Int(2499))));
    assert!(id.bounds_exact && id.null_count == 0);
    assert!((2300..=2500).contains(&id.distinct_count), "{}", id.distinct_count);
    assert_eq!(id.raw_bytes, 2500 * 8);

    let mode = table.column_summary(column("mode"));
    assert_eq!(mode.distinct_count, 3);
    assert_eq!(mode.null_count, batch.column_by_name("mode").unwrap().null_count() as u64);
    assert_eq!(mode.max, Some(Scalar::Bytes(b"SHIP".to_vec())));

    let null = table.column_summary(column("null"));
    assert_eq!((null.null_count, null.distinct_count, null.min.clone()), (2500, 0, None));

    let zone_maps = table.zone_maps(column("id")).unwrap();
    let bounds: Vec<_> = zone_maps.iter().map(|zone| (zone.min.clone(), zone.row_count)).collect();
    let expected = [(0, 1000), (1000, 1000), (2000, 500)].map(|(min, rows)| (Some(Scalar::Int(min)), rows));
    assert_eq!(bounds, expected);

    for index in 0..table.schema().columns.len() {
        let stored: u64 = (0..3).map(|row_group| table.chunk(row_group, index).unwrap().stored_bytes).sum();
        assert_eq!(stored, table.column_summary(index).stored_bytes);
        assert!(table.column_summary(index).metadata_bytes > 0);
    }
}

#[test]
fn opening_reads_the_manifest_only() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 2500)).unwrap();
    let dir = place.dir.path().join("t");
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some() {
            let zeros = vec![0; std::fs::metadata(&path).unwrap().len() as usize];
            std::fs::write(&path, zeros).unwrap();
        }
    }
    let table = place.warehouse.table("t").unwrap();
    assert_eq!(table.row_count(), 2500);
    assert_eq!(table.zone_maps(0).unwrap_err().kind(), &ErrorKind::Corrupt);
    assert_eq!(table.chunk(0, 0).unwrap_err().kind(), &ErrorKind::Corrupt);
}

#[test]
fn a_table_without_rows_is_a_table() {
    let place = place();
    let batch = batch(0, 0);
    let writer = TableWriter::begin(
        &place.warehouse,
        "empty",
        schema_of(&batch),
        WriteMode::Create,
        WriteOptions::default(),
    );
    writer.unwrap().commit().unwrap();
    let table = place.warehouse.table("empty").unwrap();
    assert_eq!((table.row_count(), table.row_group_count(), table.segment_count()), (0, 0, 0));
    assert!(table.zone_maps(0).unwrap().is_empty());

    let rows = crate::fixture::batch(0, 10);
    let plan = plain_plan(&schema_of(&rows), pelton_store::DEFAULT_ROW_GROUP_ROWS);
    let plan = pelton_store::TablePlan { page_rows: table.page_rows(), ..plan };
    let table = write(&place.warehouse, "empty", WriteMode::Append, &rows, &plan).unwrap().commit().unwrap();
    assert_eq!(read(&engine(), &table).unwrap(), rows);
}

#[test]
fn chunks_unlike_the_sample_are_encoded_for_themselves() {
    let place = place();
    let calm = batch(0, 1000).project(&[0]).unwrap();
    let plan = plan_for(&calm, &SampleOptions::default());
    let wild: Vec<u64> = (0..1000u64).map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let wild = arrow::array::RecordBatch::try_new(
        calm.schema(),
        vec![std::sync::Arc::new(arrow::array::UInt64Array::from(wild))],
    )
    .unwrap();
    let both = arrow::compute::concat_batches(&calm.schema(), [&calm, &wild]).unwrap();
    let table = write(&place.warehouse, "t", WriteMode::Create, &both, &plan).unwrap().commit().unwrap();
    assert_eq!(read(&engine(), &table).unwrap(), both);
    assert_eq!(table.chunk(0, 0).unwrap().encoding, plan.columns[0].encoding);
    assert!(table.chunk(1, 0).unwrap().stored_bytes < 9000);
}

#[test]
fn many_row_groups_make_several_segments() {
    let place = place();
    let batch = batch(0, 2100).project(&[0]).unwrap();
    let plan = plain_plan(&schema_of(&batch), 2);
    let table = write(&place.warehouse, "t", WriteMode::Create, &batch, &plan).unwrap().commit().unwrap();
    assert_eq!((table.segment_count(), table.row_group_count()), (2, 1050));
    assert_eq!(read(&engine(), &table).unwrap(), batch);
    assert_eq!(table.zone_maps(0).unwrap().len(), 1050);
    assert_eq!(table.row_group(1025).row_offset, 2050);
}

#[test]
fn nulls_in_a_column_declared_without_are_refused_by_name() {
    let place = place();
    let batch = batch(0, 10);
    let mut schema = schema_of(&batch);
    schema.columns[2].nullable = false;
    let plan = plain_plan(&schema, ROW_GROUP_ROWS);
    let columns = columns_of(&batch, &schema);
    let mut writer =
        TableWriter::begin(&place.warehouse, "t", schema, WriteMode::Create, WriteOptions::default())
            .unwrap();
    writer.set_plan(&plan).unwrap();
    let error = writer.append(encode_row_group(&columns, &plan).unwrap()).unwrap_err();
    assert!(error.to_string().contains("'int8'"), "{error}");
}

fn sideways(name: &str, id: u64) -> SidewaysColumn {
    SidewaysColumn {
        path: vec![SidewaysLink {
            fact_column: "int32".into(),
            dimension_table: "customer".into(),
            dimension_key: "key".into(),
        }],
        column: name.into(),
        dimension_ids: vec![TableId(id)],
        logical: pelton_store::LogicalType::Utf8,
    }
}

#[test]
fn sideways_zone_maps_survive_appends_that_bring_them_for_the_same_dimension() {
    let place = place();
    let batch = batch(0, 1500);
    let plan = plain_plan(&schema_of(&batch), ROW_GROUP_ROWS);
    let write = |mode, declared: Vec<SidewaysColumn>| {
        let options = WriteOptions { sideways: declared.clone(), ..WriteOptions::default() };
        let mut writer = TableWriter::begin(&place.warehouse, "t", schema_of(&batch), mode, options).unwrap();
        writer.set_plan(&plan).unwrap();
        for (start, rows) in [(0, 1000), (1000, 500)] {
            let columns = columns_of(&batch.slice(start, rows), writer.schema());
            // Any column's zone map serves; which one tells the declarations apart.
            let zone_maps = declared.iter().map(|column| {
                let index = if column.column == "c_region" { 17 } else { 0 };
                ZoneMap::build(&columns[index], &ZoneOptions::default()).0
            });
            writer
                .append(encode_row_group(&columns, &plan).unwrap().with_sideways(zone_maps.collect()))
                .unwrap();
        }
        writer.commit().unwrap()
    };
    let table = write(WriteMode::Create, vec![sideways("c_region", 1), sideways("c_nation", 1)]);
    assert_eq!(table.sideways().len(), 2);
    assert_eq!(table.sideways_zone_maps(0).unwrap()[0].max, Some(Scalar::Bytes(b"SHIP".to_vec())));
    assert_eq!(table.sideways_zone_maps(1).unwrap()[1].min, Some(Scalar::Int(1000)));

    // Another order, and one of them for a dimension that has changed.
    let table = write(WriteMode::Append, vec![sideways("c_nation", 2), sideways("c_region", 1)]);
    assert_eq!(table.sideways(), [sideways("c_region", 1)]);
    let zone_maps = table.sideways_zone_maps(0).unwrap();
    assert_eq!(zone_maps.len(), 4);
    assert!(zone_maps.iter().all(|zone_map| zone_map.max == Some(Scalar::Bytes(b"SHIP".to_vec()))));

    let table = write(WriteMode::Append, Vec::new());
    assert!(table.sideways().is_empty());
    assert_eq!(table.row_count(), 4500);
}

#[test]
fn pages_of_a_chunk_that_was_verified_are_read_without_the_others() {
    let place = place();
    let rows = batch(0, 5000);
    let mut plan = plan_for(&rows, &pelton_store::SampleOptions::default());
    (plan.row_group_rows, plan.page_rows) = (4096, 1024);
    let table = write(&place.warehouse, "t", WriteMode::Create, &rows, &plan).unwrap().commit().unwrap();
    let engine = engine();
    for (row_group, page_count) in [(0, 4), (1, 1)] {
        for column in 0..table.schema().columns.len() {
            assert!(!table.is_verified(row_group, column));
            let whole = read_chunk(&engine, &table, row_group, column).unwrap().wait_blocking().unwrap();
            assert!(table.is_verified(row_group, column));
            for selected in 0..1_u32 << page_count {
                let pages: Vec<bool> = (0..page_count).map(|page| selected >> page & 1 == 1).collect();
                let parts = read_chunk_pages_blocking(&engine, &table, row_group, column, &pages).unwrap();
                let of = |bytes| {
                    let view = table.chunk_view(row_group, column, bytes).unwrap();
                    let decoded = view.decode_pages(&pages).unwrap();
                    column_to_arrow(decoded, &table.schema().columns[column].logical).unwrap()
                };
                assert_eq!(&of(&parts), &of(&whole), "column {column}, pages {pages:?}");
            }
        }
    }
}

#[test]
fn tables_side_by_side_are_one_table_that_outlives_their_names() {
    let place = place();
    let batch = batch(3, 2500);
    let count = batch.num_columns();
    let (left, right): (Vec<usize>, Vec<usize>) = ((0..count / 2).collect(), (count / 2..count).collect());
    let parts = [("left", &left), ("right", &right)].map(|(name, columns)| {
        save(&place.warehouse, name, WriteMode::Create, &batch.project(columns).unwrap()).unwrap()
    });
    let whole = save(&place.warehouse, "whole", WriteMode::Create, &batch).unwrap();
    let both = Arc::new(Table::side_by_side("both", &parts).unwrap());
    assert_eq!((both.id(), both.row_count(), both.row_group_count()), (parts[0].id(), 2500, 3));
    assert_eq!(both.stored_bytes(), parts.iter().map(|part| part.stored_bytes()).sum::<u64>());
    ["left", "right"].iter().for_each(|name| place.warehouse.drop_table(name).unwrap());
    let engine = engine();
    assert_eq!(read(&engine, &both).unwrap(), batch);
    for column in 0..count {
        assert_eq!(both.zone_maps(column).unwrap(), whole.zone_maps(column).unwrap(), "column {column}");
        let of = |table: &Table| {
            let summary = table.column_summary(column).clone();
            (summary.min, summary.max, summary.null_count, summary.distinct_count)
        };
        assert_eq!(of(&both), of(&whole), "column {column}");
    }
    // Again side by side with what is there.
    let third = batch.project(&[0]).unwrap();
    let field = Field::new("further", third.schema().field(0).data_type().clone(), true);
    let third = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), third.columns().to_vec()).unwrap();
    let third = save(&place.warehouse, "third", WriteMode::Create, &third).unwrap();
    let three = Table::side_by_side("three", &[Arc::clone(&both), third]).unwrap();
    let three = read(&engine, &Arc::new(three)).unwrap();
    assert_eq!(three.columns()[..count], *batch.columns());
    assert_eq!(three.column(count), batch.column(0));
}

#[test]
fn tables_of_other_rows_or_with_a_name_in_common_are_not_put_side_by_side() {
    let place = place();
    let of = |name: &str, rows: u64, columns: &[usize]| {
        let batch = batch(0, rows).project(columns).unwrap();
        save(&place.warehouse, name, WriteMode::Create, &batch).unwrap()
    };
    let refused = |a: &Arc<Table>, b: &Arc<Table>| {
        let error = Table::side_by_side("t", &[Arc::clone(a), Arc::clone(b)]).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    let first = of("first", 2500, &[0]);
    assert!(refused(&first, &of("fewer", 2499, &[1])).contains("2500 and 2499 rows"));
    assert!(refused(&first, &of("none", 0, &[1])).contains("2500 and 0 rows"));
    assert!(refused(&first, &of("same", 2500, &[1, 0])).contains("two columns of one name"));
    let empty = Table::side_by_side("t", &[of("e", 0, &[0]), of("f", 0, &[1])]).unwrap();
    assert_eq!((empty.row_count(), empty.schema().columns.len()), (0, 2));
}

#[test]
fn a_table_says_what_may_be_null_as_it_is_told_unless_there_is_a_null() {
    let place = place();
    let table = |name: &str| {
        let batch = batch(0, 100);
        let position = batch.schema().index_of("mode").unwrap();
        let table = save(&place.warehouse, name, WriteMode::Create, &batch.project(&[0, position]).unwrap());
        Table::side_by_side("t", &[table.unwrap()]).unwrap()
    };
    let told = table("a").with_nullable(&[true, true]).unwrap();
    assert!(told.arrow_schema().fields().iter().all(|field| field.is_nullable()));
    let error = table("b").with_nullable(&[false, false]).unwrap_err();
    assert!(error.to_string().contains("column 'mode' has a NULL"), "{error}");
}
