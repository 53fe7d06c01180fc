//! What a server is told, and what it refuses to start with.

use std::net::SocketAddr;
use std::time::Duration;

use pelton_error::{Error, Result};

use crate::auth::Token;

/// Bytes that a token needs where others than this machine's users can try to guess it.
const TOKEN_BYTES_MIN: usize = 16;

/// Where a server listens, to whom, and what it bounds.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where clients connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where `/metrics` and `/healthz` are served, on this machine alone; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// Certificate and key; `None`: connections are not encrypted.
    pub tls: Option<Tls>,
    /// What clients must show; `None`: nothing.
    pub token: Option<Token>,
    /// What is bounded.
    pub limits: Limits,
    /// Whether the log shows the text of queries and of their errors.
    pub log_queries: bool,
}

/// A certificate chain and its private key, both as PEM.
#[derive(Clone)]
pub struct Tls {
    /// The chain, the server's own certificate first.
    pub certificate_pem: Vec<u8>,
    /// The key of that certificate.
    pub key_pem: Vec<u8>,
}

/// Bounds of one server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Queries that run at once; as many more may be planned meanwhile.
    pub max_queries: usize,
    /// Queries that may wait for either.
    pub max_queued: usize,
    /// How long a query waits.
    pub queue_timeout: Duration,
    /// Bytes that the operators of all queries may hold; `None`: no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes that the operators of one query may hold; `None`: an equal share of the memory limit.
    pub query_memory_limit_bytes: Option<u64>,
    /// How long a result waits for a client to read on before its query is cancelled.
    pub idle_timeout: Duration,
    /// How long it waits where it keeps a permit that others wait for, since its operators hold memory.
    pub stall_timeout: Duration,
    /// How long planning one statement may take.
    pub planning_timeout: Duration,
    /// How long one query may run, from its permit to its last row; `None`: as long as it takes.
    pub query_timeout: Option<Duration>,
    /// How long running queries get to end when the server shuts down.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_queries: 8,
            max_queued: 1000,
            queue_timeout: Duration::from_secs(60),
            memory_limit_bytes: None,
            query_memory_limit_bytes: None,
            idle_timeout: Duration::from_secs(300),
            stall_timeout: Duration::from_secs(10),
            planning_timeout: Duration::from_secs(30),
            query_timeout: None,
            drain: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Bytes that one query's operators may hold; the session that a server runs must be opened with this limit.
    pub fn query_bytes(&self) -> Option<u64> {
        let share = self.memory_limit_bytes.map(|bytes| bytes / self.max_queries.max(1) as u64);
        self.query_memory_limit_bytes.or(share)
    }

    /// Queries that run at once: as many as were asked for, or fewer where their memory would pass the limit of all.
    pub fn queries_at_once(&self) -> usize {
        match (self.memory_limit_bytes, self.query_bytes()) {
            (Some(all), Some(one)) => {
                let fit = usize::try_from(all / one.max(1)).unwrap_or(usize::MAX);
                self.max_queries.min(fit)
            }
            _ => self.max_queries,
        }
    }

    /// # Errors
    ///
    /// Which bound leaves no query to run.
    pub(crate) fn check(&self) -> Result<()> {
        if self.max_queries == 0 {
            return Err(Error::invalid_input("--max-queries must be at least 1"));
        }
        if self.query_bytes() == Some(0) || self.queries_at_once() == 0 {
            return Err(Error::invalid_input(
                "one query's memory does not fit: --memory-limit must be at least --query-memory-limit, and above 0",
            ));
        }
        Ok(())
    }
}

impl ServerOptions {
    /// On `listen` with every bound at its default, for clients on this machine.
    pub fn new(listen: SocketAddr) -> Self {
        let limits = Limits::default();
        Self { listen, metrics: None, tls: None, token: None, limits, log_queries: false }
    }

    /// # Errors
    ///
    /// What a server with these options would expose, or could not do, with the remedy.
    pub(crate) fn check(&self) -> Result<()> {
        self.limits.check()?;
        if let Some(metrics) = self.metrics.filter(|address| !address.ip().is_loopback()) {
            return Err(Error::invalid_input(format!(
                "--metrics {metrics} can be reached from other machines and asks for no token; give an address such \
                 as 127.0.0.1:{}, and let an agent on this machine collect them",
                metrics.port()
            )));
        }
        if self.listen.ip().is_loopback() {
            return Ok(());
        }
        let missing = match (&self.tls, &self.token) {
            (None, None) => "--tls-cert, --tls-key and --token-file (or PELTON_TOKEN)",
            (None, Some(_)) => "--tls-cert and --tls-key",
            (Some(_), None) => "--token-file (or PELTON_TOKEN)",
            (Some(_), Some(token)) if token.len() < TOKEN_BYTES_MIN => {
                return Err(Error::invalid_input(format!(
                    "the token is short enough to be guessed from other machines; take {TOKEN_BYTES_MIN} characters \
                     or more, such as those of `openssl rand -hex 16`"
                )));
            }
            (Some(_), Some(_)) => return Ok(()),
        };
        Err(Error::invalid_input(format!(
            "{} can be reached from other machines: that takes TLS and a token. Add {missing}, or listen on 127.0.0.1",
            self.listen
        )))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls() -> Option<Tls> {
        Some(Tls { certificate_pem: Vec::new(), key_pem: Vec::new() })
    }

    fn check(listen: &str, tls: Option<Tls>, token: Option<&str>) -> std::result::Result<(), String> {
        let mut options = ServerOptions::new(listen.parse().unwrap());
        options.tls = tls;
        options.token = token.map(|token| Token::new(token).unwrap());
        options.check().map_err(|error| error.to_string())
    }

    #[test]
    fn beyond_loopback_a_server_wants_tls_and_a_token_worth_the_name() {
        let long = Some("0123456789abcdef");
        assert_eq!(check("0.0.0.0:1", tls(), long), Ok(()));
        assert!(
            check("0.0.0.0:1", None, None).unwrap_err().contains("--tls-cert, --tls-key and --token-file")
        );
        assert!(check("[::]:1", None, long).unwrap_err().contains("--tls-cert and --tls-key"));
        assert!(check("10.1.2.3:1", tls(), None).unwrap_err().contains("--token-file"));
        assert!(check("10.1.2.3:1", tls(), Some("guess")).unwrap_err().contains("16 characters"));
    }

    #[test]
    fn on_loopback_neither_is_needed() {
        assert_eq!(check("127.0.0.1:1", None, None), Ok(()));
        assert_eq!(check("[::1]:1", None, Some("guess")), Ok(()));
    }

    #[test]
    fn metrics_stay_on_this_machine() {
        let mut options = ServerOptions::new("127.0.0.1:1".parse().unwrap());
        options.metrics = Some("0.0.0.0:9090".parse().unwrap());
        assert!(options.check().unwrap_err().to_string().contains("127.0.0.1:9090"));
    }

    #[test]
    fn memory_of_all_queries_bounds_how_many_run() {
        let limits = |all, one| Limits {
            max_queries: 8,
            memory_limit_bytes: all,
            query_memory_limit_bytes: one,
            ..Limits::default()
        };
        assert_eq!(limits(Some(800), None).query_bytes(), Some(100));
        assert_eq!(limits(Some(800), None).queries_at_once(), 8);
        assert_eq!(limits(Some(800), Some(300)).queries_at_once(), 2);
        assert_eq!(limits(None, Some(300)).queries_at_once(), 8);
        assert_eq!(limits(None, None).query_bytes(), None);
        assert!(limits(Some(100), Some(300)).check().is_err());
        assert!(limits(Some(0), None).check().is_err());
    }
}
