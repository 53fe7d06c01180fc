//! Signals while the shell runs: Ctrl-C cancels a statement and nothing else; a request to end ends the shell, after
//! the statement that runs has released its files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use pelton_error::{Result, ResultExt};
use pelton_load::CancelFlag;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Queue;

use crate::cancel;

/// The flags that signals set.
pub(super) struct Signals {
    cancel: CancelFlag,
    is_idle: Arc<AtomicBool>,
    is_leaving: Arc<AtomicBool>,
}

impl Signals {
    /// Handles signals from now on.
    pub(super) fn install() -> Result<Self> {
        let doing = || "installing the signal handlers".to_owned();
        let cancel = CancelFlag::new();
        signal_hook::flag::register(SIGINT, cancel.as_atomic()).context(doing)?;
        let signals = Self { cancel, is_idle: Arc::default(), is_leaving: Arc::default() };
        let mut queue = Queue::new([SIGTERM, SIGHUP]).context(doing)?;
        let (flag, is_idle) = (signals.cancel.clone(), Arc::clone(&signals.is_idle));
        let (is_leaving, mode) = (Arc::clone(&signals.is_leaving), terminal_mode());
        std::thread::spawn(move || {
            for signal in &mut queue {
                if is_idle.load(Ordering::SeqCst) || is_leaving.swap(true, Ordering::SeqCst) {
                    restore(mode.as_ref());
                    std::process::exit(cancel::BY_SIGNAL + signal);
                }
                cancel::ended_by(signal);
                flag.cancel();
            }
        });
        Ok(signals)
    }

    /// Set by Ctrl-C and by a request to end.
    pub(super) fn cancel_flag(&self) -> CancelFlag {
        self.cancel.clone()
    }

    /// Forgets a Ctrl-C that came when nothing ran.
    pub(super) fn reset(&self) {
        if !self.is_leaving() {
            self.cancel.as_atomic().store(false, Ordering::SeqCst);
        }
    }

    /// True once the shell was asked to end.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::SeqCst)
    }

    /// While the guard lives nothing runs, and a request to end is granted at once.
    pub(super) fn idle(&self) -> Idle<'_> {
        self.is_idle.store(true, Ordering::SeqCst);
        Idle(self)
    }
}

/// See [`Signals::idle`].
pub(super) struct Idle<'a>(&'a Signals);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.is_idle.store(false, Ordering::SeqCst);
    }
}

/// How the terminal was before the editor changed it.
fn terminal_mode() -> Option<Termios> {
    tcgetattr(std::io::stdin()).ok()
}

fn restore(mode: Option<&Termios>) {
    if let Some(mode) = mode {
        // A terminal that is gone needs no mode.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, mode);
    }
}
