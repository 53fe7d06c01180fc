from t import cmp
for s in ["SELECT true, t FROM @t3@ INTERSECT SELECT false, '' FROM (SELECT DISTINCT 2.0 FROM @t1@) AS q",
 "SELECT p, t FROM @t3@ INTERSECT SELECT false, '' FROM (SELECT DISTINCT 2.0 FROM @t1@) AS q",
 "SELECT true, u FROM @t3@ EXCEPT SELECT p, t FROM @t1@",
 "SELECT true, u FROM @t3@ EXCEPT (SELECT true, t FROM @t3@ INTERSECT SELECT false, '' FROM (SELECT DISTINCT 2.0 FROM @t1@) AS q)",
 "SELECT true, u FROM @t3@ EXCEPT SELECT p, t FROM @t1@ EXCEPT (SELECT true, t FROM @t3@ INTERSECT SELECT false, '' FROM (SELECT DISTINCT 2.0 FROM @t1@) AS q)",
 "SELECT count(*) FROM @t1@ AS a JOIN (SELECT DISTINCT id % 3 AS k, upper(t) AS t FROM @t2@) AS v ON a.m = v.k AND a.t = v.t",
 "SELECT count(*) FROM (SELECT DISTINCT id % 3 AS k, upper(t) AS t FROM @t2@) AS v JOIN @t1@ AS a ON a.m = v.k AND a.t = v.t",
 "SELECT count(*) FROM (SELECT 1 AS k, 'a' AS t UNION ALL SELECT 2, 'b') AS v JOIN @t1@ AS a ON a.m = v.k AND a.t = v.t",
 "SELECT count(*) FROM @t1@ WHERE (m, t) IN (SELECT 1, 'a' UNION ALL SELECT 2, 'b')",
 "SELECT count(*) FROM @t1@ WHERE (m, t) IN (SELECT m, upper(t) FROM @t2@)",
 ]: cmp(s)
