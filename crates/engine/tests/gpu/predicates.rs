//! Random predicates on random tables: kernels select the rows that DataFusion selects.

use pelton_engine::{ScanOptions, SessionOptions};
use pelton_testkit::{Random, random_predicate, random_rows};
use pelton_zone::SkipKinds;

use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_predicates_select_the_same_rows_as_the_oracle() {
    let tables = Tables::new();
    tables.add("t", random_rows(7, 3000), 1000, vec![]);
    // Nothing is skipped, so that kernels see what zone maps would keep from them.
    let scan = ScanOptions { skip: SkipKinds::NONE, sideways: false, dynamic: false, ..Default::default() };
    let session = tables.session(&SessionOptions { scan, ..on_host() });
    let mut random = Random::new(23);
    let (mut on_device, mut fell_back) = (0, 0);
    for case in 0..40 {
        let sql = format!("SELECT id, int, day, price FROM t WHERE {}", random_predicate(&mut random));
        let (actual, query) = run(&session, &sql).await;
        assert_same_rows(&actual, &tables.expected(&sql).await, &format!("case {case}: {sql}"));
        on_device += device_nodes(&query).len();
        fell_back += fallbacks(&query).len();
    }
    assert!(on_device >= 10, "only {on_device} of 40 predicates ran on the device");
    assert!(fell_back * 4 <= on_device, "{fell_back} of {on_device} fell back");
}
