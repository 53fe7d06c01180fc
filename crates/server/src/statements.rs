//! From SQL text to a ticket: understand, refuse what is no query, plan, keep.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::sql::{ActionCreatePreparedStatementResult, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use pelton_engine::{Prepared, Query};
use prost::Message;
use tonic::Status;

use crate::admission::Size;
use crate::handles::Handle;
use crate::parameters::Bound;
use crate::run;
use crate::shared::{Planned, Shared, Statement, size_of};
use crate::{status, wire};

/// Understands `sql` and plans it: a ticket for its rows, and their columns.
pub(crate) async fn plan(
    shared: &Arc<Shared>,
    sql: &str,
    peer: Option<SocketAddr>,
) -> Result<(Handle, SchemaRef), Status> {
    let planned = async {
        let prepared = understand(shared, sql).await?;
        keep(shared, plan_prepared(shared, prepared, sql.into(), None, "statement").await?, peer)
    };
    counted(shared, planned.await, sql, peer)
}

/// Plans a prepared statement with the values bound to it: a ticket for its rows, and their columns.
pub(crate) async fn plan_bound(
    shared: &Arc<Shared>,
    handle: &[u8],
    peer: Option<SocketAddr>,
) -> Result<(Handle, SchemaRef), Status> {
    let planned = plan_to_fetch(shared, handle, peer).await?;
    let sql = Arc::clone(&planned.sql);
    counted(shared, keep(shared, planned, peer), &sql, peer)
}

/// The same, for rows that are fetched at once.
pub(crate) async fn plan_to_fetch(
    shared: &Arc<Shared>,
    handle: &[u8],
    peer: Option<SocketAddr>,
) -> Result<Planned, Status> {
    let (_, statement) = shared.prepared.get(handle)?;
    let (prepared, sql) = (statement.prepared.clone(), Arc::clone(&statement.sql));
    let planned = plan_prepared(shared, prepared, sql, statement.bound.get(), "prepared").await;
    counted(shared, planned, &statement.sql, peer)
}

/// The plan of what was planned before and not kept.
pub(crate) async fn plan_again(shared: &Arc<Shared>, planned: &Arc<Planned>) -> Result<Query, Status> {
    let (here, before) = (Arc::clone(shared), Arc::clone(planned));
    let again = shared.planning(size_of(&planned.prepared), async move {
        let query = here.session.query_prepared(&before.prepared, before.values.as_ref()).await;
        let query = query.map_err(|error| status::of_statement(error, &before.sql, &here.session))?;
        if wire::schema(&query.schema()) == before.schema {
            return Ok(query);
        }
        Err(Status::failed_precondition(
            "the result's columns have changed since its ticket was made; run the query again",
        ))
    });
    again.await
}

/// Understands `sql` and keeps it, for [`plan_bound`].
pub(crate) async fn prepare(
    shared: &Arc<Shared>,
    sql: &str,
    peer: Option<SocketAddr>,
) -> Result<ActionCreatePreparedStatementResult, Status> {
    let prepared = counted(shared, understand(shared, sql).await, sql, peer)?;
    let dataset_schema = ipc_schema(&wire::schema(&prepared.schema()))?;
    let parameter_schema = ipc_schema(&prepared.parameter_schema())?;
    let statement = Statement { prepared, sql: sql.into(), bound: Bound::default() };
    let bytes = statement.bytes();
    let handle = counted(shared, shared.prepared.insert(statement, peer, bytes), sql, peer)?;
    Ok(ActionCreatePreparedStatementResult {
        prepared_statement_handle: handle.to_vec().into(),
        dataset_schema,
        parameter_schema,
    })
}

/// What a client needs to fetch the rows behind `ticket`.
pub(crate) fn info(
    ticket: Handle,
    schema: &SchemaRef,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let ticket = TicketStatementQuery { statement_handle: ticket.to_vec().into() };
    // Without a time of expiration, which would say that it may be fetched until then as often as one likes.
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket.as_any().encode_to_vec()));
    let info = FlightInfo::new().try_with_schema(schema).map_err(internal)?;
    Ok(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true))
}

/// `schema` as a message of Arrow's IPC.
pub(crate) fn ipc_schema(schema: &arrow::datatypes::Schema) -> Result<prost::bytes::Bytes, Status> {
    let options = arrow::ipc::writer::IpcWriteOptions::default();
    let message = arrow_flight::IpcMessage::try_from(arrow_flight::SchemaAsIpc::new(schema, &options));
    Ok(message.map_err(internal)?.0)
}

/// # Errors
///
/// That the statement changes something, and who may do that.
async fn understand(shared: &Arc<Shared>, sql: &str) -> Result<Prepared, Status> {
    let (here, sql) = (Arc::clone(shared), sql.to_owned());
    shared
        .planning(Size::Usual, async move {
            let prepared = here.session.prepare(&sql).await;
            let prepared = prepared.map_err(|error| status::of_statement(error, &sql, &here.session))?;
            match prepared.change() {
                None => Ok(prepared),
                Some(change) => Err(refused(&change)),
            }
        })
        .await
}

async fn plan_prepared(
    shared: &Arc<Shared>,
    prepared: Prepared,
    sql: Arc<str>,
    values: Option<RecordBatch>,
    kind: &'static str,
) -> Result<Planned, Status> {
    let here = Arc::clone(shared);
    let planned = shared.planning(size_of(&prepared), async move {
        let query = here.session.query_prepared(&prepared, values.as_ref()).await;
        let query = query.map_err(|error| status::of_statement(error, &sql, &here.session))?;
        let schema = wire::schema(&query.schema());
        let is_replanned = !Planned::is_kept(prepared.step_count());
        let query = Mutex::new((!is_replanned).then_some(query));
        Ok(Planned { prepared, sql, values, schema, query, is_replanned, kind })
    });
    planned.await
}

/// A ticket for `planned`, and its columns.
fn keep(shared: &Shared, planned: Planned, peer: Option<SocketAddr>) -> Result<(Handle, SchemaRef), Status> {
    let (schema, bytes) = (Arc::clone(&planned.schema), planned.bytes());
    Ok((shared.tickets.insert(planned, peer, bytes)?, schema))
}

/// Counts a query that failed before it had rows, and gives it its line in the log.
fn counted<T>(
    shared: &Shared,
    result: Result<T, Status>,
    sql: &str,
    peer: Option<SocketAddr>,
) -> Result<T, Status> {
    if let Err(status) = &result {
        shared.metrics.failed.add(run::code_name(status.code()));
        run::log_refused(shared, status, sql, peer);
    }
    result
}

/// Why a statement that changes something is not run.
fn refused(change: &str) -> Status {
    Status::unimplemented(format!(
        "this server runs queries, and {change} is none: views are defined where the server is started (--init), \
         tables are written by `pelton load`; within one query, WITH names a subquery"
    ))
}

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(format!("describing the result: {error}"))
}
