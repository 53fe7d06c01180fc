//! `pelton sql --substrait`: a plan that another system wrote, run like a query.

use std::path::Path;

use pelton_engine::{PeltonSession, Query};
use pelton_error::Result;

/// Plans what file `path` holds.
#[cfg(feature = "substrait")]
pub(crate) async fn plan(session: &PeltonSession, path: &Path) -> Result<Query> {
    use pelton_error::ResultExt;
    let shown = path.display();
    let bytes = std::fs::read(path).context(|| format!("reading '{shown}'"))?;
    session.substrait(&bytes).await.map_err(|error| error.context(format!("'{shown}'")))
}

/// Says how to build with it.
#[cfg(not(feature = "substrait"))]
pub(crate) async fn plan(_session: &PeltonSession, _path: &Path) -> Result<Query> {
    Err(pelton_error::Error::unsupported(
        "this pelton was built without Substrait; install protoc (apt-get install protobuf-compiler, or dnf install \
         protobuf-compiler) and build with `make build`, or with `cargo build --release -p pelton-cli --features \
         substrait`",
    ))
}
