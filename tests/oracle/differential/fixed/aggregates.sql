-- Aggregate functions: of every type, of no rows, DISTINCT, FILTER, ORDER BY, statistics, percentiles.

-- The common ones.
SELECT count(*), count(k), count(t), count(d), count(x), count(day) FROM a;
SELECT sum(k), avg(k), min(k), max(k) FROM a;
SELECT sum(d), avg(d), min(d), max(d) FROM a;
SELECT sum(x), avg(x), min(x), max(x) FROM a;
SELECT min(t), max(t), min(day), max(day) FROM a;
SELECT sum(k), avg(d), min(t), max(day), count(x), count(*) FROM nothing;
SELECT sum(i8), sum(i16), sum(i32), sum(i64) FROM numbers;
SELECT avg(i8), avg(i16), avg(i32), avg(i64) FROM numbers;
SELECT min(i8), max(i16), min(i32), max(i64) FROM numbers;
SELECT sum(f32), sum(f64), avg(f32), avg(f64) FROM numbers WHERE f64 BETWEEN -1000 AND 2000;
SELECT sum(d9), sum(d18), sum(d38) FROM numbers;
SELECT avg(d9), avg(d18), min(d38), max(d38) FROM numbers;
SELECT min(moment), max(moment), min(zoned), max(day) FROM moments;
SELECT bool_and(p), bool_or(p), bool_and(q), bool_or(q) FROM logic;
SELECT bool_and(p), bool_or(q) FROM logic WHERE id IN (1, 3);
SELECT min(p), max(p) FROM logic;
SELECT bit_and(i32), bit_or(i32), bit_xor(i32) FROM numbers;
SELECT count(NULL), sum(CAST(NULL AS INTEGER)), max(CAST(NULL AS VARCHAR));
SELECT count(1), sum(1), min('a'), max(2.5);
SELECT count(*) FROM a WHERE false;
SELECT sum(k) AS total FROM a WHERE k IS NULL;
SELECT sum(k + 1), sum(k) + count(k), avg(k * 1.0) FROM a;
SELECT sum(quantity * price), avg(quantity * price), sum(price * (1 - discount)) FROM orders;
SELECT max(length(t)), min(upper(t)), max(t || '!') FROM texts;
SELECT sum(CASE WHEN paid THEN quantity ELSE 0 END), sum(CASE WHEN paid THEN quantity END), count(CASE WHEN NOT paid THEN 1 END) FROM orders;
SELECT max(k) - min(k), max(day) - min(day) FROM a;
SELECT any_value(k) FROM a WHERE k = 3;
SELECT count(*), sum(x.n) FROM (SELECT count(*) AS n FROM orders GROUP BY customer) AS x;
SELECT sum(9223372036854775807) FROM a;
SELECT sum(CAST(99999999999999999999999999999999.5 AS DECIMAL(38,1))) FROM a WHERE id < 10;
SELECT avg(i64) FROM numbers WHERE i64 > 1000;
SELECT min(-k), max(-k), -max(k) FROM a;

-- DISTINCT.
SELECT count(DISTINCT k), count(DISTINCT t), count(DISTINCT d), count(DISTINCT x), count(DISTINCT day) FROM a;
SELECT sum(DISTINCT k), avg(DISTINCT k), min(DISTINCT k) FROM a;
SELECT sum(DISTINCT d), avg(DISTINCT x) FROM a;
SELECT count(DISTINCT customer), count(customer), count(DISTINCT product) FROM orders;
SELECT channel, count(DISTINCT customer), sum(DISTINCT quantity), avg(DISTINCT quantity) FROM orders GROUP BY channel;
SELECT paid, count(DISTINCT channel), count(DISTINCT price), count(*) FROM orders GROUP BY paid;
SELECT count(DISTINCT k + 1), count(DISTINCT abs(k)) FROM a;
SELECT count(DISTINCT CASE WHEN k > 2 THEN t END) FROM a;
SELECT count(DISTINCT lower(t)) FROM texts;
SELECT count(DISTINCT (k, t)) FROM a;
SELECT t, count(DISTINCT k), sum(k), sum(DISTINCT k) FROM a GROUP BY t;
SELECT count(DISTINCT k) FROM nothing;
SELECT count(DISTINCT p), bool_or(DISTINCT q) FROM logic;
SELECT string_agg(DISTINCT t, ',' ORDER BY t) FROM a;
SELECT count(DISTINCT day) FILTER (WHERE k > 1), count(DISTINCT t) FILTER (WHERE k > 1) FROM a;
SELECT t, count(DISTINCT k) FILTER (WHERE x > 0) FROM a GROUP BY t;

-- FILTER.
SELECT count(*) FILTER (WHERE k > 2), count(*) FILTER (WHERE k <= 2), count(*) FILTER (WHERE k IS NULL), count(*) FROM a;
SELECT sum(k) FILTER (WHERE false), count(k) FILTER (WHERE NULL), min(k) FILTER (WHERE true) FROM a;
SELECT channel, sum(price) FILTER (WHERE paid), avg(quantity) FILTER (WHERE NOT paid), max(id) FILTER (WHERE paid IS NULL) FROM orders GROUP BY channel;
SELECT city, count(*) FILTER (WHERE active) * 1.0 / count(*) FROM customers GROUP BY city;
SELECT customer, sum(quantity) FILTER (WHERE quantity > 0) AS bought, sum(quantity) FILTER (WHERE quantity < 0) AS returned FROM orders
WHERE customer < 8 GROUP BY customer;
SELECT count(*) FILTER (WHERE k > (SELECT avg(k) FROM a)) FROM a;
SELECT string_agg(t, ',' ORDER BY id) FILTER (WHERE k > 1) FROM a;

-- ORDER BY in aggregates.
SELECT string_agg(t, ',' ORDER BY id) FROM a;
SELECT string_agg(t, ', ' ORDER BY t DESC, id) FROM a;
SELECT string_agg(t, '' ORDER BY k NULLS FIRST, id) FROM a;
SELECT day, string_agg(t, '|' ORDER BY id) FROM a GROUP BY day;
SELECT string_agg(t, ',') FROM nothing;
SELECT string_agg(CAST(k AS VARCHAR), '+' ORDER BY k, id) FROM a;
SELECT category, string_agg(name, ';' ORDER BY price DESC, id) FROM products GROUP BY category;
SELECT string_agg(name, ',' ORDER BY name, id) FROM customers WHERE city = '東京';
SELECT array_agg(k ORDER BY id) FROM a;
SELECT t, array_agg(id ORDER BY id DESC) FROM a GROUP BY t;
SELECT array_agg(t ORDER BY t NULLS FIRST, id) FROM a;
SELECT array_agg(DISTINCT k ORDER BY k) FROM a;
SELECT array_agg(k ORDER BY id) FILTER (WHERE k IS NOT NULL) FROM a;
-- duckdb: SELECT first(t ORDER BY id), last(t ORDER BY id) FROM a WHERE t IS NOT NULL;
SELECT first_value(t ORDER BY id), last_value(t ORDER BY id) FROM a WHERE t IS NOT NULL;
-- duckdb: SELECT day, first(id ORDER BY k DESC NULLS LAST, id) FROM a GROUP BY day;
SELECT day, first_value(id ORDER BY k DESC NULLS LAST, id) FROM a GROUP BY day;
SELECT array_agg(k) FROM nothing;

-- Statistics.
SELECT var_samp(k), var_pop(k), stddev_samp(k), stddev_pop(k) FROM a;
SELECT variance(x), stddev(x) FROM a;
SELECT var_samp(k), stddev(k), var_pop(k), stddev_pop(k) FROM a WHERE id = 1;
SELECT var_pop(k), stddev(x) FROM nothing;
SELECT corr(k, x), covar_samp(k, x), covar_pop(k, x) FROM a;
SELECT corr(quantity, price), covar_pop(quantity, discount) FROM orders;
SELECT regr_slope(x, k), regr_intercept(x, k), regr_count(x, k), regr_r2(x, k) FROM a;
SELECT regr_avgx(x, k), regr_avgy(x, k), regr_sxx(x, k), regr_syy(x, k), regr_sxy(x, k) FROM a;
SELECT channel, regr_slope(price, quantity), regr_count(price, discount) FROM orders GROUP BY channel;
SELECT sensor, stddev_pop(value), var_samp(level) FROM events GROUP BY sensor;
SELECT stddev(price), variance(price), avg(price) FROM orders;
SELECT customer, stddev_samp(price), var_pop(quantity) FROM orders WHERE customer BETWEEN 10 AND 15 GROUP BY customer;

-- Percentiles and modes.
SELECT median(k), median(x) FROM a;
SELECT median(id), median(value), median(level) FROM events JOIN a ON a.id = events.seq;
SELECT sensor, median(value) FROM events GROUP BY sensor;
SELECT median(k) FROM nothing;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC) FROM a;
SELECT percentile_cont(0) WITHIN GROUP (ORDER BY value), percentile_cont(1) WITHIN GROUP (ORDER BY value) FROM events;
SELECT sensor, percentile_cont(0.9) WITHIN GROUP (ORDER BY value) FROM events GROUP BY sensor;
SELECT quantile_cont(value, 0.75) FROM events;

-- Beside each other, and of many groups.
SELECT customer, count(*), sum(quantity), min(price), max(price), avg(price), count(DISTINCT channel), max(ordered), min(shipped) FROM orders GROUP BY customer;
SELECT customer, product, count(*), sum(price) FROM orders GROUP BY customer, product HAVING count(*) > 2;
SELECT ordered, count(*), sum(price * quantity) FROM orders GROUP BY ordered;
SELECT price, count(*) FROM orders GROUP BY price HAVING count(*) > 1;
SELECT discount, sum(price), count(*) FROM orders GROUP BY discount;
SELECT shipped, count(*) FROM orders GROUP BY shipped HAVING count(*) > 1;
SELECT max(s.n), min(s.n), avg(s.n) FROM (SELECT product, count(*) AS n FROM orders GROUP BY product) AS s;
SELECT sum(a.k), count(*), max(b.x) FROM a JOIN b ON a.k = b.k;
SELECT min(t), max(t), count(DISTINCT t) FROM (SELECT t FROM a UNION ALL SELECT t FROM b) AS s;

-- More of orders, of arithmetic inside, and of what statistics could answer.
SELECT count(x ORDER BY id), max(k ORDER BY x), sum(k ORDER BY id DESC), min(t ORDER BY k) FROM a;
SELECT count(DISTINCT k ORDER BY k), sum(DISTINCT k ORDER BY k DESC) FROM a;
SELECT avg(d ORDER BY id), stddev(x ORDER BY id), string_agg(t, '' ORDER BY id DESC) FROM a;
SELECT array_agg(k ORDER BY id), array_agg(k ORDER BY id DESC), array_agg(t ORDER BY k, id) FROM a;
SELECT string_agg(t, ',' ORDER BY id), string_agg(t, ';' ORDER BY id DESC) FROM a;
SELECT array_agg(DISTINCT t ORDER BY t DESC) FROM a;
SELECT string_agg(DISTINCT CAST(k AS VARCHAR), ',' ORDER BY CAST(k AS VARCHAR) DESC) FROM a;
SELECT array_agg(k ORDER BY id) FILTER (WHERE k > 1), array_agg(k ORDER BY id DESC) FILTER (WHERE k <= 1) FROM a;
SELECT count(DISTINCT k), count(DISTINCT t), count(DISTINCT k) FILTER (WHERE t = 'X'), sum(DISTINCT k) FILTER (WHERE k > 1) FROM a;
SELECT sum(ALL k) FROM a;
SELECT DISTINCT t, length(t) FROM a ORDER BY length(t), t;
SELECT min(CAST(moment AS TIME)) FROM events;
SELECT max(CAST(moment AS TIME)) FROM events;
SELECT sensor, min(CAST(moment AS TIME)), max(CAST(moment AS TIME)) FROM events GROUP BY sensor;
SELECT max(CAST(t AS INTEGER)) FROM texts WHERE t IN ('12', '-3');
SELECT max(CAST(s.t AS INTEGER)), min(CAST(s.t AS INTEGER)) FROM (SELECT CAST(seq AS VARCHAR) AS t FROM events) AS s;
SELECT max(CAST(d AS VARCHAR)), min(CAST(d AS VARCHAR)) FROM a;
SELECT max(CAST(day AS VARCHAR)), min(CAST(moment AS DATE)), max(CAST(moment AS DATE)) FROM moments;
SELECT max(CAST(x AS VARCHAR)), min(CAST(x AS INTEGER)), max(CAST(x AS DECIMAL(9,1))) FROM a;
SELECT max(-k), min(-k), max(-x), min(10 - k), max(k * -1), min(k * -2 + 1) FROM a;
SELECT max(abs(k)), min(abs(k)), max(k % 3), min(k % 3), max(k * k) FROM a;
SELECT max(extract(hour FROM moment)), min(extract(hour FROM moment)), max(extract(month FROM moment)), min(extract(minute FROM moment)) FROM events;
SELECT max(extract(year FROM moment)), min(date_trunc('month', moment)), max(date_trunc('day', moment)) FROM moments;
SELECT max(upper(t)), min(lower(t)), max(length(t)), min(substr(t, 2)), max(left(t, 1)), min(reverse(t)) FROM texts;
SELECT max(t || 'z'), min('z' || t), max(concat(t, 'q')) FROM texts;
SELECT max(sqrt(abs(x))), min(power(k, 2)), max(exp(x)), min(1.0 / nullif(k, 0)) FROM a;
SELECT max(day + 1), min(day - 1), max(DATE '2024-12-31' - day), min(day + INTERVAL '1 month') FROM a;
SELECT max(coalesce(k, 100)), min(coalesce(k, -100)), max(nullif(k, 5)), min(nullif(k, -1)) FROM a;
SELECT max(CASE WHEN k > 2 THEN -k ELSE k END), min(k > 2), max(k IS NULL), min(k = 3) FROM a;
SELECT sum(k + 1), sum(k - 1), sum(2 * k), sum(-k), sum(k + id), avg(k + 1), avg(-k), avg(2 * k) FROM a;
SELECT sum(k + 0.5), sum(x + k), avg(d + 1), avg(k / 2.0), sum(d * k), sum(1 - k), sum(1) FROM a;
SELECT t, sum(k + 1), sum(k - 1), sum(2 * k), avg(k + 1), count(k + 1) FROM a GROUP BY t;
SELECT count(k + NULL), count(k > 1), count(nullif(k, 3)), count(1 + 1), count(NULL::INTEGER) FROM a;
SELECT sum(CASE WHEN k > 2 THEN 1 ELSE 0 END), sum(CASE WHEN k > 2 THEN 1 END), sum((k > 2)::INTEGER),
count(CASE WHEN k > 2 THEN 1 END), avg(CASE WHEN k > 2 THEN 1.0 ELSE 0 END) FROM a;
SELECT max(CAST(moment AS TIME)) FROM moments WHERE id < 10;
SELECT customer, min(CAST(shipped AS TIME)), max(CAST(shipped AS TIME)) FROM orders WHERE customer < 4 GROUP BY customer;
SELECT min(CAST(shipped AS TIME)) FROM orders;
SELECT min(CAST(i64 AS VARCHAR)), max(CAST(i64 AS VARCHAR)), max(CAST(i8 AS VARCHAR)) FROM numbers;
SELECT max(CAST(p AS INTEGER)), min(CAST(p AS VARCHAR)) FROM logic;
SELECT min(moment::TIME) FILTER (WHERE seq > 3), count(DISTINCT moment::TIME) FROM events;
SELECT max(CAST(seq AS VARCHAR)) FROM events;
SELECT s.v FROM (SELECT CAST(seq AS VARCHAR) AS v FROM events) AS s WHERE s.v > '98';
SELECT count(*) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM events) AS s WHERE s.v > '50';
SELECT count(*) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM events) AS s JOIN (SELECT CAST(id AS VARCHAR) AS v FROM orders) AS u ON s.v = u.v;
SELECT count(*) FROM (SELECT CAST(moment AS TIME) AS v FROM events) AS s JOIN (SELECT CAST(moment AS TIME) AS v FROM moments) AS u ON s.v = u.v;
SELECT count(*) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM events) AS s LEFT JOIN (SELECT CAST(id AS VARCHAR) AS v FROM orders
WHERE id BETWEEN 90 AND 110) AS u ON s.v = u.v WHERE u.v IS NULL;
SELECT count(*) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM events) AS s WHERE s.v IN (SELECT CAST(id AS VARCHAR) FROM orders WHERE id BETWEEN 90 AND 110);
SELECT seq FROM events WHERE CAST(seq AS VARCHAR) > '98';
SELECT seq FROM events WHERE CAST(seq AS VARCHAR) = '398' OR CAST(seq AS VARCHAR) BETWEEN '11' AND '112';
SELECT max(v) FROM (SELECT CAST(seq AS VARCHAR) AS v, level FROM events) AS s GROUP BY level;
SELECT max(v.i), min(v.i) FROM (VALUES (INTERVAL '2 days'), (INTERVAL '25 hours'), (INTERVAL '1 month'), (INTERVAL '31 days')) AS v(i);
SELECT max(id), min(id), count(*), count(k) FROM (SELECT id, k FROM a UNION ALL SELECT id, k FROM b UNION ALL SELECT NULL, NULL) AS u;
SELECT max(v), min(v) FROM (SELECT k AS v FROM a UNION ALL SELECT 100) AS u;
SELECT max(v), count(v) FROM (SELECT k AS v FROM a UNION SELECT low FROM spans) AS u;
SELECT max(k), min(k), count(*), count(k) FROM (SELECT k FROM a LIMIT 100) AS s;
SELECT count(*), max(id) FROM (SELECT id FROM a ORDER BY id LIMIT 3) AS s;
SELECT min(x), max(x), count(x) FROM (SELECT id, 5 AS x FROM a) AS s;
SELECT min(x), max(x), count(x), sum(x) FROM (SELECT NULL::INTEGER AS x FROM a) AS s;
SELECT max(k) FROM a WHERE k < 3 OR k IS NULL;
SELECT max(k), min(k) FROM a WHERE id > 1000;
SELECT max(f64), min(f64), max(f32), min(f32) FROM numbers;
SELECT max(t), min(t), max(u), min(u), count(u) FROM texts;
SELECT max(x), min(x) FROM (SELECT x FROM a UNION ALL SELECT CAST('NaN' AS DOUBLE)) AS s;
SELECT max(day), min(day), max(moment), min(moment), max(zoned), count(day), count(*) FROM moments;
SELECT max(d9), min(d9), max(d18), min(d38), count(d38) FROM numbers;
SELECT max(p), min(q), count(p) FROM logic;
SELECT max(k2), min(k2) FROM (SELECT DISTINCT k AS k2 FROM a) AS s;
SELECT max(v), min(v) FROM (SELECT CAST(k AS DOUBLE) AS v FROM a) AS s;
SELECT max(v), min(v) FROM (SELECT CAST(d AS DOUBLE) AS v FROM a) AS s;
SELECT max(v), min(v) FROM (SELECT CAST(x AS REAL) AS v FROM a) AS s;
SELECT max(v), min(v) FROM (SELECT CAST(t AS VARCHAR) AS v FROM a) AS s;
SELECT max(v), min(v) FROM (SELECT CAST(day AS TIMESTAMP) AS v FROM a) AS s;
SELECT max(v), min(v) FROM (SELECT CAST(CAST(id AS VARCHAR) AS INTEGER) AS v FROM a) AS s;
SELECT max(v), min(v) FROM (SELECT CAST(zoned AS DATE) AS v FROM moments) AS s;
SELECT max(v), min(v) FROM (SELECT CAST(name AS VARCHAR) AS v FROM customers) AS s;
SELECT max(v) FROM (SELECT CAST(substr(name, 1, 0) || id AS INTEGER) AS v FROM customers) AS s;
SELECT count(*) FROM a WHERE CAST(id AS VARCHAR) = (SELECT max(CAST(id AS VARCHAR)) FROM a);
SELECT count(*) FROM orders AS o WHERE o.price = (SELECT max(price) FROM orders AS i WHERE i.product = o.product AND i.ordered < o.ordered);
SELECT (SELECT max(k) FROM a), (SELECT min(k) FROM a);
SELECT count(*), count(*) FROM a;
SELECT sum(k) FILTER (WHERE id > 2), sum(k) FILTER (WHERE id > 3), sum(k) FROM a;
SELECT sum(k) - (sum(id) - 1) AS x, sum(k) - sum(id) - 1 AS y FROM a;
SELECT max(x) FROM (SELECT k - (id - 1) AS x FROM a UNION ALL SELECT k - id - 1 FROM a) AS s;
SELECT sum(k) + sum(k), sum(k) * 2, sum(k + k) FROM a;
SELECT max((SELECT max(k) FROM a)) AS p, max((SELECT max(k) FROM b)) AS q FROM tree;
SELECT sum(p) FROM (SELECT k * (id + 1) AS p FROM a) AS s, (SELECT max(k * id + 1) AS m FROM a) AS u WHERE s.p < u.m;
SELECT sum(price - (discount * 2 - 1)) AS p FROM orders WHERE price - discount * 2 - 1 > 50;

-- What Pelton once had wrong, or refused.
SELECT max(CAST(seq AS VARCHAR)), min(CAST(seq AS VARCHAR)) FROM events;
SELECT max(CAST(shipped AS TIME)), min(CAST(shipped AS TIME)) FROM orders;
SELECT max(CAST(k AS BOOLEAN)), min(CAST(k AS BOOLEAN)) FROM a;
SELECT sum(k ORDER BY id), count(k ORDER BY t) FROM a;
SELECT t, sum(k - (id - 1)) AS x, sum(k - id - 1) AS y FROM a GROUP BY t;
SELECT t, sum(k - (id - 1)) AS x FROM a GROUP BY t HAVING sum(k - id - 1) > -20;
SELECT count(*) FILTER (WHERE NOT (k > 2 AND id > 2)) AS p, count(*) FILTER (WHERE NOT k > 2 AND id > 2) AS q FROM a;
SELECT sum(k) AS k FROM a GROUP BY t ORDER BY sum(k), t;
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY k) FROM a;
SELECT mode() WITHIN GROUP (ORDER BY channel) FROM orders WHERE channel IS NOT NULL;
SELECT t, string_agg(CAST(id AS VARCHAR), ',' ORDER BY id), array_agg(k ORDER BY k DESC, id), count(x ORDER BY id DESC) FROM a GROUP BY t;
SELECT string_agg(DISTINCT t, ',' ORDER BY t), string_agg(t, ',' ORDER BY id) FROM a;

-- Distinct values in several orders.
SELECT string_agg(DISTINCT t, ',' ORDER BY t), string_agg(DISTINCT t, ',' ORDER BY t DESC) FROM a;
SELECT array_agg(DISTINCT k ORDER BY k) FILTER (WHERE k IS NOT NULL), array_agg(DISTINCT k ORDER BY k DESC) FILTER (WHERE k IS NOT NULL) FROM a;
SELECT day, string_agg(DISTINCT t, ',' ORDER BY t DESC), array_agg(id ORDER BY id DESC), array_agg(id ORDER BY id) FROM a GROUP BY day;

-- Conditions without columns, over totals.
SELECT count(*) FROM a HAVING (SELECT max(k) FROM b) > 1000;
SELECT n FROM (SELECT count(*) AS n, 5 AS c FROM a) AS q WHERE c > 7;
SELECT n FROM (SELECT count(*) AS n, false AS c FROM a GROUP BY ROLLUP (k)) AS q WHERE c;
SELECT q.n, b.id FROM (SELECT count(*) AS n, 5 AS c FROM a) AS q JOIN b ON q.c > 7;

-- Groups by nothing, and chance.
SELECT count(*) FROM a GROUP BY ();
SELECT k, count(*) FROM a GROUP BY k, ();
SELECT 5 FROM a HAVING true;
SELECT 5 FROM a HAVING false;
SELECT DISTINCT n FROM (SELECT count(*) OVER () AS n FROM a) AS q WHERE random() < 0.9;
-- The least and the greatest of several columns at once.
SELECT max(id), max(product), min(product) FROM orders WHERE id > 0;
SELECT max(id), max(id) FILTER (WHERE id < 3), max(-id) FROM orders WHERE quantity > 0;
SELECT min(x), max(i) FROM (SELECT id AS i, CASE WHEN id > 2000 THEN id END AS x FROM orders) AS q WHERE i <> 7;
SELECT min(x), max(i) FROM (SELECT -id AS i, CASE WHEN id > 2000 THEN id END AS x FROM orders) AS q WHERE i <> -7;
