"""python reduce.py [found.jsonl] [indices…]: makes found statements smaller (sqlglot trees, greedy), keeps the kind of failure."""
import sys, json, re, time
from engines import *
import sqlglot
from sqlglot import exp as X
import tables as T

def make(big=False, cfg=None):
    ts = T.make(big); mode = "big" if big else "small"
    wh, pqd = f"scratch{mode}", f"scratch{mode}"
    kw = {"stored2": dict(threads=2, memory_limit="2GB"), "place8": dict(in_place=True, threads=8, batch_rows=8192 if big else 16, memory_limit="1GB"), "small1": dict(threads=2 if big else 1, memory_limit="60MB", batch_rows=1024)}
    return Duck(ts), Postgres(ts), {n: Pelton(n, wh, pqd, device="cpu", seconds=20, **k) for n, k in kw.items()}

def norm(e): return re.sub(r"[0-9]+|\"[^\"]*\"|'[^']*'|\b[a-z]\w*\.\w+", "#", e)[:70]

def tables_marked(sql, names):
    return re.sub(r"(?<![\w.@])(" + "|".join(names) + r")(?![\w@.])", r"@\1@", sql)

NAMES = ["t1", "t2", "t3", "te", "xt", "big", "mid", "dim"]
DIALECT = "duckdb"
def parse(sql): return sqlglot.parse_one(re.sub(r"@(\w+)@", r"\1", sql), dialect=DIALECT)
def render(tree): return tables_marked(tree.sql(dialect="duckdb").replace("/* ", "").replace(" */", ""), NAMES) if 0 else tables_marked(fix(tree.sql(dialect=DIALECT, comments=False)), NAMES)
def fix(s):
    s = re.sub(r"\bTEXT\b", "VARCHAR", s); s = re.sub(r"\bDOUBLE\b(?! PREC)", "DOUBLE PRECISION", s); s = re.sub(r"\bBLOB\b", "BYTEA", s); s = re.sub(r"\bINT\b", "INTEGER", s)
    s = re.sub(r"(?<!CAST)\bINTERVAL '(\d+)' (\w+)", r"INTERVAL '\1 \2'", s)
    return s

def check(kind, rec, E, sql, want):
    duck, pg, P = E
    p = P[rec.get("engine", "stored2")]
    got = p.ask(sql)
    if kind in ("internal", "refused"):
        if not isinstance(got, Failed) or norm(got) != want: return False
        if kind == "internal" : return True
        return not isinstance(duck.ask(sql), Failed) or not isinstance(pg.ask(sql), Failed)
    if isinstance(got, Failed): return False
    if kind == "self":
        ref = P["stored2"].ask(sql); return not isinstance(ref, Failed) and compare(ref, got, False) is not None
    ex = duck.ask(sql)
    if isinstance(ex, Failed):
        return False
    d = compare(ex, got, False)
    if d is None or d.startswith("columns"): return False
    if d.startswith("type") != rec["found"].startswith("type"): return False
    j = pg.ask(sql)
    return isinstance(j, Failed) or compare(j, got, False, types=False) is not None

def candidates(tree):
    nodes = list(tree.walk())
    nodes.sort(key=lambda n: -len(n.sql()))
    for n in nodes:
        par = n.parent
        # drop optional parts
        for k in ("where", "having", "order", "limit", "offset", "qualify", "distinct", "with_", "with", "group"):
            if n.args.get(k) is not None and isinstance(n, (X.Select, X.Union, X.SetOperation, X.Window, X.Subquery)):
                yield (n, k, None)
        for k in ("expressions", "joins", "partition_by", "ifs"):
            v = n.args.get(k)
            if isinstance(v, list) and len(v) > (0 if k in ("joins", "partition_by") else 1):
                for i in range(len(v)): yield (n, k, i)
        if isinstance(n, X.Window) and n.args.get("spec"): yield (n, "spec", None)
        if isinstance(n, X.Join) and n.args.get("on") and False: yield None
        if par is not None and isinstance(n, X.Expression):
            # replace by a child expression
            for c in n.iter_expressions():
                if isinstance(n, (X.Select, X.SetOperation, X.Subquery)) != isinstance(c, (X.Select, X.SetOperation, X.Subquery)): continue
                if isinstance(c, (X.From, X.Where, X.Group, X.Order, X.Limit, X.Table, X.TableAlias, X.Join, X.DataType, X.Identifier, X.Ordered, X.WindowSpec, X.If)): continue
                if isinstance(n, (X.Table, X.TableAlias, X.Column, X.Identifier, X.From, X.Where, X.Group, X.Order, X.Ordered, X.Limit, X.Join, X.Tuple)): continue
                yield (n, "replace", c)
            if isinstance(n, X.Case):
                for f in n.args.get("ifs") or []: yield (n, "replace", f.args["true"])
            if isinstance(n, X.Predicate) or isinstance(n, (X.And, X.Or, X.Not, X.Exists)):
                yield (n, "replace", X.true()); yield (n, "replace", X.false())
            elif isinstance(n, (X.Binary, X.Func, X.Subquery, X.Case)) and not isinstance(par, (X.From, X.Join, X.Lateral)): yield (n, "replace", X.Literal.number(1)); yield (n, "replace", X.Literal.string("a"))

def apply(tree, idx_node, key, what):
    t = tree.copy()
    n = list(t.walk())[idx_node]
    if key == "replace":
        n.replace(what.copy()); return t
    if what is None: n.set(key, None)
    else:
        v = list(n.args[key]); del v[what]; n.set(key, v)
    return t

def reduce(rec, E, budget=30):
    sql = rec["sql"]; kind = rec["kind"]
    want = norm(rec.get("error", ""))
    global DIALECT
    try:
        for DIALECT in ("duckdb", "postgres"):
            tree = parse(sql)
            if check(kind, rec, E, render(tree), want): break
    except Exception as e: return sql, f"(not parsed: {str(e)[:80]})"
    s = render(tree)
    if not check(kind, rec, E, s, want): return sql, "(changed by sqlglot or no longer so)" 
    t0 = time.time(); best = s; progress = True; tried = set()
    while progress and time.time() - t0 < budget:
        progress = False
        ids = {id(n): i for i, n in enumerate(tree.walk())}
        for n, k, w in candidates(tree):
            if time.time() - t0 > budget: break
            try:
                c = apply(tree, ids[id(n)], k, w); cs = render(c)
            except Exception: continue
            if len(cs) >= len(best) or cs in tried: continue
            tried.add(cs)
            try: ok = check(kind, rec, E, cs, want)
            except Exception: ok = False
            if ok:
                try: tree = parse(cs); 
                except Exception: continue
                best = cs; progress = True; break
    return best, ""

if __name__ == "__main__":
    f = sys.argv[1] if len(sys.argv) > 1 else HERE + "/found.jsonl"
    recs = [json.loads(l) for l in open(f)]
    which = [int(x) for x in sys.argv[2:]] or range(len(recs))
    E = {}
    seen = set()
    for i in which:
        r = recs[i]
        if (r["kind"], r["seed"], r.get("mode"), r.get("only")) in seen: continue
        seen.add((r["kind"], r["seed"], r.get("mode"), r.get("only"))); big = r["mode"] == "big"
        if big not in E: E[big] = make(big)
        s, note = reduce(r, E[big])
        d, g, p = E[big]; pl = p[r.get("engine", "stored2")]
        print(f"## {i} {r['kind']} seed {r['seed']} {note}\n{s}")
        got, ex, j = pl.ask(s), d.ask(s), g.ask(s)
        for n, v in (("pelton", got), ("duck", ex), ("pg", j)): print(f"  {n}: " + (v[:250].replace("\n", " ") if isinstance(v, Failed) else v.show(6)))
        sys.stdout.flush()
