//! Arrow Flight SQL over a Pelton session: `pelton serve`.
//!
//! ```text
//!   client                            server                                            query runtime
//!     │ GetFlightInfo(SQL) ──────────▶ service ─▶ statements: understand, refuse, plan ───▶ engine
//!     │ ◀──────── columns, ticket ───── handles: unguessable, expire
//!     │ DoGet(ticket) ───────────────▶ admission: a permit, or the queue, or an error
//!     │ ◀──────── batches ───────────── run ◀═ two messages at most ═ producer ◀─ rows ─── engine
//!     │ (goes away) ─────────────────▶ run dropped ─▶ producer aborted ─▶ permit and memory free
//! ```
//!
//! Bounds: as many queries run at once as have permits, each in memory of its own; so many wait, for so long; so many
//! tickets and prepared statements are kept, for so long; a client that stops reading is given up after a while.
//! Clients change nothing: they run queries. What they send is checked before it is believed.

#![forbid(unsafe_code)]

mod admission;
mod auth;
mod handles;
mod http;
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
