-- VALUES, generate_series, range, SELECT without FROM, aliases, quoted names and stars.

VALUES (1, 'a'), (2, 'b'), (NULL, NULL);
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, t);
SELECT v.n * 2, v.t FROM (VALUES (1, 'a'), (2, NULL)) AS v(n, t) WHERE v.t IS NULL OR v.n = 1;
SELECT * FROM (VALUES (1), (2.5), (NULL)) AS v(x);
SELECT * FROM (VALUES (NULL, 1), ('a', NULL)) AS v(t, n);
SELECT sum(n), max(t) FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, t);
SELECT v.n, w.n FROM (VALUES (1), (2)) AS v(n) CROSS JOIN (VALUES (3), (4)) AS w(n);
SELECT v.n, w.t FROM (VALUES (1), (2)) AS v(n) LEFT JOIN (VALUES (2, 'two')) AS w(n, t) ON v.n = w.n;
SELECT n FROM (VALUES (3), (1), (2)) AS v(n) ORDER BY n DESC LIMIT 2;
SELECT * FROM (VALUES (DATE '2024-01-01', TRUE), (NULL, FALSE)) AS v(d, b);
SELECT * FROM (VALUES (1 + 1, upper('x') || 'y', 2 > 1)) AS v(a, b, c);
SELECT id FROM a WHERE (k, t) IN (VALUES (1, 'ä'), (3, 'x'));
VALUES (1), (2) UNION ALL VALUES (3);
VALUES (3), (1), (2) ORDER BY 1;
VALUES (3), (1), (2) ORDER BY 1 DESC LIMIT 1;
SELECT 1, 'x', NULL, true, 1.5;
SELECT 1 AS n WHERE false;
SELECT 1 AS n WHERE 2 > 1;
SELECT count(*);
SELECT count(*) WHERE false;
SELECT 1 + 1 AS two, 'a' || 'b' AS ab, NULL AS nothing;

-- Series.
SELECT v FROM generate_series(1, 5) AS g(v);
SELECT v FROM generate_series(5, 1, -2) AS g(v);
SELECT v FROM generate_series(1, 10, 4) AS g(v);
SELECT v FROM generate_series(3, 1) AS g(v);
SELECT v FROM range(3) AS g(v);
SELECT v FROM range(2, 5) AS g(v);
SELECT v FROM range(0, 10, 3) AS g(v);
SELECT count(*), sum(v) FROM generate_series(1, 1000) AS g(v);
SELECT v % 3 AS rest, count(*), sum(v) FROM generate_series(1, 100) AS g(v) GROUP BY rest;
SELECT v, count(o.id) FROM generate_series(-3, 19) AS g(v) LEFT JOIN orders AS o ON o.quantity = v GROUP BY v ORDER BY v;
SELECT x.v, y.v FROM generate_series(1, 3) AS x(v), generate_series(1, 2) AS y(v);
SELECT v FROM generate_series(1, 20) AS g(v) WHERE v NOT IN (SELECT id FROM tree);
SELECT CAST(DATE '2024-02-27' + CAST(v AS INTEGER) AS DATE) AS day FROM range(4) AS g(v);
SELECT CAST(v AS DATE) FROM generate_series(DATE '2024-02-27', DATE '2024-03-02', INTERVAL '1 day') AS g(v);
SELECT v FROM generate_series(TIMESTAMP '2024-02-28 22:00:00', TIMESTAMP '2024-02-29 03:00:00', INTERVAL '2 hours') AS g(v);
SELECT CAST(v AS DATE) FROM generate_series(DATE '2024-01-31', DATE '2024-06-30', INTERVAL '1 month') AS g(v);
SELECT CAST(v AS DATE) FROM range(DATE '2024-02-27', DATE '2024-03-01', INTERVAL '1 day') AS g(v);
SELECT v, v * v, sqrt(v) FROM generate_series(0, 4) AS g(v);
SELECT min(v), max(v), avg(v) FROM range(10, 20) AS g(v);

-- Names.
SELECT "id", "k" AS "Key" FROM "a" WHERE "k" > 2;
SELECT s."Two words" FROM (SELECT k AS "Two words" FROM a) AS s WHERE s."Two words" > 2;
SELECT A.ID, B.Id FROM a AS A JOIN b AS B ON A.K = b.k;
SELECT "select"."from" FROM (SELECT k AS "from" FROM a) AS "select";
SELECT k AS value, t AS name, id AS type, x AS key FROM a;
SELECT s.* FROM (SELECT id, k FROM a) AS s;
SELECT s.*, s.id + 1 AS next, a.t FROM (SELECT id, k FROM b) AS s JOIN a ON a.id = s.id;
SELECT a.*, b.* FROM a JOIN b ON a.id = b.id;
SELECT * FROM (SELECT id, k FROM a) AS s(one, two) WHERE two > 1;
SELECT s.one, s.k2 FROM (SELECT id, k FROM a) AS s(one, k2);
SELECT * EXCLUDE (x, day) FROM a;
SELECT * REPLACE (k + 1 AS k) FROM a;
SELECT a.* EXCLUDE (t), b.t FROM a JOIN b ON a.id = b.id;
SELECT a.id id, a.k n FROM a a WHERE a.k > 0;
SELECT t.id FROM (((SELECT id FROM a))) AS t;
SELECT id FROM (a) WHERE k = 1;
SELECT ((id)), (((k + 1))) FROM a;
SELECT id /* a comment */ FROM a -- another
WHERE k > 2;
FROM a SELECT id WHERE k > 2;

-- More of types that meet, and of expressions that differ in parentheses alone.
SELECT * FROM (VALUES (1), ('2')) AS v(x);
SELECT * FROM (VALUES (DATE '2024-01-01'), (TIMESTAMP '2024-01-01 12:00:00')) AS v(x);
SELECT * FROM (VALUES (1.5), (2.25), (NULL), (100)) AS v(x);
SELECT * FROM (VALUES (CAST(1.5 AS DOUBLE)), (9007199254740993)) AS v(x);
SELECT * FROM (VALUES ('a', 1), (NULL, 2), ('c', NULL)) AS v(t, n) ORDER BY n DESC;
SELECT id, k, k FROM a;
SELECT k + 1, k + 1 FROM a;
SELECT 1, 1;
SELECT 'a', 'a';
SELECT NULL, NULL;
SELECT CAST(k AS BIGINT), CAST(k AS DOUBLE) FROM a;
SELECT CAST(1 AS BIGINT), CAST(1 AS DOUBLE);
SELECT CASE WHEN k > 2 THEN 1 END, CASE WHEN k > 2 THEN 1 ELSE NULL END FROM a;
SELECT x - (y - 1) AS p, x - y - 1 AS q FROM (SELECT k AS x, id AS y FROM a) AS s;
SELECT (k + id) * 2 AS p, k + id * 2 AS q, (k + id) * 2 + (k + id * 2) AS r FROM a;
SELECT k - (1 - k) AS p, k - 1 - k AS q, (k - (1 - k)) * (k - 1 - k) AS r FROM a;
SELECT CASE WHEN k * (id + 1) > 10 THEN k * (id + 1) ELSE k * id + 1 END AS p FROM a;
SELECT (k * (id + 1)) + (k * (id + 1)) AS p, (k * id + 1) * (k * id + 1) AS q FROM a;
SELECT NOT (k > 2 OR x > 0) AS p, (NOT k > 2) OR x > 0 AS q FROM a;
SELECT (k > 2) = (x > 0) AS p FROM a;
SELECT -(k + 1) AS p, -k + 1 AS q FROM a;
SELECT (k + 1)::VARCHAR AS p, k + 1::INTEGER AS q FROM a;
SELECT coalesce(k, 0) - (coalesce(x, 0) - 1) AS p, coalesce(k, 0) - coalesce(x, 0) - 1 AS q, id FROM a;

-- What Pelton once had wrong, or refused.
SELECT * FROM (VALUES (1.25), (1e-20)) AS v(x);
SELECT v.x FROM (VALUES (1), (2.5), (3e0)) AS v(x) WHERE v.x > 2;
SELECT id FROM a WHERE k IN (VALUES (1), (3));
