//! The command against object stores: what it loads and queries there, and what it says when it may not.
//!
//! `cargo xtask stores` serves the stores and says where in `PELTON_TEST_STORES`; see `tests/stores/serve.py`.

// What other tests need of it is not used here.
#[allow(dead_code)]
#[path = "../command/harness.rs"]
mod harness;

mod errors;
mod load;
mod query;

use std::process::Command;

use harness::{Outcome, Place, outcome};
use serde_json::Value;

/// The stores, as `serve.py` describes them.
fn stores(name: &str) -> String {
    let text = std::env::var("PELTON_TEST_STORES").expect("run this with `cargo xtask stores`");
    let stores: Value = serde_json::from_str(&text).unwrap();
    stores[name].as_str().unwrap_or_else(|| panic!("no store '{name}'")).to_owned()
}

/// The command, with an empty warehouse at first, `endpoint` for S3 and a key.
fn pelton(place: &Place, endpoint: &str) -> Command {
    std::fs::create_dir_all(place.path("warehouse")).unwrap();
    let mut command = place.pelton();
    for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3"] {
        command.env_remove(name);
    }
    command
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "secret-of-the-test");
    command
}

fn run(mut command: Command, args: &[&str]) -> Outcome {
    outcome(command.args(args).spawn().unwrap())
}

/// Runs what must succeed at store `name`; gives standard output.
fn ok(place: &Place, name: &str, args: &[&str]) -> String {
    let outcome = run(pelton(place, &stores(name)), args);
    assert_eq!(outcome.status, Some(0), "pelton {args:?}: {}", outcome.stderr);
    String::from_utf8(outcome.stdout).unwrap()
}

/// The rows of a query at store `name`, one line each, without the header.
fn rows(place: &Place, name: &str, query: &str) -> Vec<String> {
    let text = ok(place, name, &["sql", "--format", "csv", query]);
    text.lines().skip(1).map(str::to_owned).collect()
}

/// The message of what must fail.
fn fails(command: Command, args: &[&str]) -> String {
    let outcome = run(command, args);
    assert_eq!(outcome.status, Some(1), "pelton {args:?}: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("secret-of-the-test"), "{}", outcome.stderr);
    outcome.stderr
}

/// Puts the rows of `query` at `key` of the bucket.
fn put(place: &Place, key: &str, query: &str) {
    ok(place, "s3", &["sql", &format!("COPY ({query}) TO 's3://pelton/{key}'")]);
}
