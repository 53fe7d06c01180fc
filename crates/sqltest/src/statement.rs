//! The statements that the runner takes out of the hands of SQL.

use pelton_error::{Error, Result};

/// One statement of a test file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Rows become a table.
    Load(LoadStatement),
    /// A table goes.
    Drop(String),
    /// A query whose skipped row groups are wanted instead of its rows.
    Skipping(String),
    /// Anything else is for the engine.
    Sql(String),
}

/// `LOAD TABLE`, and what `CREATE TABLE … AS` and `INSERT INTO` stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadStatement {
    /// The table.
    pub table: String,
    /// Its rows stay.
    pub append: bool,
    /// Its rows go.
    pub replace: bool,
    /// Fact column, dimension table, dimension key.
    pub star: Vec<(String, String, String)>,
    /// Columns to sort by; `auto` alone leaves the choice to the loader.
    pub cluster_by: Vec<String>,
    /// Rows of a row group, whatever the configuration says.
    pub row_group_rows: Option<u32>,
    /// The SELECT that gives the rows.
    pub query: String,
}

impl Statement {
    /// Reads one statement.
    ///
    /// # Errors
    ///
    /// `LOAD TABLE` that does not follow its grammar; the rest is for the engine to refuse.
    pub fn parse(sql: &str) -> Result<Self> {
        let mut words = Words { rest: sql.trim().trim_end_matches(';') };
        if words.take_all(&["SKIPPING"]) {
            return Ok(Self::Skipping(words.rest.to_owned()));
        }
        if words.take_all(&["DROP", "TABLE"]) {
            return Ok(Self::Drop(words.name()?));
        }
        if words.take_all(&["LOAD", "TABLE"]) {
            return load_statement(words).map(Self::Load);
        }
        if words.take_all(&["INSERT", "INTO"]) {
            let table = words.name()?;
            let query = words.rest.to_owned();
            return Ok(Self::Load(LoadStatement { table, append: true, query, ..LoadStatement::default() }));
        }
        if words.take_all(&["CREATE", "TABLE"]) {
            let table = words.name()?;
            if words.take_all(&["AS"]) {
                let query = words.rest.to_owned();
                return Ok(Self::Load(LoadStatement { table, query, ..LoadStatement::default() }));
            }
        }
        Ok(Self::Sql(sql.to_owned()))
    }
}

fn load_statement(mut words: Words) -> Result<LoadStatement> {
    let mut load = LoadStatement { table: words.name()?, ..LoadStatement::default() };
    loop {
        if words.take_all(&["REPLACE"]) {
            load.replace = true;
        } else if words.take_all(&["APPEND"]) {
            load.append = true;
        } else if words.take_all(&["STAR"]) {
            load.star = words.list()?.iter().map(|link| star_link(link)).collect::<Result<_>>()?;
        } else if words.take_all(&["CLUSTER", "BY"]) {
            load.cluster_by = words.list()?;
        } else if words.take_all(&["ROW", "GROUPS", "OF"]) {
            let rows = words.name()?;
            load.row_group_rows =
                Some(rows.parse().map_err(|_| wrong(&format!("'{rows}' is no number of rows")))?);
        } else if words.take_all(&["AS"]) {
            load.query = words.rest.to_owned();
            return Ok(load);
        } else {
            return Err(wrong(&format!("not understood from '{}'", words.rest)));
        }
    }
}

fn star_link(text: &str) -> Result<(String, String, String)> {
    let parts = text.split_once('=').and_then(|(fact, rest)| Some((fact, rest.split_once('.')?)));
    let (fact, (table, key)) =
        parts.ok_or_else(|| wrong(&format!("'{text}' is not fact_column = table.key")))?;
    Ok((fact.trim().to_owned(), table.trim().to_owned(), key.trim().to_owned()))
}

fn wrong(how: &str) -> Error {
    Error::invalid_input(format!("LOAD TABLE: {how}"))
}

/// What is left of a statement.
struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    /// Takes these words, whatever their case, if all of them come next.
    fn take_all(&mut self, words: &[&str]) -> bool {
        let mut rest = self.rest;
        for word in words {
            match rest.split_at_checked(word.len()) {
                Some((head, tail))
                    if head.eq_ignore_ascii_case(word)
                        && !tail.starts_with(|c: char| c.is_alphanumeric() || c == '_') =>
                {
                    rest = tail.trim_start();
                }
                _ => return false,
            }
        }
        self.rest = rest;
        true
    }

    /// Takes one word; quotes keep its case, and are left out.
    fn name(&mut self) -> Result<String> {
        if let Some((name, rest)) = self.rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            self.rest = rest.trim_start();
            return Ok(name.to_owned());
        }
        let end = self.rest.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if name.is_empty() { Err(wrong("a name is missing")) } else { Ok(name.to_lowercase()) }
    }

    /// Takes `(a, b, …)`.
    fn list(&mut self) -> Result<Vec<String>> {
        let inside = self.rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (list, rest) =
            inside.ok_or_else(|| wrong(&format!("a list in parentheses is missing at '{}'", self.rest)))?;
        self.rest = rest.trim_start();
        Ok(list.split(',').map(|item| item.trim().to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(sql: &str) -> LoadStatement {
        match Statement::parse(sql) {
            Ok(Statement::Load(load)) => load,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn loads_are_read_with_all_their_clauses() {
        let full = load(
            "LOAD TABLE Fact REPLACE STAR (d = dim.d_key, e=east.k) CLUSTER BY (dim.region, b)\n ROW GROUPS OF 64 AS SELECT 1",
        );
        assert_eq!(full.table, "fact");
        assert!(full.replace && !full.append);
        assert_eq!(full.star[0], ("d".into(), "dim".into(), "d_key".into()));
        assert_eq!(full.star[1], ("e".into(), "east".into(), "k".into()));
        assert_eq!(full.cluster_by, ["dim.region", "b"]);
        assert_eq!(full.row_group_rows, Some(64));
        assert_eq!(full.query, "SELECT 1");
        assert!(
            Statement::parse("LOAD TABLE t SORTED AS SELECT 1").unwrap_err().to_string().contains("SORTED")
        );
    }

    #[test]
    fn sql_that_means_a_load_becomes_one() {
        let create = load("create table \"Wide Name\" as select 1 as a;");
        assert_eq!((create.table.as_str(), create.query.as_str()), ("Wide Name", "select 1 as a"));
        assert!(load("INSERT INTO t SELECT 2").append);
        assert_eq!(Statement::parse("DROP TABLE t").unwrap(), Statement::Drop("t".into()));
        assert_eq!(Statement::parse("SKIPPING SELECT 1").unwrap(), Statement::Skipping("SELECT 1".into()));
        let external = "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'x'";
        assert_eq!(Statement::parse(external).unwrap(), Statement::Sql(external.into()));
    }
}
