//! Arrow Flight SQL over a Pelton session: `pelton serve`.
//!
//! ```text
//!   client                            server                                            query runtime
//!     │ GetFlightInfo(SQL) ──────────▶ service ─▶ statements: understand, refuse, plan ───▶ engine
//!     │ ◀──────── columns, ticket ───── handles: unguessable, used once, expire
//!     │ DoGet(ticket) ───────────────▶ admission: a permit, or the queue, or an error
//!     │ ◀──────── batches ───────────── run ◀═ delivery: some MiB ═ producer ◀─── rows ─── engine
//!     │ (goes away) ─────────────────▶ run dropped ─▶ producer aborted ─▶ permit and memory free
//! ```
//!
//! Bounds: as many queries are planned, and run, at once as there are permits, each in memory of its own; so many wait,
//! for so long; planning ends when its client goes or its time is over; tickets and prepared statements are kept in
//! number, size and time, for each connection and for all; a client that stops reading keeps no permit from others, and
//! is given up after a while.
//! Clients change nothing: they run queries. What they send is checked before it is believed.

#![forbid(unsafe_code)]

mod admission;
mod aside;
mod auth;
mod delivery;
mod handles;
mod http;
mod lingering;
mod metadata;
mod metrics;
mod options;
mod parameters;
mod run;
mod running;
mod server;
mod service;
mod shared;
mod sql_info;
mod statements;
mod status;
mod wire;

pub use auth::Token;
pub use options::{Limits, ServerOptions, Tls};
pub use server::Server;
