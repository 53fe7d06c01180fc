//! Waiting for a query that may be cancelled.

use std::future::Future;
use std::time::Duration;

use pelton_error::{CancelFlag, Error, Result};
use tokio::runtime::Runtime;

/// How often the flag is looked at.
const POLL: Duration = Duration::from_millis(20);

/// What `work` comes to. Once `cancel` is raised it is dropped, which stops a query.
///
/// # Errors
///
/// Those of `work`; `Cancelled`.
pub(crate) fn wait_for<T>(
    pool: &Runtime,
    cancel: &CancelFlag,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    pool.block_on(async {
        tokio::select! {
            result = work => result,
            () = raised(cancel) => Err(Error::cancelled()),
        }
    })
}

async fn raised(cancel: &CancelFlag) {
    while !cancel.is_cancelled() {
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_error::ErrorKind;

    #[test]
    fn work_without_an_end_ends_when_it_is_cancelled() {
        let (pool, cancel) = (Runtime::new().unwrap(), CancelFlag::new());
        let later = cancel.clone();
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(POLL);
            later.cancel();
        });
        let error = wait_for(&pool, &cancel, std::future::pending::<Result<()>>()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
        raiser.join().unwrap();
        assert_eq!(wait_for(&pool, &CancelFlag::new(), async { Ok(7) }).unwrap(), 7);
    }
}
