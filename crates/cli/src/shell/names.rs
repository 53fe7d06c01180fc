//! What can be completed: tables, their columns and functions of the session that is open.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pelton_engine::PeltonSession;
use tokio::runtime::Handle;

/// A key press waits this long for names, at most.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tables and columns by name.
pub(super) trait Names {
    /// Tables and views.
    fn tables(&self) -> Vec<String>;
    /// Columns of `table`; none where there is no such table.
    fn columns(&self, table: &str) -> Vec<String>;
    /// Functions.
    fn functions(&self) -> Vec<String>;
}

/// A session, and the pool that answers questions about it.
type Source = (Arc<PeltonSession>, Handle);

/// The names of a session that may be replaced by another.
#[derive(Clone, Default)]
pub(super) struct SessionNames(Arc<Mutex<Option<Source>>>);

impl SessionNames {
    /// From now on names are those of `session`.
    pub(super) fn follow(&self, session: &Arc<PeltonSession>, handle: &Handle) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Arc::clone(session), handle.clone()));
    }

    /// Lets go of the session.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn session(&self) -> Option<Source> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Names for SessionNames {
    fn tables(&self) -> Vec<String> {
        self.session().map(|(session, _)| session.table_names()).unwrap_or_default()
    }

    fn columns(&self, table: &str) -> Vec<String> {
        let Some((session, handle)) = self.session() else { return Vec::new() };
        let found = handle.block_on(async {
            // A path or a bare name; without quotes a name would be split at its dots.
            let quoted = format!("\"{}\"", table.replace('"', "\"\""));
            tokio::time::timeout(PATIENCE, session.context().table_provider(quoted)).await
        });
        let Ok(Ok(table)) = found else { return Vec::new() };
        table.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn functions(&self) -> Vec<String> {
        let Some((session, _)) = self.session() else { return Vec::new() };
        let state = session.context().state();
        let scalar = state.scalar_functions().keys().cloned();
        let all = scalar.chain(state.aggregate_functions().keys().cloned());
        all.chain(state.window_functions().keys().cloned()).collect()
    }
}
