//! Clustering by, and metadata of, attributes of dimensions: held against a naive join.

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::*;
use common::{World, request, rows};
use pelton_load::{ClusterBy, LoadRequest, StarLink};
use pelton_store::{Table, WriteMode, column_from_arrow};
use pelton_zone::{ColumnTest, CompareOp, Scalar, SkipKinds, Verdict, ZoneMap};

fn link(fact_column: &str, dimension_table: &str, dimension_key: &str) -> StarLink {
    StarLink {
        fact_column: fact_column.into(),
        dimension_table: dimension_table.into(),
        dimension_key: dimension_key.into(),
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn strings(values: impl IntoIterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// nation(2 columns), customer with a link to it (unique key), tag (three rows a key).
fn load_dimensions(world: &World) {
    let nation =
        batch(vec![("n_key", ints(0..10)), ("n_name", strings((0..10).map(|n| format!("nation {n}"))))]);
    world.load_batches(&request("nation", &[]), vec![nation]).unwrap();
    let customer = batch(vec![
        ("c_key", ints((0..400).map(|n| n * 5))),
        ("c_nation", ints((0..400).map(|n| n % 11))),
        ("c_city", strings((0..400).map(|n| format!("city {:02}", n % 25)))),
        ("c_comment", strings((0..400).map(|n| format!("{n}{}", "x".repeat(80))))),
    ]);
    let mut customers = request("customer", &[]);
    customers.star = vec![link("c_nation", "nation", "n_key")];
    world.load_batches(&customers, vec![customer]).unwrap();
    let tag = batch(vec![("t_key", ints((0..60).map(|n| n / 3))), ("t_weight", ints(0..60))]);
    world.load_batches(&request("tag", &[]), vec![tag]).unwrap();
}

/// 20,000 sales; some customers are NULL, some do not exist.
fn sales() -> Vec<RecordBatch> {
    let part = |first: i64| {
        let rows = first..first + 1000;
        let customer = rows.clone().map(|n| (n % 13 != 0).then_some(n * 37 % 2100));
        batch(vec![
            ("s_id", ints(rows.clone())),
            ("s_customer", Arc::new(customer.collect::<Int64Array>()) as ArrayRef),
            ("s_tag", ints(rows.map(|n| n / 1000 % 25))),
        ])
    };
    (0..20).map(|index| part(index * 1000)).collect()
}

fn sales_request() -> LoadRequest {
    let mut request = request("t", &[]);
    request.star = vec![link("s_customer", "customer", "c_key"), link("s_tag", "tag", "t_key")];
    request
}

/// Rows of a table by the value of its column `key`.
fn by_key(table: &Arc<Table>, key: &str) -> HashMap<String, Vec<Vec<String>>> {
    let position = table.schema().index_of(key).unwrap();
    let mut map: HashMap<String, Vec<Vec<String>>> = HashMap::new();
    for row in rows(table) {
        map.entry(row[position].clone()).or_default().push(row);
    }
    map
}

/// The values of the attribute that each row of the fact table joins with; `-` where there is no partner.
fn naive_join(world: &World, table: &Arc<Table>, index: usize) -> Vec<Vec<String>> {
    let column = &table.sideways()[index];
    let mut tables = vec![table.clone()];
    tables.extend(column.path.iter().map(|link| world.warehouse.table(&link.dimension_table).unwrap()));
    let mut joined: Vec<Vec<Vec<String>>> = rows(table).into_iter().map(|row| vec![row]).collect();
    for (link, pair) in column.path.iter().zip(tables.windows(2)) {
        let referring = pair[0].schema().index_of(&link.fact_column).unwrap();
        let partners = by_key(&pair[1], &link.dimension_key);
        let missing = vec![vec!["-".to_string(); pair[1].schema().columns.len()]];
        for rows in &mut joined {
            *rows = rows
                .iter()
                .flat_map(|row| partners.get(&row[referring]).unwrap_or(&missing).iter().cloned())
                .collect();
        }
    }
    let position = tables.last().unwrap().schema().index_of(&column.column).unwrap();
    joined.into_iter().map(|rows| rows.into_iter().map(|row| row[position].clone()).collect()).collect()
}

fn scalar(text: &str, is_text: bool) -> Scalar {
    if is_text { Scalar::Bytes(text.as_bytes().to_vec()) } else { Scalar::Int(text.parse().unwrap()) }
}

/// The zone map of the values themselves, to be compared with.
fn zone_map_of(values: &[String], is_text: bool) -> ZoneMap {
    let array: ArrayRef = match is_text {
        true => strings(values.to_vec()),
        false => ints(values.iter().map(|text| text.parse().unwrap())),
    };
    let logical = pelton_store::LogicalType::from_arrow(array.data_type()).unwrap();
    let mut sorted = column_from_arrow(&array, &logical).unwrap();
    sorted.validity = None;
    ZoneMap::build(&sorted, &pelton_zone::ZoneOptions::default()).0
}

fn assert_equals_naive_join(world: &World) {
    let table = world.warehouse.table("t").unwrap();
    for index in 0..table.sideways().len() {
        let column = &table.sideways()[index];
        let is_text = column.logical == pelton_store::LogicalType::Utf8;
        let joined = naive_join(world, &table, index);
        let zone_maps = table.sideways_zone_maps(index).unwrap();
        for row_group in 0..table.row_group_count() {
            let group = table.row_group(row_group);
            let rows = group.row_offset as usize..group.row_offset as usize + group.row_count as usize;
            let mut values: Vec<String> = joined[rows].concat();
            let zone_map = &zone_maps[row_group];
            assert_eq!(zone_map.row_count, group.row_count);
            assert_eq!(zone_map.null_count > 0, values.iter().any(|value| value == "-"));
            values.retain(|value| value != "-");
            values.sort();
            values.dedup();
            let expected = zone_map_of(&values, is_text);
            assert_eq!((&zone_map.min, &zone_map.max), (&expected.min, &expected.max), "{column:?}");
            assert_eq!(zone_map.bloom, expected.bloom, "{column:?}");
            for value in &values {
                let test = ColumnTest::Compare(CompareOp::Eq, scalar(value, is_text));
                assert_eq!(zone_map.test(&test, SkipKinds::ALL), Verdict::May);
            }
        }
    }
}

#[test]
fn sideways_zone_maps_equal_those_of_a_join() {
    let world = World::new();
    load_dimensions(&world);
    let report = world.load_batches(&sales_request(), sales()).unwrap();
    assert!(report.metadata_bytes > 0);
    let table = world.warehouse.table("t").unwrap();
    let names: Vec<(String, usize)> =
        table.sideways().iter().map(|column| (column.column.clone(), column.path.len())).collect();
    let expected = [("c_nation", 1), ("c_city", 1), ("n_name", 2), ("t_weight", 1)];
    assert_eq!(
        names,
        expected.map(|(name, hops)| (name.to_string(), hops)),
        "keys and comments are left out"
    );
    assert_equals_naive_join(&world);
}

#[test]
fn an_append_keeps_metadata_until_a_dimension_changes() {
    let world = World::new();
    load_dimensions(&world);
    world.load_batches(&sales_request(), sales()).unwrap();
    let mut append = request("t", &[]);
    append.mode = WriteMode::Append;
    let report = world.load_batches(&append, sales()).unwrap();
    assert_eq!(report.warnings, Vec::<String>::new());
    assert_eq!(world.warehouse.table("t").unwrap().sideways().len(), 4, "the links of the table were taken");
    assert_equals_naive_join(&world);

    let tag = batch(vec![("t_key", ints(0..5)), ("t_weight", ints(0..5))]);
    let mut replace = request("tag", &[]);
    replace.mode = WriteMode::Replace;
    world.load_batches(&replace, vec![tag]).unwrap();
    let report = world.load_batches(&append, sales()).unwrap();
    assert_eq!(report.warnings.len(), 1);
    assert!(report.warnings[0].contains("another state of tag"), "{:?}", report.warnings);
    assert_equals_naive_join(&world);
    assert_eq!(world.warehouse.table("t").unwrap().sideways().len(), 3);
}

#[test]
fn wrong_links_are_explained() {
    let world = World::new();
    load_dimensions(&world);
    let error = |links: StarLink| {
        let mut request = request("t", &[]);
        request.star = vec![links];
        world.load_batches(&request, sales()).unwrap_err().to_string()
    };
    assert!(error(link("s_customer", "client", "c_key")).contains("load the dimension first"));
    assert_eq!(
        error(link("s_client", "customer", "c_key")),
        "star link s_client = customer.c_key: the table has no column 's_client'"
    );
    assert!(
        error(link("s_customer", "customer", "key"))
            .starts_with("table 'customer' has no column 'key'; it has")
    );
    assert_eq!(
        error(link("s_customer", "customer", "c_city")),
        "star link s_customer = customer.c_city: the referring column is int64 but the key is utf8; they must be of one \
         type"
    );
}

#[test]
fn rows_are_sorted_by_attributes_in_the_order_given() {
    let world = World::new();
    load_dimensions(&world);
    let mut request = sales_request();
    request.cluster_by = ClusterBy::Columns(vec!["n_name".into(), "customer.c_city".into(), "s_id".into()]);
    let report = world.load_batches(&request, sales()).unwrap();
    let way = "s_customer.customer";
    assert_eq!(
        report.cluster_by,
        [format!("{way}.c_nation.nation.n_name"), format!("{way}.c_city"), "s_id".to_string()]
    );
    let table = world.warehouse.table("t").unwrap();
    assert_eq!(table.cluster_by(), report.cluster_by);
    let nation = naive_join(&world, &table, 2).concat();
    let city = naive_join(&world, &table, 1).concat();
    // NULL is written `-`, which sorts before letters as NULL does before values.
    let ids = rows(&table).into_iter().map(|row| row[0].parse::<i64>().unwrap());
    let keys: Vec<(String, String, i64)> =
        nation.into_iter().zip(city).zip(ids).map(|((nation, city), id)| (nation, city, id)).collect();
    assert!(keys.is_sorted());
    assert_equals_naive_join(&world);
}

#[test]
fn the_automatic_order_stops_once_there_are_enough_combinations() {
    let world = World::new();
    load_dimensions(&world);
    let mut request = sales_request();
    request.cluster_by = ClusterBy::Auto(vec![]);
    let report = world.load_batches(&request, sales()).unwrap();
    // 20 row groups want 80 combinations: 10 nations and 11 nation keys make 110. Each of the 20 tags fills one
    // row group of the input; a sample of few places would take them for the least of all.
    assert_eq!(
        report.cluster_by,
        ["s_customer.customer.c_nation.nation.n_name", "s_customer.customer.c_nation"]
    );
    let mut request = sales_request();
    request.mode = WriteMode::Replace;
    request.cluster_by = ClusterBy::Auto(vec!["t_weight".into(), "c_city".into(), "s_id".into()]);
    let report = world.load_batches(&request, sales()).unwrap();
    assert_eq!(report.cluster_by, ["s_customer.customer.c_city", "s_tag.tag.t_weight"]);
}

#[test]
fn names_to_cluster_by_must_be_known_and_mean_one_thing() {
    let world = World::new();
    load_dimensions(&world);
    let error = |name: &str, links: Vec<StarLink>| {
        let mut request = request("t", &[]);
        request.star = links;
        request.cluster_by = ClusterBy::Columns(vec![name.into()]);
        world.load_batches(&request, sales()).unwrap_err().to_string()
    };
    assert_eq!(
        error("color", vec![]),
        "cannot cluster by 'color': it is neither a column nor an attribute of a declared dimension; known are s_id, \
         s_customer, s_tag"
    );
    let twice = vec![link("s_customer", "customer", "c_key"), link("s_tag", "customer", "c_key")];
    assert_eq!(
        error("c_city", twice),
        "cannot cluster by 'c_city': it may be any of s_customer.customer.c_city, s_tag.customer.c_city; name one of these"
    );
}
