//! What Tab offers, from the text before the cursor.
//!
//! ```text
//!   '…             files            FROM …, JOIN …, a comma after them     tables
//!   .mo            dot commands     t.…, where t is a table or its alias   columns of that table
//!   anything else  columns of the statement's tables (of all, while it names none), functions, keywords
//! ```

use std::path::Path;

use super::names::Names;
use pelton_sqltext::{Kind, Token, tokens};

/// Tables at most whose columns are offered while a statement names none.
const TABLES_OPENED_MAX: usize = 30;

/// Byte at which the completed word starts, and what may stand there.
pub(super) type Offer = (usize, Vec<String>);

/// The offer for `line` with the cursor at byte `position`. Commands are completed by the caller.
pub(super) fn complete(line: &str, position: usize, names: &dyn Names) -> Offer {
    let all = tokens(line);
    let before: Vec<Token> = tokens(&line[..position]);
    if let Some(open) = before.last().filter(|token| token.kind == Kind::Text && !token.is_closed) {
        return files(line, open.start + 1, position);
    }
    let touching = before.last().filter(|token| token.end() == position);
    if touching.is_some_and(|token| matches!(token.kind, Kind::Number | Kind::Text | Kind::Comment)) {
        return (position, Vec::new());
    }
    let word = touching.filter(|token| is_name(token));
    let start = word.map_or(position, |token| token.start);
    let before = &before[..before.len() - usize::from(word.is_some())];
    let statement = statement_around(&all, start);
    let scope = Scope::of(&statement);
    let typed = &line[start..position];
    let offered = if let Some(qualifier) = qualifier(before, start) {
        columns_of(scope.table(&qualifier), names)
    } else if wants_table(before) {
        scope.common_tables.iter().cloned().chain(names.tables()).map(|name| quoted(&name)).collect()
    } else {
        anything(&scope, typed, names)
    };
    (start, starting_with(typed, offered))
}

fn is_name(token: &Token) -> bool {
    matches!(token.kind, Kind::Word | Kind::QuotedName)
}

/// The tokens of the statement that byte `at` is in.
fn statement_around<'a>(all: &[Token<'a>], at: usize) -> Vec<Token<'a>> {
    let is_end = |token: &Token| token.kind == Kind::Semicolon;
    let first = all.iter().rposition(|token| is_end(token) && token.start < at).map_or(0, |end| end + 1);
    let tokens = all[first..].iter().take_while(|token| !(is_end(token) && token.start >= at));
    tokens.filter(|token| token.kind != Kind::Comment).copied().collect()
}

/// The name before the dot that ends `before` at byte `start`.
fn qualifier(before: &[Token], start: usize) -> Option<String> {
    let [.., name, dot] = before else { return None };
    (dot.is_symbol(".") && dot.end() == start && name.end() == dot.start).then(|| name.name())?
}

const TABLE_KEYWORDS: [&str; 7] = ["from", "join", "into", "update", "table", "describe", "view"];
/// What ends the list of tables after FROM.
const AFTER_TABLES: [&str; 12] =
    ["where", "group", "order", "having", "limit", "select", "on", "using", "union", "with", "set", "window"];

/// True where a table comes next: after FROM and its like, and after a comma in a list of tables.
fn wants_table(before: &[Token]) -> bool {
    match before.iter().rev().find(|token| token.kind != Kind::Comment) {
        Some(last) if last.is_symbol(",") => {
            let mut depth = 0;
            let clause = before.iter().rev().find(|token| {
                depth += i32::from(token.is_symbol(")")) - i32::from(token.is_symbol("("));
                depth < 0 || (depth == 0 && (is_any(token, &AFTER_TABLES) || token.is_word("from")))
            });
            clause.is_some_and(|token| token.is_word("from"))
        }
        Some(last) => is_any(last, &TABLE_KEYWORDS),
        None => false,
    }
}

fn is_any(token: &Token, words: &[&str]) -> bool {
    words.iter().any(|word| token.is_word(word))
}

/// The tables a statement reads, by what it calls them.
struct Scope {
    /// Table and the name it goes by.
    tables: Vec<(String, String)>,
    /// Names that WITH defines.
    common_tables: Vec<String>,
}

impl Scope {
    fn of(statement: &[Token]) -> Self {
        let mut scope = Self { tables: Vec::new(), common_tables: Vec::new() };
        for (at, token) in statement.iter().enumerate() {
            let before = &statement[..at];
            if let Some(name) = token.name().or_else(|| file_name(token)).filter(|_| wants_table(before)) {
                let alias = alias_after(&statement[at + 1..]).unwrap_or_else(|| name.clone());
                scope.tables.push((name, alias));
            }
            let opens = statement.get(at + 1).is_some_and(|next| next.is_word("as"))
                && statement.get(at + 2).is_some_and(|next| next.is_symbol("("));
            if opens && before.last().is_some_and(|last| last.is_word("with") || last.is_symbol(",")) {
                scope.common_tables.extend(token.name());
            }
        }
        scope
    }

    /// The table that goes by `alias`, or is called so.
    fn table<'a>(&'a self, alias: &'a str) -> &'a str {
        self.tables.iter().find(|(_, known)| known == alias).map_or(alias, |(table, _)| table)
    }
}

/// A file as a table.
fn file_name(token: &Token) -> Option<String> {
    (token.kind == Kind::Text && token.is_closed).then(|| token.text.trim_matches('\'').to_owned())
}

fn alias_after(rest: &[Token]) -> Option<String> {
    let rest = if rest.first().is_some_and(|token| token.is_word("as")) { &rest[1..] } else { rest };
    let alias = rest.first().filter(|token| is_name(token) && !is_keyword(token.text))?;
    alias.name()
}

/// True for words that are no names.
pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

fn columns_of(table: &str, names: &dyn Names) -> Vec<String> {
    names.columns(table).iter().map(|column| quoted(column)).collect()
}

fn anything(scope: &Scope, typed: &str, names: &dyn Names) -> Vec<String> {
    let mut offered = Vec::new();
    if scope.tables.is_empty() {
        for table in names.tables().iter().take(TABLES_OPENED_MAX) {
            offered.extend(columns_of(table, names));
        }
    }
    for (table, alias) in &scope.tables {
        offered.extend(columns_of(table, names));
        offered.push(quoted(alias));
    }
    if typed.is_empty() {
        return offered;
    }
    offered.extend(
        names.functions().into_iter().filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_')),
    );
    let is_lower = typed.chars().all(|c| !c.is_uppercase());
    let keyword = |word: &&str| if is_lower { word.to_lowercase() } else { (*word).to_owned() };
    offered.extend(KEYWORDS.iter().map(keyword));
    offered
}

/// What of `offered` goes on from `typed`, sorted; names in quotes also for what is typed without.
fn starting_with(typed: &str, offered: Vec<String>) -> Vec<String> {
    let typed = typed.to_lowercase();
    let fits = |name: &String| {
        let name = name.to_lowercase();
        name.starts_with(&typed) || name.strip_prefix('"').is_some_and(|rest| rest.starts_with(&typed))
    };
    let mut offered: Vec<String> = offered.into_iter().filter(fits).collect();
    offered.sort();
    offered.dedup();
    offered
}

/// `name` as SQL takes it.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !is_keyword(name);
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Files and folders that go on from the path at bytes `start..position`.
pub(super) fn files(line: &str, start: usize, position: usize) -> Offer {
    let typed = &line[start..position];
    let (folder, name) = typed.rsplit_once('/').map_or(("", typed), |(folder, name)| (folder, name));
    let directory = match (typed.contains('/'), folder) {
        (true, "") => "/",
        (true, folder) => folder,
        (false, _) => ".",
    };
    let name_start = position - name.len();
    let Ok(entries) = std::fs::read_dir(Path::new(directory)) else { return (name_start, Vec::new()) };
    let mut found: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let text = entry.file_name().into_string().ok()?;
            let is_offered = text.starts_with(name) && (!text.starts_with('.') || name.starts_with('.'));
            let slash = if entry.path().is_dir() { "/" } else { "" };
            is_offered.then(|| format!("{text}{slash}"))
        })
        .collect();
    found.sort();
    (name_start, found)
}

/// Words of the SQL that DataFusion takes, as they are offered and coloured.
const KEYWORDS: [&str; 119] = [
    "ALL",
    "ANALYZE",
    "AND",
    "ANTI",
    "ANY",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "CASE",
    "CAST",
    "CREATE",
    "CROSS",
    "COPY",
    "CSV",
    "CUBE",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "DATE",
    "DECIMAL",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FIRST",
    "FLOAT",
    "FOLLOWING",
    "FOR",
    "FROM",
    "FULL",
    "GROUP",
    "GROUPING",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "JSON",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "MATERIALIZED",
    "NATURAL",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "PARTITIONED",
    "PRECEDING",
    "QUALIFY",
    "RANGE",
    "REPLACE",
    "RIGHT",
    "ROLLUP",
    "ROW",
    "ROWS",
    "SELECT",
    "SEMI",
    "SET",
    "SETS",
    "SHOW",
    "SIMILAR",
    "SMALLINT",
    "STORED",
    "TABLE",
    "TABLES",
    "THEN",
    "TIME",
    "TIMESTAMP",
    "TINYINT",
    "TO",
    "TRUE",
    "TRY_CAST",
    "UNBOUNDED",
    "UNION",
    "UNIQUE",
    "UNNEST",
    "UPDATE",
    "USING",
    "VALUES",
    "VARCHAR",
    "VERBOSE",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
    "WITHIN",
    "YEAR",
    "MONTH",
];

#[cfg(test)]
mod tests;
