-- ORDER BY, LIMIT, OFFSET and FETCH: NULL, directions, expressions, positions, aliases, hidden keys.

SELECT k FROM a ORDER BY k;
SELECT k FROM a ORDER BY k DESC;
SELECT k FROM a ORDER BY k NULLS FIRST;
SELECT k FROM a ORDER BY k DESC NULLS LAST;
SELECT k FROM a ORDER BY k ASC NULLS LAST;
SELECT t FROM a ORDER BY t;
SELECT t FROM a ORDER BY t DESC NULLS LAST;
SELECT x FROM a ORDER BY abs(x), x + 0;
SELECT d FROM a ORDER BY d DESC;
SELECT day FROM a ORDER BY day NULLS FIRST;
SELECT p, q FROM logic ORDER BY p, q;
SELECT p, q FROM logic ORDER BY p DESC, q NULLS FIRST;
SELECT id, k, t FROM a ORDER BY k, t, id;
SELECT id, k, t FROM a ORDER BY t DESC, k NULLS FIRST, id DESC;
SELECT id FROM a ORDER BY k DESC NULLS LAST, x NULLS FIRST, id;
SELECT id, k FROM a ORDER BY 2, 1;
SELECT id, k FROM a ORDER BY 2 DESC NULLS LAST, 1 DESC;
SELECT id, -k AS k FROM a ORDER BY k, id;
SELECT id AS k, k AS id FROM a ORDER BY k;
SELECT id, k AS n FROM a ORDER BY n DESC, id;
SELECT id FROM a ORDER BY k + id, id;
SELECT id FROM a ORDER BY -id;
SELECT id FROM a ORDER BY k % 2, k, id;
SELECT id FROM a ORDER BY k IS NULL DESC, k DESC, id;
SELECT id FROM a ORDER BY coalesce(t, ''), id DESC;
SELECT id FROM a ORDER BY length(t), t, id;
SELECT id FROM a ORDER BY CASE WHEN k > 2 THEN 0 WHEN k IS NULL THEN 1 ELSE 2 END, id;
SELECT id, k > 2 AS big FROM a ORDER BY big, id;
SELECT t, count(*) AS n FROM a GROUP BY t ORDER BY n DESC, t;
SELECT t FROM a GROUP BY t ORDER BY count(*), t;
SELECT t, sum(k) FROM a GROUP BY t ORDER BY 2 DESC, 1;
SELECT t FROM a GROUP BY t ORDER BY max(id) - min(id), t;
SELECT * FROM a ORDER BY id DESC;
SELECT a.* FROM a ORDER BY a.t, a.id;
SELECT id, id FROM a ORDER BY id;
SELECT a.id, b.id FROM a JOIN b ON a.k = b.k ORDER BY b.id, a.id;
SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k ORDER BY b.id NULLS FIRST, a.id;
SELECT DISTINCT t, k FROM a ORDER BY k, t;
SELECT i64 FROM numbers ORDER BY i64;
SELECT f64 FROM numbers ORDER BY f64 DESC, 1;
SELECT d38, id FROM numbers ORDER BY d38, id;
SELECT i8, i16 FROM numbers ORDER BY i8 NULLS FIRST, i16;
SELECT id FROM (SELECT id, k FROM a ORDER BY k LIMIT 100) AS s ORDER BY id;
SELECT customer, price, id FROM orders ORDER BY customer DESC, price, id LIMIT 40;
SELECT ordered, channel, id FROM orders ORDER BY ordered, channel DESC, id LIMIT 60 OFFSET 600;
SELECT id FROM orders ORDER BY shipped, id LIMIT 20;
SELECT id FROM orders ORDER BY shipped DESC NULLS LAST, id LIMIT 20;
SELECT id FROM orders ORDER BY channel, paid DESC, discount NULLS FIRST, price DESC, id LIMIT 100;

-- LIMIT and OFFSET.
SELECT id FROM a ORDER BY id LIMIT 3;
SELECT id FROM a ORDER BY id LIMIT 3 OFFSET 2;
SELECT id FROM a ORDER BY id OFFSET 15;
SELECT id FROM a ORDER BY id OFFSET 3 LIMIT 2;
SELECT id FROM a ORDER BY id LIMIT 0;
SELECT id FROM a ORDER BY id LIMIT 1000;
SELECT id FROM a ORDER BY id OFFSET 1000;
SELECT id FROM a ORDER BY id LIMIT ALL;
SELECT id FROM a ORDER BY id LIMIT NULL;
SELECT id FROM a ORDER BY id LIMIT 1 + 2;
SELECT id FROM a ORDER BY id LIMIT 2 * 2 OFFSET 10 - 7;
SELECT count(*) FROM (SELECT id FROM orders LIMIT 17) AS s;
SELECT count(*) FROM (SELECT id FROM orders WHERE paid LIMIT 17 OFFSET 5) AS s;
SELECT count(*) FROM (SELECT customer FROM orders GROUP BY customer LIMIT 9) AS s;
SELECT count(*) FROM (SELECT id FROM a LIMIT 5 OFFSET 18) AS s;
SELECT sum(id) FROM (SELECT id FROM orders ORDER BY id DESC LIMIT 10) AS s;
SELECT s.id FROM (SELECT id FROM orders ORDER BY price DESC, id LIMIT 10) AS s ORDER BY s.id LIMIT 5;
SELECT s.id FROM (SELECT id FROM a ORDER BY id LIMIT 10) AS s ORDER BY s.id DESC LIMIT 3 OFFSET 1;
SELECT s.id, b.id FROM (SELECT id, k FROM a ORDER BY id LIMIT 5) AS s LEFT JOIN b ON b.k = s.k;
SELECT s.t, count(*) FROM (SELECT t FROM a ORDER BY id LIMIT 8 OFFSET 4) AS s GROUP BY s.t;
SELECT s.id FROM (SELECT id, k FROM a ORDER BY id LIMIT 6) AS s WHERE s.k > 1;
SELECT max(s.r) FROM (SELECT row_number() OVER (ORDER BY id) AS r FROM a ORDER BY r LIMIT 4) AS s;
SELECT k FROM a WHERE k IS NOT NULL ORDER BY k DESC LIMIT 3;
SELECT t, k FROM a ORDER BY t NULLS FIRST, k DESC NULLS LAST, id LIMIT 6;
SELECT count(*) FROM a LIMIT 0;
SELECT count(*) FROM a OFFSET 1;
SELECT max(k) FROM a LIMIT 1;
SELECT id FROM orders WHERE customer = 7 ORDER BY id DESC LIMIT 3 OFFSET 3;

-- FETCH FIRST.
SELECT id FROM a ORDER BY id FETCH FIRST 3 ROWS ONLY;
SELECT id FROM a ORDER BY id DESC FETCH NEXT 1 ROW ONLY;
SELECT id FROM a ORDER BY id OFFSET 4 ROWS FETCH NEXT 2 ROWS ONLY;
SELECT id FROM a ORDER BY id FETCH FIRST ROW ONLY;
SELECT id FROM a ORDER BY id OFFSET 2 ROWS;

-- More of expressions and aliases as keys.
SELECT ALL k FROM a;
SELECT id AS n FROM a WHERE id > 10 ORDER BY n + 0 DESC;
SELECT t AS a, k AS t FROM a ORDER BY t, a;
SELECT DISTINCT k % 3 AS m FROM a ORDER BY m DESC;
SELECT seq FROM events ORDER BY CAST(moment AS TIME), seq LIMIT 5;
SELECT seq FROM events ORDER BY CAST(moment AS TIME) DESC, seq LIMIT 5;
SELECT seq FROM events ORDER BY CAST(seq AS VARCHAR) LIMIT 5;
SELECT seq FROM events ORDER BY CAST(seq AS VARCHAR) DESC LIMIT 5;
SELECT id FROM orders ORDER BY CAST(id AS VARCHAR) LIMIT 5;
SELECT id FROM orders ORDER BY -id LIMIT 5;
SELECT id FROM orders ORDER BY id % 7, id LIMIT 5;
SELECT id FROM orders ORDER BY CAST(quantity AS VARCHAR), id LIMIT 5;
SELECT v FROM (SELECT CAST(seq AS VARCHAR) AS v FROM events) AS s ORDER BY v LIMIT 4;
SELECT v FROM (SELECT CAST(seq AS VARCHAR) AS v FROM events) AS s ORDER BY v DESC LIMIT 4;
SELECT CAST(seq AS VARCHAR) AS v, count(*) FROM events GROUP BY v ORDER BY v DESC LIMIT 3;
SELECT -k AS k, id FROM a ORDER BY abs(k), id;
SELECT k % 2 AS k, count(*) FROM a GROUP BY a.k ORDER BY k, count(*);
SELECT t || 'x' AS t FROM a ORDER BY length(t), t;
SELECT id, k AS id2 FROM a ORDER BY id2 + 1, id;
SELECT id FROM a WHERE id IN (SELECT id FROM b ORDER BY id FETCH FIRST 2 ROWS ONLY);
SELECT id FROM a ORDER BY k * (id + 1), id;
SELECT id, k - (id - 1) AS p FROM a ORDER BY k - id - 1, id;

-- What Pelton once had wrong, or refused.
SELECT -id AS id FROM a ORDER BY id + 0;
SELECT 10 - id AS id FROM a ORDER BY id * 1 LIMIT 2;
SELECT DISTINCT k - (id - 1) AS p FROM a ORDER BY k - (id - 1);
SELECT -id AS id FROM a WHERE id > 15 ORDER BY a.id;
SELECT id FROM a ORDER BY id FETCH FIRST (1 + 1) ROWS ONLY;

-- Rows in an order that is not that of what is cast, and columns of which a filter leaves several values.
SELECT CAST(moment AS TIME) FROM (SELECT moment FROM moments ORDER BY moment LIMIT 12) AS m ORDER BY CAST(moment AS TIME);
SELECT CAST(moment AS TIME) AS t, count(*) FROM (SELECT moment FROM moments ORDER BY moment LIMIT 12) AS m GROUP BY CAST(moment AS TIME) ORDER BY t;
SELECT p, q, q OR NULL FROM (SELECT p, q FROM logic ORDER BY q LIMIT 9) AS l ORDER BY q OR NULL, p, q;
SELECT id, moment FROM (SELECT id, moment FROM moments ORDER BY id LIMIT 20) AS m WHERE CAST(moment AS DATE) >= DATE '2020-02-29' AND CAST(moment AS DATE) <= DATE '2020-02-29' ORDER BY moment, id;
SELECT max(moment) FROM (SELECT moment FROM (SELECT moment FROM moments ORDER BY moment LIMIT 4) AS m ORDER BY moment > TIMESTAMP '1900-01-01' LIMIT 9) AS n;

-- Constants and orders of what is joined or grouped, which do not hold above: NULL comes in between, or rows begin again.
SELECT a.id, s.c, s.id FROM a LEFT JOIN (SELECT 7 AS c, id, k FROM b WHERE id < 6) AS s ON s.k = a.k ORDER BY s.c, a.id, s.id;
SELECT a.id, s.c, s.id FROM a LEFT JOIN (SELECT 7 AS c, id, k FROM b WHERE id < 6) AS s ON s.k = a.k ORDER BY s.c DESC, a.id, s.id LIMIT 7;
SELECT a.id, s.k, s.id FROM a LEFT JOIN (SELECT id, k FROM b WHERE k = 3) AS s ON s.k = a.k ORDER BY s.k, a.id, s.id;
SELECT s.c, a.id, s.id FROM (SELECT 7 AS c, id, k FROM b WHERE id < 6) AS s RIGHT JOIN a ON s.k = a.k ORDER BY s.c, a.id, s.id;
SELECT l.c, l.id, r.d, r.id FROM (SELECT 5 AS c, id FROM a WHERE id < 9) AS l FULL JOIN (SELECT 7 AS d, id FROM b WHERE id > 4) AS r ON l.id = r.id ORDER BY r.d, l.c, l.id, r.id;
SELECT a.id, s.c, s.id FROM a LEFT JOIN (SELECT 7 AS c, id FROM b WHERE id < 4) AS s ON s.id > a.id ORDER BY s.c, a.id, s.id;
SELECT a.id, rank() OVER (ORDER BY s.c, a.id) FROM a LEFT JOIN (SELECT DISTINCT 7 AS c, k FROM b) AS s ON s.k = a.k ORDER BY a.id;
SELECT s.c, count(*) FROM a LEFT JOIN (SELECT DISTINCT 7 AS c, k FROM b) AS s ON s.k = a.k GROUP BY s.c ORDER BY s.c;
SELECT r.k, l.id, r.id FROM (SELECT id, k FROM a ORDER BY id LIMIT 15) AS l JOIN (SELECT id, k FROM b ORDER BY k LIMIT 15) AS r ON l.k = r.k ORDER BY r.k, l.id, r.id;
SELECT k, count(*) OVER (PARTITION BY k), string_agg(t, ',' ORDER BY k, t) FROM a GROUP BY ROLLUP (k) ORDER BY k, 3;
SELECT k, count(*) FROM (SELECT k FROM a ORDER BY k LIMIT 15) AS s WHERE k IS NOT NULL GROUP BY ROLLUP (k) ORDER BY k;
SELECT c, count(*) FROM (SELECT 7 AS c FROM a) AS s GROUP BY ROLLUP (c) ORDER BY c DESC;
SELECT id, count(*) OVER (PARTITION BY x > 1) FROM a ORDER BY id;
SELECT id, rank() OVER (ORDER BY length(t) > 1, id) FROM a ORDER BY id;
SELECT k, string_agg(t, ',' ORDER BY t, k, t DESC) FROM a GROUP BY k ORDER BY k;

-- Limits beyond all rows, and DISTINCT ON in another order.
SELECT a.id FROM a LEFT JOIN b ON a.k = b.id ORDER BY a.id LIMIT 9223372036854775807 OFFSET 1;
SELECT id FROM a UNION ALL SELECT id FROM b LIMIT 9223372036854775807 OFFSET 100000;
SELECT DISTINCT ON (k, t) id, k, t FROM a ORDER BY t, k, id;
SELECT DISTINCT ON (2) id, k FROM a ORDER BY k, id;
