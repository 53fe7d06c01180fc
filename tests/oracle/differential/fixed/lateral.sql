-- LATERAL: what stands in FROM and names a column of what stands before it.

SELECT a.id, s.n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.k = a.k) AS s;
SELECT a.id, s.id FROM a, LATERAL (SELECT b.id FROM b WHERE b.k = a.k) AS s;
SELECT a.id, s.id FROM a JOIN LATERAL (SELECT b.id FROM b WHERE b.k = a.k) AS s ON true;
SELECT a.id, s.id FROM a LEFT JOIN LATERAL (SELECT b.id FROM b WHERE b.k = a.k) AS s ON true;
SELECT a.id, s.id FROM a LEFT JOIN LATERAL (SELECT b.id, b.t FROM b WHERE b.k = a.k) AS s ON s.t = 'x';
SELECT a.id, s.m FROM a, LATERAL (SELECT max(b.k) AS m FROM b WHERE b.t = a.t) AS s WHERE s.m > 2;
SELECT c.id, t.total FROM customers AS c LEFT JOIN LATERAL (SELECT sum(o.price) AS total FROM orders AS o WHERE o.customer = c.id AND o.paid) AS t ON true
WHERE c.active;
SELECT c.city, sum(t.n) FROM customers AS c CROSS JOIN LATERAL (SELECT count(*) AS n FROM orders AS o WHERE o.customer = c.id) AS t GROUP BY c.city;
SELECT a.id, s.n FROM a, LATERAL (SELECT DISTINCT b.t AS n FROM b WHERE b.day = a.day) AS s;
SELECT a.id, s.id, u.id FROM a, LATERAL (SELECT b.id, b.t FROM b WHERE b.k = a.k) AS s, LATERAL (SELECT c.id FROM a AS c WHERE c.t = s.t) AS u;
SELECT n.id, p.name FROM tree AS n LEFT JOIN LATERAL (SELECT name FROM tree AS t WHERE t.id = n.parent) AS p ON true;

-- More of aggregates without rows and of ON.
SELECT a.id, s.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.day = a.day HAVING count(*) > 3) AS s ON true;
SELECT a.id, s.n FROM a LEFT JOIN LATERAL (SELECT b.t, count(*) AS n FROM b WHERE b.day = a.day GROUP BY b.t HAVING count(*) > 1) AS s ON true;
SELECT a.id, s.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.day = a.day) AS s ON s.n > 3;
SELECT a.id, s.n FROM a LEFT JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.k = a.k) AS s ON a.id > 3;
SELECT a.id, s.n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.k = a.k) AS s WHERE s.n = 0;
SELECT a.id, s.n, s.m FROM a, LATERAL (SELECT count(*) + 1 AS n, coalesce(max(b.k), -7) AS m FROM b WHERE b.k = a.k) AS s;
SELECT a.id, s.n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.k = a.k AND b.t = a.t) AS s;
SELECT a.id, s.n FROM a, LATERAL (SELECT 'x' AS n FROM b WHERE b.k = a.k) AS s;
SELECT a.id, s.n FROM a, LATERAL (SELECT sum(b.id) AS n FROM b LEFT JOIN spans AS z ON z.low = b.id WHERE b.k = a.k) AS s;
SELECT a.id, s.n, s.z FROM a LEFT JOIN LATERAL (SELECT count(*) AS n, count(*) = 0 AS z FROM b WHERE b.k = a.k) AS s ON true;
SELECT a.id, s.z FROM a, LATERAL (SELECT max(b.k) IS NULL AS z FROM b WHERE b.k = a.k) AS s;

-- What Pelton once had wrong, or refused.
SELECT a.id, s.id, s.r FROM a, LATERAL (SELECT b.id, row_number() OVER (ORDER BY b.id) AS r FROM b WHERE b.day = a.day) AS s;
SELECT a.id, s.id, s.n FROM a, LATERAL (SELECT b.id, count(*) OVER () AS n FROM b WHERE b.day = a.day) AS s;
SELECT a.id, s.n FROM a LEFT JOIN LATERAL (SELECT b.id AS n FROM b WHERE b.day = a.day QUALIFY row_number() OVER (ORDER BY b.id) = 1) AS s ON true;
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b, LATERAL (SELECT b.k + a.k AS total) AS s WHERE s.total = 7);
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
