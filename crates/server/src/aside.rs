//! Results whose clients do not read: what they wait with, and for how long.
//!
//! ```text
//!   running ── a moment without a reader ──▶ aside, if its operators hold next to nothing and a place is free
//!      ▲                                        │ the client reads, or the operators take memory after all
//!      └──────────── a permit, in its turn ─────┘
//!      │ cannot step aside, and somebody waits for its permit ──▶ --stall-seconds, then cancelled
//!      └ nobody reads at all ──▶ --idle-seconds, then cancelled
//! ```
//!
//! Operators that hold memory, such as a sort whose rows go out, keep their permit: it stands for that memory. There is
//! no telling a client that will read on from one that will not, so such a query is given up only where others wait.

use std::sync::Arc;
use std::time::Duration;

use pelton_engine::QueryMemory;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::delivery::{Gone, Sender};
use crate::run::Stopped;
use crate::running::{CancelledBy, Ongoing, Phase};
use crate::shared::Shared;

/// How long a result waits for its client before it steps aside. Clients that read take a message in less.
const MOMENT: Duration = Duration::from_millis(100);
/// How often a result that waits looks at its memory and at the queue.
const LOOK: Duration = Duration::from_millis(500);
/// A query that is set aside may hold this part of a query's memory: there are eight places for each permit, so all of
/// them together hold an eighth more than the limit.
const PART_ASIDE: u64 = 64;

/// What a query waits or runs with.
pub(crate) struct Place {
    held: Held,
    ongoing: Arc<Ongoing>,
}

enum Held {
    Permit(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit),
    Aside(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit),
}

impl Place {
    /// With a permit to run.
    pub(crate) fn running(permit: OwnedSemaphorePermit, ongoing: Arc<Ongoing>) -> Self {
        ongoing.set_phase(Phase::Running);
        Self { held: Held::Permit(permit), ongoing }
    }

    /// Waits for a permit, where this has none.
    pub(crate) async fn run_again(&mut self, shared: &Shared) {
        if !matches!(self.held, Held::Permit(_)) {
            self.held = Held::Permit(shared.admission.enter_again().await);
            self.ongoing.set_phase(Phase::Running);
        }
    }

    /// Gives the permit back, if there is a place to wait in.
    pub(crate) fn step_aside(&mut self, shared: &Shared) {
        let Some(place) = shared.admission.set_aside() else { return };
        self.ongoing.set_phase(Phase::Aside);
        self.held = Held::Aside(place);
    }
}

/// Waits until the client of the result has taken more than `taken` messages; how many it has taken then.
pub(crate) async fn wait(
    shared: &Shared,
    ongoing: &Ongoing,
    place: &mut Place,
    sender: &Sender,
    taken: u64,
) -> Result<u64, Stopped> {
    let began = Instant::now();
    let mut look = MOMENT;
    loop {
        match tokio::time::timeout(look, sender.taken_after(taken)).await {
            Ok(Ok(taken)) => return Ok(taken),
            Ok(Err(Gone)) => return Err(Stopped::Cancelled(CancelledBy::Disconnect)),
            Err(_elapsed) => look = LOOK.min(shared.limits.idle_timeout),
        }
        let waited = began.elapsed();
        if waited >= shared.limits.idle_timeout {
            return Err(Stopped::Cancelled(CancelledBy::Silence));
        }
        match (&place.held, is_light(shared, ongoing)) {
            (Held::Permit(_), true) => place.step_aside(shared),
            (Held::Aside(_), false) => place.run_again(shared).await,
            _ => {}
        }
        let is_in_the_way = matches!(place.held, Held::Permit(_)) && shared.admission.is_awaited();
        if is_in_the_way && waited >= shared.limits.stall_timeout {
            return Err(Stopped::Cancelled(CancelledBy::Stall));
        }
    }
}

/// Whether the operators of a query hold so little that it needs no permit for it.
fn is_light(shared: &Shared, ongoing: &Ongoing) -> bool {
    let limit = shared.limits.query_bytes().map(|bytes| bytes / PART_ASIDE);
    let held = ongoing.memory.get().map_or(0, QueryMemory::reserved_bytes);
    limit.is_none_or(|limit| held <= limit)
}
