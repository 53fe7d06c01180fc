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
use std::sync::Arc;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use pelton_error::{Error, Result};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

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

/// Lets calls through that show the token; all of them where there is none.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    token: Option<Token>,
}

impl Guard {
    pub(crate) fn new(token: Option<Token>) -> Self {
        Self { token }
    }
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> std::result::Result<Request<()>, Status> {
        match &self.token {
            Some(token) => shows(request.metadata(), token).map(|()| request),
            None => Ok(request),
        }
    }
}

fn shows(metadata: &MetadataMap, token: &Token) -> std::result::Result<(), Status> {
    let Some(header) = metadata.get("authorization") else {
        return Err(Status::unauthenticated(
            "this server asks for a token: send it as a bearer token, or as the password of any user",
        ));
    };
    let header = header.as_bytes();
    let is_right = if let Some(guess) = after_scheme(header, b"bearer ") {
        token.is(guess)
    } else if let Some(encoded) = after_scheme(header, b"basic ") {
        password(encoded).is_some_and(|guess| token.is(&guess))
    } else {
        return Err(Status::unauthenticated(
            "authorization is 'Bearer <token>', or 'Basic' with it as password",
        ));
    };
    if is_right { Ok(()) } else { Err(Status::unauthenticated("the token is wrong")) }
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
        shows(&metadata, &token).map_err(|status| status.message().to_owned())
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
    fn a_token_is_one_printable_word_and_never_printed() {
        assert!(Token::new(" \n").is_err());
        assert!(Token::new("two words").is_err());
        assert!(!format!("{:?}", Token::new("s3cret").unwrap()).contains("s3cret"));
    }
}
