//! A server from its first connection to its last.
//!
//! ```text
//!   bind ─▶ run ─▶ shutdown asked for: no new connections, no new queries, who waits is refused
//!                     │ running queries end by themselves, or are cancelled after --drain-seconds
//!                     ▼
//!                  connections closed, once clients have read what was sent and hung up (lingering.rs)
//! ```

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::TryStreamExt;
use pelton_engine::PeltonSession;
use pelton_error::{Error, Result, ResultExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::auth::Guard;
use crate::http;
use crate::lingering::Lingering;
use crate::options::{ServerOptions, Tls};
use crate::run::log_cut_off;
use crate::running::CancelledBy;
use crate::service::Service;
use crate::shared::Shared;

/// How often a connection that is silent is asked whether it is still there, and how long it has to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long a connection may take to agree on keys.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);
/// How long queries that are cancelled get to end.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long clients get to read what was sent to them and to hang up, once no query runs.
const LAST_READ: Duration = Duration::from_secs(10);
/// How often what has expired is forgotten.
const SWEEP: Duration = Duration::from_secs(10);
/// What a certificate as PEM begins with.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// What the first line of a private key as PEM ends with, whatever kind of key it is.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";
/// Streams of one connection at once; more of them wait in the client.
const STREAMS_MAX: u32 = 1024;

/// A server that listens, and serves once it is run.
pub struct Server {
    shared: Arc<Shared>,
    options: ServerOptions,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    builder: tonic::transport::Server,
}

impl Server {
    /// Listens where `options` say. Queries over `session`, opened with the memory limit of one query
    /// ([`Limits::query_bytes`](crate::Limits::query_bytes)), run in the runtime `queries`.
    ///
    /// # Errors
    ///
    /// What the options would expose, with the remedy; what is wrong with certificate or key; which address is taken.
    pub async fn bind(session: PeltonSession, options: ServerOptions, queries: Handle) -> Result<Self> {
        options.check()?;
        let mut builder = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .max_concurrent_streams(STREAMS_MAX);
        if let Some(tls) = &options.tls {
            builder = builder.tls_config(tls_config(tls)?).map_err(bad_certificate)?;
        }
        let listener = listen(options.listen).await?;
        let metrics = match options.metrics {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let shared = Arc::new(Shared::new(session, &options, queries));
        Ok(Self { shared, options, listener, metrics, builder })
    }

    /// Where clients connect.
    ///
    /// # Errors
    ///
    /// Of the operating system.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context(|| "asking for the server's address".into())
    }

    /// The same, as clients are told it: `grpc://…`, or `grpc+tls://…`.
    ///
    /// # Errors
    ///
    /// Of the operating system.
    pub fn url(&self) -> Result<String> {
        let scheme = if self.options.tls.is_some() { "grpc+tls" } else { "grpc" };
        Ok(format!("{scheme}://{}", self.address()?))
    }

    /// Where metrics are served.
    ///
    /// # Errors
    ///
    /// Of the operating system.
    pub fn metrics_address(&self) -> Result<Option<SocketAddr>> {
        let address = self.metrics.as_ref().map(TcpListener::local_addr).transpose();
        address.context(|| "asking for the metrics' address".into())
    }

    /// Serves until `shutdown` ends, then lets running queries end, as long as they may take; or until `hurry` ends, after
    /// which they are cancelled.
    ///
    /// # Errors
    ///
    /// Of the network.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> Result<()> {
        let Self { shared, options, listener, metrics, mut builder } = self;
        let service = FlightServiceServer::new(Service::new(Arc::clone(&shared)));
        let service =
            InterceptedService::new(service, Guard::new(options.token.clone(), Arc::clone(&shared)));
        let (goodbye, told) = oneshot::channel::<()>();
        let connections = TcpIncoming::from(listener).with_nodelay(Some(true)).map_ok(Lingering::new);
        let serving = builder.add_service(service).serve_with_incoming_shutdown(connections, async {
            let _ = told.await; // the sender is dropped when this function ends
        });
        let mut serving = tokio::spawn(serving);
        let _helpers = Helpers::start(&shared, metrics);
        tokio::select! {
            () = shutdown => {}
            ended = &mut serving => return network(ended),
        }
        shared.admission.close();
        let _ = goodbye.send(());
        drain(&shared, options.limits.drain, hurry).await;
        match tokio::time::timeout(LAST_READ, &mut serving).await {
            Ok(ended) => network(ended),
            Err(_elapsed) => {
                serving.abort(); // clients that will not hang up
                Ok(())
            }
        }
    }
}

/// Lets running queries end, and cancels those that take too long.
async fn drain(shared: &Shared, time: Duration, hurry: impl Future<Output = ()>) {
    tokio::select! {
        () = shared.running.wait_for_none() => return,
        () = tokio::time::sleep(time) => {}
        () = hurry => {}
    }
    shared.running.cancel_all(CancelledBy::Shutdown);
    // A kernel or a read that is under way ends before its query does; it is not waited for any longer than this.
    let _ = tokio::time::timeout(GOODBYE, shared.running.wait_for_none()).await;
    shared.running.all().iter().for_each(|ongoing| log_cut_off(ongoing));
}

/// Tasks beside the connections; they end with this.
struct Helpers(Vec<tokio::task::JoinHandle<()>>);

impl Helpers {
    fn start(shared: &Arc<Shared>, metrics: Option<TcpListener>) -> Self {
        let mut tasks = vec![tokio::spawn(sweep(Arc::clone(shared)))];
        if let Some(listener) = metrics {
            let pages = http::router(Arc::clone(shared));
            tasks.push(tokio::spawn(async move {
                // Serving these pages ends with the task; accepting never fails for good.
                let _ = axum::serve(listener, pages).await;
            }));
        }
        Self(tasks)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

async fn sweep(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        ticks.tick().await;
        shared.tickets.sweep();
        shared.prepared.sweep();
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.context(|| format!("listening on {address}"))
}

/// # Errors
///
/// That the two files are swapped; what else is wrong with them shows when they are used.
fn tls_config(tls: &Tls) -> Result<ServerTlsConfig> {
    let has = |pem: &[u8], mark: &str| pem.windows(mark.len()).any(|part| part == mark.as_bytes());
    let (certificate, key) = (has(&tls.certificate_pem, CERTIFICATE), has(&tls.key_pem, PRIVATE_KEY));
    if !certificate && !key && has(&tls.key_pem, CERTIFICATE) && has(&tls.certificate_pem, PRIVATE_KEY) {
        return Err(Error::invalid_input(
            "--tls-cert names a private key and --tls-key a certificate: swap the two",
        ));
    }
    if !certificate {
        return Err(Error::invalid_input(
            "the file of --tls-cert has no certificate in it; it has to be PEM",
        ));
    }
    if !key {
        return Err(Error::invalid_input("the file of --tls-key has no private key in it; it has to be PEM"));
    }
    let identity = Identity::from_pem(&tls.certificate_pem, &tls.key_pem);
    Ok(ServerTlsConfig::new().identity(identity).timeout(TLS_HANDSHAKE))
}

fn bad_certificate(error: tonic::transport::Error) -> Error {
    let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    Error::invalid_input(format!(
        "--tls-cert and --tls-key do not belong together, or one of them is damaged: {reason}"
    ))
}

fn network(
    ended: std::result::Result<std::result::Result<(), tonic::transport::Error>, tokio::task::JoinError>,
) -> Result<()> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::io("serving connections", std::io::Error::other(error))),
        Err(error) => Err(Error::io("serving connections", std::io::Error::other(error))),
    }
}
