"""python types_hunt.py: every pair of columns of extremes (xt), in joins, IN, sets, CASE, greatest, windows, groups; DuckDB and PostgreSQL beside it."""
import itertools, re, collections
from reduce import make
from engines import *
from tables import KINDS_X
d, g, P = make()
num = ["i16", "i32", "i64", "f", "r", "d9", "d18", "d38", "s38"]
times = ["day", "ts", "tz"]
pairs = [p for p in itertools.product(num, num)] + [p for p in itertools.product(times, times)] + [(c, c) for c in ("t", "h", "p")]
forms = {
 "join": "SELECT a.id, b.id FROM @xt@ AS a JOIN @xt@ AS b ON a.{0} = b.{1} WHERE a.id < 21 AND b.id > 20",
 "left<": "SELECT a.id, count(b.id) FROM @xt@ AS a LEFT JOIN @xt@ AS b ON a.{0} < b.{1} GROUP BY a.id",
 "isdist": "SELECT count(*) FROM @xt@ AS a JOIN @xt@ AS b ON a.{0} IS NOT DISTINCT FROM b.{1}",
 "in": "SELECT id FROM @xt@ WHERE {0} IN (SELECT {1} FROM @xt@ WHERE id > 5)",
 "in value": "SELECT id, {0} IN (SELECT {1} FROM @xt@ WHERE id > 20) FROM @xt@",
 "notin": "SELECT id FROM @xt@ WHERE {0} NOT IN (SELECT {1} FROM @xt@ WHERE {1} IS NOT NULL AND id > 20)",
 "exists": "SELECT id FROM @xt@ AS a WHERE NOT EXISTS (SELECT 1 FROM @xt@ AS b WHERE b.{1} = a.{0})",
 "all": "SELECT id FROM @xt@ WHERE {0} >= ALL (SELECT {1} FROM @xt@ WHERE {1} IS NOT NULL)",
 "any": "SELECT id FROM @xt@ WHERE {0} < ANY (SELECT {1} FROM @xt@ WHERE id < 10)",
 "scalar": "SELECT id FROM @xt@ WHERE {0} = (SELECT max({1}) FROM @xt@)",
 "scalarmin": "SELECT id FROM @xt@ AS a WHERE {0} > (SELECT min({1}) FROM @xt@ AS b WHERE b.id % 5 = a.id % 5)",
 "cmp": "SELECT id, {0} = {1}, {0} < {1}, {0} >= {1}, {0} IS DISTINCT FROM {1} FROM @xt@",
 "between": "SELECT id FROM @xt@ WHERE {0} BETWEEN {1} AND {0}",
 "nullif": "SELECT id, nullif({0}, {1}) IS NULL FROM @xt@",
 "case": "SELECT id, CASE {0} WHEN {1} THEN 1 ELSE 0 END FROM @xt@",
 "union": "SELECT count(*) FROM (SELECT {0} AS c FROM @xt@ UNION SELECT {1} FROM @xt@) AS s",
 "intersect": "SELECT count(*) FROM (SELECT {0} AS c FROM @xt@ INTERSECT SELECT {1} FROM @xt@) AS s",
 "except all": "SELECT count(*) FROM (SELECT {0} AS c FROM @xt@ EXCEPT ALL SELECT {1} FROM @xt@) AS s",
 "greatest": "SELECT id, greatest({0}, {1}), least({0}, {1}) FROM @xt@",
 "coalesce": "SELECT id, coalesce({0}, {1}) FROM @xt@",
 "tuple": "SELECT id FROM @xt@ WHERE ({0}, id) IN (SELECT {1}, id FROM @xt@)",
 "order": "SELECT id FROM @xt@ ORDER BY {0}, {1} DESC, id",
 "group": "SELECT min(id), count(*) FROM @xt@ GROUP BY {0}, {1}",
 "window": "SELECT id, rank() OVER (PARTITION BY {0} ORDER BY {1}), dense_rank() OVER (ORDER BY {0} DESC, {1}) FROM @xt@",
 "minmax": "SELECT min({0}), max({1}), count(DISTINCT {0}) FROM @xt@ GROUP BY id % 3",
 "sum": "SELECT sum({0}) FROM @xt@ WHERE {1} IS NOT NULL", "sum2": "SELECT sum({0}) OVER (ORDER BY {1}, id ROWS 2 PRECEDING) FROM @xt@", "avg": "SELECT avg({0}) FROM @xt@ WHERE {1} IS NULL",
 "plus": "SELECT id, {0} + {1} FROM @xt@", "minus": "SELECT id, {0} - {1} FROM @xt@", "times": "SELECT id, {0} * {1} FROM @xt@", "mod": "SELECT id, {0} % {1} FROM @xt@ WHERE {1} <> 0",
}
seen = collections.Counter(); n = 0
for (name, f), (a, b) in itertools.product(forms.items(), pairs):
    if name in ("sum", "sum2", "avg", "plus", "minus", "times", "mod") and a not in num: continue
    s = f.format(a, b); n += 1
    ex, j = d.ask(s), g.ask(s); res = {}
    for p in P.values(): res[p.name] = p.ask(s)
    seq = name == "order"
    for pn, v in res.items():
        if isinstance(v, Failed):
            if isinstance(j, Failed) and isinstance(ex, Failed) and not re.search("nternal|panic|Arrow error", v): break
            bad = "PELTON ERR " + v[:140].replace("\n", " ")
        else:
            okd = not isinstance(ex, Failed) and compare(ex, v, seq, types=False) is None
            okp = not isinstance(j, Failed) and compare(j, v, seq, types=False) is None
            if okp or (okd and isinstance(j, Failed)): continue
            if isinstance(ex, Failed) and isinstance(j, Failed): bad = "ONLY PELTON; pg " + j[:60]
            else: bad = f"WRONG? duck {'=' if okd else 'ERR' if isinstance(ex, Failed) else compare(ex, v, seq, types=False)} pg {j[:60] if isinstance(j, Failed) else compare(j, v, seq, types=False)}"
        seen[name] += 1
        if seen[name] <= 14: print(f"{name} {a},{b} [{pn}] duck={'ERR' if isinstance(ex, Failed) else 'ok'} pg={'ERR' if isinstance(j, Failed) else 'ok'}: {bad[:230]}", flush=True)
        break
print(n, dict(seen))
