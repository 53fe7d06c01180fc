//! A server of files, for tests of what is read from elsewhere: ranges, times and ETags of HTTP, and no more.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Bytes by path; the ETag follows from them.
#[derive(Default, Clone)]
pub(crate) struct Served {
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    /// Bytes of bodies that were sent.
    pub(crate) sent: Arc<Mutex<u64>>,
}

impl Served {
    /// Has `path` be `bytes` from now on.
    pub(crate) fn put(&self, path: &str, bytes: Vec<u8>) {
        self.files.lock().unwrap().insert(path.to_owned(), bytes);
    }

    /// Serves from a thread; gives the URL of the root.
    pub(crate) fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                std::thread::spawn(move || served.answer_all(stream));
            }
        });
        format!("http://127.0.0.1:{port}")
    }

    /// Answers until the other side hangs up.
    fn answer_all(&self, mut stream: TcpStream) -> Option<()> {
        let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
        loop {
            let first = lines.next()?.ok()?;
            let mut range = None;
            for header in lines.by_ref() {
                let header = header.ok()?.to_ascii_lowercase();
                if header.is_empty() {
                    break;
                }
                if let Some(text) = header.strip_prefix("range: bytes=") {
                    let (from, to) = text.split_once('-')?;
                    range = Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()? + 1));
                }
            }
            let mut words = first.split(' ');
            let (method, path) = (words.next()?, words.next()?);
            let found = self.files.lock().unwrap().get(path).cloned();
            let Some(bytes) = found else {
                stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok()?;
                continue;
            };
            let tag = bytes.iter().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            let (from, to) = range.unwrap_or((0, bytes.len()));
            let (from, to) = (from, to.min(bytes.len()));
            let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{}\r\nETag: \"{tag:x}\"\r\n\
                 Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n\r\n",
                to - from,
                to.max(1) - 1,
                bytes.len()
            );
            stream.write_all(head.as_bytes()).ok()?;
            if method != "HEAD" {
                stream.write_all(&bytes[from..to]).ok()?;
                *self.sent.lock().unwrap() += (to - from) as u64;
            }
        }
    }
}
