//! From words to [`Args`]: what clap would misread is put where it cannot, and what a newcomer types gets a hint.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::{Args, Command};

/// The command line that `words` are, the first of which is the program's name.
///
/// # Errors
///
/// Of clap: what is wrong, or the help that was asked for.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    let words = with_query_last(words.into_iter().collect());
    let args = Args::try_parse_from(&words).map_err(|error| with_hint(error, &words))?;
    if let Some(Command::Sql(sql)) = &args.command
        && (&sql.query, &sql.file, &sql.substrait) == (&None, &None, &None)
        && std::io::stdin().is_terminal()
    {
        let hint = "no query; write one in quotes, such as pelton sql \"SELECT 1\", name a file of statements with \
                    --file, or start the shell with pelton alone";
        return Err(Args::command().error(ErrorKind::MissingRequiredArgument, hint));
    }
    Ok(args)
}

/// A query that begins with a comment looks like a flag, but not behind `--`.
fn with_query_last(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_none_or(|command| command != "sql") {
        return words;
    }
    let flags_end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let is_query = |word: &OsString| word.to_str().is_some_and(starts_with_comment);
    if let Some(at) = words[..flags_end].iter().position(is_query) {
        let query = words.remove(at);
        words.extend(["--".into(), query]);
    }
    words
}

/// True for `-- total\nSELECT 1` and `--total\nSELECT 1`, not for `--output=a file` or a flag that is mistyped.
fn starts_with_comment(word: &str) -> bool {
    let Some(rest) = word.strip_prefix("--") else { return false };
    let name = rest.split(['\n', '=']).next().unwrap_or_default();
    let is_flag = || {
        let command = Args::command();
        let sql = command.find_subcommand("sql").expect("there is a command sql");
        sql.get_arguments().any(|argument| argument.get_long() == Some(name))
    };
    let looks_like_flag = name.starts_with(|first: char| first.is_ascii_alphabetic());
    !rest.is_empty() && (!looks_like_flag || (rest.contains('\n') && !is_flag()))
}

/// `error`, or a clearer one where it shows what was meant.
fn with_hint(error: clap::Error, words: &[OsString]) -> clap::Error {
    let rejected = match (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::InvalidArg)) {
        (Some(ContextValue::String(word)), _) | (None, Some(ContextValue::String(word))) => word.clone(),
        _ => return error,
    };
    let hint = match error.kind() {
        ErrorKind::InvalidSubcommand if rejected.contains(char::is_whitespace) => {
            format!("to run SQL, write: pelton sql \"{rejected}\"")
        }
        ErrorKind::InvalidSubcommand if Path::new(&rejected).exists() => {
            format!("to query a file, write: pelton sql \"SELECT * FROM '{rejected}'\"")
        }
        ErrorKind::UnknownArgument if words[1] == "sql" && !rejected.starts_with('-') => {
            format!("a query is one argument, so put all of it in quotes, '{rejected}' too")
        }
        _ => return error,
    };
    Args::command().error(error.kind(), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Args, clap::Error> {
        parse(["pelton"].iter().chain(words).map(OsString::from))
    }

    fn query(words: &[&str]) -> Option<String> {
        match parsed(words).unwrap().command {
            Some(Command::Sql(args)) => args.query,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_query_may_begin_with_a_comment() {
        for text in ["-- a\nSELECT 1", "--a\nSELECT 1", "--a=1\nSELECT 1", "---\nSELECT 1", "--1", "SELECT 1"]
        {
            for words in
                [&["sql", text][..], &["sql", text, "--format", "csv"], &["sql", "--stats", "--", text]]
            {
                assert_eq!(query(words).as_deref(), Some(text), "{words:?}");
            }
        }
        assert_eq!(query(&["sql", "--output=a\nb.csv", "SELECT 1"]).as_deref(), Some("SELECT 1"));
        assert_eq!(query(&["sql"]), None);
    }

    #[test]
    fn a_flag_that_is_mistyped_is_no_query() {
        let message = parsed(&["sql", "--frmat", "csv", "SELECT 1"]).unwrap_err().to_string();
        assert!(message.contains("--frmat") && message.contains("--format"), "{message}");
    }

    #[test]
    fn what_a_newcomer_types_gets_a_hint() {
        for (words, hint) in [
            (&["SELECT 1"][..], "pelton sql \"SELECT 1\""),
            (&["Cargo.toml"], "SELECT * FROM 'Cargo.toml'"),
            (&["sql", "SELECT", "1"], "in quotes"),
            (&["lode"], "load"),
        ] {
            let message = parsed(words).unwrap_err().to_string();
            assert!(message.contains(hint), "{words:?}: {message}");
        }
    }
}
