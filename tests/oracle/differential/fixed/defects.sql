-- What Pelton gets wrong, the worst first; above each, what is right and, where it is known, why it is not.
-- A statement that is right again fails the test here, and moves to its topic.

-- ---- Wrong rows

-- '99' is the greatest of these texts; Pelton casts the greatest number, '400'. Bounds of a column are taken through casts that do
-- not keep the order: numbers as text or BOOLEAN, timestamps as TIME. Only where statistics alone answer the query:
-- DataFusion's `project_column_statistics_through_expr` casts the least and the greatest value whatever the cast.
SELECT max(v) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM events) AS s;
SELECT max(CAST(seq AS VARCHAR)), min(CAST(seq AS VARCHAR)) FROM events;
SELECT max(v) FROM (SELECT CAST(price AS VARCHAR) AS v FROM orders UNION ALL SELECT CAST(price AS VARCHAR) FROM orders) AS s;
SELECT min(v) FROM (SELECT CAST(moment AS TIME) AS v FROM events) AS s;
SELECT max(CAST(shipped AS TIME)), min(CAST(shipped AS TIME)) FROM orders;
SELECT max(CAST(k AS BOOLEAN)), min(CAST(k AS BOOLEAN)) FROM a;

-- The PARTITION BY and ORDER BY of the window named in the parentheses count too; Pelton takes what stands beside the name
-- alone: DataFusion never reads `window_name` of a window that is written out.
SELECT id, sum(k) OVER (w ORDER BY id) FROM a WINDOW w AS (PARTITION BY day);
SELECT id, sum(k) OVER (w) FROM a WINDOW w AS (PARTITION BY day);
SELECT id, sum(k) OVER (w ROWS 1 PRECEDING) FROM a WINDOW w AS (PARTITION BY day ORDER BY id);
SELECT id, sum(k) OVER u FROM a WINDOW w AS (PARTITION BY day), u AS (w ORDER BY id);

-- HAVING holds or not for each row of `a`; where it would hold for no rows (count(*) of 0), Pelton drops it.
-- DataFusion's `scalar_subquery_to_join` applies what `pull_up_having_expr` holds only where the value without rows is not NULL.
SELECT id, (SELECT max(b.id) FROM b WHERE b.k = a.k HAVING count(*) < 2) AS n FROM a;
SELECT id, (SELECT max(b.id) FROM b WHERE b.k = a.k HAVING count(*) <> 2) AS n FROM a;
SELECT id, (SELECT 5 FROM b WHERE b.k = a.k HAVING count(*) = 0) AS n FROM a;
SELECT id FROM a WHERE (SELECT max(b.id) FROM b WHERE b.k = a.k HAVING count(*) < 3) > 0;

-- A window inside of LATERAL is over the rows of one row of `a`; Pelton computes it once over all.
SELECT a.id, s.id, s.r FROM a, LATERAL (SELECT b.id, row_number() OVER (ORDER BY b.id) AS r FROM b WHERE b.day = a.day) AS s;
SELECT a.id, s.id, s.n FROM a, LATERAL (SELECT b.id, count(*) OVER () AS n FROM b WHERE b.day = a.day) AS s;
SELECT a.id, s.n FROM a LEFT JOIN LATERAL (SELECT b.id AS n FROM b WHERE b.day = a.day QUALIFY row_number() OVER (ORDER BY b.id) = 1) AS s ON true;

-- Without rows count(*) is 0, and `0 IS NULL` is false; Pelton says NULL. Other conditions of count(*) are right.
SELECT id, (SELECT count(*) IS NULL FROM b WHERE b.k = a.k) AS n FROM a;
SELECT id FROM a WHERE (SELECT count(*) IS NOT NULL FROM b WHERE b.k = a.k);

-- 17 rows have a `k`; beside another aggregate in an order, Pelton's count drops the rows where the key of its order is NULL.
SELECT sum(k ORDER BY id), count(k ORDER BY t) FROM a;

-- A decimal beside a double is a double, in columns of VALUES and from the third branch of a UNION on as well. Pelton makes a
-- DECIMAL(30,15) of both: 1e-20 becomes 0, 1e30 an error. For VALUES, by DataFusion's `type_union_resolution`.
SELECT * FROM (VALUES (1.25), (1e-20)) AS v(x);
SELECT v.x FROM (VALUES (1), (2.5), (3e0)) AS v(x) WHERE v.x > 2;
SELECT 1 UNION ALL SELECT 1.5 UNION ALL SELECT 1e-20;
SELECT 1 UNION ALL SELECT 1.5 UNION ALL SELECT 1e30;

-- Frames that move on subtract what they leave: of doubles, 1e20 takes with it what was added to it, and an infinity or NaN stays.
-- PostgreSQL computes such frames anew. Sums and averages over a few ROWS are right.
SELECT id, sum(x) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM (VALUES (1, 1e20), (2, 1e0), (3, 1e0), (4, 2e0)) AS v(id, x);
SELECT id, sum(x) OVER (ORDER BY id GROUPS 1 PRECEDING) FROM (VALUES (1, 1e20), (2, 1e0), (3, 1e0), (4, 2e0)) AS v(id, x);
SELECT id, avg(x) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM (VALUES (1, 1e20), (2, 1e0), (3, 1e0), (4, 2e0)) AS v(id, x);
SELECT id, sum(x) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)
FROM (VALUES (1, CAST('Infinity' AS DOUBLE)), (2, 1e0), (3, 1e0), (4, 2e0)) AS v(id, x);
SELECT id, avg(x) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)
FROM (VALUES (1, CAST('NaN' AS DOUBLE)), (2, 1e0), (3, 1e0), (4, 2e0)) AS v(id, x);
SELECT s.id, s.v FROM (SELECT id, var_pop(x) OVER (ORDER BY id ROWS 1 PRECEDING) AS v
FROM (VALUES (1, CAST('NaN' AS DOUBLE)), (2, 1e0), (3, 1e0), (4, 2e0)) AS v(id, x)) AS s WHERE s.id > 2;

-- The deviation of equal values is 0; Pelton's frame that moves gives NaN, the root of a number just below 0, or 8e-8.
SELECT seq, stddev(value) OVER (PARTITION BY sensor ORDER BY seq ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) FROM events;
SELECT id, stddev(x) OVER (ORDER BY id ROWS 1 PRECEDING) FROM (VALUES (1, 0.1e0), (2, 7.3e0), (3, 0.1e0), (4, 0.1e0)) AS v(id, x);

-- Two rows further that are not NULL stands 6; Pelton loses count at the second NULL.
SELECT i, lead(x, 2 IGNORE NULLS) OVER (ORDER BY i)
FROM (VALUES (1, 1), (2, NULL), (3, 2), (4, 3), (5, 4), (6, 5), (7, NULL), (8, 6), (9, 7)) AS v(i, x);
SELECT seq, lead(value, 2 IGNORE NULLS) OVER (PARTITION BY sensor ORDER BY seq) FROM events;

-- An interval of 9 days and 12 hours has 12 hours; Pelton's differences of timestamps count 228.
SELECT extract(hour FROM TIMESTAMP '2024-02-29 12:00:00' - TIMESTAMP '2024-02-20 00:00:00');

-- In an expression of ORDER BY a name is a column of FROM; only a name that stands alone is one of the SELECT list first.
SELECT -id AS id FROM a ORDER BY id + 0;
SELECT 10 - id AS id FROM a ORDER BY id * 1 LIMIT 2;

-- NULL rows before are NULL; Pelton takes none before, the row itself.
SELECT id, lag(k, NULL) OVER (ORDER BY id) FROM a;

-- `FROM a` is DuckDB's short form of SELECT * FROM a, which PostgreSQL refuses; Pelton answers with rows that have no columns.
FROM a;

-- ---- Errors of its own

-- With groups, such a count panics: SELECT day, count(k ORDER BY t) FROM a GROUP BY day. Not run, for a panic prints where it came from.

-- ROLLUP and CUBE of which no column is asked for: "Aggregate requires at least one grouping or aggregate expression".
SELECT count(*) FROM (SELECT t, day, count(*) AS n FROM a GROUP BY CUBE (t, day)) AS s;
SELECT s.t FROM (SELECT t, count(*) AS n FROM a GROUP BY ROLLUP (t)) AS s JOIN b ON b.t = s.t;
SELECT DISTINCT grouping(t) FROM a GROUP BY CUBE (t, day);
SELECT t, day, grouping(t, day) FROM a GROUP BY CUBE (t, day) HAVING grouping(t) = 1 OR t = 'x';

-- floor and ceil of a decimal that need a digit more than it has.
SELECT floor(-0.5), ceil(0.5), floor(-9.5), ceil(9.5);
SELECT id, floor(d9), ceil(d9) FROM numbers;

-- The column of a USING is not known as one where a third table is joined.
SELECT a.id, b.id FROM a JOIN b USING (k) JOIN tree ON tree.id = k;
SELECT k, x.ia, y.ib, z.ic FROM (SELECT k, id AS ia FROM a) AS x JOIN (SELECT k, id AS ib FROM b) AS y USING (k)
JOIN (SELECT k, id AS ic FROM a) AS z USING (k);
SELECT k FROM (SELECT k FROM a) AS x LEFT JOIN (SELECT k FROM b) AS y USING (k) LEFT JOIN (SELECT id AS k FROM tree) AS z USING (k);

-- A rank in the order of intervals.
SELECT rank() OVER (ORDER BY v.i) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours'), (INTERVAL '2 days')) AS v(i);

-- A named window in QUALIFY.
SELECT id FROM a WINDOW w AS (ORDER BY id) QUALIFY sum(k) OVER w > 10;

-- A column of two types of integers in a semi join: "the data type inlist should be same".
SELECT u.id FROM (SELECT id, k FROM a UNION ALL SELECT id, k FROM b) AS u WHERE EXISTS (SELECT 1 FROM spans AS s WHERE s.low = u.k);

-- "ScalarSubqueryExpr evaluated before the subquery was executed".
VALUES ((SELECT max(k) FROM a), 2);

-- Expressions that differ in their parentheses or subqueries alone: "have the same name", "duplicate unqualified field name".
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b);
SELECT id, EXISTS (SELECT 1 FROM b WHERE b.k = a.k), EXISTS (SELECT 1 FROM b WHERE b.t = a.t) FROM a;
SELECT id, k IN (SELECT k FROM b), k IN (SELECT low FROM spans) FROM a;
SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.k = a.k) THEN 1 END) AS p, sum(CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.t = a.t) THEN 1 END) AS q FROM a;
SELECT count(*) FILTER (WHERE k IN (SELECT k FROM b)) AS p, count(*) FILTER (WHERE k IN (SELECT low FROM spans)) AS q FROM a;
SELECT k IN (SELECT k FROM b) AS p, k IN (SELECT low FROM spans) AS q, count(*) FROM a GROUP BY p, q;
SELECT k * (id + 1), k * id + 1 FROM a;
SELECT t, sum(k - (id - 1)) AS x, sum(k - id - 1) AS y FROM a GROUP BY t;
SELECT t, sum(k - (id - 1)) AS x FROM a GROUP BY t HAVING sum(k - id - 1) > -20;
SELECT id, sum(k - (id - 1)) OVER (ORDER BY id) AS p, sum(k - id - 1) OVER (ORDER BY id) AS q FROM a;
SELECT count(*) FILTER (WHERE NOT (k > 2 AND id > 2)) AS p, count(*) FILTER (WHERE NOT k > 2 AND id > 2) AS q FROM a;
SELECT DISTINCT k - (id - 1) AS p FROM a ORDER BY k - (id - 1);

-- Names that are taken for the same.
SELECT k, NULL FROM a UNION SELECT NULL, k FROM b;
SELECT sum(k) AS k FROM a GROUP BY t ORDER BY sum(k), t;
SELECT -id AS id FROM a WHERE id > 15 ORDER BY a.id;
SELECT DATE '2024-03-30' + INTERVAL '1 month' + INTERVAL '1 day', DATE '2024-03-30' + (INTERVAL '1 month' + INTERVAL '1 day');
