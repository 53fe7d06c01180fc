//! The queries of each dataset, as text that DataFusion and DuckDB both accept unchanged.
//!
//! They lie in `queries/<dataset>/<name>.sql` at the root of the repository, one statement per file.

use std::borrow::Cow;

use crate::Dataset;

/// A query of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// Its name within the dataset: `Q1.1`.
    pub name: &'static str,
    /// Its text, with the parameters of scale 1.
    pub sql: &'static str,
}

/// How a query marks a parameter that shrinks as the data grows (TPC-H 2.4.11.3).
const PER_SCALE: &str = "0.0001 /* divided by the scale */";
/// How a query marks a count of rows that grows with the data (ClickBench, whose data has one size).
const TIMES_SCALE: &str = "100000 /* times the scale */";

impl Query {
    /// Its text with the parameters of `scale`.
    pub fn sql_for_scale(&self, scale: f64) -> Cow<'static, str> {
        if self.sql.contains(PER_SCALE) {
            return Cow::Owned(self.sql.replace(PER_SCALE, &format!("{:.10}", 0.0001 / scale)));
        }
        if self.sql.contains(TIMES_SCALE) {
            return Cow::Owned(self.sql.replace(TIMES_SCALE, &format!("{:.0}", 100_000.0 * scale)));
        }
        Cow::Borrowed(self.sql)
    }
}

/// The queries of `dataset`, in order.
pub fn queries(dataset: Dataset) -> &'static [Query] {
    match dataset {
        Dataset::Ssb => SSB,
        Dataset::Tpch => TPCH,
        Dataset::Taxi => TAXI,
        Dataset::Hits => HITS,
    }
}

macro_rules! query_files {
    ($dataset:literal: $($name:literal)*) => {
        &[$(Query {
            name: $name,
            sql: include_str!(concat!("../../../queries/", $dataset, "/", $name, ".sql")),
        }),*]
    };
}

const SSB: &[Query] = query_files!("ssb":
    "Q1.1" "Q1.2" "Q1.3" "Q2.1" "Q2.2" "Q2.3" "Q3.1" "Q3.2" "Q3.3" "Q3.4" "Q4.1" "Q4.2" "Q4.3");

const TPCH: &[Query] = query_files!("tpch":
    "Q1" "Q2" "Q3" "Q4" "Q5" "Q6" "Q7" "Q8" "Q9" "Q10" "Q11" "Q12" "Q13" "Q14" "Q15" "Q16" "Q17" "Q18"
    "Q19" "Q20" "Q21" "Q22");

const TAXI: &[Query] = query_files!("taxi": "Q1.1" "Q1.2" "Q1.3" "Q2.1" "Q2.2" "Q2.3");

const HITS: &[Query] = query_files!("hits":
    "Q0" "Q1" "Q2" "Q3" "Q4" "Q5" "Q6" "Q7" "Q8" "Q9" "Q10" "Q11" "Q12" "Q13" "Q14" "Q15" "Q16" "Q17" "Q18"
    "Q19" "Q20" "Q21" "Q22" "Q23" "Q24" "Q25" "Q26" "Q27" "Q28" "Q29" "Q30" "Q31" "Q32" "Q33" "Q34" "Q35"
    "Q36" "Q37" "Q38" "Q39" "Q40" "Q41" "Q42");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_one_statement() {
        for (dataset, count) in
            [(Dataset::Ssb, 13), (Dataset::Tpch, 22), (Dataset::Taxi, 6), (Dataset::Hits, 43)]
        {
            assert_eq!(queries(dataset).len(), count);
            for query in queries(dataset) {
                let text = query.sql.trim_end();
                assert!(text.contains("select"), "{dataset} {} is empty", query.name);
                assert!(text.ends_with(';'), "{dataset} {} lacks its semicolon", query.name);
                assert_eq!(text.matches(';').count(), 1, "{dataset} {} has several statements", query.name);
            }
        }
    }

    #[test]
    fn three_queries_depend_on_the_scale() {
        let dependent = [(Dataset::Tpch, "Q11"), (Dataset::Hits, "Q27"), (Dataset::Hits, "Q28")];
        for dataset in Dataset::ALL {
            for query in queries(dataset) {
                let scaled = query.sql_for_scale(0.1);
                assert_eq!(
                    scaled != query.sql,
                    dependent.contains(&(dataset, query.name)),
                    "{dataset} {}",
                    query.name
                );
            }
        }
        let important_stock = queries(Dataset::Tpch)[10].sql_for_scale(0.1);
        assert!(important_stock.contains("0.0010000000"), "{important_stock}");
        let long_addresses = queries(Dataset::Hits)[27].sql_for_scale(0.01);
        assert!(long_addresses.contains("> 1000\n"), "{long_addresses}");
    }
}
