//! The harness on a clock that is set by hand.

use std::sync::atomic::Ordering;

use pelton_bench::{Harness, Measured, Times};
use pelton_error::{Error, ErrorKind};

/// Times of repetitions that take `nanoseconds`, one after another, the last one for ever.
fn times(harness: Harness, nanoseconds: &[u64]) -> Times {
    let (machine, clock) = crate::common::idle_machine(1);
    let mut call = 0;
    harness
        .measure(&machine, || {
            clock.fetch_add(nanoseconds[call.min(nanoseconds.len() - 1)], Ordering::SeqCst);
            call += 1;
            Ok(())
        })
        .unwrap()
}

fn repeat(repetitions: u32, warm_up_max: u32) -> Harness {
    Harness { repetitions, warm_up_max }
}

#[test]
fn warming_up_ends_when_two_in_a_row_agree() {
    let times = times(repeat(4, 10), &[5000, 2000, 1020, 1000]);
    assert_eq!(times.warm_up_count(), 4);
    let seconds = times.seconds();
    assert!((seconds.mean - 1e-6).abs() < 1e-15, "only what comes after it counts");
    assert!(seconds.standard_error < 1e-15);
    assert_eq!(seconds.count, 4);
}

#[test]
fn warming_up_ends_at_its_limit_if_nothing_agrees() {
    let times = times(repeat(1, 3), &[8000, 4000, 2000, 1000]);
    assert_eq!(times.warm_up_count(), 3);
    assert!((times.seconds().mean - 1e-6).abs() < 1e-15);
}

#[test]
fn a_rate_is_the_amount_over_the_mean_time() {
    let measured = Measured::rate(12.0, &times(repeat(2, 0), &[1_000_000_000, 3_000_000_000])).unwrap();
    assert!((measured.mean - 6.0).abs() < 1e-9);
    assert!((measured.best - 12.0).abs() < 1e-9);
    // The times 1 and 3 have a standard error of 1, half of their mean.
    assert!((measured.standard_error - 3.0).abs() < 1e-9);
    assert_eq!(measured.repetitions, 2);
    assert!(measured.is_unsteady());
}

#[test]
fn a_clock_that_stands_still_gives_no_rate() {
    assert_eq!(Measured::rate(12.0, &times(repeat(2, 0), &[0])), None);
}

#[test]
fn a_standard_error_above_five_percent_is_unsteady() {
    let measured = |standard_error| Measured { mean: 100.0, standard_error, best: 110.0, repetitions: 10 };
    assert!(!measured(5.0).is_unsteady());
    assert!(measured(5.1).is_unsteady());
}

#[test]
fn no_repetitions_are_refused_and_errors_end_the_measurement() {
    let (machine, _) = crate::common::idle_machine(1);
    let error = repeat(0, 5).measure(&machine, || Ok(())).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    let mut calls = 0;
    let error = repeat(10, 5).measure(&machine, || {
        calls += 1;
        Err(Error::device_lost("gone"))
    });
    assert_eq!(error.unwrap_err().kind(), &ErrorKind::DeviceLost);
    assert_eq!(calls, 1);
}
