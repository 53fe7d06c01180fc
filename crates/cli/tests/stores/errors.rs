//! What is said where a store refuses, and that secrets are not.

use crate::harness::Place;
use crate::{fails, pelton, put, stores};

const QUERY: &str = "SELECT * FROM 's3://pelton/e/a.parquet'";

/// The same must be said of a query and of a load.
fn both(place: &Place, url: &str, adapt: impl Fn(&mut std::process::Command), store: &str) -> [String; 2] {
    let command = || {
        let mut command = pelton(place, &stores(store));
        adapt(&mut command);
        command
    };
    let query = fails(command(), &["sql", &format!("SELECT * FROM '{url}'")]);
    let load = fails(command(), &["load", "--quiet", "--table", "t", url]);
    [query, load]
}

#[test]
fn missing_buckets_and_keys_are_told_apart() {
    let place = Place::new();
    put(&place, "e/a.parquet", "SELECT 1 AS a");
    for message in both(&place, "s3://no-such-bucket/a.parquet", |_| {}, "s3") {
        assert!(message.contains("there is no bucket 'no-such-bucket' at http://127.0.0.1"), "{message}");
    }
    for message in both(&place, "s3://pelton/e/b.parquet", |_| {}, "s3") {
        assert!(message.contains("there is no object 's3://pelton/e/b.parquet'"), "{message}");
    }
    for message in both(&place, "s3://pelton/e/*.csv", |_| {}, "s3") {
        assert!(message.contains("no object matches 's3://pelton/e/*.csv'"), "{message}");
    }
}

#[test]
fn the_variable_to_change_is_named() {
    let place = Place::new();
    let url = "s3://pelton/e/a.parquet";
    for message in both(&place, url, |_| {}, "signed") {
        assert!(message.contains("the key in AWS_ACCESS_KEY_ID is not known"), "{message}");
    }
    let (key, secret) = (stores("key"), stores("secret"));
    for message in both(&place, url, |command| _ = command.env("AWS_ACCESS_KEY_ID", &key), "signed") {
        assert!(
            message.contains("the secret in AWS_SECRET_ACCESS_KEY does not belong to the key"),
            "{message}"
        );
    }
    for message in both(&place, url, |command| _ = command.env_remove("AWS_SECRET_ACCESS_KEY"), "signed") {
        assert!(message.contains("AWS_SECRET_ACCESS_KEY is not; set both"), "{message}");
    }
    let mut right = pelton(&place, &stores("signed"));
    right.env("AWS_ACCESS_KEY_ID", &key).env("AWS_SECRET_ACCESS_KEY", &secret);
    let message = fails(right, &["sql", QUERY]);
    assert!(message.contains("there is no object 's3://pelton/e/a.parquet'"), "{message}");
}

#[test]
fn a_machine_without_credentials_hears_so_soon() {
    let place = Place::new();
    let start = std::time::Instant::now();
    let without = |command: &mut std::process::Command| {
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        // Nobody answers for a role there.
        command.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9");
    };
    for message in both(&place, "s3://pelton/e/a.parquet", without, "s3") {
        assert!(message.contains("no credentials were found; set AWS_ACCESS_KEY_ID"), "{message}");
        assert!(message.contains("AWS_SKIP_SIGNATURE=true"), "{message}");
    }
    assert!(start.elapsed().as_secs() < 30);
}

#[test]
fn wrong_endpoints_are_named() {
    let place = Place::new();
    let at = |endpoint: &str| fails(pelton(&place, endpoint), &["sql", QUERY]);
    let nobody = at("http://127.0.0.1:9");
    assert!(
        nobody.contains("cannot connect to http://127.0.0.1:9") && nobody.contains("AWS_ENDPOINT_URL"),
        "{nobody}"
    );
    assert!(at("127.0.0.1:9").contains("AWS_ENDPOINT_URL is '127.0.0.1:9', which is no URL"));
    let mut encrypted = pelton(&place, "http://127.0.0.1:9");
    encrypted.env_remove("AWS_ALLOW_HTTP");
    assert!(fails(encrypted, &["sql", QUERY]).contains("set AWS_ALLOW_HTTP=true"));
}
