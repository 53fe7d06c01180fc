-- Numbers: arithmetic within and across types, division and remainder, decimals, rounding, functions, bits.

-- Integers.
SELECT id, i32 + 1, i64 - 1, -i32, i16 * 2, i8 + i16 FROM numbers WHERE abs(CAST(i64 AS DOUBLE)) < 1000;
SELECT id, i32 + i64, i16 * i32, i8 * i64 FROM numbers WHERE abs(CAST(i64 AS DOUBLE)) < 1000;
SELECT id, i32 % 3, i32 % -3, i64 % 7, -i32 % 4 FROM numbers WHERE i32 > -2147483648;
-- duckdb: SELECT id, i32 // 3, i32 // -3, i64 // 7, i16 // 10 FROM numbers;
SELECT id, i32 / 3, i32 / -3, i64 / 7, i16 / 10 FROM numbers;
-- duckdb: SELECT 7 // 2, -7 // 2, 7 // -2, -7 // -2, 7 % 2, -7 % 2, 7 % -2, -7 % -2;
SELECT 7 / 2, -7 / 2, 7 / -2, -7 / -2, 7 % 2, -7 % 2, 7 % -2, -7 % -2;
SELECT id, i32 / 2.0, i32 / 2e0, i32 * 1.0 / 3 FROM numbers;
-- duckdb: SELECT id, abs(i32), CAST(sign(i32) AS DOUBLE), abs(i64 + 0) FROM numbers WHERE i32 > -2147483648;
SELECT id, abs(i32), sign(i32), abs(i64 + 0) FROM numbers WHERE i32 > -2147483648;
SELECT id, i32 & 6, i32 | 8, i64 & 255 FROM numbers WHERE i64 >= 0;
SELECT id, xor(i32, 5), i32 << 2, i32 >> 1 FROM numbers WHERE i32 BETWEEN 0 AND 1000;
SELECT id, i32 ^ 2, -i32 ^ 2, 2 * i32 ^ 2 ^ 0.5, ~i32 FROM numbers WHERE i32 BETWEEN 0 AND 1000;
SELECT gcd(12, 18), gcd(0, 5), lcm(4, 6), factorial(5), factorial(0);
SELECT 2 + 3 * 4 - 5, (2 + 3) * 4, 2 - 3 - 4, 2 * 3 % 4, -2 - -3, - (4), 10 - (3 - 2);
SELECT 1 - 1 * 0, 5 % 3 * 2, 100 - 10 - 1, 2 * -3, +5, - -5;
SELECT id, k * -1, -k * -k, k - -k, k * k - 4 * id FROM a;
SELECT i64 + 0, i64 - 1 FROM numbers WHERE i64 = 9223372036854775807;
SELECT CAST(i8 AS BIGINT) * CAST(i8 AS BIGINT) FROM numbers;
SELECT 9223372036854775807 - 1, -9223372036854775807 - 1, 2147483647 * 2147483648;
SELECT sum(i32) - sum(i16), sum(i64) FROM numbers WHERE id < 14;
SELECT id, (i32 + 3) % 4 = 0 FROM numbers WHERE i32 < 2147483644;

-- Decimals.
SELECT id, d9 + d9, d9 - 1, -d9, d9 * 2, d9 + d18 FROM numbers;
SELECT id, d9 * d18, d9 * d9 * d9 FROM numbers WHERE abs(d9) < 10000 AND abs(d18) < 10000;
SELECT id, d9 + d38, d38 - d18, d38 * 2 FROM numbers;
SELECT id, d9 / 3, d18 / 7, d9 / d18 FROM numbers WHERE d18 <> 0;
SELECT id, d9 % 1, d18 % 3, d9 % 0.3 FROM numbers;
SELECT id, d9 + i32, d9 * i16, i64 + d18 FROM numbers WHERE i32 BETWEEN -100 AND 100;
SELECT id, d9 + f64, d18 * f64, f32 + d9 FROM numbers;
-- duckdb: SELECT id, abs(d9), CAST(sign(d9) AS DOUBLE), abs(d38) FROM numbers;
SELECT id, abs(d9), sign(d9), abs(d38) FROM numbers;
SELECT 1.1 + 2.2, 1.10 * 2.20, 3.30 - 1.1, 0.1 + 0.2 = 0.3, 1.0 / 3, 10 / 4.0;
SELECT 0.1 * 3, 1.5 * 1.5, -0.5 * -0.5, 1.005 * 100, 99999.99 + 0.01;
SELECT 7.5 % 2, -7.5 % 2, 7.5 % -2, 7 % 2.5;
SELECT sum(d9 * 2), sum(d9 + d18), avg(d9 * d9) FROM numbers WHERE abs(d9) < 1000;
SELECT sum(price), sum(price * quantity), sum(price) / count(*), sum(price * quantity) / sum(quantity) FROM orders;
SELECT customer, sum(price * quantity * (1 - discount)) AS net FROM orders WHERE customer < 12 GROUP BY customer;
SELECT CAST(1.5 AS DECIMAL(10,4)) * CAST(2.5 AS DECIMAL(10,4)), CAST(1 AS DECIMAL(20,10)) * CAST(3 AS DECIMAL(18,8));
SELECT d9 = d18, d9 < d38, d9 > f64, d9 = i32 FROM numbers;
SELECT DISTINCT d18 FROM numbers ORDER BY d18;
SELECT id FROM numbers ORDER BY d38 DESC, id;
SELECT CAST('12345678901234567890.123456789' AS DECIMAL(38,9)) + 0.000000001, CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0));
SELECT id, round(d9 * 1.1, 2), round(d9 / 3, 2) FROM numbers;
SELECT p.id, p.price * 1.19, round(p.price * 1.19, 2), p.price * 0 FROM products AS p;

-- Rounding.
SELECT id, round(f64), round(f64, 1), floor(f64), ceil(f64), trunc(f64) FROM numbers;
SELECT id, round(d18, 2), round(d18, 0), round(d38, 3) FROM numbers;
SELECT id, round(i32), round(i32, -1), floor(i32), ceil(i16) FROM numbers WHERE i32 BETWEEN -1000 AND 1000;
SELECT round(0.5), round(1.5), round(2.5), round(-0.5), round(-1.5), round(0.49999);
SELECT round(0.5e0), round(1.5e0), round(2.5e0), round(-0.5e0), round(-1.5e0), round(-2.5e0);
SELECT round(123.456, 2), round(123.456, 0), round(123.456, -1), round(-123.456, 1), round(123.456, 5);
SELECT round(123.456e0, 2), round(123.456e0, -2), round(1e15, 2), round(0.1e0 + 0.2e0, 10);
SELECT trunc(2.7e0), trunc(-2.7e0), trunc(123.456, 1), trunc(0.9);
SELECT id, round(x, 1), floor(x), ceil(x) FROM a;
SELECT round(avg(price), 2), round(avg(quantity), 3), round(sum(discount)) FROM orders;
SELECT channel, round(avg(price), 2) AS mean FROM orders GROUP BY channel ORDER BY mean;
SELECT CAST(d9 AS DECIMAL(9,1)), CAST(d18 AS DECIMAL(18,1)), CAST(d38 AS DECIMAL(38,1)) FROM numbers;
SELECT CAST(0.05 AS DECIMAL(9,1)), CAST(-0.05 AS DECIMAL(9,1)), CAST(2.45 AS DECIMAL(9,1)), CAST(0.25e0 AS DECIMAL(9,1));

SELECT id, round(d9), round(d9, 1), trunc(d9) FROM numbers;
SELECT id, floor(d9), ceil(d9) FROM numbers WHERE abs(d9) < 1000;
SELECT floor(-2), ceil(2.000001), floor(1e10), floor(-2.5e0), ceil(-0.5e0), floor(2.5);
SELECT sum(i32 * 1.0 / nullif(i32, 0)) FROM numbers;

-- Floats.
SELECT id, f64 + 1, f64 * 2, -f64, f64 / 4, f32 * f32 FROM numbers;
SELECT id, f64 % 2, f64 % 0.75e0 FROM numbers;
-- duckdb: SELECT id, abs(f64), CAST(sign(f64) AS DOUBLE), f64 = 0, f64 < 0 FROM numbers;
SELECT id, abs(f64), sign(f64), f64 = 0, f64 < 0 FROM numbers;
SELECT 1e0 / 0, -1e0 / 0, 0e0 / 0e0 IS NULL, 1e308 * 10;
SELECT CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE), CAST('Infinity' AS DOUBLE) > 1e308, CAST('-Infinity' AS DOUBLE);
SELECT 1e0, 1.5e3, -2.5e-3, 1E5, .5, 5. + 0.5;
SELECT isnan(CAST('NaN' AS DOUBLE)), isnan(1e0), isnan(f64) FROM numbers WHERE id < 3;
SELECT v.x, count(*) FROM (VALUES (0e0), (-0e0), (CAST('NaN' AS DOUBLE)), (CAST('NaN' AS DOUBLE)), (NULL)) AS v(x) GROUP BY v.x;
SELECT v.x FROM (VALUES (1e0), (CAST('NaN' AS DOUBLE)), (CAST('-Infinity' AS DOUBLE)), (NULL), (-1e0)) AS v(x) ORDER BY v.x DESC;
SELECT max(v.x), min(v.x), count(DISTINCT v.x) FROM (VALUES (1e0), (CAST('NaN' AS DOUBLE)), (CAST('Infinity' AS DOUBLE))) AS v(x);
SELECT CAST(16777217 AS REAL), CAST(0.1 AS REAL) = CAST(0.1 AS DOUBLE), CAST(0.5 AS REAL) = 0.5e0;
SELECT sum(f32), avg(f32), min(f32), max(f32) FROM numbers WHERE id < 10;

-- Functions.
SELECT sqrt(16), sqrt(2e0), cbrt(27), power(2, 10), power(2, -1), power(2.5, 2), power(0, 0);
SELECT exp(0), exp(1), ln(1), ln(10), log10(1000), log2(8), log(2, 8);
SELECT sin(0), cos(0), tan(0), asin(1), acos(1), atan(1), atan2(1, 1), pi(), degrees(pi()), radians(180), cot(1);
SELECT sinh(1), cosh(1), tanh(1), asinh(1), acosh(1), atanh(0.5);
SELECT id, sqrt(abs(f64)), power(f64, 2), exp(f64 / 1e16) FROM numbers;
SELECT id, ln(f64), log10(f64) FROM numbers WHERE f64 > 0;
SELECT id, power(k, 2), sqrt(k), power(2, k) FROM a WHERE k >= 0;
SELECT sqrt(CAST(2.25 AS DECIMAL(9,2))), power(CAST(1.5 AS DECIMAL(9,2)), 2), ln(CAST(1 AS DECIMAL(9,2)));
SELECT sum(power(quantity, 2)), sqrt(sum(power(quantity, 2))), avg(abs(quantity)) FROM orders;
-- duckdb: SELECT trunc(7.9 / 2), 7 // 2, floor(7 / 2e0);
SELECT trunc(7.9 / 2), 7 / 2, floor(7 / 2e0);
SELECT v.x, -v.x, abs(v.x) FROM (VALUES (1.5), (-2.25), (0.00), (NULL)) AS v(x);
SELECT id, greatest(i32, d9, f64), least(i8, d18) FROM numbers;
SELECT id, nullif(i32, 0), 100.0 / nullif(i32, 0) FROM numbers;
SELECT avg(v.x), stddev_pop(v.x) FROM (VALUES (1), (2), (4)) AS v(x);

-- What Pelton once had wrong, or refused.
SELECT floor(-0.5), ceil(0.5), floor(-9.5), ceil(9.5);
SELECT id, floor(d9), ceil(d9) FROM numbers;
SELECT k * (id + 1), k * id + 1 FROM a;
SELECT id, mod(i32, 5), mod(i64, -5) FROM numbers;
SELECT ceiling(1.2), ceiling(-1.5e0);
