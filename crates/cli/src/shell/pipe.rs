//! Statements from a pipe, run as they come: a program that keeps the pipe open has each answer before it sends the next
//! statement, and a signal is obeyed while nothing comes.
//!
//! ```text
//!   a thread: read, at most 64 KiB at once ──▶ channel ──▶ this thread: whole pieces, run in order
//! ```

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use pelton_error::{Error, Result, ResultExt};

use super::session::{Next, Shell};
use super::signals::Signals;
use pelton_sqltext::GrowingScript;

/// How often signals are looked at while nothing comes.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Reads that may wait for a statement to end.
const READS_WAITING_MAX: usize = 4;

/// Runs what comes on standard input, up to its end or the first error.
///
/// # Errors
///
/// The first error of a statement; `Cancelled` on a signal.
pub(super) fn run(shell: &mut Shell, signals: &Signals) -> Result<()> {
    let input = read_in_background();
    let (mut script, mut bytes, mut has_run, mut is_all) =
        (GrowingScript::default(), Vec::new(), false, false);
    while !is_all {
        match next(&input, signals)? {
            Some(more) => bytes.extend(more),
            None => is_all = true,
        }
        script.push(&take_text(&mut bytes, is_all)?);
        while let Some(piece) = script.next_piece(is_all) {
            has_run = true;
            if shell.run_piece(piece)? == Next::Leave {
                return Ok(());
            }
        }
    }
    if has_run {
        return Ok(());
    }
    Err(Error::invalid_input(
        "no statement on standard input; start the shell on a terminal, or see pelton --help",
    ))
}

/// What standard input gives. The thread ends with it, or with the process.
fn read_in_background() -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = sync_channel(READS_WAITING_MAX);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => Ok(buffer[..count].to_vec()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_last = read.is_err();
            if sender.send(read).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// The next bytes; `None` at the end.
fn next(input: &Receiver<std::io::Result<Vec<u8>>>, signals: &Signals) -> Result<Option<Vec<u8>>> {
    loop {
        match input.recv_timeout(LOOK_INTERVAL) {
            Ok(read) => return read.map(Some).context(|| "reading standard input".into()),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if signals.cancel_flag().is_cancelled() => {
                return Err(Error::cancelled());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Takes the whole characters at the start of `bytes`.
fn take_text(bytes: &mut Vec<u8>, is_all: bool) -> Result<String> {
    let whole = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() && !is_all => error.valid_up_to(),
        Err(_) => return Err(Error::invalid_input("standard input is no UTF-8 text; SQL has to be")),
    };
    let rest = bytes.split_off(whole);
    let text = String::from_utf8(std::mem::replace(bytes, rest));
    Ok(text.expect("checked above"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_taken_whole() {
        let mut bytes = "aü".as_bytes()[..2].to_vec();
        assert_eq!(take_text(&mut bytes, false).unwrap(), "a");
        bytes.push("ü".as_bytes()[1]);
        assert_eq!(take_text(&mut bytes, false).unwrap(), "ü");
        for (bad, is_all) in [(b"a\xff".to_vec(), false), ("ü".as_bytes()[..1].to_vec(), true)] {
            assert!(
                take_text(&mut bad.clone(), is_all).unwrap_err().to_string().contains("UTF-8"),
                "{bad:?}"
            );
        }
    }
}
