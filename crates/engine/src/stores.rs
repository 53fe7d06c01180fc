//! Object stores of a session, opened when a query first names one.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::ObjectStore;
use pelton_remote::{StoreOptions, is_url, open_store};
use url::{Position, Url};

use crate::error::to_datafusion;

/// A registry over another: what that one does not know is opened from the environment, once.
pub(crate) struct Stores {
    inner: Arc<dyn ObjectStoreRegistry>,
    options: StoreOptions,
}

impl Stores {
    /// `env` with stores that open themselves.
    pub(crate) fn install(env: &RuntimeEnv) -> RuntimeEnv {
        let inner = Arc::clone(&env.object_store_registry);
        let stores = Self { inner, options: StoreOptions::default() };
        RuntimeEnv { object_store_registry: Arc::new(stores), ..env.clone() }
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stores").field(&self.inner).finish()
    }
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.inner.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.inner.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        match self.inner.get_store(url) {
            Err(_) if is_url(url.as_str()) => {
                let store = open_store(&base_of(url), &self.options).map_err(to_datafusion)?;
                self.inner.register_store(url, Arc::clone(&store));
                Ok(store)
            }
            found => found,
        }
    }
}

/// The bucket or host of `url`.
fn base_of(url: &Url) -> Url {
    let scheme = if url.scheme() == "s3a" { "s3" } else { url.scheme() };
    let authority = &url[Position::BeforeHost..Position::AfterPort];
    Url::parse(&format!("{scheme}://{authority}")).unwrap_or_else(|_| url.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_opened_once_and_one_of_the_user_stands() {
        let env = Stores::install(&RuntimeEnv::default());
        let url = Url::parse("http://127.0.0.1:9/a/b.parquet").unwrap();
        let first = env.object_store_registry.get_store(&url).unwrap();
        assert!(Arc::ptr_eq(&first, &env.object_store_registry.get_store(&url).unwrap()));
        let own: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        env.register_object_store(&url, Arc::clone(&own));
        assert!(Arc::ptr_eq(&own, &env.object_store_registry.get_store(&url).unwrap()));
        assert!(env.object_store_registry.get_store(&Url::parse("gs://b/c").unwrap()).is_err());
    }
}
