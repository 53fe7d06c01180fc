//! Statements beside others that mean the same.

use pelton_engine::PeltonSession;

use crate::common::{Tables, run};

/// That each statement gives what the one beside it gives in plain DataFusion, over the same tables.
pub(crate) async fn check_same((tables, session): (Tables, PeltonSession), cases: &[(&str, &str)]) {
    for (sql, same) in cases {
        let (actual, _) = run(&session, sql).await;
        assert_eq!(actual, tables.expected(same).await, "{sql}");
    }
}

/// The error that `sql` is not planned for.
pub(crate) async fn error_of(session: &PeltonSession, sql: &str) -> String {
    let error = session.query(sql).await.err();
    error.unwrap_or_else(|| panic!("{sql} is planned")).to_string()
}
