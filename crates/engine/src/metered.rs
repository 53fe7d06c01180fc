//! Queries against the memory that they really hold: what the allocator counted, whoever took it.
//!
//! ```text
//!   poll of a query's stream ── enter its account ──▶ what is taken meanwhile is counted for the query
//!      spawned tasks of operators: the same, by DataFusion's hook for tasks
//!   the watcher finds the account past its ceiling ── wakes the stream ──▶ an error instead of the next batch,
//!                                                                          and the plan is dropped
//! ```
//!
//! Operators reserve memory from their pool and spill by it; this is about all else: results of expressions, window
//! functions, states of aggregates, batches on their way. It counts where the program's allocator is
//! [`pelton_limits::Heap`]; elsewhere only functions that ask beforehand are bounded.

use std::any::Any;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use pelton_error::{Error, ErrorKind, Result, Tier};
use pelton_limits::{Account, Excess, bytes_text, ceiling_bytes, heap_bytes};

use crate::error::to_datafusion;

/// Operators that an error names.
const OPERATORS_NAMED: usize = 3;

/// An account for a query that may hold `limit_bytes`; `None`: without a limit there is none.
pub(crate) fn account(limit_bytes: Option<u64>) -> Option<Account> {
    let limit = limit_bytes?;
    follow_tasks();
    Some(Account::open(limit, ceiling_bytes(limit)))
}

/// What `work` gives, with what it takes counted for `account`.
///
/// # Errors
///
/// `OutOfMemory` once the account has to end.
pub(crate) async fn within<T>(account: Option<&Account>, work: impl Future<Output = T>) -> Result<T> {
    let Some(account) = account else { return Ok(work.await) };
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        account.wake(context.waker());
        if let Some(excess) = account.excess() {
            return Poll::Ready(Err(exceeded(account, excess, &[])));
        }
        let _in = account.enter();
        work.as_mut().poll(context).map(Ok)
    })
    .await
}

/// `rows` of `plan`, with what they take counted for `account`.
pub(crate) fn metered(
    account: Option<Account>,
    plan: &Arc<dyn ExecutionPlan>,
    rows: SendableRecordBatchStream,
) -> SendableRecordBatchStream {
    let Some(account) = account else { return rows };
    let schema = rows.schema();
    Box::pin(Metered { account, plan: Arc::clone(plan), schema, rows: Some(rows) })
}

struct Metered {
    account: Account,
    plan: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    /// `None` after an error.
    rows: Option<SendableRecordBatchStream>,
}

impl Stream for Metered {
    type Item = datafusion::error::Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let account = self.account.clone();
        let Some(rows) = &mut self.rows else { return Poll::Ready(None) };
        // In this order the watcher either is seen here or finds whom to wake.
        account.wake(context.waker());
        let polled = match account.excess() {
            None => {
                let _in = account.enter();
                rows.poll_next_unpin(context)
            }
            Some(_) => Poll::Pending,
        };
        match account.excess() {
            Some(excess) if !matches!(polled, Poll::Ready(None)) => {
                let error = exceeded(&account, excess, &holders(&self.plan));
                self.rows = None;
                Poll::Ready(Some(Err(to_datafusion(error))))
            }
            _ => polled,
        }
    }
}

impl RecordBatchStream for Metered {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The error of a query that holds too much.
fn exceeded(account: &Account, excess: Excess, holders: &[String]) -> Error {
    let (held, limit) = (account.held_bytes(), account.limit_bytes());
    let by = match holders {
        [] => String::new(),
        holders => format!("; it may be held by {}", holders.join(", ")),
    };
    let all = heap_bytes().max(held);
    let what = match excess {
        Excess::Own => format!("the query holds {} at a limit of {}", bytes_text(held), bytes_text(limit)),
        Excess::Process => format!(
            "this process holds {} at a limit of {}, {} of them in large pieces of this query",
            bytes_text(all),
            bytes_text(limit),
            bytes_text(held)
        ),
        Excess::Machine => {
            format!("the machine is almost out of memory, and this query holds {}", bytes_text(held))
        }
    };
    let kind = ErrorKind::OutOfMemory {
        tier: Tier::Host,
        requested_bytes: held,
        available_bytes: limit.saturating_sub(held),
    };
    Error::new(kind, format!("memory limit reached: {what}{by}; raise --memory-limit or select less"))
}

/// The operators of `plan` that hold more than the batch they work on, the last to run first.
fn holders(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    const HOLD: [&str; 15] = [
        "AggregateExec",
        "BoundedWindowAggExec",
        "CrossJoinExec",
        "DistinctMergeExec",
        "HashJoinExec",
        "NestedLoopJoinExec",
        "SortExec",
        "SortMergeJoinExec",
        "PartialAggregateExec",
        "PeltonJoinExec",
        "SpillingAggregateExec",
        "SpillingWindowExec",
        "WordSortExec",
        "UnnestExec",
        "WindowAggExec",
    ];
    let (mut names, mut open) = (Vec::<String>::new(), vec![plan]);
    while let Some(node) = open.pop() {
        let name = node.name();
        if HOLD.contains(&name) && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        open.extend(node.children());
    }
    if names.is_empty() {
        names.push(plan.name().to_owned());
    }
    names.truncate(OPERATORS_NAMED);
    names
}

/// Has tasks that operators spawn count for the query that spawns them.
fn follow_tasks() {
    static FOLLOW: Once = Once::new();
    // A program that has a hook of its own keeps it; its tasks then count for the process alone.
    FOLLOW.call_once(|| drop(set_join_set_tracer(&Follow)));
}

struct Follow;

type Output = Box<dyn Any + Send>;

impl JoinSetTracer for Follow {
    fn trace_future(&self, future: BoxFuture<'static, Output>) -> BoxFuture<'static, Output> {
        match Account::current() {
            Some(account) => Box::pin(Followed { account, future }),
            None => future,
        }
    }

    fn trace_block(&self, work: Box<dyn FnOnce() -> Output + Send>) -> Box<dyn FnOnce() -> Output + Send> {
        match Account::current() {
            Some(account) => Box::new(move || {
                let _in = account.enter();
                work()
            }),
            None => work,
        }
    }
}

struct Followed {
    account: Account,
    future: BoxFuture<'static, Output>,
}

impl Future for Followed {
    type Output = Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Output> {
        let account = self.account.clone();
        let _in = account.enter();
        self.future.as_mut().poll(context)
    }
}
