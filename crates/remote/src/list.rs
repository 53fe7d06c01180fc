//! The objects that a location means, by path.
//!
//! ```text
//!   key        the object; where there is none, all below it as a folder
//!   folder/    all below it
//!   pattern    all that match, listed from the folder before the first wildcard
//! ```
//!
//! As on disk, what begins with `.` or `_` in any folder below the one named is left out: markers of other engines. So
//! are objects without a byte, which stand for folders.

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use pelton_error::{Error, ErrorKind, Result};

use crate::explain::ours;
use crate::location::{Location, below};

/// The objects of `store` that `location` means, sorted by path; at least one.
///
/// # Errors
///
/// `InvalidInput` where there is none, or access is refused; `Io` where the store does not answer.
pub async fn list(store: &dyn ObjectStore, location: &Location) -> Result<Vec<ObjectMeta>> {
    if !location.is_folder() && !location.is_pattern() {
        match store.head(location.root()).await {
            Ok(object) => return Ok(vec![object]),
            Err(object_store::Error::NotFound { .. }) if location.base().scheme() == "s3" => {}
            Err(error) => return Err(told_by_listing(store, location, from_store(error)).await),
        }
    }
    let all = store.list(Some(location.root())).try_collect::<Vec<_>>().await;
    let mut objects = all.map_err(from_store)?;
    objects.retain(|object| {
        object.size > 0 && is_shown(location.root(), &object.location) && location.takes(&object.location)
    });
    if objects.is_empty() {
        return Err(Error::invalid_input(if location.is_pattern() {
            format!("no object matches '{location}'")
        } else {
            format!("there is no object '{location}', and none in a folder of that name")
        }));
    }
    objects.sort_by(|a, b| a.location.cmp(&b.location));
    Ok(objects)
}

/// `error`, or what a listing says instead: the answer to a request for an object's size has no body, so nothing in it
/// tells a wrong key from a wrong secret, or from a right that is missing.
async fn told_by_listing(store: &dyn ObjectStore, location: &Location, error: Error) -> Error {
    if location.base().scheme() != "s3" || error.kind() != &ErrorKind::InvalidInput {
        return error;
    }
    let told = store.list(Some(location.root())).try_next().await;
    told.err().map_or(error, from_store)
}

/// False for objects below hidden folders, and for the empty ones that stand for folders.
fn is_shown(root: &Path, path: &Path) -> bool {
    below(root, path)
        .is_some_and(|rest| !rest.is_empty() && !rest.split('/').any(|name| name.starts_with(['.', '_'])))
}

/// An error of a [`crate::open_store`] store as what it is.
pub(crate) fn from_store(error: object_store::Error) -> Error {
    ours(&error).unwrap_or_else(|| Error::new(ErrorKind::Io, "reading an object").with_source(error))
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    async fn listed(text: &str) -> Result<Vec<String>> {
        let store = InMemory::new();
        for path in ["a/y=1/p.parquet", "a/y=2/q.parquet", "a/_done", "a/.x/r.csv", "a/s.csv", "ab/t.csv"] {
            store.put(&Path::parse(path).unwrap(), "x".into()).await.unwrap();
        }
        let objects = list(&store, &Location::parse(text).unwrap()).await?;
        Ok(objects.iter().map(|object| object.location.to_string()).collect())
    }

    #[tokio::test]
    async fn objects_folders_and_patterns_are_listed_in_order() {
        let all = ["a/s.csv", "a/y=1/p.parquet", "a/y=2/q.parquet"];
        assert_eq!(listed("s3://b/a").await.unwrap(), all);
        assert_eq!(listed("s3://b/a/").await.unwrap(), all);
        assert_eq!(listed("s3://b/a/s.csv").await.unwrap(), ["a/s.csv"]);
        assert_eq!(listed("s3://b/a/y=*/*.parquet").await.unwrap(), all[1..]);
        assert_eq!(listed("s3://b/*/*.csv").await.unwrap(), ["a/s.csv", "ab/t.csv"]);
    }

    #[tokio::test]
    async fn what_is_not_there_is_said() {
        let message = |error: Error| error.to_string();
        assert!(message(listed("s3://b/c").await.unwrap_err()).starts_with("there is no object 's3://b/c'"));
        assert_eq!(
            message(listed("s3://b/a/*.json").await.unwrap_err()),
            "no object matches 's3://b/a/*.json'"
        );
    }
}
