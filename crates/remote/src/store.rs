//! Opens the store of a URL, with credentials from the environment.
//!
//! | variable | what for |
//! | --- | --- |
//! | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` | credentials |
//! | `AWS_SKIP_SIGNATURE=true` | public buckets, without credentials |
//! | `AWS_REGION`, or `AWS_DEFAULT_REGION` | where the bucket is; us-east-1 if not said |
//! | `AWS_ENDPOINT_URL`, or `AWS_ENDPOINT_URL_S3` | a store that is not Amazon's |
//! | `AWS_ALLOW_HTTP=true` | an endpoint without TLS |
//!
//! Roles of machines and containers are found as the AWS tools find them.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use pelton_error::{Error, Result};
use url::Url;

use crate::explain::{Explainer, Service};
use crate::named::NamedStore;

/// How patient a store is.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// Until the answer to one request, of at most [`crate::Pieces`] size, has arrived.
    pub request_timeout: Duration,
    /// How often a request is sent again after an error that may pass.
    pub retries_max: usize,
    /// After which time a failed request is not sent again.
    pub retry_timeout: Duration,
}

impl Default for StoreOptions {
    /// Patient enough for a line of 10 Mbit/s; a guess otherwise.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(60),
            retries_max: 6,
            retry_timeout: Duration::from_secs(120),
        }
    }
}

impl StoreOptions {
    fn retry(&self) -> RetryConfig {
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        };
        RetryConfig { backoff, max_retries: self.retries_max, retry_timeout: self.retry_timeout }
    }

    fn client(&self) -> ClientOptions {
        ClientOptions::new()
            .with_timeout(self.request_timeout)
            .with_connect_timeout(self.connect_timeout)
            .with_user_agent(object_store::HeaderValue::from_static(concat!(
                "pelton/",
                env!("CARGO_PKG_VERSION")
            )))
    }
}

/// Opens the store that holds the objects below `base`: a bucket or a host. Nothing is sent yet.
///
/// # Errors
///
/// `InvalidInput` names the variable that is missing or wrong.
pub fn open_store(base: &Url, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>> {
    let (store, explainer) = match base.scheme() {
        "s3" => open_s3(base, options)?,
        "http" | "https" => open_http(base, options)?,
        other => {
            return Err(Error::invalid_input(format!("there is no store for '{other}://'; use s3 or https")));
        }
    };
    Ok(Arc::new(NamedStore::new(store, explainer)))
}

fn open_s3(base: &Url, options: &StoreOptions) -> Result<(Arc<dyn ObjectStore>, Explainer)> {
    let bucket = base.host_str().unwrap_or_default();
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    // The environment may set timeouts and headers of its own; these are ours unless it speaks of HTTP.
    let allow_http = builder.get_config_value(&allow_http_key()).is_some_and(|value| is_true(&value));
    builder = builder.with_client_options(options.client().with_allow_http(allow_http));
    let set = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
    let endpoint = set(AmazonS3ConfigKey::S3Endpoint).or_else(|| set(AmazonS3ConfigKey::Endpoint));
    if let Some(endpoint) = &endpoint {
        check_endpoint(endpoint, allow_http)?;
    }
    let service = Service::S3 {
        bucket: bucket.to_owned(),
        region: set(AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned()),
        has_key: set(AmazonS3ConfigKey::AccessKeyId).is_some(),
        is_anonymous: set(AmazonS3ConfigKey::SkipSignature).is_some_and(|value| is_true(&value)),
        endpoint,
    };
    if let Service::S3 { has_key: false, is_anonymous: false, .. } = service {
        builder = with_role(builder, options)?;
    }
    let explainer = Explainer::new(base.clone(), service);
    let store = builder.with_retry(options.retry()).build().map_err(|error| explainer.explain(error, ""))?;
    Ok((Arc::new(store), explainer))
}

/// Credentials of the machine's role, asked for with little patience: most machines have none.
fn with_role(builder: AmazonS3Builder, options: &StoreOptions) -> Result<AmazonS3Builder> {
    let retry = RetryConfig { max_retries: 1, retry_timeout: Duration::from_secs(3), ..options.retry() };
    let alone = builder.clone().with_retry(retry).build();
    let alone = alone.map_err(|error| Error::invalid_input("opening S3").with_source(error))?;
    Ok(builder.with_credentials(Arc::clone(alone.credentials())))
}

fn allow_http_key() -> AmazonS3ConfigKey {
    AmazonS3ConfigKey::Client(object_store::ClientConfigKey::AllowHttp)
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y" | "t")
}

fn check_endpoint(endpoint: &str, allow_http: bool) -> Result<()> {
    let parsed = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    match parsed {
        None => Err(Error::invalid_input(format!(
            "AWS_ENDPOINT_URL is '{endpoint}', which is no URL; write https://host or http://host:port"
        ))),
        Some(url) if url.scheme() == "http" && !allow_http => Err(Error::invalid_input(format!(
            "AWS_ENDPOINT_URL is '{endpoint}', which sends data unencrypted; set AWS_ALLOW_HTTP=true to allow that"
        ))),
        Some(_) => Ok(()),
    }
}

fn open_http(base: &Url, options: &StoreOptions) -> Result<(Arc<dyn ObjectStore>, Explainer)> {
    let explainer = Explainer::new(base.clone(), Service::Http);
    let store = HttpBuilder::new()
        .with_url(base.as_str())
        .with_client_options(options.client().with_allow_http(true))
        .with_retry(options.retry())
        .build()
        .map_err(|error| explainer.explain(error, ""))?;
    Ok((Arc::new(store), explainer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_and_encrypted_unless_allowed() {
        assert!(check_endpoint("https://minio.example:9000", false).is_ok());
        assert!(check_endpoint("http://127.0.0.1:9000", true).is_ok());
        let message = check_endpoint("http://127.0.0.1:9000", false).unwrap_err().to_string();
        assert!(message.contains("AWS_ALLOW_HTTP=true"), "{message}");
        let message = check_endpoint("127.0.0.1:9000", true).unwrap_err().to_string();
        assert!(message.contains("AWS_ENDPOINT_URL is '127.0.0.1:9000'"), "{message}");
    }

    #[test]
    fn other_schemes_are_refused() {
        let base = Url::parse("gs://bucket").unwrap();
        let message = open_store(&base, &StoreOptions::default()).unwrap_err().to_string();
        assert!(message.contains("'gs://'"), "{message}");
    }
}
