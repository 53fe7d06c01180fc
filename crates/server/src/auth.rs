//! Who may call: whoever shows the token, as a bearer token or as the password of any user.
//!
//! ```text
//!   authorization: Bearer <token>                 every call
//!   authorization: Basic base64(user:<token>)     Handshake, which answers with the bearer token to use from then on
//! ```
//!
//! How long the comparison takes says how long the guess was, and nothing of the token.

use std::fmt;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use pelton_error::{Error, Result};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::run;
use crate::shared::Shared;

/// Go's client leaves the padding out, others do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The secret that clients show. It is never printed.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// The token in `text`, less white space around it.
    ///
    /// # Errors
    ///
    /// It is empty, or has characters that a header cannot carry.
    pub fn new(text: &str) -> Result<Self> {
        let token = text.trim();
        if token.is_empty() {
            return Err(Error::invalid_input(
                "the token is empty; write one to the file, such as that of `openssl rand -hex 16`",
            ));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid_input(
                "the token may have printable ASCII characters alone, and no blanks",
            ));
        }
        Ok(Self(token.into()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What a client sends with each call.
    pub(crate) fn bearer(&self) -> Option<MetadataValue<Ascii>> {
        format!("Bearer {}", self.0).parse().ok()
    }

    /// Whether `guess` is the token; every byte of the guess is looked at, whatever those before it were.
    fn is(&self, guess: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let mut difference = secret.len() ^ guess.len();
        for (index, byte) in guess.iter().enumerate() {
            difference |= usize::from(black_box(byte ^ secret[index % secret.len()]));
        }
        black_box(difference) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Lets calls through that show the token; all of them where there is none. Others are counted and logged.
#[derive(Clone)]
pub(crate) struct Guard {
    token: Option<Token>,
    shared: Arc<Shared>,
    log: Arc<Mutex<Log>>,
}

/// When a refusal was last logged, and how many there have been since: a line a second at most, so that whoever guesses
/// cannot fill the disk.
#[derive(Default)]
struct Log {
    last: Option<Instant>,
    unlogged: u64,
}

/// The least time between two lines.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

impl Guard {
    pub(crate) fn new(token: Option<Token>, shared: Arc<Shared>) -> Self {
        Self { token, shared, log: Arc::default() }
    }

    /// Counts and logs a call from `peer` that is refused for `reason`.
    fn refuse(&self, reason: Refusal, peer: Option<SocketAddr>) -> Status {
        self.shared.metrics.unauthenticated.add(reason.name());
        let line = self.log.lock().unwrap_or_else(PoisonError::into_inner).line(reason, peer, Instant::now());
        if let Some(line) = line {
            crate::run::write_log(&line);
        }
        Status::unauthenticated(reason.message())
    }
}

impl Log {
    fn line(&mut self, reason: Refusal, peer: Option<SocketAddr>, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.duration_since(last) < LOG_INTERVAL) {
            self.unlogged += 1;
            return None;
        }
        let more = match std::mem::take(&mut self.unlogged) {
            0 => String::new(),
            count => format!(", and {count} more calls before it"),
        };
        self.last = Some(now);
        Some(format!("call from {} refused: {}{more}", run::name_of(peer), reason.log()))
    }
}

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Missing,
    Malformed,
    Wrong,
}

impl Refusal {
    /// As metrics name it.
    fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Wrong => "wrong",
        }
    }

    /// As the client is told.
    fn message(self) -> &'static str {
        match self {
            Self::Missing => {
                "this server asks for a token: send it as a bearer token, or as the password of any user"
            }
            Self::Malformed => "authorization is 'Bearer <token>', or 'Basic' with it as password",
            Self::Wrong => "the token is wrong",
        }
    }

    /// As the log says it.
    fn log(self) -> &'static str {
        match self {
            Self::Missing => "it shows no token",
            Self::Malformed => "its authorization is neither a bearer token nor a password",
            Self::Wrong => "its token is wrong",
        }
    }
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> std::result::Result<Request<()>, Status> {
        match &self.token {
            Some(token) => match shows(request.metadata(), token) {
                Ok(()) => Ok(request),
                Err(reason) => Err(self.refuse(reason, request.remote_addr())),
            },
            None => Ok(request),
        }
    }
}

fn shows(metadata: &MetadataMap, token: &Token) -> std::result::Result<(), Refusal> {
    let Some(header) = metadata.get("authorization") else { return Err(Refusal::Missing) };
    let header = header.as_bytes();
    let is_right = if let Some(guess) = after_scheme(header, b"bearer ") {
        token.is(guess)
    } else if let Some(encoded) = after_scheme(header, b"basic ") {
        password(encoded).is_some_and(|guess| token.is(&guess))
    } else {
        return Err(Refusal::Malformed);
    };
    if is_right { Ok(()) } else { Err(Refusal::Wrong) }
}

/// What follows `scheme`, in capitals or not.
fn after_scheme<'a>(header: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = header.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// What follows the first colon of `user:password`.
fn password(encoded: &[u8]) -> Option<Vec<u8>> {
    let plain = BASE64.decode(encoded.trim_ascii()).ok()?;
    let colon = plain.iter().position(|byte| *byte == b':')?;
    Some(plain[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(header: Option<&str>) -> std::result::Result<(), String> {
        let token = Token::new("s3cret\n").unwrap();
        let mut metadata = MetadataMap::new();
        if let Some(header) = header {
            metadata.insert("authorization", header.parse().unwrap());
        }
        shows(&metadata, &token).map_err(|reason| reason.message().to_owned())
    }

    #[test]
    fn the_token_opens_as_bearer_and_as_password() {
        assert_eq!(answer(Some("Bearer s3cret")), Ok(()));
        assert_eq!(answer(Some("bearer s3cret")), Ok(()));
        assert_eq!(answer(Some("Basic YW5uOnMzY3JldA==")), Ok(()), "ann:s3cret");
        assert_eq!(answer(Some("Basic YW5uOnMzY3JldA")), Ok(()), "without padding");
        assert_eq!(answer(Some("Basic OnMzY3JldA==")), Ok(()), "without a user");
    }

    #[test]
    fn nothing_else_opens() {
        for wrong in ["Bearer s3cre", "Bearer s3crets", "Bearer s3creT", "Bearer ", "Bearer s3crets3cret"] {
            assert_eq!(answer(Some(wrong)), Err("the token is wrong".into()), "{wrong}");
        }
        for wrong in
            ["Basic YW5uOmd1ZXNz", "Basic YW5u", "Basic ====", "Basic \u{7f}".trim_end_matches('\u{7f}')]
        {
            assert!(answer(Some(wrong)).is_err(), "{wrong}");
        }
        assert!(answer(Some("s3cret")).unwrap_err().contains("Bearer <token>"));
        assert!(answer(None).unwrap_err().contains("asks for a token"));
    }

    #[test]
    fn refusals_are_logged_a_line_a_second() {
        let (mut log, start) = (Log::default(), Instant::now());
        let peer = Some(([10, 0, 0, 1], 5).into());
        let mut line = |after| log.line(Refusal::Wrong, peer, start + Duration::from_millis(after));
        assert_eq!(line(0).unwrap(), "call from 10.0.0.1:5 refused: its token is wrong");
        assert_eq!((line(1), line(999)), (None, None));
        assert!(line(1000).unwrap().ends_with("its token is wrong, and 2 more calls before it"));
        assert!(line(2000).unwrap().ends_with("its token is wrong"));
    }

    #[test]
    fn a_token_is_one_printable_word_and_never_printed() {
        assert!(Token::new(" \n").is_err());
        assert!(Token::new("two words").is_err());
        assert!(!format!("{:?}", Token::new("s3cret").unwrap()).contains("s3cret"));
    }
}
