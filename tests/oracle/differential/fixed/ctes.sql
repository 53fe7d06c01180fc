-- WITH: names used once, often and never; nested and shadowed; recursion over numbers, trees and graphs.

WITH s AS (SELECT k, count(*) AS n FROM a GROUP BY k) SELECT k, n FROM s WHERE n > 1;
WITH s AS (SELECT k FROM a), u AS (SELECT k FROM s WHERE k > 2) SELECT count(*), sum(k) FROM u;
WITH s AS (SELECT k FROM a) SELECT x.k, y.k FROM s AS x JOIN s AS y ON x.k = y.k + 1;
WITH s(n, word) AS (SELECT k, t FROM a) SELECT n, word FROM s WHERE word = 'x';
WITH s AS (SELECT 1 AS n), u AS (SELECT 2 AS n) SELECT n FROM s UNION ALL SELECT n FROM u;
WITH unused AS (SELECT 1 / 0 AS n), s AS (SELECT 5 AS n) SELECT n FROM s;
WITH a AS (SELECT id, k FROM b) SELECT id, k FROM a;
WITH s AS (WITH u AS (SELECT k FROM a WHERE k > 1) SELECT k + 1 AS k FROM u) SELECT k FROM s;
WITH s AS (SELECT k FROM a) SELECT id FROM b WHERE k IN (SELECT k FROM s) AND id > (SELECT min(k) FROM s);
WITH s AS (SELECT customer, sum(quantity) AS n FROM orders GROUP BY customer) SELECT s.customer FROM s WHERE s.n = (SELECT max(n) FROM s);
WITH s AS (SELECT customer, sum(quantity) AS n FROM orders GROUP BY customer), m AS (SELECT avg(n) AS n FROM s)
SELECT count(*) FROM s, m WHERE s.n > m.n;
WITH s AS (SELECT id, rank() OVER (ORDER BY k DESC) AS r FROM a) SELECT x.id, y.id FROM s AS x JOIN s AS y ON y.r = x.r + 1;
WITH s AS (SELECT k FROM a UNION SELECT k FROM b) SELECT count(*), max(k) FROM s;
WITH s AS (SELECT * FROM a ORDER BY id LIMIT 3) SELECT sum(id) FROM s;
WITH s AS (SELECT id FROM a) (SELECT id FROM s ORDER BY id LIMIT 1) UNION ALL (SELECT id FROM s ORDER BY id DESC LIMIT 1);
WITH s AS (VALUES (1, 'x'), (2, 'y')) SELECT * FROM s;
WITH s(n, t) AS (VALUES (1, 'x'), (2, 'y')) SELECT a.id, s.n FROM a JOIN s ON s.t = a.t;
WITH monthly AS (SELECT date_trunc('month', ordered) AS month, sum(price * quantity) AS total FROM orders GROUP BY 1)
SELECT month, total, total - lag(total) OVER (ORDER BY month) AS change FROM monthly ORDER BY month;
WITH p AS (SELECT id FROM products WHERE category = 'toys'), o AS (SELECT customer, product FROM orders WHERE product IN (SELECT id FROM p))
SELECT customer, count(*), count(DISTINCT product) FROM o GROUP BY customer HAVING count(*) > 5;
SELECT id, (WITH s AS (SELECT b.k FROM b WHERE b.day = a.day) SELECT count(*) FROM s) AS n FROM a;
SELECT id FROM a WHERE EXISTS (WITH s AS (SELECT k FROM b) SELECT 1 FROM s WHERE s.k = a.k);
WITH x AS (SELECT 1 AS n), y AS (SELECT n + 1 AS n FROM x), z AS (SELECT n + 1 AS n FROM y), w AS (SELECT x.n + y.n + z.n AS n FROM x, y, z) SELECT n FROM w;

-- Recursion over numbers.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT i FROM n;
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i * 2 FROM n WHERE i < 1000) SELECT sum(i), max(i), count(*) FROM n;
WITH RECURSIVE f(i, x, y) AS (SELECT 1, 0, 1 UNION ALL SELECT i + 1, y, x + y FROM f WHERE i < 40) SELECT i, x FROM f ORDER BY i;
WITH RECURSIVE n(i) AS (SELECT 0 UNION SELECT (i + 3) % 7 FROM n) SELECT i FROM n ORDER BY i;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3), m(j) AS (SELECT 10 UNION ALL SELECT j + 1 FROM m WHERE j < 12)
SELECT i, j FROM n, m;
WITH RECURSIVE n(i, t) AS (SELECT 1, CAST('x' AS VARCHAR) UNION ALL SELECT i + 1, t || 'y' FROM n WHERE i < 5) SELECT i, t FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT count(*), sum(i) FROM n;
WITH RECURSIVE n(i) AS (SELECT 5 WHERE false UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT count(*) FROM n;
WITH RECURSIVE d(day) AS (SELECT CAST('2024-02-27' AS DATE) UNION ALL SELECT CAST(day + INTERVAL '1 day' AS DATE) FROM d WHERE day < DATE '2024-03-02')
SELECT d.day, count(o.id) FROM d LEFT JOIN orders AS o ON o.ordered = d.day GROUP BY d.day ORDER BY d.day;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) SELECT i FROM n WHERE i > 1 AND NOT EXISTS
(SELECT 1 FROM n AS m WHERE m.i > 1 AND m.i < n.i AND n.i % m.i = 0);
-- duckdb: WITH RECURSIVE c(i, n) AS (SELECT 27, 0 UNION ALL SELECT CASE WHEN i % 2 = 0 THEN i // 2 ELSE 3 * i + 1 END, n + 1 FROM c WHERE i <> 1) SELECT max(n), max(i) FROM c;
WITH RECURSIVE c(i, n) AS (SELECT 27, 0 UNION ALL SELECT CASE WHEN i % 2 = 0 THEN i / 2 ELSE 3 * i + 1 END, n + 1 FROM c WHERE i <> 1) SELECT max(n), max(i) FROM c;
WITH RECURSIVE n(i) AS (SELECT k FROM a WHERE k > 3 UNION ALL SELECT i - 1 FROM n WHERE i > 0) SELECT i, count(*) FROM n GROUP BY i;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT i + 10 FROM n WHERE i < 20) SELECT i FROM n;

-- Over a tree.
WITH RECURSIVE t(id, depth) AS (SELECT id, 0 FROM tree WHERE parent IS NULL UNION ALL SELECT c.id, t.depth + 1 FROM t JOIN tree AS c ON c.parent = t.id)
SELECT id, depth FROM t;
WITH RECURSIVE t(id, path) AS (SELECT id, name FROM tree WHERE parent IS NULL
UNION ALL SELECT c.id, t.path || '/' || c.name FROM tree AS c JOIN t ON c.parent = t.id) SELECT id, path FROM t ORDER BY path;
WITH RECURSIVE up AS (SELECT id, parent FROM tree WHERE id = 10 UNION ALL SELECT p.id, p.parent FROM tree AS p JOIN up ON p.id = up.parent)
SELECT id FROM up;
WITH RECURSIVE t(root, id) AS (SELECT id, id FROM tree UNION ALL SELECT t.root, c.id FROM t JOIN tree AS c ON c.parent = t.id)
SELECT root, count(*) FROM t GROUP BY root;
WITH RECURSIVE t(id, depth) AS (SELECT id, 0 FROM tree WHERE id = 1 UNION ALL SELECT c.id, t.depth + 1 FROM t, tree AS c WHERE c.parent = t.id)
SELECT depth, count(*), string_agg(CAST(id AS VARCHAR), ',' ORDER BY id) FROM t GROUP BY depth;
WITH RECURSIVE t(id) AS (SELECT 4 UNION ALL SELECT c.id FROM tree AS c JOIN t ON c.parent = t.id) SELECT name FROM tree WHERE id NOT IN (SELECT id FROM t);
WITH RECURSIVE boss(id, referrer, depth) AS (SELECT id, referrer, 0 FROM customers WHERE id = 20
UNION ALL SELECT c.id, c.referrer, b.depth + 1 FROM customers AS c JOIN boss AS b ON c.id = b.referrer WHERE b.depth < 6) SELECT id, depth FROM boss;

-- Over a graph with cycles.
WITH RECURSIVE r(node) AS (SELECT 1 UNION SELECT e.target FROM edges AS e JOIN r ON e.source = r.node) SELECT node FROM r;
WITH RECURSIVE r(start, node) AS (SELECT DISTINCT source, source FROM edges UNION SELECT r.start, e.target FROM edges AS e JOIN r ON e.source = r.node)
SELECT start, count(*) FROM r GROUP BY start;
WITH RECURSIVE r(node, cost, hops) AS (SELECT 1, 0, 0 UNION ALL SELECT e.target, r.cost + e.cost, r.hops + 1 FROM r JOIN edges AS e ON e.source = r.node
WHERE r.hops < 6) SELECT node, min(cost), min(hops) FROM r GROUP BY node;
WITH RECURSIVE r(node, path) AS (SELECT 1, ',1,' UNION ALL SELECT e.target, r.path || CAST(e.target AS VARCHAR) || ',' FROM r JOIN edges AS e
ON e.source = r.node WHERE r.path NOT LIKE '%,' || CAST(e.target AS VARCHAR) || ',%') SELECT node, path FROM r;
WITH RECURSIVE r(node, n) AS (SELECT 6, 0 UNION SELECT e.target, r.n + 1 FROM r JOIN edges AS e ON e.source = r.node WHERE r.n < 5) SELECT node, n FROM r;

-- Views.
SELECT count(*), sum(total) FROM paid_orders;
SELECT customer, max(total) FROM paid_orders WHERE quantity > 10 GROUP BY customer HAVING count(*) > 8;
SELECT city, orders, quantity FROM city_totals ORDER BY orders DESC, city;
SELECT x.city, y.city FROM city_totals AS x JOIN city_totals AS y ON x.orders < y.orders AND x.city < y.city;
SELECT child, max(depth) FROM chains GROUP BY child;
SELECT c.child, t.name FROM chains AS c JOIN tree AS t ON t.id = c.parent WHERE c.depth > 1;
SELECT t.city FROM city_totals AS t WHERE t.orders > (SELECT avg(orders) FROM city_totals);

-- More of recursion and of names used often.
WITH RECURSIVE t(id) AS (SELECT id FROM a WHERE id < 3 UNION SELECT id + 2 FROM t WHERE id < 9) SELECT id FROM t;
WITH RECURSIVE t(id, d) AS (SELECT id, 0 FROM tree WHERE parent IS NULL UNION ALL SELECT c.id, d + 1 FROM tree AS c, t
WHERE c.parent = t.id) SELECT d, count(*), min(id) FROM t GROUP BY d ORDER BY d;
WITH RECURSIVE t(id, k) AS (SELECT id, k FROM a WHERE k = 5 UNION ALL SELECT a.id, a.k FROM a JOIN t ON a.k = t.k - 1) SELECT k, count(*) FROM t GROUP BY k;
WITH RECURSIVE t AS (SELECT 1 AS n, 'a' AS s UNION ALL SELECT n + 1, s || 'b' FROM t WHERE n < 4) SELECT * FROM t ORDER BY n DESC;
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < (SELECT max(k) FROM a)) SELECT n FROM t;
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT x.n, y.n FROM t AS x LEFT JOIN t AS y ON y.n = x.n * 2;
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT (SELECT count(*) FROM t AS u WHERE u.n <= t.n) FROM t;
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 100 AND n NOT IN (SELECT id FROM tree WHERE id > 7)) SELECT max(n) FROM t;
WITH RECURSIVE t(a1, b1) AS (SELECT 48, 18 UNION ALL SELECT b1, a1 % b1 FROM t WHERE b1 <> 0) SELECT a1 FROM t WHERE b1 = 0;
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t LIMIT 5;
WITH RECURSIVE t(n) AS (SELECT NULL::INTEGER UNION SELECT n FROM t) SELECT count(*) FROM t;
WITH s AS (SELECT t, sum(k) AS n FROM a GROUP BY t) SELECT x.t, y.t FROM s AS x JOIN s AS y ON x.n < y.n;
WITH s AS (SELECT t, sum(k) AS n FROM a GROUP BY t) SELECT * FROM s WHERE n > (SELECT avg(n) FROM s) UNION ALL SELECT 'all', sum(n) FROM s;
WITH s AS (SELECT day, count(*) AS n FROM a GROUP BY day), u AS (SELECT day, count(*) AS n FROM b GROUP BY day) SELECT coalesce(s.day, u.day) AS day, s.n, u.n
FROM s FULL JOIN u ON s.day IS NOT DISTINCT FROM u.day;
WITH s AS (SELECT k FROM a) SELECT (SELECT max(k) FROM s), (SELECT min(k) FROM s);

-- What Pelton once had wrong, or refused.
WITH s AS (SELECT k, count(*) AS n FROM b GROUP BY k) SELECT id, (SELECT n FROM s WHERE s.k = a.k) AS n FROM a;
WITH s AS (SELECT k FROM a) SELECT k FROM (WITH s AS (SELECT k FROM b) SELECT k FROM s) AS i;
WITH s AS MATERIALIZED (SELECT k FROM a) SELECT count(*) FROM s AS x, s AS y WHERE x.k = y.k;
WITH s AS NOT MATERIALIZED (SELECT k FROM a) SELECT count(*) FROM s AS x, s AS y WHERE x.k < y.k;
