//! The columns of a set of files: all that any of them has, by name, each of a type that holds its values in every file.
//!
//! ```text
//!   1.csv      a, b        a  BIGINT and DOUBLE: DOUBLE
//!   2.csv      b, a   ─▶   b  as in both
//!   3.parquet  a, c        c  NULL in the rows of 1.csv and 2.csv, and a warning
//! ```
//!
//! Types that a file tells, or that the caller names, stand; text is parsed as them. Inferred types give way to each other.
//! What two files tell must have a common type that loses nothing.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use pelton_error::{Error, Result};

use crate::column::{Fixed, named_twice};
use crate::json::MemberSeen;
use crate::types::{common_type, has_members_of, type_name};

/// Files of one warning that are named; the others are counted.
const NAMED_FILES: usize = 3;

/// What is known of a column of a file.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// The file tells its type, and whether there may be NULLs.
    Typed(DataType, bool),
    /// It was inferred.
    Member(MemberSeen),
}

/// The columns of one file.
#[derive(Debug)]
pub(crate) struct FileColumns {
    pub(crate) file: String,
    pub(crate) columns: Vec<(String, Known)>,
    /// True for JSON, where each object has the members that it has.
    pub(crate) may_lack: bool,
}

/// The columns of all files.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) fields: Vec<Field>,
    pub(crate) fixed: Vec<Fixed>,
    pub(crate) warnings: Vec<String>,
}

/// What the caller says of columns.
pub(crate) struct Said<'a> {
    /// The columns of the table that is appended to, but for those that folders name.
    pub(crate) table: Option<&'a Schema>,
    /// Types of columns of text files.
    pub(crate) types: &'a [(String, DataType)],
}

/// The columns of files that tell theirs, each with its name in messages.
///
/// # Errors
///
/// `InvalidInput` names file and column: two of one name, or types that have none in common.
pub fn union_of(files: &[(String, SchemaRef)]) -> Result<SchemaRef> {
    let columns = |(file, schema): &(String, SchemaRef)| {
        let known = |field: &FieldRef| Known::Typed(field.data_type().clone(), field.is_nullable());
        let columns = schema.fields().iter().map(|field| (field.name().clone(), known(field))).collect();
        FileColumns { file: file.clone(), columns, may_lack: false }
    };
    let found: Vec<FileColumns> = files.iter().map(columns).collect();
    let agreed = agree(&found, &Said { table: None, types: &[] })?;
    let metadata = files.first().map(|(_, schema)| schema.metadata().clone()).unwrap_or_default();
    Ok(Arc::new(Schema::new_with_metadata(agreed.fields, metadata)))
}

/// Holds `files` to one set of columns.
pub(crate) fn agree(files: &[FileColumns], said: &Said<'_>) -> Result<Agreed> {
    for FileColumns { file, columns, .. } in files {
        let is_again = |index: usize| columns[..index].iter().any(|(name, _)| *name == columns[index].0);
        if let Some(index) = (0..columns.len()).find(|&index| is_again(index)) {
            return Err(named_twice(file, &columns[index].0));
        }
    }
    let names = names_of(files, said)?;
    check_types_said(&names, said)?;
    let mut agreed = Agreed { fields: Vec::new(), fixed: Vec::new(), warnings: Vec::new() };
    for name in &names {
        let (field, fixed) = column(name, files, said)?;
        agreed.warnings.extend(lacking(name, files));
        agreed.fields.push(field);
        agreed.fixed.push(fixed);
    }
    Ok(agreed)
}

/// The names of all columns, in the order in which they appear.
fn names_of(files: &[FileColumns], said: &Said<'_>) -> Result<Vec<String>> {
    if let Some(table) = said.table {
        for FileColumns { file, columns, .. } in files {
            if let Some((name, _)) = columns.iter().find(|(name, _)| table.field_with_name(name).is_err()) {
                return Err(Error::invalid_input(format!("{file}: column '{name}' is not in the table")));
            }
        }
        return Ok(table.fields().iter().map(|field| field.name().clone()).collect());
    }
    let mut names: Vec<String> = Vec::new();
    for FileColumns { file, columns, .. } in files {
        if !names.is_empty() && !columns.is_empty() && !columns.iter().any(|(name, _)| names.contains(name)) {
            let list = |names: &mut dyn Iterator<Item = &String>| {
                names.take(10).map(String::as_str).collect::<Vec<_>>().join(", ")
            };
            return Err(Error::invalid_input(format!(
                "{file}: none of its columns ({}) is in the files before it ({}); are these files of one table, with \
                 the same header and delimiter?",
                list(&mut columns.iter().map(|(name, _)| name)),
                list(&mut names.iter()),
            )));
        }
        for (name, _) in columns {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    Ok(names)
}

fn check_types_said(names: &[String], said: &Said<'_>) -> Result<()> {
    match said.types.iter().find(|(name, _)| !names.contains(name)) {
        Some((name, _)) => Err(Error::invalid_input(format!(
            "a type is given for column '{name}', which the files do not have; they have {}",
            names.join(", ")
        ))),
        None => Ok(()),
    }
}

/// The type of column `name`, and who says so.
fn column(name: &str, files: &[FileColumns], said: &Said<'_>) -> Result<(Field, Fixed)> {
    let of_table = said.table.and_then(|table| table.field_with_name(name).ok());
    let asked = said.types.iter().find(|(asked, _)| asked == name);
    let mut fixed = match (of_table, asked) {
        (Some(field), _) => Some((field.data_type().clone(), Fixed::ByTable)),
        (None, Some((_, data_type))) => Some((data_type.clone(), Fixed::ByCaller)),
        (None, None) => None,
    };
    let mut is_nullable = of_table.is_some_and(Field::is_nullable);
    let mut inferred = MemberSeen::NOTHING;
    for FileColumns { file, columns, .. } in files {
        match columns.iter().find(|(found, _)| found == name) {
            None => is_nullable = true,
            Some((_, Known::Typed(data_type, nullable))) => {
                is_nullable |= nullable;
                fixed = Some(match fixed {
                    None => (data_type.clone(), Fixed::ByFile(file.clone())),
                    Some((held, by)) => (with_file(name, held, &by, file, data_type)?, by),
                });
            }
            Some((_, Known::Member(seen))) => {
                is_nullable = true;
                inferred.add(seen.clone()).map_err(|clash| {
                    Error::invalid_input(format!(
                        "{file}, beside the files before it: {}",
                        clash.within(name)
                    ))
                })?;
            }
        }
    }
    let (data_type, fixed) = fixed.unwrap_or_else(|| (inferred.data_type(), Fixed::No));
    Ok((Field::new(name, data_type, is_nullable), fixed))
}

/// The type of a column that is `held` so far, and `found` in `file`.
fn with_file(name: &str, held: DataType, by: &Fixed, file: &str, found: &DataType) -> Result<DataType> {
    let common = common_type(&held, found);
    let holder = match by {
        Fixed::ByTable => "the table",
        Fixed::ByCaller => "what was asked for",
        Fixed::ByFile(file) => file,
        Fixed::No => unreachable!("a type that is held is somebody's"),
    };
    // A table stays as it is, and so does what was asked for.
    let may_widen = matches!(by, Fixed::ByFile(_));
    match common {
        Some(common) if may_widen => Ok(common),
        Some(common) if common_type(&common, &held).as_ref() == common_type(&held, &held).as_ref() => {
            Ok(held)
        }
        _ if type_name(&held) == type_name(found) && has_members_of(found, &held) => Ok(held),
        _ => Err(Error::invalid_input(format!(
            "{file}: column '{name}' is {} but {} in {holder}; convert one of them",
            type_name(found),
            type_name(&held)
        ))),
    }
}

/// A warning about the files that lack column `name`.
fn lacking(name: &str, files: &[FileColumns]) -> Option<String> {
    let lacks = |file: &&FileColumns| !file.may_lack && file.columns.iter().all(|(found, _)| found != name);
    let lacking: Vec<&str> = files.iter().filter(lacks).map(|file| file.file.as_str()).collect();
    let more = match lacking.len() {
        0 => return None,
        count if count > NAMED_FILES => format!(" and {} more files", count - NAMED_FILES),
        _ => String::new(),
    };
    let named = lacking[..lacking.len().min(NAMED_FILES)].join(", ");
    Some(format!("column '{name}' is not in {named}{more}; it is NULL in those rows"))
}
