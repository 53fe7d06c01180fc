-- GROUP BY: by expressions, positions and aliases; HAVING; DISTINCT; ROLLUP, CUBE, GROUPING SETS and GROUPING.

-- Plain.
SELECT k, count(*) FROM a GROUP BY k;
SELECT t, day, count(*), sum(k) FROM a GROUP BY t, day;
SELECT x, count(*) FROM a GROUP BY x;
SELECT d, count(*) FROM a GROUP BY d ORDER BY d;
SELECT p, q, count(*) FROM logic GROUP BY p, q;
SELECT k + 1, count(*) FROM a GROUP BY k + 1;
SELECT k % 2 AS parity, count(*), sum(k) FROM a GROUP BY parity;
SELECT lower(t), count(*) FROM texts GROUP BY 1;
SELECT length(t) AS n, min(t), max(t) FROM texts GROUP BY n HAVING count(*) > 1 ORDER BY n;
SELECT k IS NULL, count(*) FROM a GROUP BY k IS NULL;
SELECT CASE WHEN k < 2 THEN 'low' WHEN k < 4 THEN 'mid' ELSE 'other' END AS class, count(*) FROM a GROUP BY class;
SELECT extract(year FROM ordered) AS year, extract(month FROM ordered) AS month, count(*) FROM orders GROUP BY year, month ORDER BY year, month;
SELECT date_trunc('month', ordered) AS month, sum(quantity) FROM orders GROUP BY date_trunc('month', ordered);
SELECT coalesce(t, '?'), count(*) FROM a GROUP BY coalesce(t, '?');
SELECT k * 2, k + 1, count(*) FROM a GROUP BY k;
SELECT count(*) FROM a GROUP BY k, t;
SELECT 'all', count(*) FROM a GROUP BY 1;
SELECT 1, count(*) FROM nothing GROUP BY 1;
SELECT k, t, count(*) FROM a GROUP BY 2, 1;
SELECT k AS t, count(*) FROM a GROUP BY k;
SELECT k, min(id) AS k2 FROM a GROUP BY a.k;
SELECT round(x), count(*) FROM a GROUP BY round(x);
SELECT CAST(x AS DECIMAL(9,1)) AS x1, count(*) FROM a GROUP BY x1;
SELECT i32 % 3, count(*), sum(i64 % 10) FROM numbers GROUP BY i32 % 3;
SELECT a.t, b.t, count(*) FROM a JOIN b ON a.k = b.k GROUP BY a.t, b.t;
SELECT a.k, sum(b.id) FROM a LEFT JOIN b USING (k) GROUP BY a.k;
SELECT customer % 10 AS digit, quantity % 3 AS rest, count(*) FROM orders GROUP BY digit, rest;
SELECT substr(name, 1, 1) AS initial, count(*) FROM customers GROUP BY initial ORDER BY initial;

-- HAVING.
SELECT k FROM a GROUP BY k HAVING count(*) > 1;
SELECT t, sum(k) FROM a GROUP BY t HAVING sum(k) > 3 AND min(x) IS NOT NULL;
SELECT t, sum(k) AS total FROM a GROUP BY t HAVING sum(k) IS NULL OR sum(k) < 5;
SELECT count(*) FROM a HAVING count(*) > 5;
SELECT count(*) FROM a HAVING count(*) > 500;
SELECT 1 AS one FROM a HAVING max(k) > 3;
SELECT t FROM a GROUP BY t HAVING t > 'x';
SELECT t FROM a GROUP BY t HAVING NOT (max(k) > 3);
SELECT k, count(*) FROM a WHERE t IS NOT NULL GROUP BY k HAVING k BETWEEN 1 AND 4;
SELECT day, avg(k) FROM a GROUP BY day HAVING avg(k) > (SELECT avg(k) FROM a);
SELECT city, count(*) FROM customers GROUP BY city HAVING count(*) = (SELECT max(n) FROM (SELECT count(*) AS n FROM customers GROUP BY city) AS s);
SELECT customer FROM orders GROUP BY customer HAVING bool_and(quantity > -3) AND count(*) > 20;
SELECT t, count(DISTINCT k) FROM a GROUP BY t HAVING count(DISTINCT k) >= 2;

-- ROLLUP.
SELECT t, sum(k), count(*) FROM a GROUP BY ROLLUP (t);
SELECT t, day, sum(k), count(*) FROM a GROUP BY ROLLUP (t, day);
SELECT t, day, sum(k), grouping(t), grouping(day) FROM a GROUP BY ROLLUP (t, day);
SELECT t, day, grouping(t, day), count(*) FROM a GROUP BY ROLLUP (t, day);
SELECT city, active, count(*), sum(balance), avg(score) FROM customers GROUP BY ROLLUP (city, active);
SELECT channel, paid, count(DISTINCT customer), sum(DISTINCT quantity) FROM orders GROUP BY ROLLUP (channel, paid);
SELECT channel, paid, extract(year FROM ordered) AS year, sum(price) FROM orders GROUP BY ROLLUP (channel, paid, extract(year FROM ordered));
SELECT coalesce(t, 'all') AS t, sum(k) FROM a GROUP BY ROLLUP (t);
SELECT t, sum(k) FROM nothing GROUP BY ROLLUP (t);
SELECT t, count(*) FROM a GROUP BY ROLLUP (t) HAVING grouping(t) = 1;
SELECT t, day, count(*) FROM a GROUP BY ROLLUP (t, day) HAVING count(*) > 2;
SELECT t, day, sum(k) FROM a GROUP BY t, ROLLUP (day);
SELECT k % 2 AS parity, t, count(*) FROM a GROUP BY ROLLUP (k % 2, t);
SELECT t, sum(k) FROM a GROUP BY ROLLUP (t) ORDER BY grouping(t), t;
SELECT t, rank() OVER (PARTITION BY grouping(t) ORDER BY sum(k) DESC NULLS LAST) FROM a GROUP BY ROLLUP (t);
SELECT sensor, level, min(value), max(value), avg(value), stddev_pop(value) FROM events GROUP BY ROLLUP (sensor, level);
SELECT CASE WHEN grouping(city) = 1 THEN 'total' ELSE coalesce(city, 'none') END AS place, count(*) FROM customers GROUP BY ROLLUP (city);
SELECT r.t, r.n FROM (SELECT t, count(*) AS n FROM a GROUP BY ROLLUP (t)) AS r WHERE r.t IS NULL;

-- CUBE.
SELECT t, day, count(*) FROM a GROUP BY CUBE (t, day);
SELECT t, day, sum(k), grouping(t), grouping(day), grouping(day, t) FROM a GROUP BY CUBE (t, day);
SELECT p, q, count(*), grouping(p, q) FROM logic GROUP BY CUBE (p, q);
SELECT channel, paid, discount, count(*), max(price) FROM orders GROUP BY CUBE (channel, paid, discount);
SELECT t, count(*) FROM a GROUP BY CUBE (t);
SELECT t, day, count(*) FROM a GROUP BY CUBE (t, day) HAVING grouping(t) + grouping(day) = 1;
SELECT city, active, avg(balance) FROM customers WHERE born < DATE '1980-01-01' GROUP BY CUBE (city, active);

-- GROUPING SETS.
SELECT t, day, count(*) FROM a GROUP BY GROUPING SETS ((t), (day));
SELECT t, day, count(*) FROM a GROUP BY GROUPING SETS ((t, day), (t), ());
SELECT t, day, sum(k), grouping(t, day) FROM a GROUP BY GROUPING SETS ((t), (day), ());
SELECT t, count(*) FROM a GROUP BY GROUPING SETS ((), (t), ());
SELECT count(*), sum(k) FROM a GROUP BY GROUPING SETS (());
SELECT count(*), sum(k) FROM nothing GROUP BY GROUPING SETS (());
SELECT count(*), sum(k) FROM nothing GROUP BY GROUPING SETS ((), ());
SELECT t, count(*) FROM nothing GROUP BY GROUPING SETS ((t), ());
SELECT t, day, count(*) FROM a GROUP BY t, GROUPING SETS ((day), ());
SELECT t, day, x, count(*) FROM a GROUP BY GROUPING SETS ((t, x), (day)), GROUPING SETS ((x), ());
SELECT channel, paid, count(*), count(DISTINCT product) FROM orders GROUP BY GROUPING SETS ((channel), (paid), (channel, paid));
SELECT t, day, sum(k) FROM a GROUP BY GROUPING SETS ((t), (day)) HAVING sum(k) > 5 ORDER BY t, day;
SELECT t, day, string_agg(CAST(id AS VARCHAR), ',' ORDER BY id) FROM a GROUP BY GROUPING SETS ((t), (day));
SELECT t, day, count(*) FILTER (WHERE k > 2), min(x) FROM a GROUP BY GROUPING SETS ((t), (day));
SELECT s.t, s.n, b.id FROM (SELECT t, count(*) AS n FROM a GROUP BY GROUPING SETS ((t), ())) AS s LEFT JOIN b ON b.t = s.t;
SELECT k, d, count(*) FROM a GROUP BY GROUPING SETS ((k), (d)) ORDER BY k, d, count(*);

-- DISTINCT.
SELECT DISTINCT k FROM a;
SELECT DISTINCT t, day FROM a;
SELECT DISTINCT x FROM a;
SELECT DISTINCT d + 1 FROM a ORDER BY 1;
SELECT DISTINCT p OR q FROM logic;
SELECT DISTINCT k, count(*) FROM a GROUP BY k;
SELECT DISTINCT count(*) FROM a GROUP BY k;
SELECT DISTINCT t FROM a ORDER BY t DESC;
SELECT DISTINCT lower(t) FROM texts;
SELECT DISTINCT 1 FROM a;
SELECT count(*) FROM (SELECT DISTINCT customer, product FROM orders) AS s;
SELECT DISTINCT a.k, b.t FROM a LEFT JOIN b ON a.k = b.k;
SELECT DISTINCT k FROM a ORDER BY k LIMIT 3;
SELECT DISTINCT t FROM nothing;

-- DISTINCT ON.
SELECT DISTINCT ON (t) t, id FROM a ORDER BY t, id;
SELECT DISTINCT ON (t) t, id, k FROM a ORDER BY t, k DESC NULLS LAST, id;
SELECT DISTINCT ON (customer) customer, id, price FROM orders WHERE customer < 20 ORDER BY customer, price DESC, id;
SELECT DISTINCT ON (t, day) t, day, id FROM a ORDER BY t, day, id DESC;
SELECT DISTINCT ON (k % 2) k % 2 AS parity, id FROM a ORDER BY k % 2, id;
SELECT DISTINCT ON (sensor) sensor, moment, value FROM events ORDER BY sensor, seq DESC;
SELECT DISTINCT ON (t) id FROM a ORDER BY t DESC, id LIMIT 2;
SELECT s.id FROM (SELECT DISTINCT ON (day) day, id FROM a ORDER BY day, id) AS s WHERE s.day IS NOT NULL;

-- More of sets of groups and of names.
SELECT t, string_agg(CAST(id AS VARCHAR), ',' ORDER BY id), string_agg(CAST(id AS VARCHAR), ',' ORDER BY id DESC) FROM a GROUP BY t;
SELECT t, array_agg(k ORDER BY id) FILTER (WHERE k > 100) FROM a GROUP BY t;
SELECT t, count(DISTINCT k), count(DISTINCT day), avg(DISTINCT k), sum(k), count(*) FROM a GROUP BY t;
SELECT t, count(DISTINCT k), count(DISTINCT day) FROM a GROUP BY ROLLUP (t);
SELECT t, day, count(DISTINCT k), sum(DISTINCT k), median(k) FROM a GROUP BY CUBE (t, day);
SELECT t, day, string_agg(CAST(k AS VARCHAR), ',' ORDER BY id) FROM a GROUP BY ROLLUP (t, day);
SELECT t, day, array_agg(DISTINCT k ORDER BY k) FROM a GROUP BY GROUPING SETS ((t), (day), ());
SELECT k + 1 AS n, count(*) FROM a GROUP BY ROLLUP (k + 1);
SELECT k, k + 1, count(*) FROM a GROUP BY ROLLUP (k);
SELECT k + k, count(*) FROM a GROUP BY CUBE (k);
SELECT coalesce(t, 'total'), coalesce(t, 'x') = 'x', count(*) FROM a GROUP BY ROLLUP (t);
SELECT t, sum(k) FROM a GROUP BY ROLLUP (t) HAVING t IS NULL;
SELECT t, sum(k) FROM a WHERE t IS NOT NULL GROUP BY ROLLUP (t) HAVING t IS NULL;
SELECT t, sum(k) FROM a WHERE t = 'X' GROUP BY ROLLUP (t);
SELECT s.t, s.n FROM (SELECT t, count(*) AS n FROM a GROUP BY ROLLUP (t)) AS s WHERE s.t = 'X';
SELECT s.t, s.n FROM (SELECT t, count(*) AS n FROM a WHERE t IS NOT NULL GROUP BY ROLLUP (t)) AS s WHERE s.t IS NULL;
SELECT s.t, s.day, s.n FROM (SELECT t, day, count(*) AS n FROM a GROUP BY GROUPING SETS ((t), (day))) AS s WHERE s.day IS NULL AND s.t IS NOT NULL;
SELECT s.t, s.day, s.n FROM (SELECT t, day, count(*) AS n FROM a WHERE day IS NOT NULL GROUP BY CUBE (t, day)) AS s WHERE s.day IS NULL;
SELECT grouping(t) AS g, count(*) FROM a GROUP BY ROLLUP (t) ORDER BY g, count(*);
SELECT t, day, grouping(t) + grouping(day) AS level, rank() OVER (PARTITION BY grouping(t) + grouping(day) ORDER BY sum(k) DESC NULLS LAST, count(*) DESC) FROM a
GROUP BY ROLLUP (t, day);
SELECT x, count(*) FROM a GROUP BY GROUPING SETS ((x), (x), ());
SELECT x, d, sum(k) FROM a GROUP BY GROUPING SETS (x, d);
SELECT x, d, sum(k) FROM a GROUP BY GROUPING SETS (x, (d), ());
SELECT count(*), sum(s.n) FROM (SELECT customer, product, channel, count(*) AS n FROM orders GROUP BY ROLLUP (customer, product, channel)) AS s;
SELECT count(*), sum(s.n) FROM (SELECT customer, channel, paid, sum(price) AS n FROM orders GROUP BY CUBE (customer, channel, paid)) AS s;
SELECT count(*), sum(s.n), sum(s.m), max(s.l) FROM (SELECT customer, channel, avg(price) AS n, count(DISTINCT product) AS m, min(discount) AS l FROM orders
GROUP BY ROLLUP (customer, channel)) AS s;
SELECT channel, paid, avg(price), stddev(price), var_pop(quantity), corr(price, quantity), bool_or(paid), max(note)
FROM (SELECT channel, paid, price, quantity, 'n' || id AS note FROM orders) AS s GROUP BY ROLLUP (channel, paid);
SELECT t, sum(k) FROM a GROUP BY ALL;
SELECT t, count(*) FROM a GROUP BY t, t, 1;
SELECT t || 'x', count(*) FROM a GROUP BY t || 'x' HAVING t || 'x' > 'X';
SELECT t AS k, sum(k) FROM a GROUP BY t;
SELECT k % 2 AS k, count(*) FROM a GROUP BY k;
SELECT max(id) AS id, t FROM a GROUP BY t ORDER BY id;
SELECT max(id) AS m, t FROM a GROUP BY t HAVING m > 15;
SELECT t, sum(k) AS s FROM a GROUP BY t ORDER BY s * -1, t;
SELECT DISTINCT ON (day) day, k FROM a ORDER BY day DESC NULLS LAST, k DESC NULLS LAST;
SELECT DISTINCT ON (day) day, id FROM a WHERE k > 1 ORDER BY day, id LIMIT 2 OFFSET 1;
SELECT DISTINCT ON (k % 3, day) id FROM a ORDER BY k % 3, day, id;
SELECT DISTINCT ON (t) t, count(*) AS n FROM a GROUP BY t, day ORDER BY t, n DESC;
SELECT DISTINCT ON (t) t, row_number() OVER (ORDER BY id) FROM a ORDER BY t, id;
SELECT DISTINCT ON (id) id FROM a;
SELECT id, (k, t) = (3, 'x'), (k, id) < (3, 5), (k, id) IS DISTINCT FROM (3, 5) FROM a WHERE k IS NOT NULL AND t IS NOT NULL;
SELECT o.channel, c.city, count(*) FROM orders AS o, customers AS c WHERE o.customer = c.id AND o.ordered > c.born + INTERVAL '60 years' GROUP BY o.channel, c.city;
SELECT t, sum(k - (id - 1)) AS x FROM a GROUP BY t ORDER BY sum(k * 100 - id - 1), t;
SELECT k - (id - 1) AS x, count(*) FROM a GROUP BY k - (id - 1) ORDER BY x;
SELECT k - (id - 1) AS x, count(*) AS n FROM a GROUP BY k - (id - 1) HAVING k - (id - 1) > -10;
SELECT k - id - 1 AS y, count(*) AS n FROM a GROUP BY k - (id - 1), k, id;
SELECT DISTINCT ON (k - (id - k)) k - (id - k) AS p, id FROM a ORDER BY k - (id - k), id;
SELECT sum(k) AS p, sum(DISTINCT k) AS q, sum(k) FILTER (WHERE k > 1) AS r, sum(DISTINCT k) FILTER (WHERE k > 1) AS s FROM a;
SELECT DISTINCT k * (id + 1) AS p, k * id + 1 AS q FROM a;
SELECT k * (k + 1) AS p, k * k + 1 AS q, max(id) FROM a GROUP BY k;
SELECT k * (k + 1) AS p, max(id) FROM a GROUP BY k * (k + 1);
SELECT max(id) AS m FROM a GROUP BY k * (k + 1) HAVING k * (k + 1) > 3;

-- What Pelton once had wrong, or refused.
SELECT count(*) FROM (SELECT t, day, count(*) AS n FROM a GROUP BY CUBE (t, day)) AS s;
SELECT s.t FROM (SELECT t, count(*) AS n FROM a GROUP BY ROLLUP (t)) AS s JOIN b ON b.t = s.t;
SELECT DISTINCT grouping(t) FROM a GROUP BY CUBE (t, day);
SELECT t, day, grouping(t, day) FROM a GROUP BY CUBE (t, day) HAVING grouping(t) = 1 OR t = 'x';
SELECT t, day, count(*) FROM a GROUP BY ROLLUP ((t, day));
SELECT t, day, x, count(*) FROM a GROUP BY ROLLUP ((t, day), x);
SELECT t, day, x, count(*) FROM a GROUP BY CUBE ((t, x), day);
SELECT t, day, count(*) FROM a GROUP BY GROUPING SETS (ROLLUP (t), CUBE (day));

-- Keys of sets that are constant or computed; a column and a cast of it.
SELECT channel, 'a' AS c, count(DISTINCT customer) FROM orders GROUP BY CUBE (channel, 'a');
SELECT channel, paid, count(DISTINCT customer) FROM orders WHERE channel = 'web' GROUP BY CUBE (channel, paid);
SELECT day IN (day) AS p, count(*) FROM a GROUP BY ROLLUP (day IN (day));
SELECT day + 1 AS n, count(*), grouping(day + 1) FROM a GROUP BY ROLLUP (day + 1);
SELECT k > 1 AS p, t, sum(k), count(DISTINCT id) FROM a GROUP BY CUBE (k > 1, t);
SELECT k, CAST(k AS DOUBLE) AS d, count(*) FROM a GROUP BY k, CAST(k AS DOUBLE);
SELECT day, CAST(day AS TIMESTAMP) AS at, count(DISTINCT k) FROM a GROUP BY day, CAST(day AS TIMESTAMP);

-- The first groups, by what has the name of a key, and where windows look at all of them.
SELECT -id AS id FROM orders GROUP BY id ORDER BY id LIMIT 3;
SELECT -id AS id FROM (SELECT DISTINCT id FROM orders) AS q ORDER BY id LIMIT 3;
SELECT id % 7 AS id FROM orders GROUP BY id ORDER BY id DESC LIMIT 5;
SELECT id, count(*) OVER () FROM orders GROUP BY id ORDER BY id LIMIT 3;
SELECT id, row_number() OVER (ORDER BY id DESC) FROM orders GROUP BY id ORDER BY id LIMIT 3;
SELECT id, lag(id) OVER (ORDER BY id) FROM orders GROUP BY id ORDER BY id DESC LIMIT 3;
SELECT id, sum(id) OVER () FROM (SELECT DISTINCT id FROM orders) AS q ORDER BY id LIMIT 3;
SELECT max(id) AS m FROM orders WHERE product IS NOT NULL GROUP BY product ORDER BY m DESC LIMIT 3;
SELECT k FROM (SELECT product AS k, max(id) AS m FROM orders GROUP BY product UNION ALL SELECT max(id), product FROM orders GROUP BY product) AS q WHERE k IS NOT NULL ORDER BY k DESC LIMIT 5;
