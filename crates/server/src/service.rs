//! Flight's calls, taken apart: each command goes to the module that answers it, everything else is refused by name.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, Any, Command, DoPutPreparedStatementResult, ProstMessageExt,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, Criteria, Empty,
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, PollInfo,
    PutResult, SchemaResult, Ticket,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use crate::running::CancelledBy;
use crate::shared::Shared;
use crate::status::malformed;
use crate::{metadata, parameters, run, statements};

/// What an action is, for clients that list them.
const ACTIONS: [(&str, &str); 5] = [
    ("CreatePreparedStatement", "Understands a statement; its parameters are bound later."),
    ("ClosePreparedStatement", "Forgets a prepared statement."),
    ("CancelFlightInfo", "Cancels a query and forgets its ticket."),
    ("CancelQuery", "The same, as older clients ask for it."),
    ("CloseSession", "Ends a session. There are none here, so nothing happens."),
];

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Flight SQL over what the connections share.
pub(crate) struct Service {
    shared: Arc<Shared>,
}

impl Service {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn cancel(&self, info: FlightInfo) -> CancelStatus {
        let mut is_any = false;
        for handle in info.endpoint.into_iter().filter_map(ticket_handle) {
            // In this order: what finds its ticket gone knows that it was cancelled.
            let was_running = self.shared.running.cancel(&handle, CancelledBy::Client);
            let was_waiting = self.shared.tickets.remove(&handle);
            is_any |= was_running || was_waiting;
        }
        if is_any { CancelStatus::Cancelled } else { CancelStatus::NotCancellable }
    }

    async fn bind(
        &self,
        handle: &[u8],
        mut request: Streaming<FlightData>,
        first: FlightData,
    ) -> Result<(), Status> {
        let (_, statement) = self.shared.prepared.get(handle)?;
        let messages = stream::once(async move { Ok(first) })
            .chain(stream::poll_fn(move |context| request.poll_next_unpin(context)));
        let values =
            tokio::time::timeout(self.shared.limits.idle_timeout, parameters::read(Box::pin(messages)));
        let values = values.await.map_err(|_| Status::deadline_exceeded("no parameters came"))??;
        statement.bound.set(values);
        Ok(())
    }
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<HandshakeResponse>;
    type ListFlightsStream = BoxStream<FlightInfo>;
    type DoGetStream = BoxStream<FlightData>;
    type DoPutStream = BoxStream<PutResult>;
    type DoExchangeStream = BoxStream<FlightData>;
    type DoActionStream = BoxStream<arrow_flight::Result>;
    type ListActionsStream = BoxStream<ActionType>;

    /// Whoever comes here has shown the token, as a password perhaps; this is how it is shown from now on.
    async fn handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let bearer = self.shared.bearer.clone();
        let bearer = bearer.unwrap_or_else(|| tonic::metadata::MetadataValue::from_static("Bearer none"));
        let answer = HandshakeResponse { protocol_version: 0, payload: prost::bytes::Bytes::new() };
        let mut response = Response::new(once(answer));
        response.metadata_mut().insert("authorization", bearer);
        Ok(response)
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let peer = request.remote_addr();
        let descriptor = request.into_inner();
        let question = command(&descriptor.cmd, "the command")?;
        if let Some(schema) = metadata::schema(&question) {
            let ticket = Ticket::new(question.into_any().encode_to_vec());
            let info =
                FlightInfo::new().try_with_schema(&schema).map_err(|error| malformed("a schema", error))?;
            let endpoint = FlightEndpoint::new().with_ticket(ticket);
            return Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(descriptor)));
        }
        let (ticket, schema) = match question {
            Command::CommandStatementQuery(query) => {
                no_transaction(query.transaction_id.as_ref())?;
                statements::plan(&self.shared, &query.query, peer).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                statements::plan_bound(&self.shared, &query.prepared_statement_handle, peer).await?
            }
            other => return Err(no_such("command", other.type_url())),
        };
        statements::info(ticket, &schema, descriptor).map(Response::new)
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let peer = request.remote_addr();
        let question = command(&request.get_ref().cmd, "the command")?;
        let schema = match (metadata::schema(&question), question) {
            (Some(schema), _) => schema,
            (None, Command::CommandStatementQuery(query)) => {
                let (ticket, schema) = statements::plan(&self.shared, &query.query, peer).await?;
                self.shared.tickets.remove(&ticket);
                schema
            }
            (None, Command::CommandPreparedStatementQuery(query)) => {
                let handle = &query.prepared_statement_handle;
                let (ticket, schema) = statements::plan_bound(&self.shared, handle, peer).await?;
                self.shared.tickets.remove(&ticket);
                schema
            }
            (None, other) => return Err(no_such("command", other.type_url())),
        };
        Ok(Response::new(SchemaResult { schema: statements::ipc_schema(&schema)? }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let peer = request.remote_addr();
        let question = command(&request.get_ref().ticket, "the ticket")?;
        if metadata::schema(&question).is_some() {
            return Ok(Response::new(one_batch(metadata::answer(&self.shared, question).await?)));
        }
        let (ticket, planned) = match question {
            Command::TicketStatementQuery(ticket) => {
                let (ticket, planned) = self.shared.tickets.get(&ticket.statement_handle)?;
                (Some(ticket), planned)
            }
            Command::CommandPreparedStatementQuery(query) => {
                let handle = &query.prepared_statement_handle;
                (None, Arc::new(statements::plan_to_fetch(&self.shared, handle, peer).await?))
            }
            other => return Err(no_such("ticket", other.type_url())),
        };
        let rows = run::fetch(&self.shared, ticket, planned, peer).await?;
        Ok(Response::new(Box::pin(rows)))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let mut messages = request.into_inner();
        let none = || Status::invalid_argument("the first message says what is put; there is none");
        let first = messages.message().await?.ok_or_else(none)?;
        let descriptor = first.flight_descriptor.as_ref().ok_or_else(none)?;
        match command(&descriptor.cmd, "the command")? {
            Command::CommandPreparedStatementQuery(query) => {
                self.bind(&query.prepared_statement_handle, messages, first).await?;
                let result = DoPutPreparedStatementResult { prepared_statement_handle: None };
                Ok(Response::new(once(PutResult { app_metadata: result.encode_to_vec().into() })))
            }
            Command::CommandStatementUpdate(_) | Command::CommandPreparedStatementUpdate(_) => {
                Err(Status::unimplemented(
                    "this server runs queries and updates nothing: tables are written by `pelton load`. A query is \
                     run as a query, not as an update",
                ))
            }
            Command::CommandStatementIngest(_) => Err(Status::unimplemented(
                "this server takes no rows; load them with `pelton load` where it runs",
            )),
            other => Err(no_such("command", other.type_url())),
        }
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let peer = request.remote_addr();
        let action = request.into_inner();
        match action.r#type.as_str() {
            "CreatePreparedStatement" => {
                let wanted: ActionCreatePreparedStatementRequest = unpack(&action)?;
                no_transaction(wanted.transaction_id.as_ref())?;
                let prepared = statements::prepare(&self.shared, &wanted.query, peer).await?;
                Ok(answer(prepared.as_any().encode_to_vec()))
            }
            "ClosePreparedStatement" => {
                let wanted: ActionClosePreparedStatementRequest = unpack(&action)?;
                self.shared.prepared.remove(&wanted.prepared_statement_handle);
                Ok(Response::new(Box::pin(stream::empty())))
            }
            "CancelFlightInfo" => {
                let wanted = CancelFlightInfoRequest::decode(action.body)
                    .map_err(|error| malformed("the request to cancel", error))?;
                let status = self.cancel(wanted.info.unwrap_or_default()).await;
                Ok(answer(CancelFlightInfoResult::new(status).encode_to_vec()))
            }
            "CancelQuery" => {
                let wanted: ActionCancelQueryRequest = unpack(&action)?;
                let info =
                    FlightInfo::decode(wanted.info).map_err(|error| malformed("what to cancel", error))?;
                // The two messages number their results alike.
                let result = ActionCancelQueryResult { result: self.cancel(info).await.into() };
                Ok(answer(result.as_any().encode_to_vec()))
            }
            "CloseSession" => Ok(answer(Vec::new())),
            "BeginTransaction" | "EndTransaction" | "BeginSavepoint" | "EndSavepoint" => {
                Err(no_transactions())
            }
            other => Err(no_such("action", other)),
        }
    }

    async fn list_actions(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        let actions =
            ACTIONS.map(|(name, what)| Ok(ActionType { r#type: name.into(), description: what.into() }));
        Ok(Response::new(Box::pin(stream::iter(actions))))
    }

    async fn list_flights(
        &self,
        _request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented(
            "there are no flights to list; ask for tables with GetTables of Flight SQL",
        ))
    }

    async fn poll_flight_info(
        &self,
        _request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("results are not polled; GetFlightInfo answers at once and DoGet streams"))
    }

    async fn do_exchange(
        &self,
        _request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented("nothing is exchanged; queries are run with GetFlightInfo and DoGet"))
    }
}

/// The command in `bytes`, which clients wrap in an `Any`.
fn command(bytes: &[u8], what: &str) -> Result<Command, Status> {
    let any = Any::decode(bytes).map_err(|error| malformed(what, error))?;
    Command::try_from(any).map_err(|error| malformed(what, error))
}

fn unpack<M: ProstMessageExt>(action: &Action) -> Result<M, Status> {
    let what = format!("the body of {}", action.r#type);
    let any = Any::decode(action.body.as_ref()).map_err(|error| malformed(&what, error))?;
    let message = any.unpack().map_err(|error| malformed(&what, error))?;
    message.ok_or_else(|| malformed(&what, format!("it holds a '{}'", any.type_url)))
}

/// The handle in the ticket of one endpoint.
fn ticket_handle(endpoint: FlightEndpoint) -> Option<Vec<u8>> {
    let any = Any::decode(endpoint.ticket?.ticket).ok()?;
    let ticket: TicketStatementQuery = any.unpack().ok()??;
    Some(ticket.statement_handle.to_vec())
}

fn no_transaction(id: Option<&prost::bytes::Bytes>) -> Result<(), Status> {
    if id.is_none_or(|id| id.is_empty()) { Ok(()) } else { Err(no_transactions()) }
}

fn no_transactions() -> Status {
    Status::unimplemented(
        "there are no transactions: each query reads one snapshot of each table. Connect with autocommit on",
    )
}

fn no_such(what: &str, name: &str) -> Status {
    let name: String = name.chars().take(100).collect();
    Status::unimplemented(format!("this server knows no {what} '{name}'"))
}

fn once<T: Send + 'static>(item: T) -> BoxStream<T> {
    Box::pin(stream::iter([Ok(item)]))
}

fn answer(body: Vec<u8>) -> Response<BoxStream<arrow_flight::Result>> {
    Response::new(once(arrow_flight::Result::new(body)))
}

fn one_batch(batch: RecordBatch) -> BoxStream<FlightData> {
    let encoder = FlightDataEncoderBuilder::new().with_schema(batch.schema());
    Box::pin(encoder.build(stream::iter([Ok(batch)])).map_err(Status::from))
}
