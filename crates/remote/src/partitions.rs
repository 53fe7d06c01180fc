//! What the folders of files say: `sales/year=2024/region=EU/x.parquet` has columns `year` and `region`.
//!
//! A column's type follows from all its values: integers, else dates, else text. `__HIVE_DEFAULT_PARTITION__` is NULL,
//! `%20` in a value is a space. Folders above the one that the user named say nothing, nor do those without a `=`.

use pelton_error::{Error, Result};

use crate::location::percent_decoded;

/// Stands for NULL in the name of a folder.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The type of a partition column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionType {
    /// 64-bit integers.
    Int64,
    /// Days, written `2024-01-31`.
    Date,
    /// Any text.
    Text,
}

/// A column that folders name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionColumn {
    /// What stands before the `=`.
    pub name: String,
    /// What all its values are.
    pub kind: PartitionType,
}

/// The value of a partition column for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionValue {
    /// `None`: NULL.
    Int64(Option<i64>),
    /// Days since 1970-01-01.
    Date(Option<i32>),
    /// The text, decoded.
    Text(Option<String>),
}

/// The partition columns of a set of files, and the values of each file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partitions {
    /// Outermost folder first.
    pub columns: Vec<PartitionColumn>,
    /// For each file, in the order given, the value of each column.
    pub values: Vec<Vec<PartitionValue>>,
}

impl Partitions {
    /// Of files at `paths`, each relative to the folder that was named.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where two files lie in folders that name other columns; names both.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut names: Option<(&str, Vec<&str>)> = None;
        let mut texts: Vec<Vec<Option<String>>> = Vec::new();
        for path in paths {
            let (keys, values): (Vec<&str>, Vec<_>) = assignments(path).unzip();
            match &names {
                Some((first, expected)) if *expected != keys => return Err(differ(first, path)),
                Some(_) => {}
                None => names = Some((path, keys)),
            }
            texts.push(values);
        }
        let names = names.map_or(Vec::new(), |(_, names)| names);
        let column = |(index, name): (usize, &&str)| PartitionColumn {
            name: (*name).to_owned(),
            kind: kind_of(texts.iter().filter_map(|values| values[index].as_deref())),
        };
        let columns: Vec<PartitionColumn> = names.iter().enumerate().map(column).collect();
        let values = texts.iter().map(|texts| {
            columns.iter().zip(texts).map(|(column, text)| value_of(column.kind, text.as_deref())).collect()
        });
        Ok(Self { values: values.collect(), columns })
    }
}

/// The folders of `path` that read `key=value`.
fn assignments(path: &str) -> impl Iterator<Item = (&str, Option<String>)> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders.split('/').filter_map(|folder| {
        let (name, value) = folder.split_once('=')?;
        let value = percent_decoded(value).unwrap_or_else(|| value.to_owned());
        (!name.is_empty()).then(|| (name, (value != NULL).then_some(value)))
    })
}

fn differ(first: &str, second: &str) -> Error {
    let keys = |path| assignments(path).map(|(key, _)| key).collect::<Vec<_>>().join(", ");
    let named = |path| match keys(path) {
        keys if keys.is_empty() => "no columns".to_owned(),
        keys => keys,
    };
    Error::invalid_input(format!(
        "the folders of '{first}' name {}, those of '{second}' {}; all files of a table lie in folders of the same kind",
        named(first),
        named(second)
    ))
}

fn kind_of<'a>(values: impl Iterator<Item = &'a str> + Clone) -> PartitionType {
    let all = |is: fn(&str) -> bool| values.clone().next().is_some() && values.clone().all(is);
    if all(|text| text.parse::<i64>().is_ok()) {
        PartitionType::Int64
    } else if all(|text| days_of(text).is_some()) {
        PartitionType::Date
    } else {
        PartitionType::Text
    }
}

fn value_of(kind: PartitionType, text: Option<&str>) -> PartitionValue {
    match kind {
        PartitionType::Int64 => PartitionValue::Int64(text.and_then(|text| text.parse().ok())),
        PartitionType::Date => PartitionValue::Date(text.and_then(days_of)),
        PartitionType::Text => PartitionValue::Text(text.map(str::to_owned)),
    }
}

/// Days from 1970-01-01 to a date written `2024-01-31` (Hinnant, "chrono-compatible low-level date algorithms", 2013).
fn days_of(text: &str) -> Option<i32> {
    let is_form = text.len() == 10
        && text.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !is_form {
        return None;
    }
    let (year, month, day): (i32, i32, i32) =
        (text[..4].parse().ok()?, text[5..7].parse().ok()?, text[8..].parse().ok()?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        2 => 28 + i32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=month_days).contains(&day) {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(paths: &[&str]) -> Vec<(String, PartitionType)> {
        let partitions = Partitions::of(paths.iter().copied()).unwrap();
        partitions.columns.into_iter().map(|column| (column.name, column.kind)).collect()
    }

    #[test]
    fn a_type_follows_from_all_values_of_its_column() {
        use PartitionType::{Date, Int64, Text};
        assert_eq!(kinds(&["a.csv", "b.csv"]), []);
        let named = |kind| vec![("k".to_owned(), kind)];
        assert_eq!(kinds(&["k=01/a", "k=-2/b"]), named(Int64));
        assert_eq!(kinds(&["k=1/a", "k=x/b"]), named(Text));
        assert_eq!(kinds(&["k=2024-02-29/a", "k=1969-12-31/b"]), named(Date));
        assert_eq!(kinds(&["k=2023-02-29/a"]), named(Text));
        assert_eq!(kinds(&["k=__HIVE_DEFAULT_PARTITION__/a", "k=3/b"]), named(Int64));
        assert_eq!(kinds(&["k=__HIVE_DEFAULT_PARTITION__/a"]), named(Text));
        assert_eq!(kinds(&["y=1/plain/m=x/a.csv"]), [("y".into(), Int64), ("m".into(), Text)]);
    }

    #[test]
    fn values_are_decoded_and_null_has_a_name() {
        let partitions = Partitions::of(["k=a%20b/x", "k=__HIVE_DEFAULT_PARTITION__/y"]).unwrap();
        assert_eq!(
            partitions.values,
            [[PartitionValue::Text(Some("a b".into()))], [PartitionValue::Text(None)]]
        );
        let days = Partitions::of(["d=1970-01-02/x", "d=1969-12-31/y", "d=2000-03-01/z"]).unwrap().values;
        assert_eq!(days, [1, -1, 11_017].map(|days| [PartitionValue::Date(Some(days))]));
    }

    #[test]
    fn files_in_folders_of_another_kind_are_named() {
        let message = Partitions::of(["y=1/a", "b"]).unwrap_err().to_string();
        assert!(message.contains("'y=1/a' name y, those of 'b' no columns"), "{message}");
        assert!(Partitions::of(["y=1/m=2/a", "m=2/y=1/a"]).is_err());
    }
}
