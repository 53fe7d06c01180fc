-- Where the engines differ and Pelton means to: documented in docs/guide/semantics.md, or DuckDB stands alone.

-- Integers divide to integers.
SELECT 7 / 2, -7 / 2;

-- A cast to an integer drops what is after the point.
SELECT id, CAST(d9 AS INTEGER) FROM numbers;

-- Hours added to a DATE do not change it, which stays a DATE.
SELECT DATE '2024-02-29' + INTERVAL '36 hours';

-- A timestamp as text has a T.
SELECT CAST(TIMESTAMP '2024-02-29 12:34:56' AS VARCHAR);
SELECT CAST(INTERVAL '1 day 2 hours' AS VARCHAR);

-- The columns of USING come first in `*`, as in PostgreSQL, where the join is a RIGHT or FULL one; DuckDB leaves them in their places.
SELECT * FROM a RIGHT JOIN b USING (k);
SELECT * FROM a FULL JOIN b USING (k, t, day);

-- EXCEPT and INTERSECT have the types of their left sides; nullif has the type that both arguments are compared in.
SELECT d FROM a EXCEPT SELECT x FROM b;
SELECT id, nullif(d, x) FROM a;

-- The default of lag is cast to the type of its column; DuckDB rounds it, Pelton cuts off, and PostgreSQL makes a decimal of the column.
SELECT id, lag(k, 1, 0.5) OVER (ORDER BY id) FROM a;

-- Capital letters and patterns: ẞ; SIMILAR TO takes the patterns of SQL; `\w` of letters beyond ASCII; code points, not bytes.
SELECT upper('straße');
SELECT id FROM texts WHERE t SIMILAR TO '%(b|ö)%';
SELECT id FROM texts WHERE t ~ '^\w+$';
SELECT levenshtein('ä', 'a'), levenshtein('日本', '');
SELECT to_hex(255);
SELECT split_part('a.b.c', '', 1);

-- DuckDB compares rows as values, NULL among them.
SELECT id FROM a WHERE (k, t) = (3, NULL) OR (k, t) <> (3, 'x');
SELECT k, count(*) FROM a GROUP BY k HAVING (k, count(*)) >= (3, 2);

-- BIGINT is the type of a literal: no overflow.
SELECT min(i8 - 1), max(i16 + 1) FROM numbers;

-- Parts of a text are numbered from 1.
SELECT split_part('a.b.c', '.', 0);
