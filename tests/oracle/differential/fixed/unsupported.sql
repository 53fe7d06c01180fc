-- What Pelton refuses and DuckDB answers. PostgreSQL answers it too, unless a comment says otherwise.
-- A statement that Pelton answers fails the test here, and moves to its topic.

-- ---- Subqueries and LATERAL

-- At most one row by the data, not by the text.
SELECT n.id, (SELECT p.name FROM tree AS p WHERE p.id = n.parent) AS parent FROM tree AS n;
SELECT n.id, (SELECT count(*) FROM tree AS c WHERE c.parent = n.id) * 10 + coalesce((SELECT p.id FROM tree AS p WHERE p.id = n.parent), 0) FROM tree AS n;
WITH s AS (SELECT k, count(*) AS n FROM b GROUP BY k) SELECT id, (SELECT n FROM s WHERE s.k = a.k) AS n FROM a;
SELECT id, (SELECT max(b.id) FROM b WHERE b.k = a.k OFFSET 1) AS n FROM a;

-- In the ON of an outer join, and over rows made of columns from outside.
SELECT a.id, b.id FROM a LEFT JOIN b ON b.k = (SELECT max(c.k) FROM b AS c WHERE c.day = a.day);
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND b.id > (SELECT min(s.id) FROM spans AS s WHERE s.low = b.k);
SELECT (SELECT max(v.x) FROM (VALUES (a.k), (a.id)) AS v(x)) FROM a;
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b, LATERAL (SELECT b.k + a.k AS total) AS s WHERE s.total = 7);

-- LATERAL by more than equality, with LIMIT, without FROM, of VALUES, of functions and of set operations.
SELECT a.id, s.n FROM a CROSS JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.k < a.k) AS s;
SELECT a.id, s.id FROM a, LATERAL (SELECT b.id FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1) AS s;
SELECT a.id, s.id FROM a LEFT JOIN LATERAL (SELECT b.id FROM b WHERE b.day = a.day ORDER BY b.id DESC LIMIT 2) AS s ON true;
SELECT c.id, t.id, t.price FROM customers AS c, LATERAL (SELECT o.id, o.price FROM orders AS o WHERE o.customer = c.id
ORDER BY o.price DESC, o.id LIMIT 3) AS t;
SELECT a.id, s.twice FROM a, LATERAL (SELECT a.k * 2 AS twice) AS s;
SELECT a.id, s.twice, u.more FROM a, LATERAL (SELECT a.k * 2 AS twice) AS s, LATERAL (SELECT s.twice + 1 AS more) AS u;
SELECT a.id, s.day, s.n FROM a, LATERAL (SELECT b.day, count(*) AS n FROM b WHERE b.k >= a.k GROUP BY b.day) AS s;
SELECT a.id, s.v FROM a, LATERAL (VALUES (a.k), (a.k + 10)) AS s(v);
SELECT a.id, s.name, s.v FROM a CROSS JOIN LATERAL (VALUES ('k', a.k), ('id', a.id)) AS s(name, v);
SELECT a.id, s.n FROM a, LATERAL (SELECT b.id AS n FROM b WHERE b.k = a.k UNION ALL SELECT c.id FROM a AS c WHERE c.k = a.k) AS s;
SELECT p.id, s.high FROM spans AS p, LATERAL (SELECT max(o.high) AS high FROM spans AS o WHERE o.label = p.label AND o.low < p.low) AS s;
SELECT a.id, s.v FROM a, LATERAL generate_series(1, a.k) AS s(v);
SELECT a.id, s.n FROM a, LATERAL (SELECT DISTINCT ON (b.t) b.id AS n FROM b WHERE b.day = a.day ORDER BY b.t, b.id) AS s;
SELECT a.id, s.n FROM a LEFT JOIN LATERAL (SELECT max(b.id) AS n FROM b WHERE b.k = a.k HAVING count(*) = 0) AS s ON true;
SELECT id, v FROM a, unnest([k, id]) AS u(v);
SELECT (SELECT sum(v) FROM unnest([a.k, a.id]) AS u(v)) FROM a;

-- ---- WITH, VALUES, LIMIT and names

WITH s AS (SELECT k FROM a) SELECT k FROM (WITH s AS (SELECT k FROM b) SELECT k FROM s) AS i;
WITH s AS MATERIALIZED (SELECT k FROM a) SELECT count(*) FROM s AS x, s AS y WHERE x.k = y.k;
WITH s AS NOT MATERIALIZED (SELECT k FROM a) SELECT count(*) FROM s AS x, s AS y WHERE x.k < y.k;
SELECT id FROM a WHERE k IN (VALUES (1), (3));
SELECT id FROM a ORDER BY id LIMIT (SELECT 4);
SELECT * FROM a AS s(one, two);
TABLE nothing;
SELECT k AS n, id AS n FROM a;
SELECT id FROM a ORDER BY id FETCH FIRST (1 + 1) ROWS ONLY;

-- ---- Groups and aggregates

SELECT t, day, count(*) FROM a GROUP BY ROLLUP ((t, day));
SELECT t, day, x, count(*) FROM a GROUP BY ROLLUP ((t, day), x);
SELECT t, day, x, count(*) FROM a GROUP BY CUBE ((t, x), day);
SELECT t, day, count(*) FROM a GROUP BY GROUPING SETS (ROLLUP (t), CUBE (day));
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY k) FROM a;
SELECT mode() WITHIN GROUP (ORDER BY channel) FROM orders WHERE channel IS NOT NULL;
SELECT t, string_agg(CAST(id AS VARCHAR), ',' ORDER BY id), array_agg(k ORDER BY k DESC, id), count(x ORDER BY id DESC) FROM a GROUP BY t;
SELECT string_agg(DISTINCT t, ',' ORDER BY t), string_agg(t, ',' ORDER BY id) FROM a;

-- ---- Windows

SELECT id, sum(k) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) FROM a;
SELECT id, sum(id) OVER (ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM a;
SELECT id, count(*) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) FROM a;
SELECT id, sum(k) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE NO OTHERS) FROM a;
SELECT id, string_agg(t, '') OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM a;
SELECT id, bool_and(p) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), bool_or(q) OVER (ORDER BY id ROWS 1 PRECEDING) FROM logic;
SELECT id, lag(k, 1, id) OVER (ORDER BY id) FROM a;
SELECT id, lag(k, id) OVER (ORDER BY id) FROM a;
SELECT id, nth_value(k, id) OVER (ORDER BY id) FROM a;
SELECT id, max(k) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 4 PRECEDING) FROM a;

-- ---- Functions, operators and casts

SELECT id, extract(century FROM day), extract(decade FROM day) FROM moments;
SELECT INTERVAL '2 hours' * 3, 2 * INTERVAL '1 day', INTERVAL '1 hour' / 2;
SELECT DATE '2024-01-01' + INTERVAL '1 day' * v FROM generate_series(1, 3) AS g(v);
SELECT make_timestamp(2024, 2, 29, 12, 30, 0);
SELECT CAST('2024-02-29 12:34' AS TIMESTAMP);
SELECT CAST(' 2024-02-29' AS DATE);
SELECT id FROM logic WHERE p = 'true';
SELECT coalesce(day, '2000-01-01') FROM a;
SELECT id, mod(i32, 5), mod(i64, -5) FROM numbers;
SELECT ceiling(1.2), ceiling(-1.5e0);
SELECT 'abc' ^@ 'ab';
SELECT trim(both from '  a ');
SELECT NULL || NULL;

-- PostgreSQL has other names for these, or none.
SELECT year(day), month(day), day(day), dayname(day), monthname(day), last_day(day) FROM moments;
SELECT date_diff('day', DATE '2024-01-01', DATE '2024-03-01');
SELECT [1, 2, 3, 4][2:];
SELECT ({'a': 5}).a;
SELECT struct_extract({'a': 1, 'b': NULL}, 'a');
