//! Work of libraries that panic on damaged bytes: the panic becomes a text, and nothing is printed of it.
//!
//! For readers of formats that are not ours, and for nothing else: a panic of our own is a bug, whose place one wants to see.
//! What the work had borrowed is dropped afterwards and not looked at again.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What `work` gives, or what it said when it panicked.
///
/// # Errors
///
/// The text of the panic.
pub fn guarded<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    keep_quiet();
    let before = IS_GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(before);
    done.map_err(|panic| text(panic.as_ref()))
}

/// The same of work that waits.
///
/// # Errors
///
/// The text of the panic.
pub async fn guarded_async<T>(work: impl Future<Output = T>) -> std::result::Result<T, String> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| match guarded(|| work.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// What `items` gives, up to the first panic.
pub fn guarded_items<I: Iterator>(items: I) -> impl Iterator<Item = std::result::Result<I::Item, String>> {
    let mut items = Some(items);
    std::iter::from_fn(move || {
        let next = guarded(|| items.as_mut().and_then(Iterator::next));
        if next.is_err() {
            items = None;
        }
        next.transpose()
    })
}

/// Has the message of a panic left out while work is guarded.
fn keep_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                usual(panic);
            }
        }));
    });
}

fn text(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "the library that reads it gave up".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_text() {
        assert_eq!(guarded(|| 1), Ok(1));
        assert_eq!(guarded(|| -> i32 { panic!("at byte {}", 7) }), Err("at byte 7".to_owned()));
        assert_eq!(guarded(|| -> i32 { panic!("plain") }), Err("plain".to_owned()));
    }

    #[test]
    fn items_end_with_the_first_panic() {
        let items = (0..4).map(|item| if item == 2 { panic!("no 2") } else { item });
        let all: Vec<_> = guarded_items(items).collect();
        assert_eq!(all, [Ok(0), Ok(1), Err("no 2".to_owned())]);
    }
}
