-- What Pelton refuses and DuckDB answers. PostgreSQL answers it too, unless a comment says otherwise.
-- A statement that Pelton answers fails the test here, and moves to its topic.

-- ---- WITH, VALUES, LIMIT and names

SELECT * FROM a AS s(one, two);

-- ---- Windows

SELECT id, sum(k) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) FROM a;
SELECT id, sum(id) OVER (ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM a;
SELECT id, count(*) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) FROM a;

-- ---- Functions, operators and casts

SELECT coalesce(day, '2000-01-01') FROM a;
