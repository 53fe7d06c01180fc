//! A server that fails in every way that servers do: what is tried again, and what is said in the end.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pelton_error::{CancelFlag, Error, ErrorKind};
use pelton_remote::{Object, ObjectReader, Objects, StoreOptions};

/// What the server does with the requests after the first.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// So many answers of 503.
    Unavailable(usize),
    /// So many answers that break off after half of their bytes.
    Cut(usize),
    /// Answers without end, or rather: none.
    Silent,
    /// The whole file, whatever range was asked for.
    NoRanges,
    /// Another object under the same name once its size is known.
    Replaced,
    /// A refusal of everything.
    Status(&'static str),
}

/// A server of one file of `BYTES` bytes; the first request, for its size, always succeeds but for a refusal.
struct Server {
    port: u16,
    requests: Arc<AtomicUsize>,
}

const BYTES: usize = 100_000;

fn content() -> Vec<u8> {
    (0..BYTES).map(|index| (index % 251) as u8).collect()
}

impl Server {
    fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || serve(stream, fault, &counted));
            }
        });
        Self { port, requests }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/folder/file.bin", self.port)
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Serves one connection until it is closed, by either side.
fn serve(stream: TcpStream, fault: Fault, requests: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((is_head, range)) = request(&mut reader) {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        if !respond(&mut stream, fault, number, is_head, range) {
            return;
        }
    }
}

/// Whether a request is for the size alone, and the range it asks for.
fn request(reader: &mut impl BufRead) -> Option<(bool, Option<(usize, usize)>)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|&count| count > 0)?;
    let mut range = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
        if line.trim().is_empty() {
            return Some((first.starts_with("HEAD"), range));
        }
        if let Some(bounds) = line.to_ascii_lowercase().trim().strip_prefix("range: bytes=") {
            let (start, end) = bounds.split_once('-')?;
            range = Some((start.parse().ok()?, end.parse::<usize>().ok()? + 1));
        }
    }
}

/// Answers request `number`; false where the connection is to be closed.
fn respond(
    stream: &mut TcpStream,
    fault: Fault,
    number: usize,
    is_head: bool,
    range: Option<(usize, usize)>,
) -> bool {
    let refusal = match fault {
        Fault::Status(status) => Some(status),
        Fault::Unavailable(count) if (1..=count).contains(&number) => Some("503 Service Unavailable"),
        Fault::Replaced if !is_head => Some("412 Precondition Failed"),
        _ => None,
    };
    if let Some(status) = refusal {
        return write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").is_ok();
    }
    if matches!(fault, Fault::Silent) && !is_head {
        std::thread::sleep(Duration::from_secs(60));
        return false;
    }
    let all = content();
    let range = range.filter(|_| !matches!(fault, Fault::NoRanges));
    let (start, end) = range.unwrap_or((0, BYTES));
    let (status, place) = match range {
        Some(_) => ("206 Partial Content", format!("Content-Range: bytes {start}-{}/{BYTES}\r\n", end - 1)),
        None => ("200 OK", String::new()),
    };
    let date = "Last-Modified: Sun, 22 Nov 2026 00:00:00 GMT";
    let tag = if matches!(fault, Fault::Replaced) { "ETag: \"first\"\r\n" } else { "" };
    let head = format!("HTTP/1.1 {status}\r\n{date}\r\n{tag}{place}Content-Length: {}\r\n\r\n", end - start);
    let is_cut = matches!(fault, Fault::Cut(count) if (1..=count).contains(&number));
    let body =
        if is_head { &[][..] } else { &all[start..if is_cut { start + (end - start) / 2 } else { end }] };
    stream.write_all(head.as_bytes()).is_ok() && stream.write_all(body).is_ok() && !is_cut
}

fn options() -> StoreOptions {
    StoreOptions {
        request_timeout: Duration::from_millis(400),
        retries_max: 3,
        retry_timeout: Duration::from_secs(20),
        ..StoreOptions::default()
    }
}

fn object(server: &Server) -> Result<Object, Error> {
    let objects = Objects::start(options(), &CancelFlag::new())?;
    Ok(objects.list_blocking(&server.url())?.remove(0).0)
}

fn read(server: &Server) -> Result<Vec<u8>, Error> {
    Ok(object(server)?.read_blocking(1000..90_000)?.to_vec())
}

#[test]
fn ranges_are_read_as_they_are() {
    let server = Server::start(Fault::None);
    assert_eq!(object(&server).unwrap().bytes(), BYTES as u64);
    assert_eq!(read(&server).unwrap(), content()[1000..90_000]);
    assert_eq!(object(&server).unwrap().read_blocking(7..7).unwrap().len(), 0);
}

#[test]
fn a_server_that_is_unavailable_for_a_while_is_asked_again() {
    let server = Server::start(Fault::Unavailable(2));
    assert_eq!(read(&server).unwrap(), content()[1000..90_000]);
    assert_eq!(server.requests(), 4);
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_again() {
    let server = Server::start(Fault::Cut(2));
    assert_eq!(read(&server).unwrap(), content()[1000..90_000]);
    assert_eq!(server.requests(), 4);
}

#[test]
fn trying_again_has_an_end_and_says_so() {
    let error = read(&Server::start(Fault::Unavailable(100))).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Io);
    assert!(error.to_string().contains("127.0.0.1 answered 503"), "{error}");
    let error = read(&Server::start(Fault::Cut(100))).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Io);
    assert!(error.to_string().contains("closed the connection before the answer was complete"), "{error}");
}

#[test]
fn a_silent_server_is_given_up() {
    let start = Instant::now();
    let server = Server::start(Fault::Silent);
    let error = read(&server).unwrap_err();
    assert!(error.to_string().contains("did not answer in time"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(server.requests(), 5, "one for the size, one and three retries for the bytes");
}

#[test]
fn a_cancelled_reader_does_not_wait() {
    let cancel = CancelFlag::new();
    let patient = StoreOptions { request_timeout: Duration::from_secs(60), ..options() };
    let objects = Objects::start(patient, &cancel).unwrap();
    let object = objects.list_blocking(&Server::start(Fault::Silent).url()).unwrap().remove(0).0;
    let pending = object.begin(0..10);
    let start = Instant::now();
    cancel.cancel();
    assert_eq!(pending.wait_blocking().unwrap_err().kind(), &ErrorKind::Cancelled);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn refusals_are_told_apart() {
    let message = |status| object(&Server::start(Fault::Status(status))).unwrap_err().to_string();
    assert!(message("404 Not Found").contains("there is no object 'http://127.0.0.1"));
    assert!(message("403 Forbidden").contains("may not be read; credentials are not sent"));
    let whole = read(&Server::start(Fault::NoRanges)).unwrap_err().to_string();
    assert!(whole.contains("does not serve parts of a file"), "{whole}");
    let folder = Server::start(Fault::Status("405 Method Not Allowed"));
    let objects = Objects::start(options(), &CancelFlag::new()).unwrap();
    let listing = objects.list_blocking(&format!("http://127.0.0.1:{}/*.csv", folder.port)).unwrap_err();
    assert!(listing.to_string().contains("no listing to rely on; name each file"), "{listing}");
}

#[test]
fn an_object_that_is_replaced_while_it_is_read_is_not_mixed() {
    let error = read(&Server::start(Fault::Replaced)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Corrupt);
    assert!(error.to_string().contains("was replaced while it was read"), "{error}");
}

#[test]
fn a_reader_reads_on_and_seeks() {
    use std::io::{Read, Seek, SeekFrom};
    let mut reader = ObjectReader::new(object(&Server::start(Fault::None)).unwrap());
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert_eq!(all, content());
    reader.seek(SeekFrom::End(-5)).unwrap();
    let mut end = Vec::new();
    reader.read_to_end(&mut end).unwrap();
    assert_eq!(end, content()[BYTES - 5..]);
    reader.seek(SeekFrom::Start(17)).unwrap();
    let mut three = [0; 3];
    reader.read_exact(&mut three).unwrap();
    assert_eq!(three, content()[17..20]);
    assert!(reader.seek(SeekFrom::Current(-100)).is_err());
}
