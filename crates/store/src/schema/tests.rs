//! Tests of schemas.

use super::*;

fn all_types() -> Vec<LogicalType> {
    let mut types: Vec<LogicalType> = PLAIN_NAMES.iter().map(|(_, ty)| ty.clone()).collect();
    types.push(LogicalType::Decimal { precision: 15, scale: 2 });
    types.push(LogicalType::Decimal { precision: 38, scale: -3 });
    for unit in TIME_UNITS {
        types.push(LogicalType::Timestamp { unit, zone: None });
        types.push(LogicalType::Timestamp { unit, zone: Some("Europe/Berlin".into()) });
    }
    types
}

#[test]
fn names_of_types_are_read_back() {
    for ty in all_types() {
        assert_eq!(ty.to_string().parse::<LogicalType>().unwrap(), ty);
    }
    for wrong in
        ["", "int128", "decimal(39,2)", "decimal(0,0)", "decimal(3,4)", "timestamp(h)", "decimal(1,1"]
    {
        assert!(wrong.parse::<LogicalType>().is_err(), "{wrong}");
    }
}

#[test]
fn arrow_types_going_out_come_in_again() {
    for ty in all_types() {
        assert_eq!(LogicalType::from_arrow(&ty.to_arrow()), Some(ty));
    }
}

#[test]
fn refusal_names_the_column_its_type_and_what_is_supported() {
    for (data_type, shown) in [
        (DataType::Time64(TimeUnit::Microsecond), "Time64"),
        (DataType::Decimal256(50, 2), "Decimal256"),
        (DataType::Date64, "Date64"),
        (DataType::Null, "Null"),
        (DataType::Float16, "Float16"),
    ] {
        let schema =
            Schema::new(vec![Field::new("ok", DataType::Int8, true), Field::new("odd", data_type, true)]);
        let message = TableSchema::from_arrow(&schema).unwrap_err().to_string();
        assert!(message.contains("'odd'") && message.contains(shown), "{message}");
        assert!(message.contains("float64"), "{message}");
    }
}

#[test]
fn duplicate_and_missing_columns_are_refused() {
    let twice =
        Schema::new(vec![Field::new("a", DataType::Int8, true), Field::new("a", DataType::Int8, true)]);
    assert!(TableSchema::from_arrow(&twice).unwrap_err().to_string().contains("'a'"));
    assert!(TableSchema::from_arrow(&Schema::empty()).is_err());
}

#[test]
fn merging_widens_nullability_and_refuses_other_columns() {
    let column = |name: &str, logical, nullable| ColumnSchema { name: name.into(), logical, nullable };
    let stored = TableSchema::new(vec![column("a", LogicalType::Int8, false)]).unwrap();
    let nullable = TableSchema::new(vec![column("a", LogicalType::Int8, true)]).unwrap();
    assert!(stored.merged_with(&nullable).unwrap().columns[0].nullable);

    let wider = TableSchema::new(vec![column("a", LogicalType::Int16, false)]).unwrap();
    let message = stored.merged_with(&wider).unwrap_err().to_string();
    assert!(message.contains("int8") && message.contains("int16"), "{message}");
    let renamed = TableSchema::new(vec![column("b", LogicalType::Int8, false)]).unwrap();
    assert!(stored.merged_with(&renamed).is_err());
}
