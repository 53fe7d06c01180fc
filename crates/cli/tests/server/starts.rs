//! What a server needs before it starts, and who gets in.

use arrow_flight::sql::client::FlightSqlServiceClient;

use crate::harness::{Place, Serving, rows, runtime};

const TOKEN: &str = "0123456789abcdef-and-more";

#[test]
fn beyond_loopback_a_server_does_not_start_without_tls_and_a_token() {
    let place = Place::empty();
    let token = place.file("token", TOKEN);
    let text = place.refuses(&["--listen", "0.0.0.0:0"]);
    assert!(text.contains("--tls-cert") && text.contains("--token-file"), "{text}");
    let text = place.refuses(&["--listen", "0.0.0.0:0", "--token-file", &token]);
    assert!(text.contains("--tls-cert") && !text.contains(TOKEN), "{text}");
    let text = place.refuses(&["--metrics", "0.0.0.0:0"]);
    assert!(text.contains("127.0.0.1"), "{text}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_before_anything_is_served() {
    let place = Place::empty();
    let file = |name: &str| place.file(name, &std::fs::read_to_string(tls(name)).unwrap());
    let (cert, key) = (file("one.cert.pem"), file("one.key.pem"));
    let (other, none) = (file("other.key.pem"), place.file("none.pem", "not PEM"));
    let cut =
        place.file("cut.pem", &std::fs::read_to_string(tls("one.cert.pem")).unwrap().replace("MII", "MIA"));
    for (cert, key, expected) in [
        (&key, &cert, "swap the two"),
        (&cert, &other, "do not belong together"),
        (&cut, &key, "--tls-cert"),
        (&none, &key, "--tls-cert has no certificate"),
        (&cert, &none, "--tls-key has no private key"),
    ] {
        let text = place.refuses(&["--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
        assert!(text.contains(expected) && !text.contains("serving"), "{text}");
    }
}

fn tls(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/tls").join(name)
}

#[test]
fn a_server_listens_on_a_name() {
    let place = Place::empty();
    let mut args = vec!["serve", "--listen", "localhost:0", "--metrics", "localhost:0"];
    let server = Serving::start(place.pelton(&args).spawn().unwrap());
    let answer = runtime().block_on(async { rows(&mut server.client().await, "SELECT 1").await });
    assert_eq!(answer.unwrap(), ["1"]);
    args[2] = "localhost";
    let text = place.refuses(&args[1..3]);
    assert!(text.contains("the port is missing"), "{text}");
}

#[test]
fn the_token_opens_every_call_and_nothing_else_does() {
    let place = Place::with_table();
    let server = place.serve(&["--token-file", &place.file("token", &format!("{TOKEN}\n"))]);
    runtime().block_on(async {
        let channel = server.channel().await;
        let mut client = FlightSqlServiceClient::new(channel.clone());
        assert!(rows(&mut client, "SELECT 1").await.unwrap_err().contains("asks for a token"));
        client.set_token("0123456789abcdef-and-some".into());
        assert!(rows(&mut client, "SELECT 1").await.unwrap_err().contains("token is wrong"));
        assert!(client.get_catalogs().await.unwrap_err().to_string().contains("token is wrong"));
        client.set_token(TOKEN.into());
        assert_eq!(rows(&mut client, "SELECT 1").await.unwrap(), ["1"]);

        let mut client = FlightSqlServiceClient::new(channel);
        assert!(client.handshake("ann", "guess").await.unwrap_err().to_string().contains("token is wrong"));
        client.handshake("ann", TOKEN).await.unwrap();
        assert_eq!(rows(&mut client, "SELECT 2").await.unwrap(), ["2"], "the handshake gives a bearer token");
    });
    let log = server.wait_for_log("refused: ");
    assert!(log.contains("call from 127.0.0.1:"), "{log}");
    let page = server.page("/metrics");
    assert!(page.contains("pelton_unauthenticated_total{reason=\"missing\"} 1"), "{page}");
    assert!(page.contains("pelton_unauthenticated_total{reason=\"wrong\"} 3"), "{page}");
    assert!(!server.log().contains(TOKEN), "the log shows the token");
    assert!(!server.log().contains("and-some") && !server.log().contains("guess"), "the log shows guesses");
    assert!(!server.page("/metrics").contains(TOKEN));
}

#[test]
fn an_empty_warehouse_answers_metadata_and_queries_without_tables() {
    let place = Place::empty();
    let server = place.serve(&[]);
    runtime().block_on(async {
        let mut client = server.client().await;
        assert_eq!(rows(&mut client, "SELECT 1 + 1").await.unwrap(), ["2"]);
        assert!(rows(&mut client, "SELECT * FROM t").await.unwrap_err().contains("no tables yet"));
        client.get_catalogs().await.unwrap();
    });
    server.terminate();
    let (status, log) = server.wait_for_end();
    assert_eq!(status.code(), Some(0), "{log}");
}
