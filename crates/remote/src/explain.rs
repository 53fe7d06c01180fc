//! What a store's error means, in our words: the object, what happened, and what to change.
//!
//! The library's own texts are long and name no variable. What is told apart here is told apart by the kind of the
//! error, the status that the server sent, and the code in the answer's body. No message shows a credential.

use std::error::Error as StdError;

use object_store::client::{HttpError, HttpErrorKind};
use pelton_error::{Error, ErrorKind};
use url::Url;

use crate::location::url_text;
use crate::objects::changed;

/// Text of a server shown in a message.
const SHOWN_CHARS: usize = 200;

/// Who answers.
#[derive(Debug, Clone)]
pub(crate) enum Service {
    /// An S3-compatible store.
    S3 {
        bucket: String,
        /// What `AWS_REGION` says, or the default.
        region: String,
        /// Whether the environment holds a key.
        has_key: bool,
        is_anonymous: bool,
        /// `None`: Amazon's own.
        endpoint: Option<String>,
    },
    /// A plain HTTP server.
    Http,
}

/// Explains the errors of one store.
#[derive(Debug, Clone)]
pub(crate) struct Explainer {
    base: Url,
    service: Service,
}

impl Explainer {
    pub(crate) fn new(base: Url, service: Service) -> Self {
        Self { base, service }
    }

    /// What `error` means that came of a request for `path`, an object or a folder.
    pub(crate) fn explain(&self, error: object_store::Error, path: &str) -> Error {
        if let Some(ours) = ours(&error) {
            return ours;
        }
        let url = url_text(&self.base, path);
        let text = chain_text(&error);
        let answer = Answer::of(&error, &text);
        let explained = match &self.service {
            Service::S3 { .. } => self.explain_s3(&url, &text, &answer),
            Service::Http => explain_http(&url, &text, &answer),
        };
        explained.or_else(|| self.explain_any(&url, &error, &answer)).unwrap_or_else(|| {
            let kind = if answer.status.is_some() { ErrorKind::InvalidInput } else { ErrorKind::Io };
            Error::new(kind, format!("reading '{url}': {}", shortened(&text)))
        })
    }

    fn explain_s3(&self, url: &str, text: &str, answer: &Answer) -> Option<Error> {
        let Service::S3 { bucket, region, endpoint, .. } = &self.service else { return None };
        let is_redirect = text.contains("redirect without LOCATION") || answer.status == Some(301);
        match answer.code.as_deref() {
            Some("NoSuchBucket") => {
                let whose = endpoint.as_deref().unwrap_or("Amazon S3");
                Some(Error::invalid_input(format!(
                    "'{url}': there is no bucket '{bucket}' at {whose}; check the name, AWS_REGION and AWS_ENDPOINT_URL"
                )))
            }
            Some("AuthorizationHeaderMalformed" | "PermanentRedirect") => {
                Some(wrong_region(url, bucket, region, answer.region.as_deref()))
            }
            _ if is_redirect => Some(wrong_region(url, bucket, region, None)),
            _ => self.explain_credentials(url, text, answer),
        }
    }

    /// What is wrong with the key, the secret or the token.
    fn explain_credentials(&self, url: &str, text: &str, answer: &Answer) -> Option<Error> {
        let Service::S3 { has_key, is_anonymous, .. } = &self.service else { return None };
        let error = match (answer.status, answer.code.as_deref()) {
            _ if !has_key && !is_anonymous && is_of_metadata(text) => Error::invalid_input(format!(
                "'{url}': no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 AWS_SKIP_SIGNATURE=true for a public bucket"
            )),
            (None, _) if text.contains("SecretAccessKey") => {
                Error::invalid_input("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not; set both")
            }
            (None, _) if text.contains("AccessKeyId") => {
                Error::invalid_input("AWS_SECRET_ACCESS_KEY is set and AWS_ACCESS_KEY_ID is not; set both")
            }
            (_, Some("InvalidAccessKeyId")) => Error::invalid_input(format!(
                "'{url}': the key in AWS_ACCESS_KEY_ID is not known to the store"
            )),
            (_, Some("SignatureDoesNotMatch")) => Error::invalid_input(format!(
                "'{url}': the secret in AWS_SECRET_ACCESS_KEY does not belong to the key in AWS_ACCESS_KEY_ID"
            )),
            (_, Some("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired")) => {
                Error::invalid_input(format!(
                    "'{url}': the token in AWS_SESSION_TOKEN has expired or is not valid; get new credentials"
                ))
            }
            (Some(401 | 403), _) if *is_anonymous => Error::invalid_input(format!(
                "'{url}' may not be read without credentials; unset AWS_SKIP_SIGNATURE, and set AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY"
            )),
            (Some(401 | 403), _) if *has_key => Error::invalid_input(format!(
                "'{url}' may not be read with the key in AWS_ACCESS_KEY_ID and its secret, or is not there: a store that may \
                 not be listed says the same of both"
            )),
            (Some(401 | 403), _) => Error::invalid_input(format!(
                "'{url}' may not be read with the role of this machine; grant it, or set AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY"
            )),
            _ => return None,
        };
        Some(error)
    }

    /// What any server may do.
    fn explain_any(&self, url: &str, error: &object_store::Error, answer: &Answer) -> Option<Error> {
        let io = |message: String| Some(Error::new(ErrorKind::Io, message));
        if matches!(error, object_store::Error::NotFound { .. }) || answer.status == Some(404) {
            return Some(Error::invalid_input(format!("there is no object '{url}'")));
        }
        if matches!(error, object_store::Error::Precondition { .. }) || answer.status == Some(412) {
            return Some(changed(url));
        }
        let server = self.server();
        match (answer.status, answer.failure) {
            (Some(status @ (429 | 500..=599)), _) => io(format!(
                "reading '{url}': {server} answered {status}{}, and so it did when asked again; try later",
                answer.code.as_ref().map_or(String::new(), |code| format!(" ({code})"))
            )),
            (None, Some(HttpErrorKind::Timeout)) => {
                io(format!("reading '{url}': {server} did not answer in time, and neither when asked again"))
            }
            (None, Some(HttpErrorKind::Connect)) => io(format!(
                "reading '{url}': cannot connect to {server} ({}); check {}",
                root_text(error),
                self.where_said()
            )),
            (None, Some(HttpErrorKind::Interrupted | HttpErrorKind::Request | HttpErrorKind::Decode)) => {
                io(format!("reading '{url}': {server} closed the connection before the answer was complete"))
            }
            _ => None,
        }
    }

    fn server(&self) -> String {
        match &self.service {
            Service::S3 { endpoint: Some(endpoint), .. } => endpoint.clone(),
            Service::S3 { region, .. } => format!("Amazon S3 in {region}"),
            Service::Http => self.base.host_str().unwrap_or("the server").to_owned(),
        }
    }

    /// Where the server's name comes from.
    fn where_said(&self) -> &'static str {
        match &self.service {
            Service::S3 { endpoint: Some(_), .. } => "AWS_ENDPOINT_URL",
            Service::S3 { .. } => {
                "the network, AWS_REGION, and AWS_ENDPOINT_URL for a store that is not Amazon's"
            }
            Service::Http => "the host and port",
        }
    }
}

fn explain_http(url: &str, text: &str, answer: &Answer) -> Option<Error> {
    Some(match answer.status {
        _ if is_without_ranges(text) => Error::invalid_input(format!(
            "'{url}': the server does not serve parts of a file (HTTP ranges); download the file and name it on disk"
        )),
        _ if text.contains("PROPFIND") => {
            Error::invalid_input(format!("'{url}': HTTP servers have no listing to rely on; name each file"))
        }
        Some(401 | 403) => {
            Error::invalid_input(format!("'{url}' may not be read; credentials are not sent to HTTP servers"))
        }
        _ => return None,
    })
}

/// Whether a server sent the whole of what a part was asked for.
fn is_without_ranges(text: &str) -> bool {
    text.contains("non-partial response") || text.contains("Range request not supported")
}

fn wrong_region(url: &str, bucket: &str, region: &str, right: Option<&str>) -> Error {
    let right = right.unwrap_or("the bucket's");
    Error::invalid_input(format!(
        "'{url}': bucket '{bucket}' is not in region {region}; set AWS_REGION={right}"
    ))
}

/// What a server sent, or what kept it from sending.
struct Answer {
    status: Option<u16>,
    /// `<Code>` of the body.
    code: Option<String>,
    /// `<Region>` of the body.
    region: Option<String>,
    failure: Option<HttpErrorKind>,
}

impl Answer {
    fn of(error: &object_store::Error, text: &str) -> Self {
        let status = text.split("status code: ").nth(1).and_then(|rest| rest.get(..3)?.parse().ok());
        let by_kind = match error {
            object_store::Error::NotFound { .. } => Some(404),
            object_store::Error::Unauthenticated { .. } => Some(401),
            object_store::Error::PermissionDenied { .. } => Some(403),
            _ => None,
        };
        Self {
            status: status.or(by_kind),
            code: element(text, "Code"),
            region: element(text, "Region"),
            failure: sources(error)
                .find_map(|source| source.downcast_ref::<HttpError>().map(HttpError::kind)),
        }
    }
}

/// The text of the first XML element `name`.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inside, _) = rest.split_once(&format!("</{name}>"))?;
    Some(inside.trim().to_owned())
}

/// Whether a request for the machine's role failed, not one for data.
fn is_of_metadata(text: &str) -> bool {
    ["169.254.", "latest/api/token", "latest/meta-data", "security-credentials", "IMDS"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// Our own error where `error` carries one.
pub(crate) fn ours(error: &(dyn StdError + 'static)) -> Option<Error> {
    let ours = sources(error).find_map(|source| source.downcast_ref::<Error>())?;
    Some(Error::new(ours.kind().clone(), ours.to_string()))
}

/// An error and its sources, outermost first.
fn sources<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}

/// All texts of the chain that the ones before do not contain.
fn chain_text(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for source in sources(error) {
        let next = source.to_string();
        if !text.contains(&next) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&next);
        }
    }
    text
}

/// The innermost text.
fn root_text(error: &(dyn StdError + 'static)) -> String {
    sources(error).last().map_or(String::new(), |source| shortened(&source.to_string()))
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(has_key: bool, is_anonymous: bool) -> Explainer {
        let service = Service::S3 {
            bucket: "b".into(),
            region: "us-east-1".into(),
            has_key,
            is_anonymous,
            endpoint: Some("http://h:1".into()),
        };
        Explainer::new(Url::parse("s3://b").unwrap(), service)
    }

    fn answered(status: &str, body: &str) -> object_store::Error {
        let text = format!("Server returned non-2xx status code: {status}: {body}");
        object_store::Error::Generic { store: "S3", source: text.into() }
    }

    fn message(explainer: &Explainer, status: &str, body: &str) -> String {
        explainer.explain(answered(status, body), "k/x.parquet").to_string()
    }

    #[test]
    fn each_refusal_names_the_variable_to_change() {
        let signed = s3(true, false);
        let code = |code: &str| format!("<Error><Code>{code}</Code><Region>eu-west-1</Region></Error>");
        let cases = [
            ("404 Not Found", code("NoSuchBucket"), "there is no bucket 'b' at http://h:1"),
            ("404 Not Found", code("NoSuchKey"), "there is no object 's3://b/k/x.parquet'"),
            ("403 Forbidden", code("InvalidAccessKeyId"), "AWS_ACCESS_KEY_ID is not known"),
            ("403 Forbidden", code("SignatureDoesNotMatch"), "AWS_SECRET_ACCESS_KEY does not belong"),
            ("403 Forbidden", code("ExpiredToken"), "AWS_SESSION_TOKEN has expired"),
            ("403 Forbidden", code("AccessDenied"), "with the key in AWS_ACCESS_KEY_ID"),
            ("400 Bad Request", code("AuthorizationHeaderMalformed"), "set AWS_REGION=eu-west-1"),
            ("412 Precondition Failed", code("PreconditionFailed"), "was replaced while it was read"),
            ("503 Service Unavailable", code("SlowDown"), "http://h:1 answered 503 (SlowDown)"),
        ];
        for (status, body, expected) in cases {
            let message = message(&signed, status, &body);
            assert!(message.contains(expected) && message.contains("s3://b/k/x.parquet"), "{message}");
        }
        assert!(message(&s3(false, true), "403 Forbidden", "").contains("unset AWS_SKIP_SIGNATURE"));
    }

    #[test]
    fn a_machine_without_a_role_is_told_to_set_a_key() {
        let text =
            "Error performing PUT http://169.254.169.254/latest/api/token: status code: 403 Forbidden: ";
        let error = object_store::Error::Generic { store: "S3", source: text.into() };
        let message = s3(false, false).explain(error, "k").to_string();
        assert!(message.contains("no credentials were found; set AWS_ACCESS_KEY_ID"), "{message}");
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        let kind = |status: &str| s3(true, false).explain(answered(status, ""), "k").kind().clone();
        assert_eq!(kind("503 Service Unavailable"), ErrorKind::Io);
        assert_eq!(kind("404 Not Found"), ErrorKind::InvalidInput);
    }

    #[test]
    fn http_servers_have_their_own_limits() {
        let explainer = Explainer::new(Url::parse("https://h/").unwrap(), Service::Http);
        let partial =
            object_store::Error::NotSupported { source: "Range request not supported by a.parquet".into() };
        let message = explainer.explain(partial, "a.parquet").to_string();
        assert!(message.starts_with("'https://h/a.parquet'") && message.contains("HTTP ranges"), "{message}");
    }

    #[test]
    fn an_explained_error_is_not_explained_again() {
        let ours = Error::invalid_input("there is no object 'x'");
        let wrapped = object_store::Error::Generic { store: "remote", source: Box::new(ours) };
        assert_eq!(s3(true, false).explain(wrapped, "k").to_string(), "there is no object 'x'");
    }
}
