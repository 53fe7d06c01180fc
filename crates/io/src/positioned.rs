//! Reads by pread on a few threads: where io_uring is not to be had.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use pelton_error::{Result, ResultExt};

use crate::engine::Shared;
use crate::request::Request;

/// More threads than this rarely make one disk faster.
const THREADS_MAX: u32 = 8;

/// Threads that take reads from one queue.
pub(super) struct PositionedReaders {
    /// `None` once shutting down.
    queue: Option<Sender<Request>>,
    threads: Vec<JoinHandle<()>>,
}

impl PositionedReaders {
    pub(super) fn start(depth: u32, shared: &Arc<Shared>) -> Result<Self> {
        let (queue, requests) = unbounded::<Request>();
        let threads = (0..depth.min(THREADS_MAX))
            .map(|index| {
                let (requests, shared) = (requests.clone(), Arc::clone(shared));
                std::thread::Builder::new()
                    .name(format!("pelton-read-{index}"))
                    .spawn(move || serve(&requests, &shared))
                    .context(|| {
                        "starting a thread that reads (a limit on processes and threads, such as ulimit -u, may be \
                         reached: raise it)"
                            .into()
                    })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { queue: Some(queue), threads })
    }

    pub(super) fn submit(&self, request: Request) {
        let queue = self.queue.as_ref().expect("it is taken only in drop");
        // A closed queue drops the request, and its future says that the engine is gone.
        let _ = queue.send(request);
    }
}

fn serve(requests: &Receiver<Request>, shared: &Shared) {
    for mut request in requests {
        if request.is_abandoned() {
            continue;
        }
        let result = request.read_blocking(shared);
        request.answer(result);
    }
}

impl Drop for PositionedReaders {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            // A reader that panicked has answered its caller by dropping the request.
            let _ = thread.join();
        }
    }
}
