//! Messages of a result between the query that makes them and the connection that sends them.
//!
//! ```text
//!   query ──────── put ──▶ [ up to so many bytes ] ──▶ next ── connection
//!              │ full: waits for the client              │ nothing: waits for the query
//!              └──────────── finish: an end, or an error that takes the place of what is left ─┘
//! ```
//!
//! A message that is larger than all of the room is put where there is nothing else. Whichever side goes away, the other
//! is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use arrow_flight::FlightData;
use tokio::sync::Notify;
use tonic::Status;

/// The side of the query. Where it is dropped before [`finish`](Self::finish), the client gets an error.
pub(crate) struct Sender(Arc<Between>);

/// The side of the connection.
pub(crate) struct Receiver(Arc<Between>);

struct Between {
    bytes_max: usize,
    state: Mutex<State>,
    /// Something was taken, or the connection is gone.
    taken: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<FlightData>,
    bytes: usize,
    /// Messages that the connection has taken.
    taken_count: u64,
    end: Option<Result<(), Status>>,
    is_abandoned: bool,
    reader: Option<Waker>,
}

/// The client is not there any more.
#[derive(Debug)]
pub(crate) struct Gone;

/// Both sides, with room for this many bytes.
pub(crate) fn channel(bytes_max: usize) -> (Sender, Receiver) {
    let between = Arc::new(Between { bytes_max, state: Mutex::default(), taken: Notify::new() });
    (Sender(Arc::clone(&between)), Receiver(between))
}

impl Sender {
    /// Takes `message` into the queue, if there is room for it; leaves it where it is otherwise.
    pub(crate) fn put(&self, message: &mut Option<FlightData>) {
        let mut state = self.0.state();
        let bytes = message.as_ref().map_or(0, bytes_of);
        if state.bytes > 0 && state.bytes + bytes > self.0.bytes_max {
            return;
        }
        if let Some(message) = message.take() {
            state.bytes += bytes;
            state.messages.push_back(message);
            state.wake_reader();
        }
    }

    /// Bytes that wait for the client.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.0.state().bytes
    }

    /// Waits until the client has taken a message after it had taken `taken_count`; how many it has taken then.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub(crate) async fn taken_after(&self, taken_count: u64) -> Result<u64, Gone> {
        loop {
            let notified = self.0.taken.notified();
            {
                let state = self.0.state();
                match state.is_abandoned {
                    true => return Err(Gone),
                    false if state.taken_count > taken_count => return Ok(state.taken_count),
                    false => {}
                }
            }
            notified.await;
        }
    }

    /// Messages that the client has taken.
    pub(crate) fn taken_count(&self) -> u64 {
        self.0.state().taken_count
    }

    /// Says how the result ended. An error takes the place of what has not been taken.
    pub(crate) fn finish(self, end: Result<(), Status>) {
        self.0.state().end_with(end);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let vanished = crate::running::CancelledBy::Shutdown.status();
        self.0.state().end_with(Err(vanished)); // nothing after `finish`
    }
}

impl Receiver {
    /// The next message, or the end.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<FlightData>, Status>> {
        let mut state = self.0.state();
        if let Some(message) = state.messages.pop_front() {
            state.bytes -= bytes_of(&message);
            state.taken_count += 1;
            drop(state);
            self.0.taken.notify_one();
            return Poll::Ready(Ok(Some(message)));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(end.clone().map(|()| None));
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_abandoned = true;
        state.messages.clear();
        state.bytes = 0;
        drop(state);
        self.0.taken.notify_one();
    }
}

impl Between {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end_with(&mut self, end: Result<(), Status>) {
        if self.end.is_some() {
            return;
        }
        if end.is_err() {
            self.messages.clear();
            self.bytes = 0;
        }
        self.end = Some(end);
        self.wake_reader();
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// Never 0, so that messages without bytes take room as well.
fn bytes_of(message: &FlightData) -> usize {
    message.data_header.len() + message.data_body.len() + 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::future::poll_fn;

    fn message(bytes: usize) -> Option<FlightData> {
        Some(FlightData { data_body: vec![7; bytes].into(), ..FlightData::default() })
    }

    /// Whether there was room for a message of this size.
    fn is_put(sender: &Sender, bytes: usize) -> bool {
        let mut message = message(bytes);
        sender.put(&mut message);
        message.is_none()
    }

    async fn next(receiver: &mut Receiver) -> Result<Option<FlightData>, Status> {
        poll_fn(|context| receiver.poll_next(context)).await
    }

    #[tokio::test]
    async fn messages_come_in_order_and_a_full_queue_takes_no_more_until_one_is_taken() {
        let (sender, mut receiver) = channel(2000);
        let mut late = message(1001);
        assert!(is_put(&sender, 1000));
        sender.put(&mut late);
        assert!(late.is_some());
        assert!(sender.taken_after(0).now_or_never().is_none());
        assert_eq!(next(&mut receiver).await.unwrap().unwrap().data_body.len(), 1000);
        assert_eq!(sender.taken_after(0).await.unwrap(), 1);
        sender.put(&mut late);
        assert!(late.is_none());
        sender.finish(Ok(()));
        assert_eq!(next(&mut receiver).await.unwrap().unwrap().data_body.len(), 1001);
        assert!(next(&mut receiver).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_message_larger_than_the_room_goes_alone() {
        let (sender, mut receiver) = channel(10);
        assert!(is_put(&sender, 5000) && !is_put(&sender, 0));
        next(&mut receiver).await.unwrap().unwrap();
        assert!(is_put(&sender, 0));
    }

    #[tokio::test]
    async fn an_error_and_a_vanished_query_take_the_place_of_what_is_left() {
        let (sender, mut receiver) = channel(2000);
        assert!(is_put(&sender, 1000));
        sender.finish(Err(Status::data_loss("no")));
        assert_eq!(next(&mut receiver).await.unwrap_err().message(), "no");
        let (sender, mut receiver) = channel(2000);
        drop(sender);
        assert!(next(&mut receiver).await.is_err(), "never a short result");
    }

    #[tokio::test]
    async fn a_client_that_goes_is_noticed() {
        let (sender, receiver) = channel(2000);
        assert!(is_put(&sender, 1));
        let waiting = sender.taken_after(0);
        drop(receiver);
        assert!(waiting.await.is_err());
        assert_eq!(sender.waiting_bytes(), 0);
    }

    #[tokio::test]
    async fn whoever_waits_for_messages_is_woken() {
        let (sender, mut receiver) = channel(2000);
        let waiting = tokio::spawn(async move { next(&mut receiver).await.map(|message| message.is_some()) });
        tokio::task::yield_now().await;
        assert!(is_put(&sender, 1));
        assert!(waiting.await.unwrap().unwrap());
    }
}
