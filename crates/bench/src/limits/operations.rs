//! The operations: one thing each that needs memory, over tables of made-up rows.
//!
//! ```text
//!   t  N rows     k unique, in random order; r random; few (100), many (N/5), hot (NULL, or 1 in half of the rows);
//!   u  N rows     the same columns: every second k is one of t's
//!   d  100 rows   few, name
//! ```
//!
//! Every row of an answer is drained. Ordered answers are ordered by a unique key, so that each has one right form.

/// Rows that this many of a table's give a top-k, as a share.
pub(super) const TOP_SHARE: u64 = 5;

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// The query; `{top}` is a fifth of the rows.
    pub sql: &'static str,
    /// True where the answer has an order of its own.
    pub is_ordered: bool,
}

const fn ordered(name: &'static str, sql: &'static str) -> Operation {
    Operation { name, sql, is_ordered: true }
}

const fn any_order(name: &'static str, sql: &'static str) -> Operation {
    Operation { name, sql, is_ordered: false }
}

/// All of them.
pub const OPERATIONS: [Operation; 21] = [
    ordered("sort_int", "SELECT r FROM t ORDER BY r"),
    ordered("sort_text", "SELECT txt FROM t ORDER BY txt"),
    ordered("sort_wide", "SELECT * FROM t ORDER BY many, k"),
    ordered("top_10", "SELECT * FROM t ORDER BY r, k LIMIT 10"),
    ordered("top_fifth", "SELECT k, r, txt FROM t ORDER BY r, k LIMIT {top}"),
    any_order("group_few", "SELECT few, count(*), sum(v), min(txt), max(pay) FROM t GROUP BY few"),
    any_order("group_many", "SELECT many, count(*), sum(v) FROM t GROUP BY many"),
    any_order("group_text", "SELECT txt, count(*), sum(v) FROM t GROUP BY txt"),
    any_order("distinct", "SELECT DISTINCT many, few FROM t"),
    any_order("count_distinct", "SELECT count(DISTINCT k), count(DISTINCT txt), count(*) FROM t"),
    any_order("union", "SELECT many FROM t UNION SELECT many FROM u"),
    any_order("join_small", "SELECT t.k, d.name FROM t JOIN d ON t.few = d.few"),
    any_order("join_inner", "SELECT t.k, t.pay, u.v FROM t JOIN u ON t.k = u.k"),
    any_order("join_left", "SELECT t.k, t.v, u.pay FROM t LEFT JOIN u ON t.k = u.k AND t.v < u.v"),
    any_order("join_semi", "SELECT k, pay FROM t WHERE k IN (SELECT k FROM u)"),
    any_order("join_anti", "SELECT k, pay FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)"),
    any_order("row_number", "SELECT k, row_number() OVER (PARTITION BY many ORDER BY r, k) FROM t"),
    any_order("running_sum", "SELECT k, sum(v) OVER (ORDER BY k) FROM t"),
    any_order("share_of_all", "SELECT k, v, sum(v) OVER (PARTITION BY few), count(*) OVER () FROM t"),
    any_order("median", "SELECT few, median(r) FROM t GROUP BY few"),
    any_order("texts_of_group", "SELECT many, length(string_agg(pay, ',')) FROM t GROUP BY many"),
];

impl Operation {
    /// The operation called `name`.
    pub fn named(name: &str) -> Option<Self> {
        OPERATIONS.into_iter().find(|operation| operation.name == name)
    }

    /// Its query over tables of `rows` rows.
    pub fn sql(&self, rows: u64) -> String {
        self.sql.replace("{top}", &(rows / TOP_SHARE).max(1).to_string())
    }
}
