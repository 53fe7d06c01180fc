//! Tickets, commands, actions, parameters and handshakes that no client would send: each gets an error, soon, and
//! the server goes on as if nothing had been.
//!
//! `corpus` holds messages, by the call they are for; the test sends each as it is, then with random changes. Bytes
//! that once did harm belong there.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandStatementQuery, CommandStatementSubstraitPlan, ProstMessageExt,
    SubstraitPlan, TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo,
    HandshakeRequest, Ticket,
};
use futures::TryStreamExt;
use pelton_testkit::Random;
use prost::Message;
use std::sync::Arc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::harness::{Place, rows, runtime};

/// Changed copies of each message.
const CHANGES: u64 = 40;
/// Longer than any of these may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A message and the call it is for.
#[derive(Clone)]
struct Case {
    name: String,
    bytes: Vec<u8>,
}

impl Case {
    /// Sends the message; what came back.
    async fn send(&self, client: &mut FlightServiceClient<Channel>) -> Result<(), Status> {
        let bytes = self.bytes.clone();
        match self.name.split('-').next().unwrap() {
            "ticket" => drain(client.do_get(Ticket::new(bytes)).await?.into_inner()).await,
            "command" => {
                client.get_schema(FlightDescriptor::new_cmd(bytes.clone())).await.map(drop).ok();
                let info = client.get_flight_info(FlightDescriptor::new_cmd(bytes)).await?.into_inner();
                let ticket = info.endpoint.into_iter().next().and_then(|endpoint| endpoint.ticket);
                drain(client.do_get(ticket.unwrap_or_default()).await?.into_inner()).await
            }
            "action" => {
                let (name, body) = split(&bytes);
                let action = Action::new(String::from_utf8_lossy(name), body.to_vec());
                drain(client.do_action(action).await?.into_inner()).await
            }
            "put" => {
                let messages = unframed(&bytes);
                drain(client.do_put(futures::stream::iter(messages)).await?.into_inner()).await
            }
            "handshake" => {
                let (header, payload) = split(&bytes);
                let payload = HandshakeRequest { protocol_version: 0, payload: payload.to_vec().into() };
                let mut request = Request::new(futures::stream::iter([payload]));
                if let Ok(value) = String::from_utf8_lossy(header).parse() {
                    request.metadata_mut().insert("authorization", value);
                }
                drain(client.handshake(request).await?.into_inner()).await
            }
            other => panic!("no call '{other}'"),
        }
    }

    /// With one to four bytes changed, cut, doubled or inserted.
    fn changed(&self, random: &mut Random) -> Self {
        let mut bytes = self.bytes.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64 + 1) as usize;
            match random.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
                2 => bytes.truncate(at),
                3 => bytes.insert(at, [0, 0x7f, 0x80, 0xff][random.below(4) as usize]),
                _ => bytes.extend_from_within(..at),
            }
        }
        Self { name: self.name.clone(), bytes }
    }
}

async fn drain<T>(mut stream: tonic::Streaming<T>) -> Result<(), Status> {
    while stream.message().await?.is_some() {}
    Ok(())
}

/// The part before the first zero byte, and the rest.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// The messages in `bytes`: each its length in four bytes, then itself; what cannot be read is left out.
fn unframed(mut bytes: &[u8]) -> Vec<FlightData> {
    let mut messages = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
        messages.extend(FlightData::decode(&rest[..length]));
        bytes = &rest[length..];
    }
    messages
}

fn framed(messages: &[FlightData]) -> Vec<u8> {
    let frame = |message: &FlightData| {
        let bytes = message.encode_to_vec();
        [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
    };
    messages.iter().flat_map(frame).collect()
}

fn corpus_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/server/corpus")
}

/// The committed messages.
fn corpus() -> Vec<Case> {
    let mut cases: Vec<Case> = fs::read_dir(corpus_folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| Case {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            bytes: fs::read(&path).unwrap(),
        })
        .collect();
    cases.sort_by(|one, two| one.name.cmp(&two.name));
    cases
}

/// Valid messages to change, one of each kind. `handle` is of a prepared statement.
async fn valid(handle: &[u8]) -> Vec<Case> {
    let case = |name: &str, bytes: Vec<u8>| Case { name: name.to_owned(), bytes };
    let action = |name: &str, body: Vec<u8>| [name.as_bytes(), &[0], &body].concat();
    let query = CommandStatementQuery { query: "SELECT g FROM t WHERE k < 5".into(), transaction_id: None };
    let ticket = TicketStatementQuery { statement_handle: vec![7; 16].into() };
    let prepared = CommandPreparedStatementQuery { prepared_statement_handle: handle.to_vec().into() };
    let plan = SubstraitPlan { plan: vec![10, 3, 1, 2, 3].into(), version: "0.50".into() };
    let plan = CommandStatementSubstraitPlan { plan: Some(plan), transaction_id: None };
    let tables = CommandGetTables {
        catalog: Some("pelton".into()),
        db_schema_filter_pattern: Some("p%".into()),
        table_name_filter_pattern: Some("_".into()),
        table_types: vec!["TABLE".into()],
        include_schema: true,
    };
    let info = FlightInfo::new()
        .with_endpoint(FlightEndpoint::new().with_ticket(Ticket::new(ticket.as_any().encode_to_vec())));
    let cancel = ActionCancelQueryRequest { info: info.encode_to_vec().into() };
    let prepare = ActionCreatePreparedStatementRequest { query: "SELECT $1".into(), transaction_id: None };
    let close = ActionClosePreparedStatementRequest { prepared_statement_handle: vec![1; 16].into() };
    let columns: [(&str, ArrayRef); 2] =
        [("a", Arc::new(Int64Array::from(vec![5]))), ("b", Arc::new(StringArray::from(vec![Some("text")])))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let descriptor = FlightDescriptor::new_cmd(prepared.as_any().encode_to_vec());
    let put = FlightDataEncoderBuilder::new().with_flight_descriptor(Some(descriptor));
    let put: Vec<FlightData> = put.build(futures::stream::iter([Ok(batch)])).try_collect().await.unwrap();
    vec![
        case("ticket-statement", ticket.as_any().encode_to_vec()),
        case("ticket-prepared", prepared.as_any().encode_to_vec()),
        case("ticket-tables", tables.as_any().encode_to_vec()),
        case("command-statement", query.as_any().encode_to_vec()),
        case("command-prepared", prepared.as_any().encode_to_vec()),
        case("command-plan", plan.as_any().encode_to_vec()),
        case("command-tables", tables.as_any().encode_to_vec()),
        case("command-schemas", CommandGetDbSchemas::default().as_any().encode_to_vec()),
        case("command-facts", CommandGetSqlInfo { info: vec![0, 8, 500] }.as_any().encode_to_vec()),
        case("command-types", CommandGetXdbcTypeInfo { data_type: Some(4) }.as_any().encode_to_vec()),
        case("action-prepare", action("CreatePreparedStatement", prepare.as_any().encode_to_vec())),
        case("action-close", action("ClosePreparedStatement", close.as_any().encode_to_vec())),
        case("action-cancel", action("CancelFlightInfo", CancelFlightInfoRequest::new(info).encode_to_vec())),
        case("action-cancel-older", action("CancelQuery", cancel.as_any().encode_to_vec())),
        case("put-parameters", framed(&put)),
        case("handshake-basic", action("Basic YW5uOmd1ZXNz", b"payload".to_vec())),
    ]
}

#[test]
fn malformed_messages_get_errors_and_harm_nothing() {
    let place = Place::with_table();
    let server = place.serve(&["--threads", "2", "--idle-seconds", "5"]);
    let mut random = Random::new(20261122);
    runtime().block_on(async {
        let mut sql = server.client().await;
        let sent =
            ActionCreatePreparedStatementRequest { query: "SELECT $1, $2".into(), transaction_id: None };
        let mut client = FlightServiceClient::new(server.channel().await);
        let action = Action::new("CreatePreparedStatement", sent.as_any().encode_to_vec());
        let result = client.do_action(action).await.unwrap().into_inner().message().await.unwrap().unwrap();
        let any = arrow_flight::sql::Any::decode(result.body).unwrap();
        let prepared: arrow_flight::sql::ActionCreatePreparedStatementResult = any.unpack().unwrap().unwrap();
        let mut cases = corpus();
        assert!(cases.len() > 10, "the corpus is missing");
        cases.extend(valid(&prepared.prepared_statement_handle).await);
        let changed: Vec<Case> = cases
            .iter()
            .flat_map(|case| (0..CHANGES).map(|_| case.changed(&mut random)).collect::<Vec<_>>())
            .collect();
        let mut refused = 0;
        for case in cases.iter().chain(&changed) {
            let sent = tokio::time::timeout(SOON, case.send(&mut client)).await;
            let result = sent.unwrap_or_else(|_| panic!("{} hangs: {:02x?}", case.name, case.bytes));
            if let Err(status) = result {
                let is_bug = status.code() == Code::Internal || status.code() == Code::Unknown;
                assert!(!is_bug, "{}: {status:?}: {:02x?}", case.name, case.bytes);
                refused += 1;
            }
        }
        assert!(refused > changed.len() / 2, "only {refused} of {} were refused", changed.len());
        assert_eq!(rows(&mut sql, "SELECT count(*) FROM t").await.unwrap(), ["120000"]);
    });
    server.wait_until_free();
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn bytes_that_are_not_http_close_their_connection_and_no_other() {
    let place = Place::empty();
    let server = place.serve(&[]);
    let mut random = Random::new(7);
    runtime().block_on(async {
        let mut client = server.client().await;
        for round in 0..60 {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            let mut bytes =
                if round % 2 == 0 { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec() } else { Vec::new() };
            bytes.extend((0..random.below(400)).map(|_| random.below(256) as u8));
            // The server may hang up before all is written or read.
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        assert_eq!(rows(&mut client, "SELECT 1").await.unwrap(), ["1"]);
    });
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn deep_and_long_queries_are_answered_or_refused() {
    let place = Place::empty();
    let server = place.serve(&["--threads", "2"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let deep = format!("SELECT {}1{}", "(".repeat(1_000), ")".repeat(1_000));
        let too_deep = format!("SELECT {}1{}", "(".repeat(1_001), ")".repeat(1_001));
        let long = format!("SELECT {}", vec!["1"; 400].join(" + "));
        let huge = format!("SELECT '{}'", "x".repeat(6 << 20));
        let deeper = format!("SELECT {}", vec!["1"; 30_000].join(" + "));
        let list = format!("SELECT 1 IN ({})", vec!["1"; 3_000].join(", "));
        for (sql, answer) in [
            (&long, Ok("400")),
            (&list, Ok("true")),
            (&deep, Ok("1")),
            (&too_deep, Err("nests too deep")),
            (&deeper, Err("nests too deep")),
            (&huge, Err("")),
        ] {
            let found = tokio::time::timeout(SOON, rows(&mut client, sql)).await.expect("an answer");
            match answer {
                Ok(row) => assert_eq!(found.unwrap(), [row]),
                Err(text) => assert!(found.as_ref().is_err_and(|error| error.contains(text)), "{found:?}"),
            }
        }
        assert_eq!(rows(&mut client, "SELECT 1").await.unwrap(), ["1"]);
    });
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Writes `valid` messages, and some that are wrong in known ways, as the corpus, where `PELTON_WRITE_CORPUS` is set.
#[test]
fn the_corpus_is_written_on_request() {
    if std::env::var_os("PELTON_WRITE_CORPUS").is_none() {
        return;
    }
    runtime().block_on(async {
        let mut cases = valid(&[9; 16]).await;
        let any = |url: &str, value: Vec<u8>| {
            let any = arrow_flight::sql::Any { type_url: url.into(), value: value.into() };
            any.encode_to_vec()
        };
        let statement = "type.googleapis.com/arrow.flight.protocol.sql.TicketStatementQuery";
        for (name, bytes) in [
            ("ticket-empty", Vec::new()),
            ("ticket-text", b"SELECT 1".to_vec()),
            ("ticket-unknown-kind", any("type.googleapis.com/no.such.Kind", vec![1, 2, 3])),
            ("ticket-huge-length", any(statement, vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f])),
            ("ticket-short-handle", any(statement, vec![0x0a, 0x01, 0x00])),
            ("command-nested", any(statement, any(statement, any(statement, vec![])))),
            ("action-unknown", b"DropEverything\0now".to_vec()),
            ("put-nothing", Vec::new()),
            ("handshake-no-base64", b"Basic %%%%\0".to_vec()),
            ("handshake-no-scheme", b"s3cret\0".to_vec()),
        ] {
            cases.push(Case { name: name.into(), bytes });
        }
        for case in cases {
            fs::write(corpus_folder().join(format!("{}.bin", case.name)), case.bytes).unwrap();
        }
    });
}
