//! What the values of a member were seen to be, with all that is in them, and the type that holds them all.
//!
//! ```text
//!   [1, 2.5]   [{"a": 1}, {"b": [null]}]          numbers in lists and objects widen as those of columns do:
//!     List(Scalar)   List(Object(a, b: List))     beside 2.5, an integer that a double would round makes both texts
//! ```
//!
//! What is seen is a set, but for the order of the members of an object, which is that in which they are first seen. A list
//! beside an object, or either beside a scalar, has no type: a [`Clash`], which names where.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use crate::seen::Seen;

/// What the values of a member were seen to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MemberSeen {
    Scalar(Seen),
    /// Its elements.
    List(Box<MemberSeen>),
    /// Its members.
    Object(Vec<(String, MemberSeen)>),
}

/// Values that have no type together.
#[derive(Debug, PartialEq)]
pub(crate) struct Clash {
    /// From the column on: `a.b[].c`.
    path: String,
    /// True for a list and an object, false where one of them is a scalar.
    is_nested: bool,
}

impl Clash {
    /// The same, seen from what holds it: `[]`, or the name of a member.
    pub(crate) fn within(self, step: &str) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{step}{joint}{}", self.path), ..self }
    }
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.is_nested {
            true => "is a list in some rows and an object in others; write it as one of them in every row",
            false => "is a list or an object in some rows and not in others; load or query it as one of them",
        };
        write!(f, "column '{}' {what}", self.path)
    }
}

impl MemberSeen {
    pub(crate) const NOTHING: Self = Self::Scalar(Seen::NOTHING);

    /// Adds what was seen elsewhere.
    pub(crate) fn add(&mut self, other: Self) -> Result<(), Clash> {
        match (&mut *self, other) {
            (Self::Scalar(all), Self::Scalar(seen)) => all.add(seen),
            (_, Self::Scalar(nothing)) if nothing.is_nothing() => {}
            (Self::Scalar(nothing), nested) if nothing.is_nothing() => *self = nested,
            (Self::List(all), Self::List(seen)) => all.add(*seen).map_err(|clash| clash.within("[]"))?,
            (Self::Object(all), Self::Object(seen)) => {
                for (name, seen) in seen {
                    add_member(all, name, seen)?;
                }
            }
            (Self::Scalar(_), _) | (_, Self::Scalar(_)) => {
                return Err(Clash { path: String::new(), is_nested: false });
            }
            _ => return Err(Clash { path: String::new(), is_nested: true }),
        }
        Ok(())
    }

    /// The type of a column. Text where nothing was seen.
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::Scalar(seen) => seen.data_type(),
            Self::List(elements) => {
                DataType::List(Arc::new(Field::new_list_field(elements.inner_type(), true)))
            }
            Self::Object(members) => {
                let field = |(name, seen): &(String, Self)| Field::new(name, seen.inner_type(), true);
                DataType::Struct(members.iter().map(field).collect())
            }
        }
    }

    /// The type within a list or an object, where nothing but NULL is a type of its own.
    fn inner_type(&self) -> DataType {
        match self {
            Self::Scalar(seen) if seen.is_nothing() => DataType::Null,
            other => other.data_type(),
        }
    }
}

/// Adds what was seen of member `name` to the members of an object.
pub(crate) fn add_member(
    members: &mut Vec<(String, MemberSeen)>,
    name: String,
    seen: MemberSeen,
) -> Result<(), Clash> {
    match members.iter_mut().find(|(known, _)| *known == name) {
        Some((_, all)) => all.add(seen).map_err(|clash| clash.within(&name)),
        None => {
            members.push((name, seen));
            Ok(())
        }
    }
}
