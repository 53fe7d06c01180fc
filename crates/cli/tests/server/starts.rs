//! What a server needs before it starts, and who gets in.

use arrow_flight::sql::client::FlightSqlServiceClient;

use crate::harness::{Place, rows, runtime};

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
fn files_that_are_no_certificate_are_named() {
    let place = Place::empty();
    let (cert, key) = (place.file("cert.pem", "not a certificate"), place.file("key.pem", "not a key"));
    let text = place.refuses(&["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key]);
    assert!(text.contains("--tls-cert and --tls-key"), "{text}");
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
    assert!(!server.log().contains(TOKEN), "the log shows the token");
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
