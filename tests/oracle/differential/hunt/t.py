import sys
from reduce import make
from engines import *
d,g,P=make()
def cmp(s, seq=False):
    e=d.ask(s); j=g.ask(s); print("##",s); 
    print("   duck", e[:80] if isinstance(e,Failed) else len(e.rows), "pg", j[:80] if isinstance(j,Failed) else len(j.rows))
    for p in P.values():
        out=[]
        for _ in range(4):
            r=p.ask(s); out.append("ERR "+r[:150] if isinstance(r,Failed) else compare(e,r,seq,types=False))
        print("   ",p.name,out)
if __name__=="__main__":
  for s in ["SELECT sum(DISTINCT e) FROM @t1@ GROUP BY CUBE (tz, x, 1 + 1)","SELECT tz, x, c, sum(DISTINCT e) FROM (SELECT *, 2 AS c FROM @t1@) AS s GROUP BY CUBE (tz, x, c)", "SELECT tz, x, k, sum(DISTINCT e) FROM @t1@ WHERE k = 3 GROUP BY CUBE (tz, x, k)","SELECT tz, x, p, count(DISTINCT e) FROM @t1@ WHERE p = true GROUP BY CUBE (tz, x, p)","SELECT tz, c, sum(e) FROM (SELECT *, 2 AS c FROM @t1@) AS s GROUP BY CUBE (tz, c)", "SELECT tz, c, sum(DISTINCT e) FROM (SELECT *, 2 AS c FROM @t1@) AS s GROUP BY CUBE (tz, c)",
   "SELECT t, p, sum(DISTINCT e) FROM @t1@ WHERE p GROUP BY ROLLUP (p, t)"]: cmp(s)
  for s in ["SELECT k, m, count(*) FROM @t1@ WHERE k = 1 GROUP BY ROLLUP (k, m) ORDER BY k, m, 3", "SELECT m, k, count(*) FROM @t1@ WHERE k = 1 GROUP BY CUBE (m, k) ORDER BY k, m, 3",
    "SELECT m, c, count(*) FROM (SELECT *, 2 AS c FROM @t1@) AS s GROUP BY CUBE (m, c) ORDER BY c, m, 3",
    "SELECT a.id, s.k FROM @t1@ AS a LEFT JOIN (SELECT * FROM @t2@ WHERE k = 3) AS s ON s.id = a.id ORDER BY s.k, a.id, s.id",
    "SELECT a.id, s.k FROM (SELECT * FROM @t2@ WHERE k = 3) AS s RIGHT JOIN @t1@ AS a ON s.id = a.id ORDER BY s.k, a.id, s.id",
    "SELECT a.id, s.k FROM (SELECT * FROM @t2@ WHERE k = 3) AS s FULL JOIN @t1@ AS a ON s.id = a.id ORDER BY s.k, a.id, s.id",
    "SELECT a.id, s.found FROM @t1@ AS a LEFT JOIN (SELECT DISTINCT k, true AS found FROM @t2@) AS s ON s.k = a.k ORDER BY s.found, a.id",
    "SELECT a.id, rank() OVER (ORDER BY s.found) FROM @t1@ AS a LEFT JOIN (SELECT DISTINCT k, true AS found FROM @t2@) AS s ON s.k = a.k ORDER BY a.id",
    "SELECT a.id, count(*) OVER (PARTITION BY s.found) FROM @t1@ AS a LEFT JOIN (SELECT DISTINCT k, true AS found FROM @t2@) AS s ON s.k = a.k ORDER BY a.id",
    "SELECT s.found, count(*) FROM @t1@ AS a LEFT JOIN (SELECT DISTINCT k, true AS found FROM @t2@) AS s ON s.k = a.k GROUP BY s.found",
    "SELECT DISTINCT s.found FROM @t1@ AS a LEFT JOIN (SELECT DISTINCT k, true AS found FROM @t2@) AS s ON s.k = a.k",
    "SELECT a.id, s.found FROM @t1@ AS a LEFT JOIN (SELECT DISTINCT k, true AS found FROM @t2@) AS s ON s.k = a.k ORDER BY s.found DESC, a.id LIMIT 5",
    "SELECT a.id, array_agg(a.id ORDER BY s.found, a.id) OVER (PARTITION BY a.p ORDER BY s.found, a.id) FROM @t1@ AS a LEFT JOIN (SELECT DISTINCT k, true AS found FROM @t2@) AS s ON s.k = a.k ORDER BY a.id",
    "SELECT string_agg(CAST(a.id AS VARCHAR), ',' ORDER BY s.found, a.id) FROM @t1@ AS a LEFT JOIN (SELECT DISTINCT k, true AS found FROM @t2@) AS s ON s.k = a.k",
    "SELECT a.id, s.c FROM @t1@ AS a LEFT JOIN LATERAL (SELECT 7 AS c FROM @t2@ AS b WHERE b.k = a.k LIMIT 1) AS s ON true ORDER BY s.c, a.id",
    "SELECT a.id, s.n FROM @t1@ AS a LEFT JOIN (SELECT max(id) AS n FROM @t2@) AS s ON s.n > a.id ORDER BY s.n, a.id",
    ]: cmp(s, True)
