-- Joins: every kind and spelling, keys of every type, NULL among them.

-- Of two tables, by one key.
SELECT a.id, b.id FROM a JOIN b ON a.k = b.k;
SELECT a.id, b.id FROM a INNER JOIN b ON b.k = a.k;
SELECT a.id, b.id FROM a, b WHERE a.k = b.k;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k;
SELECT a.id, b.id FROM a RIGHT OUTER JOIN b ON a.k = b.k;
SELECT a.id, b.id FROM a FULL OUTER JOIN b ON a.k = b.k;
SELECT a.id, b.id FROM a CROSS JOIN b;
SELECT a.id, b.id FROM a, b;
SELECT a.id, b.id FROM a JOIN b ON a.t = b.t;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.t = b.t;
SELECT a.id, b.id FROM a FULL JOIN b ON a.t = b.t;
SELECT a.id, b.id FROM a JOIN b ON a.d = b.d;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.d = b.d;
SELECT a.id, b.id FROM a FULL JOIN b ON b.d = a.d;
SELECT a.id, b.id FROM a JOIN b ON a.x = b.x;
SELECT a.id, b.id FROM a FULL JOIN b ON a.x = b.x;
SELECT a.id, b.id FROM a JOIN b ON a.day = b.day;
SELECT a.id, b.id FROM a RIGHT JOIN b ON a.day = b.day;

-- By keys of different types.
SELECT a.id, b.id FROM a JOIN b ON a.k = b.d;
SELECT a.id, b.id FROM a JOIN b ON a.k = b.x;
SELECT a.id, b.id FROM a JOIN b ON a.x = b.d;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.d = b.x;
SELECT n.id, m.id FROM numbers AS n JOIN numbers AS m ON n.i8 = m.i64;
SELECT n.id, m.id FROM numbers AS n JOIN numbers AS m ON n.i16 = m.f64;
SELECT n.id, m.id FROM numbers AS n JOIN numbers AS m ON n.d9 = m.d38;
SELECT n.id, m.id FROM numbers AS n JOIN numbers AS m ON n.d18 = m.i32;
SELECT n.id, m.id FROM numbers AS n JOIN numbers AS m ON n.f32 = m.f64;
SELECT n.id, m.id FROM numbers AS n FULL JOIN numbers AS m ON n.f32 = m.d9;
SELECT m.id, o.id FROM moments AS m JOIN moments AS o ON m.day = o.moment;
SELECT m.id, o.id FROM moments AS m JOIN moments AS o ON m.day = CAST(o.moment AS DATE);
SELECT m.id, a.id FROM moments AS m LEFT JOIN a ON a.day = m.day WHERE m.id BETWEEN 15 AND 22;

-- NULL as a key.
SELECT a.id, b.id FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.t IS NOT DISTINCT FROM b.t;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k IS NOT DISTINCT FROM b.k;
SELECT a.id, b.id FROM a JOIN b ON a.k = b.k OR (a.k IS NULL AND b.k IS NULL);
SELECT a.id, b.id FROM a JOIN b ON a.k IS DISTINCT FROM b.k AND a.id = b.id;
SELECT a.id, b.id FROM a JOIN b ON coalesce(a.k, -99) = coalesce(b.k, -99);
SELECT a.id FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL;
SELECT b.id FROM a RIGHT JOIN b ON a.k = b.k WHERE a.id IS NULL;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k WHERE a.id IS NULL OR b.id IS NULL;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k WHERE a.k IS NULL AND b.k IS NULL;
SELECT count(*), count(a.k), count(b.k) FROM a FULL JOIN b ON a.k = b.k;
SELECT a.id FROM a LEFT JOIN nothing AS n ON a.k = n.k WHERE n.k IS NULL;

-- By several keys.
SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.t = b.t;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.t = b.t AND a.day = b.day;
SELECT a.id, b.id FROM a FULL JOIN b ON a.t = b.t AND a.x = b.x;
-- duckdb: SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.t = b.t;
SELECT a.id, b.id FROM a JOIN b ON (a.k, a.t) = (b.k, b.t);
SELECT a.id, b.id FROM a JOIN b ON a.d = b.d AND a.x = b.x AND a.k <> b.k;
SELECT a.id, b.id FROM a JOIN b ON a.k = b.k OR a.t = b.t;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k OR a.day = b.day;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND b.x > 0;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND a.x > b.x;

-- By expressions.
SELECT a.id, b.id FROM a JOIN b ON a.k + 1 = b.k;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k * 2 = b.k - 1;
SELECT a.id, b.id FROM a JOIN b ON abs(a.k) = abs(b.k);
SELECT a.id, b.id FROM a JOIN b ON lower(a.t) = lower(b.t);
SELECT a.id, b.id FROM a LEFT JOIN b ON upper(a.t) = b.t;
SELECT a.id, b.id FROM a JOIN b ON a.k + b.k = 4;
SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.k + b.k > 2;
SELECT a.id, b.id FROM a LEFT JOIN b ON length(a.t) = b.k;
SELECT a.id, b.id FROM a JOIN b ON CAST(a.k AS VARCHAR) = CAST(b.k AS VARCHAR);
SELECT a.id, b.id FROM a JOIN b ON a.t || 'y' = b.t;
SELECT a.id, b.id FROM a LEFT JOIN b ON CASE WHEN a.k > 2 THEN a.k ELSE 0 END = b.k;
SELECT a.id, b.id FROM a JOIN b ON extract(month FROM a.day) = extract(month FROM b.day);
SELECT t.id, u.id FROM texts AS t JOIN texts AS u ON t.t = u.u;
SELECT t.id, u.id FROM texts AS t JOIN texts AS u ON lower(t.t) = lower(u.u) AND t.id < u.id;
SELECT t.id, u.id FROM texts AS t JOIN texts AS u ON t.t LIKE u.u || '%' WHERE u.u IN ('a', 'ab', '');
SELECT t.id, u.id FROM texts AS t LEFT JOIN texts AS u ON length(t.t) = length(u.u) + 3;

-- Without equality.
SELECT a.id, b.id FROM a JOIN b ON a.k < b.k;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k > b.k;
SELECT a.id, b.id FROM a RIGHT JOIN b ON a.k >= b.k + 3;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k > b.k + 2;
SELECT a.id, b.id FROM a JOIN b ON a.k <> b.k;
SELECT s.id, o.id FROM spans AS s JOIN spans AS o ON s.low <= o.high AND o.low <= s.high AND s.id < o.id;
SELECT s.id, o.id FROM spans AS s LEFT JOIN spans AS o ON o.low BETWEEN s.low AND s.high AND o.id <> s.id;
SELECT s.id, count(e.seq) FROM spans AS s LEFT JOIN events AS e ON e.value BETWEEN s.low AND s.high GROUP BY s.id;
SELECT s.id, o.id FROM spans AS s JOIN spans AS o ON s.label = o.label AND s.low < o.low;
SELECT s.id, o.id FROM spans AS s FULL JOIN spans AS o ON s.label = o.label AND s.high < o.low;
SELECT a.id, b.id FROM a JOIN b ON true;
SELECT a.id, b.id FROM a LEFT JOIN b ON false;
SELECT a.id, b.id FROM a FULL JOIN b ON false;
SELECT a.id, b.id FROM a LEFT JOIN b ON 1 = 2 OR a.k = 3;
SELECT a.id, b.id FROM a LEFT JOIN b ON NULL;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k IS NULL;
SELECT a.id, b.id FROM a RIGHT JOIN b ON b.t = 'x';
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND a.t = 'x';
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND b.t = 'x';
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k WHERE b.t = 'x';
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k WHERE b.t IS NULL OR b.t = 'x';
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k WHERE coalesce(b.t, 'x') = 'x';
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k WHERE NOT (b.x > 0);
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k WHERE a.x > 0;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k WHERE b.x IS NOT NULL AND a.x IS NOT NULL;

-- USING and NATURAL. In `*`, the columns of USING come first by the standard and in PostgreSQL; Pelton does that for RIGHT and FULL
-- joins (differences.sql), and leaves them in their places, as DuckDB does, for others.
SELECT k, a.id, b.id FROM a JOIN b USING (k);
SELECT * FROM a JOIN b USING (k);
SELECT * FROM a LEFT JOIN b USING (k);
SELECT k, a.id, a.t, b.id, b.t FROM a RIGHT JOIN b USING (k);
SELECT k, a.id, a.t, b.id, b.t FROM a FULL JOIN b USING (k);
SELECT k, t, day, a.id, b.id FROM a FULL JOIN b USING (k, t, day);
SELECT k, t FROM a FULL JOIN b USING (k, t);
SELECT * FROM a JOIN b USING (t, k);
SELECT k, a.k, b.k FROM a FULL JOIN b USING (k);
SELECT k, count(*) FROM a FULL JOIN b USING (k) GROUP BY k;
SELECT k FROM a FULL JOIN b USING (k) WHERE k > 2;
SELECT k + 1 AS next FROM a RIGHT JOIN b USING (k) WHERE k IS NOT NULL;
SELECT a.*, b.id FROM a RIGHT JOIN b USING (k);
SELECT day, sum(a.id), sum(b.id) FROM a FULL JOIN b USING (day) GROUP BY day ORDER BY day;
SELECT * FROM (SELECT k, id AS ia FROM a) AS p NATURAL JOIN (SELECT k, id AS ib FROM b) AS q;
SELECT * FROM (SELECT k, t, id AS ia FROM a) AS p NATURAL LEFT JOIN (SELECT k, t, id AS ib FROM b) AS q;
SELECT * FROM (SELECT k, id AS ia FROM a) AS p NATURAL FULL JOIN (SELECT k, id AS ib FROM b) AS q;
SELECT * FROM (SELECT k, id AS ia FROM a) AS p NATURAL RIGHT JOIN (SELECT k, id AS ib FROM b) AS q;
SELECT * FROM (SELECT k, id AS ia FROM a) AS x FULL JOIN (SELECT k, id AS ib FROM b) AS y USING (k)
FULL JOIN (SELECT id AS k, parent FROM tree) AS z USING (k);
SELECT d FROM a FULL JOIN b USING (d) ORDER BY d;
SELECT x, a.id, b.id FROM a FULL JOIN b USING (x);
SELECT k, max(a.t) AS ta, min(b.t) AS tb FROM a LEFT JOIN b USING (k) GROUP BY k HAVING count(*) > 1;

-- A table with itself.
SELECT c.id, r.name FROM customers AS c LEFT JOIN customers AS r ON c.referrer = r.id;
SELECT c.id, r.id, s.id FROM customers AS c JOIN customers AS r ON c.referrer = r.id JOIN customers AS s ON r.referrer = s.id;
SELECT x.id, y.id FROM a AS x JOIN a AS y ON x.k = y.k AND x.id < y.id;
SELECT x.id, y.id, z.id FROM a AS x JOIN a AS y ON x.k = y.k JOIN a AS z ON y.t = z.t;
SELECT n.id, p.name, g.name FROM tree AS n LEFT JOIN tree AS p ON n.parent = p.id LEFT JOIN tree AS g ON p.parent = g.id;
SELECT n.id, count(c.id) FROM tree AS n LEFT JOIN tree AS c ON c.parent = n.id GROUP BY n.id;
SELECT e.source, f.target FROM edges AS e JOIN edges AS f ON e.target = f.source;
SELECT e.source, f.source, g.source FROM edges AS e, edges AS f, edges AS g
WHERE e.target = f.source AND f.target = g.source AND g.target = e.source;
SELECT e.seq, p.seq FROM events AS e JOIN events AS p ON p.seq = e.seq - 1 AND p.sensor IS DISTINCT FROM e.sensor;

-- Semi and anti joins.
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k);
SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k);
SELECT a.id FROM a WHERE a.k IN (SELECT k FROM b);
SELECT a.id FROM a WHERE a.k NOT IN (SELECT k FROM b);
SELECT a.id FROM a WHERE a.k NOT IN (SELECT k FROM b WHERE k IS NOT NULL);
SELECT a.id FROM a WHERE a.k NOT IN (SELECT k FROM nothing);
SELECT a.id FROM a WHERE a.t IN (SELECT t FROM b WHERE b.k > a.k);
SELECT a.id FROM a WHERE a.d IN (SELECT d FROM b) AND a.x NOT IN (SELECT x FROM b WHERE x > 0);
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k < a.k AND b.t <> a.t);
SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.day > a.day);
SELECT c.id FROM customers AS c WHERE c.id NOT IN (SELECT o.customer FROM orders AS o WHERE o.customer IS NOT NULL AND o.quantity > 18);
SELECT p.id FROM products AS p WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.product = p.id AND o.quantity = 19 AND o.paid);

-- Chains.
SELECT c.city, p.category, count(*), sum(o.quantity) FROM orders AS o JOIN customers AS c ON c.id = o.customer
JOIN products AS p ON p.id = o.product GROUP BY c.city, p.category;
SELECT c.city, p.category, count(*) FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer
LEFT JOIN products AS p ON p.id = o.product GROUP BY c.city, p.category;
SELECT r.city, p.category, max(o.price) FROM orders AS o JOIN customers AS c ON o.customer = c.id
JOIN customers AS r ON c.referrer = r.id JOIN products AS p ON o.product = p.id AND p.price > o.price GROUP BY r.city, p.category;
SELECT o.id, c.name, r.name, s.name, p.name FROM orders AS o JOIN customers AS c ON o.customer = c.id
LEFT JOIN customers AS r ON c.referrer = r.id LEFT JOIN customers AS s ON r.referrer = s.id JOIN products AS p ON p.id = o.product
WHERE o.quantity = 7;
SELECT count(*), count(c.id), count(r.id), count(p.id), count(q.id) FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.id
LEFT JOIN customers AS r ON r.id = c.referrer FULL JOIN products AS p ON p.id = o.product LEFT JOIN products AS q ON q.name = p.name;
SELECT a.id, b.id, x.id, y.id, z.id FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN a AS x ON x.t = b.t RIGHT JOIN b AS y ON y.d = x.d
FULL JOIN a AS z ON z.x = y.x;
SELECT a.id, b.id, n.id FROM a LEFT JOIN (b JOIN numbers AS n ON n.i64 = b.k) ON a.k = b.k;
SELECT a.id, b.id, n.id FROM a LEFT JOIN (b LEFT JOIN nothing AS n ON n.k = b.k) ON a.k = b.k AND n.id IS NULL;
SELECT a.id, b.id, t.id FROM a FULL JOIN b ON a.k = b.k FULL JOIN tree AS t ON t.id = coalesce(a.k, b.k);
SELECT a.id, b.id, c.id FROM a, b, a AS c WHERE a.k = b.k AND b.t = c.t AND c.k > a.k;
SELECT a.id, b.id, s.id FROM (a CROSS JOIN b) LEFT JOIN spans AS s ON s.low = a.k + b.k;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k JOIN tree AS t ON t.id = a.id AND (b.id IS NULL OR t.parent = b.id);

-- Of tables without rows.
SELECT a.id, n.id FROM a JOIN nothing AS n ON a.k = n.k;
SELECT a.id, n.id FROM a LEFT JOIN nothing AS n ON a.k = n.k;
SELECT a.id, n.id FROM nothing AS n LEFT JOIN a ON a.k = n.k;
SELECT a.id, n.id FROM nothing AS n RIGHT JOIN a ON a.k = n.k;
SELECT a.id, n.id FROM nothing AS n FULL JOIN a ON a.k = n.k;
SELECT a.id, n.id FROM a CROSS JOIN nothing AS n;
SELECT count(*), sum(n.k), max(a.t) FROM a LEFT JOIN nothing AS n ON true;
SELECT n.id, m.id FROM nothing AS n FULL JOIN nothing AS m ON n.k = m.k;
SELECT count(*) FROM nothing AS n, nothing AS m;

-- What is joined is computed.
SELECT g.k, b.id FROM (SELECT k, count(*) AS n FROM a GROUP BY k) AS g JOIN b ON b.k = g.k AND g.n > 1;
SELECT a.id, m.top FROM a JOIN (SELECT t, max(k) AS top FROM b GROUP BY t) AS m ON m.t = a.t AND m.top >= a.k;
SELECT x.k, y.k FROM (SELECT DISTINCT k FROM a) AS x FULL JOIN (SELECT DISTINCT k FROM b) AS y ON x.k = y.k;
SELECT x.id, y.n FROM (SELECT id, row_number() OVER (ORDER BY id) AS r FROM a) AS x
JOIN (SELECT id AS n, row_number() OVER (ORDER BY id DESC) AS r FROM b) AS y ON x.r = y.r;
SELECT v.n, a.id FROM (VALUES (1, 'one'), (2, 'two'), (NULL, 'none')) AS v(n, word) LEFT JOIN a ON a.k = v.n;
SELECT v.n, v.word, a.id FROM a RIGHT JOIN (VALUES (0, ''), (5, 'five'), (7, NULL)) AS v(n, word) ON a.k = v.n AND a.t IS DISTINCT FROM v.word;
SELECT u.k, b.id FROM (SELECT k FROM a UNION ALL SELECT i32 FROM numbers) AS u JOIN b ON u.k = b.k;
SELECT x.c, y.c FROM (SELECT count(*) AS c FROM a) AS x, (SELECT count(*) AS c FROM b) AS y WHERE x.c > y.c;
SELECT s.id, r.n FROM spans AS s JOIN (SELECT seq AS n FROM events WHERE seq <= 40) AS r ON r.n BETWEEN s.low AND s.high;
SELECT o.id FROM orders AS o JOIN (SELECT customer, max(price) AS price FROM orders GROUP BY customer) AS m USING (customer, price);
SELECT c.id, t.orders FROM customers AS c JOIN city_totals AS t ON t.city = c.city WHERE c.active;
SELECT p.category, sum(v.total) FROM paid_orders AS v JOIN products AS p ON p.id = v.product GROUP BY p.category;

-- More of outer joins, USING, chains, and groups above joins.
SELECT n.id, m.id FROM numbers n JOIN numbers m ON n.i64 = m.f64;
SELECT n.id, m.id FROM numbers n JOIN numbers m ON n.d18 = m.f64;
SELECT n.id, m.id FROM numbers n JOIN numbers m ON n.d38 = m.i64;
SELECT a.id, c.id FROM a JOIN customers c ON a.day = c.born + INTERVAL '30 years';
SELECT k, a.t, b.t FROM a LEFT JOIN b USING (k) WHERE b.t IS NULL;
SELECT k FROM a RIGHT JOIN b USING (k) ORDER BY k;
SELECT k, count(a.id), count(b.id) FROM a FULL JOIN b USING (k) GROUP BY k HAVING count(a.id) > 0 ORDER BY k;
SELECT k, rank() OVER (ORDER BY k) FROM a FULL JOIN b USING (k);
SELECT count(k), count(a.k), count(b.k) FROM a FULL JOIN b USING (k);
SELECT coalesce(k, -1) AS k2, a.id FROM a FULL JOIN b USING (k) WHERE k IS NULL OR k > 5;
SELECT s.k, s.n FROM (SELECT k, count(*) AS n FROM a FULL JOIN b USING (k) GROUP BY k) AS s WHERE s.n > 2;
SELECT x.k, y.t FROM a AS x JOIN b AS y USING (k, t);
SELECT k, t, x.id, y.id FROM a AS x FULL JOIN b AS y USING (k, t) WHERE t = 'x';
SELECT k FROM (SELECT k FROM a) x NATURAL JOIN (SELECT k FROM b) y;
SELECT x.*, y.* FROM (SELECT k, id AS i FROM a) x NATURAL JOIN (SELECT k, id AS j FROM b) y;
SELECT x.k, y.k, k FROM a x LEFT JOIN b y USING (k);
SELECT * FROM (SELECT k, id AS i FROM a) x JOIN (SELECT k, id AS j FROM b) y USING (k) JOIN (SELECT id AS k, name FROM tree) z USING (k);
SELECT * FROM (SELECT k, id AS i FROM a) x LEFT JOIN (SELECT k, id AS j FROM b) y USING (k) LEFT JOIN (SELECT id AS k, name FROM tree) z USING (k);
SELECT x.i, y.j, z.name FROM (SELECT k, id AS i FROM a) x JOIN (SELECT k, id AS j FROM b) y USING (k) JOIN (SELECT id AS k, name FROM tree) z USING (k);
SELECT x.i, z.name FROM (SELECT k, id AS i FROM a) x NATURAL JOIN (SELECT k, id AS j FROM b) y NATURAL JOIN (SELECT id AS k, name FROM tree) z;
SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id JOIN products p ON o.product = p.id
WHERE c.city = 'Tokyo' AND p.category = 'toys' AND o.quantity > 10;
SELECT c.id, count(o.id) FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.quantity > 17 GROUP BY c.id HAVING count(o.id) = 0;
SELECT c.id FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.quantity > 17 WHERE o.id IS NULL;
SELECT p.id, sum(o.quantity) FROM products p LEFT JOIN orders o ON o.product = p.id AND o.paid GROUP BY p.id;
SELECT p.category, count(DISTINCT o.customer), sum(o.price) FROM orders o RIGHT JOIN products p ON o.product = p.id GROUP BY p.category;
SELECT o.customer, c.id FROM orders o FULL JOIN customers c ON o.customer = c.id WHERE o.id IS NULL OR c.id IS NULL;
SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.k = 3;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND a.k = 3 AND b.t = 'x';
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND a.k = 3;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND a.t = 'X' AND b.t = 'x';
SELECT a.id, b.id FROM a RIGHT JOIN b ON a.k = b.k AND a.t = 'X' WHERE b.k > 1;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND a.k IS NULL;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND (a.t = b.t OR a.t IS NULL);
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND a.t <> b.t;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND a.t <> b.t;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND a.x IS NOT DISTINCT FROM b.x;
SELECT a.id, b.id FROM a FULL JOIN b ON a.k IS NOT DISTINCT FROM b.k AND a.t IS NOT DISTINCT FROM b.t;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k IS NOT DISTINCT FROM b.k AND a.id > b.id;
SELECT a.id, b.id FROM a JOIN b ON a.d = b.d AND a.d IN (1.5, 3);
SELECT a.id, b.id FROM a JOIN b ON a.x = b.x AND a.x = 0;
SELECT a.id, b.id FROM a JOIN b ON a.x = -b.x;
SELECT a.id, b.id FROM a JOIN b ON a.k % 3 = b.k % 3 AND a.k <> b.k;
SELECT a.id, b.id FROM a JOIN b ON a.k = b.k OR a.k = b.k + 1;
SELECT a.id, b.id FROM a LEFT JOIN b ON NOT (a.k = b.k);
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k IS NOT TRUE AND b.id < 3;
SELECT a.id, b.id FROM a LEFT JOIN b ON CASE WHEN a.k > 2 THEN a.k = b.k ELSE a.t = b.t END;
SELECT a.id, b.id FROM a JOIN b ON coalesce(a.t, 'x') = coalesce(b.t, 'x') AND coalesce(a.k, 1) = coalesce(b.k, 1);
SELECT a.id, b.id, c.id FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN b AS c ON c.k = b.k AND c.id > b.id;
SELECT a.id, b.id, c.id FROM a LEFT JOIN b ON a.k = b.k INNER JOIN b AS c ON c.t = a.t;
SELECT a.id, b.id, c.id FROM a LEFT JOIN b ON a.k = b.k RIGHT JOIN b AS c ON c.id = b.id;
SELECT a.id, b.id, c.id FROM a LEFT JOIN b ON a.k = b.k FULL JOIN b AS c ON c.id = b.id AND c.t = a.t;
SELECT a.id, b.id, c.id FROM a RIGHT JOIN (b LEFT JOIN tree AS c ON c.id = b.k) ON a.k = c.parent;
SELECT count(*) FROM a CROSS JOIN b CROSS JOIN tree WHERE a.k = b.k AND b.k = tree.id;
SELECT count(*) FROM a, b, tree, spans WHERE a.k = b.k AND tree.id = a.k AND spans.low = tree.id;
SELECT count(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN tree ON tree.id = b.k LEFT JOIN spans ON spans.low = tree.id AND spans.high > a.id;
SELECT count(*), sum(a.id), sum(b.id) FROM a LEFT JOIN b ON a.k < b.k WHERE b.t IS NULL;
SELECT a.id, count(*) FROM a LEFT JOIN b ON a.k < b.k AND a.t = b.t GROUP BY a.id;
SELECT x.customer, count(*) FROM orders x JOIN orders y ON x.customer = y.customer AND x.id < y.id AND x.price > y.price + 140 GROUP BY x.customer;
SELECT count(*) FROM orders x JOIN orders y ON x.price = y.price AND x.id < y.id;
SELECT count(*) FROM orders x JOIN orders y ON x.shipped = y.shipped AND x.id <> y.id;
SELECT count(*) FROM orders x LEFT JOIN orders y ON x.shipped < y.shipped AND x.customer = y.customer AND x.product = y.product;
SELECT count(*) FROM orders x WHERE NOT EXISTS (SELECT 1 FROM orders y WHERE y.customer = x.customer AND y.ordered > x.ordered);
SELECT count(*) FROM orders x JOIN (SELECT customer, max(ordered) AS m FROM orders GROUP BY customer) y ON x.customer = y.customer AND x.ordered = y.m;
SELECT c.city, o.channel, count(*) FROM customers c JOIN orders o ON c.id = o.customer WHERE c.active AND o.paid GROUP BY c.city, o.channel HAVING count(*) > 10;
SELECT a.id, n.k FROM a LEFT JOIN (SELECT k, 1 AS one FROM nothing) n ON a.k = n.k WHERE n.one IS NULL;
SELECT a.id, s.one FROM a LEFT JOIN (SELECT k, 1 AS one FROM b) s ON a.k = s.k AND a.t = 'X';
SELECT a.id, s.one FROM a LEFT JOIN (SELECT DISTINCT k, 'yes' AS one FROM b WHERE t = 'x') s ON a.k = s.k;
SELECT a.id, coalesce(s.n, 0) FROM a LEFT JOIN (SELECT k, count(*) AS n FROM b GROUP BY k) s ON a.k = s.k;
SELECT a.id, s.k IS NULL, s.c FROM a LEFT JOIN (SELECT k, coalesce(t, 'none') AS c FROM b) s ON a.k = s.k;
SELECT a.id, s.v FROM a LEFT JOIN (SELECT 1 AS v) s ON a.k = 1;
SELECT s.v, a.id FROM (SELECT 1 AS v WHERE false) s RIGHT JOIN a ON true;
SELECT s.v, a.id FROM (SELECT 1 AS v) s FULL JOIN a ON a.k = s.v;
SELECT s.v, a.id FROM (SELECT 1 AS v) s FULL JOIN a ON false;
SELECT t.id, u.id FROM texts t JOIN texts u ON t.t = u.u AND length(t.t) > 2;
SELECT t.id, u.id FROM texts t LEFT JOIN texts u ON t.t || 'b' = u.u;
SELECT t.id, u.id FROM texts t FULL JOIN texts u ON upper(t.t) = u.u;
SELECT m.id, n.id FROM moments m JOIN moments n ON m.zoned = n.moment;
SELECT m.id, n.id FROM moments m LEFT JOIN moments n ON n.moment BETWEEN m.moment - INTERVAL '1 day' AND m.moment + INTERVAL '1 day' AND n.id <> m.id;
SELECT m.id, n.id FROM moments m JOIN moments n ON date_trunc('month', m.moment) = date_trunc('month', n.moment) AND m.id < n.id;
SELECT m.id, n.id FROM moments m JOIN moments n ON extract(year FROM m.day) = extract(year FROM n.day) AND m.id < n.id;
SELECT l.id, r.id FROM logic l JOIN logic r ON l.p = r.q;
SELECT l.id, r.id FROM logic l LEFT JOIN logic r ON l.p AND r.q;
SELECT l.id, r.id FROM logic l FULL JOIN logic r ON l.p = r.q AND l.q = r.p;
SELECT n.id, m.id FROM numbers n FULL JOIN numbers m ON n.i8 = m.i16 AND n.i32 > 5;
SELECT n.id, m.id FROM numbers n JOIN numbers m ON n.i8 = m.d9 AND n.i16 = m.f64;
SELECT n.id, m.id FROM numbers n LEFT JOIN numbers m ON n.f32 = m.f64 AND n.d18 < m.d9;
SELECT count(*), max(a.id), min(b.id), count(b.k) FROM a LEFT JOIN b ON false;
SELECT count(*), max(a.id), max(b.id) FROM a CROSS JOIN b;
SELECT max(b.k), min(b.k), count(b.k), count(*) FROM a LEFT JOIN b ON a.k = b.k AND b.k > 100;
SELECT max(s.one), count(s.one), count(*) FROM a LEFT JOIN (SELECT k, 1 AS one FROM b) AS s ON a.k = s.k;
SELECT x.city, x.n, y.n FROM (SELECT city, count(*) AS n FROM customers GROUP BY city) AS x JOIN (SELECT city, count(*) AS n FROM customers WHERE active
GROUP BY city) AS y ON x.city = y.city;
SELECT p.name, s.n FROM products AS p JOIN (SELECT product, count(*) AS n FROM orders GROUP BY product) AS s ON s.product = p.id WHERE s.n > 75;
SELECT p.category, sum(s.n), max(s.n) FROM products AS p LEFT JOIN (SELECT product, count(*) AS n FROM orders WHERE paid GROUP BY product) AS s ON s.product = p.id
GROUP BY p.category;
SELECT c.city, sum(o.price), count(*) FROM orders AS o JOIN customers AS c ON o.customer = c.id GROUP BY c.city;
SELECT c.name, sum(o.price), count(DISTINCT o.product) FROM orders AS o JOIN customers AS c ON o.customer = c.id GROUP BY c.name;
SELECT c.city, p.category, avg(o.price), min(o.ordered) FROM orders AS o JOIN customers AS c ON o.customer = c.id JOIN products AS p ON o.product = p.id
GROUP BY c.city, p.category;
SELECT c.name, c.city, max(o.quantity) FROM customers AS c LEFT JOIN orders AS o ON o.customer = c.id GROUP BY c.name, c.city;
SELECT c.active, count(*), count(o.id), sum(o.price * o.quantity) FROM customers AS c LEFT JOIN orders AS o ON o.customer = c.id AND o.channel = 'web'
GROUP BY c.active;
SELECT p.name, count(o.id) FROM products AS p LEFT JOIN orders AS o ON o.product = p.id AND o.quantity < -2 GROUP BY p.name HAVING count(o.id) = 0;
SELECT extract(month FROM o.ordered) AS m, c.active, sum(o.price) FROM orders AS o JOIN customers AS c ON c.id = o.customer
GROUP BY m, c.active HAVING sum(o.price) > 7000;
SELECT * FROM (SELECT a.id, b.id AS id2 FROM a JOIN b ON a.id = b.id) AS s;
SELECT a.id, b.id FROM a JOIN b ON a.k - (a.id - 1) = b.k - (b.id - 1) AND a.k - a.id - 1 < b.k;
SELECT x.p, y.q FROM (SELECT k * (id + 1) AS p FROM a) AS x JOIN (SELECT k * id + 1 AS q FROM a) AS y ON x.p = y.q;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k * (a.id + 1) = b.k * (b.id + 1) OR a.k * a.id + 1 = b.k;

-- What Pelton once had wrong, or refused.
SELECT a.id, b.id FROM a JOIN b USING (k) JOIN tree ON tree.id = k;
SELECT k, x.ia, y.ib, z.ic FROM (SELECT k, id AS ia FROM a) AS x JOIN (SELECT k, id AS ib FROM b) AS y USING (k)
JOIN (SELECT k, id AS ic FROM a) AS z USING (k);
SELECT k FROM (SELECT k FROM a) AS x LEFT JOIN (SELECT k FROM b) AS y USING (k) LEFT JOIN (SELECT id AS k FROM tree) AS z USING (k);

-- The key of a semi join stands beside one of another name, and its namesake is no key.
SELECT s.id, s.k FROM (VALUES (1), (2), (3)) AS c(k) JOIN (SELECT id, k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.k AND b.k > a.id - 10)) AS s ON s.k = c.k;
