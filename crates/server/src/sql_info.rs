//! What clients may ask about the server and its SQL: names, abilities, types.

use arrow_flight::error::Result;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction,
    SqlSupportedTransactions, SqlTransactionIsolationLevel, XdbcDataType,
};

/// Version of the Arrow format whose messages are sent.
const ARROW_FORMAT: &str = "1.5";

/// Facts about the server.
pub(crate) fn facts() -> Result<SqlInfoData> {
    let mut facts = SqlInfoDataBuilder::new();
    facts.append(SqlInfo::FlightSqlServerName, "Pelton");
    facts.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    facts.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_FORMAT);
    facts.append(SqlInfo::FlightSqlServerReadOnly, true);
    facts.append(SqlInfo::FlightSqlServerSql, true);
    facts.append(SqlInfo::FlightSqlServerSubstrait, false);
    facts.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    facts.append(SqlInfo::FlightSqlServerCancel, true);
    facts.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    facts.append(SqlInfo::FlightSqlServerStatementTimeout, 0i32);
    facts.append(SqlInfo::FlightSqlServerTransactionTimeout, 0i32);
    facts.append(SqlInfo::SqlDdlCatalog, false);
    facts.append(SqlInfo::SqlDdlSchema, false);
    facts.append(SqlInfo::SqlDdlTable, false);
    let lowercase = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32;
    let as_written = SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32;
    facts.append(SqlInfo::SqlIdentifierCase, lowercase);
    facts.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    facts.append(SqlInfo::SqlQuotedIdentifierCase, as_written);
    facts.append(SqlInfo::SqlAllTablesAreSelectable, true);
    facts.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    facts.append(SqlInfo::SqlCatalogTerm, "catalog");
    facts.append(SqlInfo::SqlSchemaTerm, "schema");
    facts.append(SqlInfo::SqlCatalogAtStart, true);
    facts.append(SqlInfo::SqlSupportsColumnAliasing, true);
    facts.append(SqlInfo::SqlNamedParametersSupported, true);
    facts.append(
        SqlInfo::SqlDefaultTransactionIsolation,
        SqlTransactionIsolationLevel::SqlTransactionNone as i32,
    );
    facts.append(
        SqlInfo::SqlTransactionsSupported,
        SqlSupportedTransactions::SqlTransactionUnspecified as i32,
    );
    facts.append(SqlInfo::SqlSavepointsSupported, false);
    facts.build()
}

/// The types of columns that tables can have.
pub(crate) fn types() -> Result<XdbcTypeInfoData> {
    use XdbcDataType as Type;
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, bits) in [
        ("BOOLEAN", Type::XdbcBit, 1),
        ("TINYINT", Type::XdbcTinyint, 8),
        ("SMALLINT", Type::XdbcSmallint, 16),
        ("INTEGER", Type::XdbcInteger, 32),
        ("BIGINT", Type::XdbcBigint, 64),
        ("REAL", Type::XdbcReal, 24),
        ("DOUBLE", Type::XdbcDouble, 53),
    ] {
        types.append(number(name, data_type, bits));
    }
    types.append(XdbcTypeInfo { create_params: Some(vec!["precision".into(), "scale".into()]), ..decimal() });
    for (name, data_type) in [
        ("VARCHAR", Type::XdbcVarchar),
        ("BYTEA", Type::XdbcVarbinary),
        ("DATE", Type::XdbcDate),
        ("TIMESTAMP", Type::XdbcTimestamp),
    ] {
        types.append(quoted(name, data_type));
    }
    types.build()
}

fn number(name: &str, data_type: XdbcDataType, bits: i32) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.into(),
        data_type,
        column_size: Some(bits),
        literal_prefix: None,
        literal_suffix: None,
        create_params: None,
        nullable: Nullable::NullabilityNullable,
        case_sensitive: false,
        searchable: Searchable::Full,
        unsigned_attribute: Some(false),
        fixed_prec_scale: false,
        auto_increment: Some(false),
        local_type_name: Some(name.into()),
        minimum_scale: None,
        maximum_scale: None,
        sql_data_type: data_type,
        datetime_subcode: None,
        num_prec_radix: Some(2),
        interval_precision: None,
    }
}

fn decimal() -> XdbcTypeInfo {
    XdbcTypeInfo {
        minimum_scale: Some(0),
        maximum_scale: Some(38),
        num_prec_radix: Some(10),
        ..number("DECIMAL", XdbcDataType::XdbcDecimal, 38)
    }
}

fn quoted(name: &str, data_type: XdbcDataType) -> XdbcTypeInfo {
    XdbcTypeInfo {
        column_size: None,
        literal_prefix: Some("'".into()),
        literal_suffix: Some("'".into()),
        case_sensitive: true,
        unsigned_attribute: None,
        auto_increment: None,
        num_prec_radix: None,
        ..number(name, data_type, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;

    #[test]
    fn facts_are_given_by_number_and_all_of_them_unasked() {
        let facts = facts().unwrap();
        assert_eq!(facts.record_batch([SqlInfo::FlightSqlServerName as u32]).unwrap().num_rows(), 1);
        assert_eq!(facts.record_batch([9_999]).unwrap().num_rows(), 0);
        assert!(facts.record_batch([]).unwrap().num_rows() > 20);
    }

    #[test]
    fn types_are_found_by_their_number() {
        let types = types().unwrap();
        let found = types.record_batch(Some(XdbcDataType::XdbcBigint as i32)).unwrap();
        assert_eq!(found.num_rows(), 1);
        assert_eq!(found.column(0).as_string::<i32>().value(0), "BIGINT");
    }
}
