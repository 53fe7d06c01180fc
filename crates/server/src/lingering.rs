//! Connections that are closed so that the client gets all that was sent.
//!
//! ```text
//!   last bytes ─▶ end of what is sent ─▶ what the client still says is read and dropped ─▶ it hangs up ─▶ closed
//! ```
//!
//! A socket that is closed while something that it received was not read is reset, and what it has sent and the client
//! not yet read is lost. A client that reads a result says all the time how much more it takes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How long a client may take to hang up.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes that are dropped at once.
const DROPPED: usize = 4096;

/// A connection that waits for the client to hang up.
pub(crate) struct Lingering {
    stream: TcpStream,
    linger: Duration,
    /// Runs since the end was sent.
    limit: Option<Pin<Box<Sleep>>>,
}

impl Lingering {
    /// Over `stream`.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, linger: LINGER, limit: None }
    }
}

impl Connected for Lingering {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.limit.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let linger = this.linger;
        let limit = this.limit.get_or_insert_with(|| Box::pin(tokio::time::sleep(linger)));
        if limit.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut dropped = [0; DROPPED];
            let mut buffer = ReadBuf::new(&mut dropped);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // It has hung up, or is gone.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Bytes on their way when the connection is closed: more than a client has read by then.
    const SENT: usize = 1 << 20;

    #[tokio::test]
    async fn a_client_that_still_talks_gets_all_that_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut server = Lingering::new(listener.accept().await.unwrap().0);
        let serving = tokio::spawn(async move {
            server.write_all(&vec![7; SENT]).await.unwrap();
            server.shutdown().await.unwrap();
        });
        let mut read = 0;
        let mut buffer = vec![0; 1 << 14];
        loop {
            // Nobody asked for this, and nobody reads it.
            let _ = client.write_all(b"more").await;
            match client.read(&mut buffer).await.unwrap() {
                0 => break,
                bytes => read += bytes,
            }
        }
        drop(client);
        assert_eq!(read, SENT);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_does_not_hang_up_is_not_waited_for_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let linger = Duration::from_millis(50);
        let mut server = Lingering { linger, ..Lingering::new(listener.accept().await.unwrap().0) };
        let started = tokio::time::Instant::now();
        server.shutdown().await.unwrap();
        assert!(started.elapsed() >= linger);
        drop(client);
    }
}
