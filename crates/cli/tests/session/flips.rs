//! Single bits flipped in every file of a table: each flip gives an error that says so, or the right rows.
//!
//! Padding between chunks belongs to no checksum; a flip there changes nothing. The queries between them read
//! every column, every zone map and the manifest's summaries.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use pelton_engine::PeltonSession;
use pelton_error::ErrorKind;
use pelton_store::WriteMode;
use pelton_testkit::{Random, random_rows};

use crate::harness::{Place, answer, options, overwrite};

/// Flips where `PELTON_BIT_FLIPS` does not say.
const FLIPS: u64 = 300;
/// No query on a few hundred rows takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

const QUERIES: [&str; 5] = [
    "SELECT * FROM t ORDER BY id",
    "SELECT count(*), min(big), max(ubig), min(word), max(day), count(double) FROM t",
    "SELECT id FROM t WHERE int BETWEEN 0 AND 100 OR word = 'ASIA' OR price < -500 ORDER BY id",
    "SELECT id FROM t WHERE tiny > 0 OR small < 0 OR big = 7 OR utiny IN (1, 2) OR usmall > 9 OR uint < 9 OR ubig <> 1 \
     OR single > 1e3 OR double < 0.5 OR day > DATE '1999-01-01' OR at_utc IS NULL OR bytes IS NOT NULL ORDER BY id",
    "SELECT id FROM t WHERE flag AND text LIKE 'a long%' AND huge IS NOT NULL AND at < TIMESTAMP '2000-01-01' ORDER BY id",
];

/// One flip: a bit of a file of the table.
struct Flip {
    path: PathBuf,
    byte: usize,
    bit: u8,
}

#[test]
fn a_flipped_bit_is_noticed_or_harmless() {
    let flips = std::env::var("PELTON_BIT_FLIPS").ok().map_or(FLIPS, |text| text.parse().expect("a number"));
    let place = Place::new();
    place.load("t", &random_rows(5, 500), WriteMode::Create, 200);
    place.load("t", &random_rows(6, 150), WriteMode::Append, 200);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let session = place.session(&options());
    let expected: Vec<String> =
        QUERIES.iter().map(|sql| runtime.block_on(answer(&session, sql)).unwrap()).collect();

    let mut random = Random::new(77);
    let (mut noticed, mut harmless) = (0, 0);
    std::thread::scope(|scope| {
        let (flip_sender, flip_receiver) = mpsc::channel::<Flip>();
        let (verdict_sender, verdict_receiver) = mpsc::channel();
        scope.spawn(move || {
            for flip in flip_receiver {
                let verdict = runtime.block_on(judge(&session, &flip, &expected));
                verdict_sender.send(verdict).unwrap();
            }
            runtime.shutdown_timeout(Duration::from_secs(1));
        });
        for _ in 0..flips {
            let flip = random_flip(&place, &mut random);
            let label = format!("{}, byte {}, bit {}", flip.path.display(), flip.byte, flip.bit);
            flip_sender.send(flip).unwrap();
            match verdict_receiver.recv_timeout(PATIENCE) {
                Ok(Ok(true)) => noticed += 1,
                Ok(Ok(false)) => harmless += 1,
                Ok(Err(message)) => panic!("{label}: {message}"),
                // Scoped threads would be waited for; a query that hangs must end the test all the same.
                Err(problem) => {
                    eprintln!("{label}: no answer within {PATIENCE:?}, or a panic ({problem})");
                    std::process::abort();
                }
            }
        }
        drop(flip_sender);
    });
    println!("{flips} flips: {noticed} noticed, {harmless} harmless");
    assert!(noticed > flips / 4, "{noticed} of {flips} flips were noticed: most went into padding");
}

/// A bit of a random file; of data files, which are mostly padding, every other flip is in a byte that is not zero.
fn random_flip(place: &Place, random: &mut Random) -> Flip {
    let files = place.files("t");
    let path = random.pick(&files).clone();
    let bytes = std::fs::read(&path).unwrap();
    let mut byte = random.below(bytes.len() as u64) as usize;
    if random.one_in(2) {
        let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        byte = *random.pick(&used);
    }
    Flip { path, byte, bit: random.below(8) as u8 }
}

/// True where some query noticed the flip, false where all answered rightly; otherwise what was wrong.
async fn judge(session: &PeltonSession, flip: &Flip, expected: &[String]) -> Result<bool, String> {
    let whole = std::fs::read(&flip.path).unwrap();
    let mut damaged = whole.clone();
    damaged[flip.byte] ^= 1 << flip.bit;
    overwrite(&flip.path, &damaged);
    let mut noticed = false;
    let mut wrong = None;
    for (sql, expected) in QUERIES.iter().zip(expected) {
        match answer(session, sql).await {
            Ok(rows) if &rows == expected => {}
            Ok(rows) => wrong = Some(format!("{sql}: wrong rows\n{rows}\ninstead of\n{expected}")),
            Err(error) if is_clear(error.kind(), &error.to_string()) => noticed = true,
            Err(error) => wrong = Some(format!("{sql}: {error:?}")),
        }
    }
    overwrite(&flip.path, &whole);
    wrong.map_or(Ok(noticed), Err)
}

/// Damage is `Corrupt`; a version that became larger is `Unsupported` and asks for a newer Pelton.
fn is_clear(kind: &ErrorKind, message: &str) -> bool {
    match kind {
        ErrorKind::Corrupt => true,
        ErrorKind::Unsupported => message.contains("upgrade Pelton"),
        _ => false,
    }
}
