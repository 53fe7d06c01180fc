"""python hunt.py --seed 0 --n 500 [--mode small|big] [--only window]   See README."""
import argparse, re, time, json, os, sys, tempfile, shutil, collections
from engines import *
import tables as T
from gen import Gen

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0); ap.add_argument("--n", type=int, default=300)
ap.add_argument("--only"); ap.add_argument("--mode", default="small"); ap.add_argument("--out", default=HERE + "/found.jsonl")
ap.add_argument("--minutes", type=float, default=60); ap.add_argument("--show", action="store_true")
ap.add_argument("--xt", action="store_true")
o = ap.parse_args()
big = o.mode == "big"
ts = T.make(big)
wh = f"scratch{o.mode}"; pqd = f"scratch{o.mode}"
if not os.path.exists(wh + "/done"):
    shutil.rmtree(wh, ignore_errors=True); T.write_parquet(ts, pqd)
    c = pelton.connect(wh, threads=2, device="cpu", progress=False)
    for n, rows in ts.items():
        kw = dict(row_group_rows=64, page_rows=1024) if rows.num_rows < 1000 else dict(row_group_rows=16384, cluster_by="day" if n == "big" else "k")
        c.load(n, rows, threads=2, **kw)
    c.close(); open(wh + "/done", "w").close()
P = [Pelton("stored2", wh, pqd, threads=2, device="cpu", memory_limit="2GB"), Pelton("place8", wh, pqd, in_place=True, threads=8, device="cpu", batch_rows=8192 if big else 16, memory_limit="1GB"),
     Pelton("small1", wh, pqd, threads=2 if big else 1, device="cpu", memory_limit="60MB", batch_rows=1024)]
duck, pg = Duck(ts, threads=2), Postgres({k: v for k, v in ts.items() if v.num_rows < 1000})
counts = collections.Counter(); refusals = {}
t0 = time.time()
KNOWN = re.compile(r"pelton_subqueries|outside WHERE and ON a row|Multiple recursive|OuterReferenceColumn|__grouping_id|ROLLUP|GROUPING SETS|column types must match schema types|StructArray field|SanityCheckPlan|to Decimal128|bit_...?\(Decimal|Binary|Interval data types must|target schema is not superset|__scalar_sq|start bound|in a Decimal128 of precision|Unary operator|wrong number of fields")
def norm(e):
    e = e.split("\n")[0]
    return re.sub(r"[0-9]+|\"[^\"]*\"|'[^']*'|\b[a-z]\w*\.\w+", "#", e)[:110]
def save(kind, seed, sql, **kw):
    with open(o.out, "a") as f: f.write(json.dumps(dict(kind=kind, seed=seed, mode=o.mode, only=o.only, sql=sql, **kw), default=str) + "\n")
for seed in range(o.seed, o.seed + o.n):
    if time.time() - t0 > o.minutes * 60: break
    g = Gen(f"{o.mode}{o.only}{seed}", tables=("big", "mid", "dim") if big else (("xt", "t1") if o.xt else ("t1", "t2", "t1", "t2", "t3", "te")), big=big, only=o.only)
    try: sql, seq = g.statement()
    except RecursionError: continue
    if len(sql) > 4000: continue
    with open("scratch", "w") as f: f.write(f"{seed} {sql}")
    if o.show: print(seed, sql, flush=True)
    exp = duck.ask(sql)
    if big and isinstance(exp, Failed) and "nterrupt" in exp: counts["duck slow"] += 1; continue
    if big and not isinstance(exp, Failed) and len(exp.rows) > 20_000 or big and seed % 3 and not seq and not isinstance(exp, Failed):
        # what comes out is summed up, column by column
        n = len(exp.kinds)
        sql = "SELECT count(*) AS n, " + ", ".join(f"count(z.c{i}) AS a{i}, " + {"exact": f"sum(z.c{i}) AS b{i}, count(DISTINCT z.c{i}) AS d{i}", "float": f"min(z.c{i}) AS d{i}, max(z.c{i}) AS m{i}", "bool": f"bool_or(z.c{i}) AS b{i}"}.get(k, f"min(z.c{i}) AS b{i}, max(z.c{i}) AS e{i}, count(DISTINCT z.c{i}) AS d{i}") for i, k in enumerate(exp.kinds) if k != "list") + f" FROM ({sql}) AS z"
        exp = duck.ask(sql); seq = False; counts["summed"] += 1
    first = None
    for e in P:
        t1 = time.time(); got = e.ask(sql); dt_ = time.time() - t1
        if isinstance(got, Failed) and KNOWN.search(got): counts["known"] += 1; break
        if len(re.findall(r"(?:string|array)_agg\(DISTINCT", sql)) > 1: break
        if isinstance(got, Failed) and re.search(r"nternal|panic|PYTHON|slow|bug|assert|unwrap|index out|Schema error|schema|Arrow error", got) :
            counts["internal?"] += 1; k = norm(got)
            if k not in refusals or refusals[k] < 3:
                refusals[k] = refusals.get(k, 0) + 1; print(f"== {seed} {e.name} SUSPECT {got[:300]}\n   {sql}", flush=True); save("internal", seed, sql, error=got, engine=e.name)
            break
        d = compare(exp, got, seq)
        if first is not None and not isinstance(first, Failed) and not isinstance(got, Failed):
            dd = compare(first, got, seq)
            if dd: counts["self-diff"] += 1; print(f"== {seed} {e.name} SELF {dd}\n   {sql}", flush=True); save("self", seed, sql, found=dd, engine=e.name)
        if first is None: first = got
        if big and isinstance(got, Failed) and e.name == "small1" and "memory limit" in got: counts["memory limit"] += 1; refusals.setdefault("mem " + norm(got), 1); continue
        if d is None and not isinstance(exp, Failed): counts["ok"] += 1; continue
        if d is None:  # both fail
            counts["both fail"] += 1
            j = pg.ask(sql)
            if not isinstance(j, Failed):
                k = norm(got)
                if refusals.get(k, 0) < 2: refusals[k] = refusals.get(k, 0) + 1; print(f"== {seed} REFUSED (Duck too, PG answers) {got[:250]}\n   {sql}", flush=True); save("refused", seed, sql, error=got)
            break
        if isinstance(got, Failed):
            counts["refused"] += 1; k = norm(got)
            if refusals.get(k, 0) < 2: refusals[k] = refusals.get(k, 0) + 1; print(f"== {seed} {e.name} REFUSED {got[:300]}\n   {sql}", flush=True); save("refused", seed, sql, error=got, engine=e.name)
            break
        j = pg.ask(sql) if not big else Failed("big")
        if isinstance(j, Failed): verdict = "pg: " + j[:100].replace("\n", " ")
        else:
            a = compare(j, got, seq, types=False); b = compare(j, exp, seq, types=False) if not isinstance(exp, Failed) else "duck failed"
            verdict = "pg=pelton" if a is None else "pg=duck" if b is None else "pg third"
        if isinstance(exp, Failed) : d = "duck error: " + exp[:150].replace("\n", " ")
        counts[f"diff {verdict[:12]}"] += 1
        if verdict == "pg=pelton" : break
        if d.startswith("duck error") and verdict.startswith("pg:"):
            counts["only pelton"] += 1; break
        if d.startswith("type of") : 
            k = "type " + d[-20:]
            refusals[k] = refusals.get(k, 0) + 1
            if refusals[k] > 2: continue
        print(f"== {seed} {e.name} DIFF {d} | {verdict}\n   {sql}", flush=True); save("diff", seed, sql, found=d, verdict=verdict, engine=e.name)
        if not isinstance(exp, Failed) and len(exp.rows) < 12: print("   duck:  ", exp.show(5, not seq), "\n   pelton:", got.show(5, not seq), flush=True)
        break
print(dict(counts), f"{time.time() - t0:.0f}s")
if o.only or True: print("\n".join(f"  {v} {k}" for k, v in sorted(refusals.items())))
