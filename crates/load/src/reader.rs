//! Reads parts on several threads and hands out their batches in input order.
//!
//! ```text
//!  parts ──▶ thread A: part 0 ─▶ b b b ┐
//!            thread B: part 1 ─▶ b b   ├─▶ slots by part number ──▶ consumer: part 0, then 1, then 2 ...
//!            thread A: part 2 ─▶ b     ┘
//! ```
//!
//! Bound: batches ahead of the consumer take at most the read-ahead share of the budget; the part that the
//! consumer waits for may always add one batch, so nobody waits in a circle.
//! A panic in a format library ends the part with an error that names the file, not the process.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow::array::RecordBatch;
use pelton_error::{Error, Result};

use crate::budget::{Budget, Held, batch_bytes};
use pelton_error::CancelFlag;
use pelton_files::{Part, Parts, View};

/// How often a waiting thread looks at the cancel flag.
const WAIT: Duration = Duration::from_millis(50);

/// Batches of all parts in order.
pub(crate) struct OrderedReader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    view: View,
    feed: Mutex<Feed>,
    state: Mutex<State>,
    /// Signalled when a slot gains a batch or ends, and when the consumer takes one.
    changed: Condvar,
    budget: Arc<Budget>,
    cancel: CancelFlag,
}

/// Where the next part comes from.
struct Feed {
    parts: Parts,
    next: u64,
}

#[derive(Default)]
struct State {
    /// Parts being read or waiting for the consumer.
    slots: BTreeMap<u64, Slot>,
    /// The part the consumer takes batches of.
    head: u64,
    ahead_bytes: u64,
    /// Readers that may still add slots.
    reader_count: usize,
    /// The consumer is gone.
    stopped: bool,
}

#[derive(Default)]
struct Slot {
    batches: VecDeque<Result<(RecordBatch, Held)>>,
    ended: bool,
}

impl OrderedReader {
    /// Starts `thread_count` threads over all parts of what `view` shows.
    pub(crate) fn start(view: &View, thread_count: usize, budget: &Arc<Budget>, cancel: &CancelFlag) -> Self {
        let state = State { reader_count: thread_count, ..State::default() };
        let shared = Arc::new(Shared {
            view: view.clone(),
            feed: Mutex::new(Feed { parts: view.sources().parts(), next: 0 }),
            state: Mutex::new(state),
            changed: Condvar::new(),
            budget: Arc::clone(budget),
            cancel: cancel.clone(),
        });
        let start = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.read_parts())
        };
        let threads = (0..thread_count).map(start).collect();
        Self { shared, threads }
    }
}

impl Iterator for OrderedReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut state = self.shared.lock();
        loop {
            if let Err(error) = self.shared.cancel.check() {
                return Some(Err(error));
            }
            let head = state.head;
            if let Some(slot) = state.slots.get_mut(&head) {
                if let Some(batch) = slot.batches.pop_front() {
                    let batch = batch.map(|(batch, held)| {
                        state.ahead_bytes -= held.bytes();
                        batch
                    });
                    self.shared.changed.notify_all();
                    return Some(batch);
                }
                if slot.ended {
                    state.slots.remove(&head);
                    state.head += 1;
                    self.shared.changed.notify_all();
                    continue;
                }
            } else if state.reader_count == 0 {
                return None;
            }
            state = self.shared.wait(state);
        }
    }
}

impl Drop for OrderedReader {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            thread.join().expect("a reader catches the panics of its parts");
        }
    }
}

/// Tells the consumer that a reader has ended, however it ended.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().reader_count -= 1;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, WAIT).expect("nothing panics under this lock").0
    }

    /// One reader: takes part after part until there is none or nobody wants them.
    fn read_parts(&self) {
        let _ended = Ended(self);
        while let Some((number, part)) = self.take_part() {
            let outcome = match part {
                Ok(part) => self.read_part(number, &part),
                Err(error) => Err(error),
            };
            let mut state = self.lock();
            let slot = state.slots.get_mut(&number).expect("only the consumer removes a slot, once it ended");
            if let Err(error) = outcome {
                slot.batches.push_back(Err(error));
            }
            slot.ended = true;
            self.changed.notify_all();
        }
    }

    /// The next part and its slot; `None` once the reader should end.
    fn take_part(&self) -> Option<(u64, Result<Part>)> {
        let mut feed = self.feed.lock().expect("nothing panics under this lock");
        if self.lock().stopped || self.cancel.is_cancelled() {
            return None;
        }
        let part = feed.parts.next()?;
        let number = feed.next;
        feed.next += 1;
        self.lock().slots.insert(number, Slot::default());
        Some((number, part))
    }

    fn read_part(&self, number: u64, part: &Part) -> Result<()> {
        let read = || -> Result<()> {
            for batch in self.view.read(part)? {
                if !self.push(number, batch?) {
                    return Ok(());
                }
            }
            Ok(())
        };
        catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
            let name = self.view.file_name(part);
            Err(Error::corrupt(format!("{name}: the file is damaged in a way its reader does not expect")))
        })
    }

    /// Adds a batch to a slot once there is room; false where nobody wants it.
    fn push(&self, number: u64, batch: RecordBatch) -> bool {
        let bytes = batch_bytes(&batch);
        let mut state = self.lock();
        loop {
            if state.stopped || self.cancel.is_cancelled() {
                return false;
            }
            let is_awaited = number == state.head && state.slots[&number].batches.is_empty();
            if is_awaited || state.ahead_bytes + bytes <= self.budget.read_ahead_bytes() {
                break;
            }
            state = self.wait(state);
        }
        state.ahead_bytes += bytes;
        let held = self.budget.hold(bytes);
        let slot = state.slots.get_mut(&number).expect("only the consumer removes a slot, once it ended");
        slot.batches.push_back(Ok((batch, held)));
        self.changed.notify_all();
        true
    }
}
