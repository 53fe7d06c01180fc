"""Random statements: windows, subqueries, LATERAL, joins, grouping sets, set operations, CTEs, over tables of tables.py.

`@t1@` is a table, which an engine reads as it likes. `Gen(seed, tables)` → `.statement()` → (sql, in_sequence)."""
from random import Random
from tables import KINDS, KINDS_X

NUM = ("int", "dec", "float")
CAST = {"int": "BIGINT", "dec": "DECIMAL(20,4)", "float": "DOUBLE PRECISION", "wild": "DOUBLE PRECISION", "text": "VARCHAR", "bool": "BOOLEAN", "date": "DATE", "ts": "TIMESTAMP", "tz": "TIMESTAMPTZ", "blob": "BYTEA"}
KEYK = ["int", "int", "int", "dec", "float", "wild", "text", "text", "bool", "date", "ts", "tz", "blob"]

class Sc:
    def __init__(self, cols, ids, outer=None):
        self.cols, self.ids, self.outer = cols, ids, outer
    def of(self, kind): return [c for c, k in self.cols if k == kind]
    def with_outer(self, o): return Sc(self.cols, self.ids, o)

class Gen:
    def __init__(self, seed, tables=("t1", "t2", "t1", "t2", "t3", "te"), big=False, only=None):
        self.r = Random(str(seed)); self.tables = tables; self.n = 0; self.big = big; self.subs = 3 if not big else 0; self.only = only
    def name(self, p="s"): self.n += 1; return f"{p}{self.n}"
    def ch(self, *x): return self.r.choice(x)
    def p(self, x): return self.r.random() < x
    def kind(self): return self.r.choice(KEYK)

    # ---------------- expressions
    def lit(self, kind):
        c = self.r.choice
        if kind == "int": return c(["0", "1", "2", "3", "-1", "5"])
        if kind == "dec": return c(["0.5", "1.25", "0.00", "-1.5", "2.0"])
        if kind == "float": return c(["0e0", "1.5e0", "-0.25e0", "2e0"])
        if kind == "wild": return c(["CAST('NaN' AS DOUBLE PRECISION)", "CAST('Infinity' AS DOUBLE PRECISION)", "CAST('-0' AS DOUBLE PRECISION)", "1.5e0", "0e0"])
        if kind == "text": return c(["''", "'a'", "'b'", "'ab'", "'äö'", "'zz'"])
        if kind == "bool": return c(["true", "false"])
        if kind == "date": return "DATE '2024-0%s'" % c(["2-28", "2-29", "3-01", "2-27"])
        if kind == "ts": return "TIMESTAMP '2024-0%s'" % c(["2-28 00:00:00", "2-29 12:00:00", "3-01 00:00:00"])
        if kind == "tz": return "TIMESTAMP WITH TIME ZONE '2024-0%s'" % c(["2-28 02:00:00+02:00", "2-29 12:00:00+00:00", "3-01 00:00:00+00:00"])
        if kind == "blob": return "(SELECT CAST('a' AS BYTEA))" if 0 else "CAST('a' AS BYTEA)"

    def leaf(self, kind, sc):
        # A column of this query, or one of an outer query.
        if sc.outer and self.p(.25):
            o = sc.outer
            while o.outer and self.p(.3): o = o.outer
            c = o.of(kind)
            if c: return self.r.choice(c)
        c = sc.of(kind)
        if c and (kind == "blob" or self.p(.85)): return self.r.choice(c)
        if self.p(.06): return f"CAST(NULL AS {CAST[kind]})"
        return self.lit(kind)

    def e(self, kind, sc, d=2):
        if d <= 0 or self.p(.3): return self.leaf(kind, sc)
        E = lambda k, dd=d - 1: self.e(k, sc, dd)
        o = self.r.randrange(10)
        if o == 0: return f"CASE WHEN {E('bool')} THEN {E(kind)} ELSE {E(kind)} END"
        if o <= 1 and kind == "blob": return self.leaf(kind, sc)
        if o == 1: return f"coalesce({E(kind)}, {E(kind)})"
        if o == 2 and kind not in ("blob",): return f"nullif({E(kind)}, {E(kind)})"
        if o == 3 and self.subs > 0 and kind != "blob": return self.scalar(kind, sc, d - 1)
        if o == 4 and kind not in ("bool", "blob", "wild"): return f"{self.ch('greatest', 'least')}({E(kind)}, {E(kind)})"
        if o == 5 and d > 1: return f"CASE {E('int')} WHEN {self.lit('int')} THEN {E(kind)} WHEN {self.leaf('int', sc)} THEN {E(kind)} END"
        if kind == "int":
            return self.r.choice([
                lambda: f"({E('int')} {self.ch('+', '-')} {E('int')})", lambda: f"({self.leaf('int', sc)} * {self.lit('int')})",
                lambda: f"abs({E('int')})", lambda: f"({E('int')} % {self.ch(2, 3, 7)})", lambda: f"length({E('text')})",
                lambda: f"CAST(extract({self.ch('day', 'month', 'year', 'dow')} FROM {E('date')}) AS BIGINT)",
                lambda: f"CAST(({E('bool')}) AS INTEGER)", lambda: f"({E('date')} - {E('date')})", lambda: f"(0 - {self.leaf('int', sc)})",
                lambda: f"(CASE WHEN {E('bool')} THEN 1 END)",
            ])()
        if kind == "dec": return self.r.choice([lambda: f"({E('dec')} {self.ch('+', '-')} {self.leaf('int', sc)})", lambda: f"({self.leaf('dec', sc)} + {self.leaf('dec', sc)})", lambda: f"({self.leaf('dec', sc)} * {self.lit('int')})", lambda: f"abs({E('dec')})", lambda: f"-({self.leaf('dec', sc)})"])()
        if kind == "float": return self.r.choice([lambda: f"({E('float')} {self.ch('+', '-')} {E('float')})", lambda: f"({self.leaf('float', sc)} * {self.leaf('int', sc)})", lambda: f"CAST({E('dec')} AS DOUBLE PRECISION)", lambda: f"abs({E('float')})"])()
        if kind == "text": return self.r.choice([lambda: f"({E('text')} || {E('text')})", lambda: f"upper({E('text')})", lambda: f"substr({E('text')}, 1, 1)", lambda: f"CAST({E('int')} AS VARCHAR)", lambda: f"replace({E('text')}, 'a', 'b')", lambda: f"trim({E('text')})"])()
        if kind == "date": return self.r.choice([lambda: f"({E('date')} + {self.lit('int') if 0 else self.ch('1', '2')})", lambda: f"CAST({E('ts')} AS DATE)"])()
        if kind == "ts": return self.r.choice([lambda: f"CAST({E('date')} AS TIMESTAMP)", lambda: f"({E('ts')} + INTERVAL '{self.ch('1 day', '12 hours', '1 month')}')", lambda: f"date_trunc('{self.ch('day', 'month')}', {E('ts')})"])()
        if kind == "bool": return self.b(sc, d)
        return self.leaf(kind, sc)

    def pair(self):
        """Kinds that may be compared."""
        k = self.r.choice(["int", "int", "dec", "float", "text", "text", "bool", "date", "ts", "tz", "wild", "int", "blob"])
        if k in ("int", "dec", "float", "wild") and self.p(.4): return k, self.ch("int", "dec", "float", "wild")
        if k in ("date", "ts") and self.p(.4): return k, self.ch("date", "ts")
        return k, k

    def b(self, sc, d):
        E = lambda k, dd=d - 1: self.e(k, sc, dd)
        o = self.r.randrange(17)
        if o < 4:
            a, b = self.pair(); return f"({E(a)} {self.ch('=', '<>', '<', '<=', '>', '>=', '=')} {E(b)})"
        if o == 4: return f"({E('bool')} AND {E('bool')})"
        if o == 5: return f"({E('bool')} OR {E('bool')})"
        if o == 6: return f"(NOT {E('bool')})"
        if o == 7: return f"({E(self.kind())} IS {self.ch('', 'NOT ')}NULL)"
        if o == 8: a, b = self.pair(); return f"({E(a)} IS {self.ch('', 'NOT ')}DISTINCT FROM {E(b)})"
        if o == 9: k = self.ch("int", "dec", "float", "text", "date"); return f"({E(k)} {self.ch('', 'NOT ')}BETWEEN {E(k)} AND {E(k)})"
        if o == 10:
            k = self.ch("int", "int", "text", "date", "dec"); xs = [self.lit(k) if self.p(.8) else self.leaf(k, sc) for _ in range(self.r.randrange(1, 5))]
            if self.p(.15): xs.append("NULL")
            return f"({E(k)} {self.ch('', 'NOT ')}IN ({', '.join(xs)}))"
        if o == 11: return f"({E('text')} {self.ch('', 'NOT ')}LIKE {self.ch('%r' % 'a%', '%r' % '%b', '%r' % '_', '%r' % '%%', '%r' % '%ö%')})"
        if o == 12: return f"({E('bool')} IS {self.ch('', 'NOT ')}{self.ch('TRUE', 'FALSE')})"
        if self.subs > 0 and d > 0: return self.subcond(sc, d - 1)
        return self.leaf("bool", sc)

    # ---------------- subqueries
    def subcond(self, sc, d):
        self.subs -= 1
        o = self.r.randrange(8)
        n = self.ch("", "", "NOT ")
        if o < 3: return f"({n}EXISTS ({self.simple(sc, None, d)}))"
        a, b = self.pair()
        if o < 6: return f"({self.e(a, sc, 1)} {n}IN ({self.simple(sc, [b], d)}))"
        if o == 6: return f"({self.e(a, sc, 1)} {self.ch('=', '<', '>=', '<>', '>')} {self.ch('ANY', 'ALL')} ({self.simple(sc, [b], d)}))"
        k = self.kind(); k2 = self.kind()
        x, y = sc.of(k), sc.of(k2)
        if not x or not y: return self.leaf("bool", sc)
        return f"(({self.r.choice(x)}, {self.r.choice(y)}) {n}IN ({self.simple(sc, [k, k2], d)}))"

    def simple(self, outer, kinds, d, limit_ok=True):
        """A SELECT of these kinds (None: anything), correlated with `outer`."""
        src, sc = self.source(d, outer, lateral_ok=False)
        sc = sc.with_outer(outer)
        ks = kinds or [self.ch("int", "text")]
        w = " WHERE " + self.corr(sc, d) if self.p(.85) else ""
        o = self.r.randrange(10)
        if o < 5: return f"SELECT {', '.join(self.e(k, sc, 1) for k in ks)} FROM {src}{w}"
        if o == 5: return f"SELECT DISTINCT {', '.join(self.e(k, sc, 1) for k in ks)} FROM {src}{w}"
        if o == 6: return f"SELECT {', '.join(self.e(k, sc, 1) for k in ks)} FROM {src}{w} {self.ch('UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT', 'EXCEPT ALL')} {self.plainsel(outer, ks, d)}"
        if o == 7:
            g = [self.leaf(self.ch("int", "text", "date"), Sc(sc.cols, sc.ids))]
            g = [x for x in g if "." in x] or [sc.ids[0]]
            s2 = Sc([(x, self.kind_of(x, sc)) for x in g], g, outer)
            return f"SELECT {', '.join(self.agg(k, sc, 1) if self.p(.6) else self.e(k, s2, 1) for k in ks)} FROM {src}{w} GROUP BY {', '.join(g)}" + (f" HAVING {self.having(sc, s2)}" if self.p(.4) else "")
        if o == 8: return f"SELECT {', '.join(self.agg(k, sc, 1) for k in ks)} FROM {src}{w}" + (f" HAVING {self.having(sc, Sc([], [], outer))}" if self.p(.3) else "")
        return f"SELECT {', '.join(self.e(k, sc, 1) for k in ks)} FROM {src}{w} ORDER BY {self.order_ids(sc)} LIMIT {self.ch(1, 2, 3)}" + (f" OFFSET {self.ch(1, 2)}" if self.p(.3) else "")

    def plainsel(self, outer, ks, d):
        src, sc = self.source(0, outer, lateral_ok=False); sc = sc.with_outer(outer)
        return f"SELECT {', '.join(self.e(k, sc, 1) for k in ks)} FROM {src}" + (f" WHERE {self.corr(sc, d)}" if self.p(.7) else "")

    def kind_of(self, name, sc): return next(k for c, k in sc.cols if c == name)

    def corr(self, sc, d):
        o = sc.outer
        if not o or self.p(.15): return self.e("bool", sc, d)
        if o.outer and self.p(.25): o = o.outer
        conds = []
        for _ in range(self.r.choice([1, 1, 2])):
            a, b = self.pair()
            x, y = sc.of(a), o.of(b)
            if x and y: conds.append(f"{self.r.choice(x)} {self.ch('=', '=', '=', '<', '>=', '<>', 'IS NOT DISTINCT FROM')} {self.r.choice(y)}")
        if not conds or self.p(.3): conds.append(self.e("bool", sc, min(d, 2)))
        return (" OR " if self.p(.12) else " AND ").join(conds)

    def scalar(self, kind, sc, d):
        self.subs -= 1
        if self.p(.7):
            src, s = self.source(min(d, 1), sc, lateral_ok=False); s = s.with_outer(sc)
            w = " WHERE " + self.corr(s, d) if self.p(.85) else ""
            hv = f" HAVING {self.having(s, Sc([], [], sc))}" if self.p(.12) else ""
            a = self.agg(kind, s, 1)
            if self.p(.2): a = f"coalesce({a}, {self.lit(kind)})"
            return f"(SELECT {a} FROM {src}{w}{hv})"
        src, s = self.source(min(d, 1), sc, lateral_ok=False); s = s.with_outer(sc)
        return f"(SELECT {self.e(kind, s, 1)} FROM {src} WHERE {self.corr(s, d)} ORDER BY {self.order_ids(s)} LIMIT 1)"

    def order_ids(self, sc):
        first = ""
        if self.p(.5):
            k = self.kind(); c = sc.of(k)
            if c: first = self.r.choice(c) + self.ch("", " DESC") + self.ch("", " NULLS FIRST", " NULLS LAST") + ", "
        return first + ", ".join(i + self.ch("", " DESC") for i in sc.ids)

    # ---------------- aggregates
    def agg(self, kind, sc, d, rich=False, over=False):
        E = lambda k: self.e(k, sc, d)
        L = lambda k: self.leaf(k, sc)
        f = f" FILTER (WHERE {self.e('bool', sc, 1)})" if self.p(.15) else ""
        D = self.ch("", "", "", "DISTINCT ")
        if kind == "int":
            o = self.r.randrange(8)
            if o < 2: return f"count(*){f}"
            if o == 2: return f"count({D}{E(self.kind())}){f}"
            if o == 3: return f"sum({D}{E('int')}){f}"
            if o == 4 and not over: return f"sum(CASE WHEN {E('bool')} THEN 1 ELSE 0 END){f}"
            return f"{self.ch('min', 'max')}({E('int')}){f}"
        if kind == "float":
            o = self.r.randrange(7)
            if o < 2: return f"avg({D}{E(self.ch('int', 'float'))}){f}"
            if o == 2: return f"sum({E('float')}){f}"
            if o == 3: return f"{self.ch('var_pop', 'var_samp', 'stddev_pop', 'stddev_samp')}({L(self.ch('int', 'float'))}){f}"
            if o == 4: return f"{self.ch('covar_pop', 'corr', 'regr_slope', 'covar_samp')}(CAST({L('int')} AS DOUBLE PRECISION), {L('float')}){f}" if self.p(.4) else f"max({E('float')}){f}"
            return f"{self.ch('min', 'max')}({E('float')}){f}"
        if kind == "dec": return f"{self.ch('sum', 'min', 'max', 'sum')}({D}{E('dec')}){f}"
        if kind == "bool": return f"{self.ch('bool_and', 'bool_or')}({E('bool')}){f}"
        if kind == "text" and self.p(.4) and not over and not self.big: return f"string_agg({L('text')}, '{self.ch(',', '', '|')}' ORDER BY {self.order_ids(sc)}){f}"
        if kind == "blob": return f"CAST(min({L('text')}) AS BYTEA)"
        return f"{self.ch('min', 'max')}({E(kind)}){f}"

    def rich_agg(self, sc):
        """Aggregates that only groups have; gives (text, kind)."""
        L = lambda k: self.leaf(k, sc)
        f = f" FILTER (WHERE {self.e('bool', sc, 1)})" if self.p(.15) else ""
        o = self.r.randrange(9)
        if o == 0 and not self.big: return f"array_agg({L(self.ch('int', 'text', 'date'))} ORDER BY {self.order_ids(sc)}){f}", "list"
        if o == 1: t = L("text"); return f"string_agg(DISTINCT {t}, ',' ORDER BY {t}{self.ch('', ' DESC')}){f}", "text"
        if o == 2: return f"percentile_cont({self.ch('0.5', '0.25', '0.9')}) WITHIN GROUP (ORDER BY {L('float')}{self.ch('', ' DESC')}){f}", "float"
        if o == 3: return f"percentile_disc({self.ch('0.5', '0.25', '0.9')}) WITHIN GROUP (ORDER BY {L('int')}{self.ch('', ' DESC')}){f}", "int"
        if o == 4 and not self.big: c = self.r.choice(sc.of("int") or ["(1 + 1)"]); return f"array_agg(DISTINCT {c} ORDER BY {c}{self.ch('', ' DESC NULLS LAST', ' NULLS FIRST')}){f}", "list"
        if o == 5: return f"{self.ch('bit_and', 'bit_or', 'bit_xor')}({L('int')}){f}", "int"
        k = self.ch("int", "float", "dec", "text", "bool", "date", "ts", "tz", "int")
        return self.agg(k, sc, 1), k

    def having(self, sc, gs):
        o = self.r.randrange(5)
        if o < 2: return f"count(*) {self.ch('>', '<', '=', '<>')} {self.ch(0, 1, 2)}"
        if o == 2: k = self.ch("int", "dec", "text"); return f"{self.agg(k, sc, 1)} {self.ch('>', '<', '=', '<>')} {self.lit(k)}"
        if o == 3 and self.subs > 0:
            self.subs -= 1; return f"{self.agg('int', sc, 0)} {self.ch('IN', 'NOT IN')} ({self.simple(gs, ['int'], 1)})"
        if self.subs > 0: return f"{self.agg('int', sc, 0)} {self.ch('>', '<=')} {self.scalar('int', gs, 1)}"
        return f"bool_or({self.e('bool', sc, 1)})"

    # ---------------- windows
    def window(self, sc, named=None):
        """(text, kind)"""
        E = lambda k, d=1: self.e(k, sc, d)
        part = [E(self.kind(), self.ch(0, 0, 1)) for _ in range(self.r.choice([0, 0, 1, 1, 2]))]
        part = [x for x in part if "." in x]
        P = f"PARTITION BY {', '.join(part)} " if part else ""
        dirn = lambda: self.ch("", " DESC", " ASC") + self.ch("", "", " NULLS FIRST", " NULLS LAST")
        keys = [E(self.kind(), self.ch(0, 0, 1)) for _ in range(self.r.choice([0, 1, 1, 2]))]
        keys = [x + dirn() for x in keys if "." in x]
        total = keys + [i + self.ch("", " DESC") for i in sc.ids]
        o = self.r.randrange(14)
        ob = lambda ks: "ORDER BY " + ", ".join(ks) if ks else ""
        if o == 0:
            f = self.ch("row_number()", f"ntile({self.ch(1, 2, 3, 5)})"); return f"{f} OVER ({P}{ob(total)})", "int"
        if o == 1: return f"{self.ch('rank', 'dense_rank')}() OVER ({P}{ob(keys)})", "int"
        if o == 2: return f"{self.ch('percent_rank', 'cume_dist')}() OVER ({P}{ob(keys)})", "float"
        if o in (3, 4):
            k = self.kind(); x = E(k)
            n = self.r.choice(["", "", ", 1", ", 2", ", 0", ", -1", f", {self.leaf('int', sc)}"])
            if n and k != "blob" and self.p(.4): n += ", " + (self.lit(k) if k != "int" else self.ch("0", "7", self.leaf("int", sc)))
            ig = " IGNORE NULLS" if self.p(.25) and "(" not in x else ""
            return f"{self.ch('lag', 'lead')}({x}{n}{ig}) OVER ({P}{ob(total)})", k
        frame, how = self.frame()
        if o in (5, 6):
            k = self.kind(); x = E(k); ig = " IGNORE NULLS" if self.p(.25) and "(" not in x else ""
            f = self.r.choice([f"first_value({x}{ig})", f"last_value({x}{ig})", f"nth_value({x}, {self.ch(1, 2, 3)}{ig})"])
            if how == "range":
                # one numeric key with offsets would have ties: only frames without offsets
                frame = self.ch("", "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING")
            return f"{f} OVER ({P}{ob(total)} {frame})", k
        k = self.ch("int", "int", "float", "dec", "text", "bool", "date", "ts", "wild" if not self.big else "int")
        a = self.agg(k, sc, 1, over=True)
        if how == "rows": return f"{a} OVER ({P}{ob(total)} {frame})", k
        if how == "groups": return f"{a} OVER ({P}{ob(keys or [E('int') + dirn()])} {frame})", k
        if how == "range":
            rk = self.ch("int", "int", "float", "dec", "date", "ts", "wild")
            c = self.leaf(rk, sc); c = c if "." in c else sc.ids[0]; rk = rk if "." in c and c not in sc.ids else "int"
            off = {"int": ["0", "1", "2", "3"], "float": ["0.25", "0.5", "1"], "wild": ["0.5", "1"], "dec": ["0.5", "1", "1.5"], "date": ["INTERVAL '1 day'", "INTERVAL '2 days'", "INTERVAL '1 month'"], "ts": ["INTERVAL '12 hours'", "INTERVAL '1 day'"]}[rk]
            if self.p(.15) and rk == "int": c = f"abs({c})"
            return f"{a} OVER ({P}ORDER BY {c}{dirn()} RANGE {self.bounds(off)})", k
        return f"{a} OVER ({P}{ob(keys)} {frame if keys else ''})", k

    def bounds(self, off):
        o = lambda: self.r.choice(off)
        starts = ["UNBOUNDED PRECEDING", "P", "P", "CURRENT ROW", "F"]
        s = self.r.choice(starts)
        ends = {"UNBOUNDED PRECEDING": ["P", "CURRENT ROW", "F", "UNBOUNDED FOLLOWING"], "P": ["P", "CURRENT ROW", "F", "UNBOUNDED FOLLOWING"], "CURRENT ROW": ["CURRENT ROW", "F", "UNBOUNDED FOLLOWING"], "F": ["F", "UNBOUNDED FOLLOWING"]}[s]
        e = self.r.choice(ends)
        a, b = o(), o()
        if s == e == "P" and off.index(a) < off.index(b) or s == e == "F" and off.index(a) > off.index(b): a, b = b, a
        f = lambda x, v=None: {"P": f"{v or a} PRECEDING", "F": f"{v or a} FOLLOWING"}.get(x, x)
        if s in ("UNBOUNDED PRECEDING", "P", "CURRENT ROW") and e == "CURRENT ROW" and self.p(.3): return f(s)
        return f"BETWEEN {f(s, a)} AND {f(e, b)}"

    def frame(self):
        o = self.r.randrange(10)
        if o < 4: return "ROWS " + self.bounds(["0", "1", "2", "3", "5"] + (["100", "1000"] if self.big else [])), "rows"
        if o < 6: return "GROUPS " + self.bounds(["0", "1", "2"]), "groups"
        if o < 8: return "", "range"
        return self.ch("", "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "RANGE BETWEEN CURRENT ROW AND CURRENT ROW"), "plain"

    # ---------------- sources
    def table(self, outer=None):
        t = self.r.choice(self.tables); a = self.name("a")
        kinds = KINDS_X if t == "xt" else KINDS
        return f"@{t}@ AS {a}", Sc([(f"{a}.{c}", k) for c, k in kinds.items()], [f"{a}.id"], outer)

    def derived(self, d, outer, lateral=False):
        a = self.name("q"); saved = outer if lateral else None
        sql, kinds = self.query(d, saved, unique=True)
        cols = [(f"{a}.c{i}", k) for i, k in enumerate(kinds)]
        return f"{'LATERAL ' if lateral else ''}({sql}) AS {a}", Sc(cols, [c for c, k in cols], outer)

    def source(self, d, outer=None, lateral_ok=True):
        o = self.r.random()
        if d <= 0 or o < .45: return self.table(outer)
        if o < .55: return self.derived(d - 1, outer)
        if o < .60: return self.values(outer)
        left, ls = self.source(d - 1, outer, lateral_ok)
        if lateral_ok and self.p(.25):
            right, rs = self.derived(d - 1, ls.with_outer(outer), lateral=True)
            both = Sc(ls.cols + rs.cols, ls.ids + rs.ids, outer)
            j = self.r.random()
            if j < .5: return f"{left} CROSS JOIN {right}", both
            if j < .8: return f"{left} LEFT JOIN {right} ON true", both
            return f"{left} LEFT JOIN {right} ON {self.oncond(ls, rs, both)}", both
        right, rs = self.source(d - 1, outer, False) if self.p(.3) else self.table(outer)
        both = Sc(ls.cols + rs.cols, ls.ids + rs.ids, outer)
        j = self.ch("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN", "LEFT JOIN", "FULL JOIN")
        if j == "FULL JOIN" and outer and self.p(.9): j = "JOIN"
        if " JOIN " in right: right = f"({right})"
        on = self.oncond(ls, rs, both, full=j == "FULL JOIN")
        return f"{left} {j} {right} ON {on}", both

    def oncond(self, ls, rs, both, full=False):
        cs = []
        for _ in range(self.r.choice([1, 1, 1, 2])):
            a, b = self.pair(); x, y = ls.of(a), rs.of(b)
            if self.big: x, y = [c for c in ls.ids[:1] + ls.of("int")] + ls.of("int"), [c for c in rs.ids[:1]]
            if x and y: cs.append(f"{self.r.choice(x)} = {self.r.choice(y)}" if not self.p(.12) else f"{self.r.choice(x)} IS NOT DISTINCT FROM {self.r.choice(y)}")
        if not cs: cs = [self.e("bool", both, 1)] if not full else ["true"]
        if self.p(.3) or (not self.big and self.p(.15)):
            if self.p(.5): k = self.ch("int", "dec", "date", "float"); cs.append(f"{self.leaf(k, ls)} {self.ch('<', '>=', '<>')} {self.leaf(k, rs)}")
            else: cs.append(self.e("bool", self.ch(ls, rs, both), 1))
        if self.big: cs = [c.replace("IS NOT DISTINCT FROM", "=") if i == 0 else c for i, c in enumerate(cs)]
        if not self.big and not full and self.p(.15): cs = cs[1:] or [self.e("bool", both, 2)]
        return " AND ".join(cs)

    def values(self, outer):
        a = self.name("v"); ks = [self.ch("int", "text", "dec", "date") for _ in range(2)]
        rows = [f"({i}, " + ", ".join(self.lit(k) if self.p(.8) else "NULL" for k in ks) + ")" for i in range(self.r.randrange(1, 5))]
        rows[0] = "(0, " + ", ".join(self.lit(k) for k in ks) + ")"
        return f"(VALUES {', '.join(rows)}) AS {a}(c0, c1, c2)", Sc([(f"{a}.c0", "int"), (f"{a}.c1", ks[0]), (f"{a}.c2", ks[1])], [f"{a}.c0"], outer)

    # ---------------- queries; columns are named c0, c1 …; the rows of `unique` ones are told apart by all columns
    def query(self, d, outer=None, unique=False, shape=None, kinds=None):
        shape = shape or self.r.choice(["plain", "plain", "grouped", "grouped", "window", "set", "distinct", "limit", "grouped" if outer else "sets"] if not kinds else ["plain", "distinct", "set", "grouped"])
        src, sc = self.source(d, outer, lateral_ok=not self.big)
        sc = sc.with_outer(outer)
        w = " WHERE " + (self.corr(sc, 2) if outer and self.p(.8) else self.e("bool", sc, self.ch(1, 2, 3))) if self.p(.6) or outer else ""
        A = lambda xs: ", ".join(f"{x} AS c{i}" for i, x in enumerate(xs))
        if shape in ("plain", "distinct", "limit", "window"):
            ks = kinds or [self.kind() for _ in range(self.r.randrange(1, 4))]
            items = [self.e(k, sc, 2) for k in ks]
            if shape == "window" and not kinds:
                for _ in range(self.r.choice([1, 1, 2, 3])):
                    x, k = self.window(sc)
                    if self.p(.15): x = f"CASE WHEN {self.e('bool', sc, 1)} THEN {x} END"
                    elif self.p(.1) and k == "int": x = f"({x} + {self.window_int(sc)})"
                    items.append(x); ks.append(k)
            if not kinds and shape != "distinct" and (unique or shape in ("window", "limit")):
                items = sc.ids + items; ks = [self.kind_of(i, sc) for i in sc.ids] + ks
            q = ""
            if shape == "window" and self.p(.12): q = f" QUALIFY {self.window_int(sc)} {self.ch('<', '=', '>')} {self.ch(1, 2, 3)}"
            s = f"SELECT {'DISTINCT ' if shape == 'distinct' else ''}{A(items)} FROM {src}{w}{q}"
            if shape == "limit" and not kinds: s += f" ORDER BY {self.order_ids(sc)} LIMIT {self.ch(0, 1, 3, 7, 20)}" + (f" OFFSET {self.ch(0, 1, 2, 5)}" if self.p(.4) else "")
            return s, ks
        if shape in ("grouped", "sets"):
            gk = [self.kind() for _ in range(self.r.choice([1, 1, 2, 3]))]
            g = []; gk2 = []
            for k in gk:
                x = self.e(k, Sc(sc.cols, sc.ids), self.ch(0, 0, 1))
                if "SELECT" not in x and "." in x and not x.startswith("CAST(NULL") and x not in g: g.append(x); gk2.append(k)
            if not g: g, gk2 = [sc.ids[0]], [self.kind_of(sc.ids[0], sc)]
            gs = Sc(list(zip(g, gk2)), g, outer)
            if kinds: items, ks = [self.agg(k, sc, 1) for k in kinds], list(kinds)
            else:
                items, ks = list(g), list(gk2)
                for _ in range(self.r.choice([1, 2, 3])):
                    x, k = self.rich_agg(sc) if self.p(.5) else (None, None)
                    if not x: k = self.ch("int", "float", "dec", "text", "bool", "date", "ts"); x = self.agg(k, sc, 1)
                    if k == "list" and unique: continue
                    items.append(x); ks.append(k)
                if self.p(.25): items.append(f"sum(count(*)) OVER ({self.ch('', 'PARTITION BY ' + self.r.choice(g), 'ORDER BY ' + self.r.choice(g) + self.ch('', ' DESC', ' NULLS FIRST'))})"); ks.append("int")
                if self.p(.15): x = self.agg("int", sc, 1); items.append(f"rank() OVER (ORDER BY {x})"); ks.append("int")
                if self.p(.2) and self.subs > 0: items.append(self.scalar("int", gs, 1)); ks.append("int")
            if shape == "sets" and not kinds:
                G = ", ".join(g)
                how = self.r.randrange(5)
                sets = ["(" + ", ".join(self.r.sample(g, self.r.randrange(0, len(g) + 1))) + ")" for _ in range(self.r.randrange(1, 4))]
                if how == 0: gb = f"ROLLUP ({G})"
                elif how == 1: gb = f"CUBE ({G})"
                elif how == 2 and len(g) > 1: gb = f"{g[0]}, {self.ch('ROLLUP', 'CUBE')} ({', '.join(g[1:])})"
                else:
                    missing = [x for x in g if not any(x in s for s in sets)]
                    if missing: sets.append("(" + ", ".join(missing) + ")")
                    gb = f"GROUPING SETS ({', '.join(sets)})"
                if self.p(.7): items.append(f"grouping({', '.join(self.r.sample(g, self.r.randrange(1, len(g) + 1)))})"); ks.append("int")
            else: gb = ", ".join(g)
            hv = f" HAVING {self.having(sc, gs)}" if self.p(.3) else ""
            return f"SELECT {A(items)} FROM {src}{w} GROUP BY {gb}{hv}", ks
        if shape == "set":
            ks = kinds or [self.ch("int", "int", "text", "dec", "date", "float", "bool", "ts", "tz", "wild") for _ in range(self.r.randrange(1, 3))]
            return self.setop(d, outer, ks, 2), ks
        raise ValueError(shape)

    def window_int(self, sc):
        for _ in range(20):
            x, k = self.window(sc)
            if k == "int": return x
        return f"count(*) OVER ()"

    def setop(self, d, outer, ks, depth):
        def side():
            if depth > 1 and self.p(.25): return f"({self.setop(d, outer, ks, depth - 1)})"
            src, sc = self.source(min(d, 1), outer, lateral_ok=False); sc = sc.with_outer(outer)
            items = ", ".join(f"{self.e(k, sc, 1)} AS c{i}" for i, k in enumerate(ks))
            s = f"SELECT {items} FROM {src}" + (f" WHERE {self.corr(sc, 1) if outer else self.e('bool', sc, 1)}" if self.p(.6) or outer else "")
            if self.p(.12): s = f"({s} ORDER BY {self.order_ids(sc)} LIMIT {self.ch(1, 3, 9)})"
            return s
        s = side()
        for _ in range(self.r.choice([1, 1, 2])):
            s += f" {self.ch('UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT', 'INTERSECT ALL', 'EXCEPT ALL')} {side()}"
        return s

    # ---------------- statements
    def statement(self):
        o = self.only or self.r.choice(["query"] * 8 + ["cte", "cte", "wrap", "recursive", "using", "orderby"] if not self.big else ["query", "query", "window", "grouped", "sets", "set", "cte", "wrap", "orderby", "limit"])
        return getattr(self, "st_" + o)()

    def finish(self, s, ks):
        if self.p(.35) and "list" not in ks:
            ps = list(range(1, len(ks) + 1)); self.r.shuffle(ps)
            s = f"SELECT * FROM ({s}) AS z ORDER BY " + ", ".join(f"{i}{self.ch('', ' DESC')}{self.ch('', '', ' NULLS FIRST', ' NULLS LAST')}" for i in ps)
            if self.p(.5): s += f" LIMIT {self.ch(0, 1, 5, 10)}" + (f" OFFSET {self.ch(0, 1, 3)}" if self.p(.5) else "")
            return s, True
        return s, False

    def st_query(self, shape=None):
        return self.finish(*self.query(self.ch(0, 1, 1, 2), shape=shape))
    def st_window(self): return self.finish(*self.query(self.ch(0, 0, 1, 1, 2), shape="window"))
    def st_set(self): return self.finish(*self.query(self.ch(0, 1), shape="set"))
    def st_sets(self): return self.finish(*self.query(self.ch(0, 1), shape="sets"))
    def st_grouped(self): return self.finish(*self.query(self.ch(0, 1), shape="grouped"))
    def st_limit(self): return self.finish(*self.query(self.ch(0, 1), shape="limit"))

    def st_cte(self):
        saved = self.tables; defs = []; locs = []
        for _ in range(self.r.choice([1, 2])):
            n = self.name("w"); q, ks = self.query(self.ch(0, 1), unique=True); locs.append((n, ks)); defs.append(f"{n} AS ({q})")
        old = self.table
        def table(outer=None):
            if self.p(.55):
                n, ks = self.r.choice(locs); a = self.name("a")
                cols = [(f"{a}.c{i}", k) for i, k in enumerate(ks)]
                return f"{n} AS {a}", Sc(cols, [c for c, k in cols], outer)
            return old(outer)
        self.table = table
        s, q = self.finish(*self.query(self.ch(1, 2)))
        self.table = old
        return f"WITH {', '.join(defs)} {s}", q

    def st_wrap(self):
        """Aggregates over a query."""
        s, ks = self.query(self.ch(1, 2), unique=True)
        sc = Sc([(f"z.c{i}", k) for i, k in enumerate(ks)], [f"z.c{i}" for i in range(len(ks))])
        return f"SELECT count(*) AS n, {', '.join(self.agg(self.ch('int', 'text', 'dec', 'float'), sc, 1) + f' AS b{i}' for i in range(2))} FROM ({s}) AS z", False

    def st_orderby(self):
        """Expressions, subqueries and windows in ORDER BY."""
        src, sc = self.source(self.ch(0, 1))
        ks = [self.e(self.kind(), sc, 2) + self.ch("", " DESC") + self.ch("", " NULLS FIRST", " NULLS LAST") for _ in range(2)]
        ks = [k for k in ks if "." in k]
        if self.p(.5): ks.insert(0, self.window(sc)[0])
        if self.p(.5): ks.insert(0, self.scalar("int", sc, 1))
        A = ", ".join(f"{x} AS c{i}" for i, x in enumerate(sc.ids + [self.e(self.kind(), sc, 1)]))
        return f"SELECT {A} FROM {src}" + (f" WHERE {self.e('bool', sc, 2)}" if self.p(.5) else "") + " ORDER BY " + ", ".join(ks + sc.ids) + (f" LIMIT {self.ch(1, 4, 9)}" if self.p(.5) else ""), True

    def st_using(self):
        t = [self.r.choice(self.tables[:3]) for _ in range(self.r.choice([2, 3]))]
        cols = self.r.sample(["k", "m", "t", "day", "d", "p", "ts", "x"], self.r.choice([1, 1, 2]))
        a = [self.name("a") for _ in t]
        s = f"@{t[0]}@ AS {a[0]}"
        for n, al in zip(t[1:], a[1:]): s += f" {self.ch('JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN', 'FULL JOIN')} @{n}@ AS {al} USING ({', '.join(cols)})"
        items = cols + [f"{x}.id" for x in a]
        if self.p(.3): items.append(f"{self.r.choice(a)}.{cols[0]}")
        w = f" WHERE {cols[0]} IS {self.ch('', 'NOT ')}NULL" if self.p(.3) else ""
        if self.p(.3): return f"SELECT {', '.join(cols)}, count(*), sum({a[0]}.id), max({a[-1]}.id) FROM {s}{w} GROUP BY {', '.join(cols)}", False
        return f"SELECT {', '.join(f'{x} AS c{i}' for i, x in enumerate(items))} FROM {s}{w}", False

    def st_recursive(self):
        o = self.r.randrange(6); t = self.r.choice(self.tables[:3])
        if self.big: t = "dim"
        U = self.ch("UNION", "UNION ALL"); n = self.ch(3, 5, 10)
        if o == 0: q = f"WITH RECURSIVE r(n, s) AS (SELECT 1, CAST('' AS VARCHAR) {U} SELECT n + {self.ch(1, 2)}, s || '{self.ch('a', 'b')}' FROM r WHERE n < {n}) SELECT r.n, r.s, count(a.id) AS c, sum(a.d) AS d FROM r {self.ch('LEFT JOIN', 'JOIN', 'FULL JOIN')} @{t}@ AS a ON a.k = r.n GROUP BY r.n, r.s"
        elif o == 1: q = f"WITH RECURSIVE r(a, b, n) AS (SELECT k, m, CAST(0 AS BIGINT) FROM @{t}@ WHERE k IS NOT NULL UNION SELECT s.k, s.m, r.n + 1 FROM r JOIN @{t}@ AS s ON s.m = r.a WHERE r.n < {self.ch(2, 3)}) SELECT a, b, n FROM r"
        elif o == 2: q = f"WITH RECURSIVE r(a) AS (SELECT CAST(1 AS BIGINT) UNION SELECT CAST(s.k AS BIGINT) FROM r, @{t}@ AS s WHERE s.m = r.a) SELECT a, (SELECT count(*) FROM r AS q WHERE q.a < r.a OR q.a IS NULL) AS c, rank() OVER (ORDER BY a) AS rk FROM r"
        elif o == 3: q = f"WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < {n}) SELECT x.n, y.n AS m FROM r AS x {self.ch('JOIN', 'LEFT JOIN', 'FULL JOIN')} r AS y ON x.n {self.ch('<', '=', '>')} y.n {self.ch('', 'AND x.n % 2 = 0')} WHERE x.n IN (SELECT n FROM r WHERE n > {self.ch(1, 2)}) OR x.n IS NULL"
        elif o == 4: q = f"WITH RECURSIVE r(id, d, lvl) AS (SELECT id, d, CAST(0 AS BIGINT) FROM @{t}@ WHERE id <= 3 UNION ALL SELECT s.id, s.d, r.lvl + 1 FROM r JOIN @{t}@ AS s ON s.id = r.id + {self.ch(2, 3)} AND (s.d > r.d OR s.d IS NULL) WHERE NOT EXISTS (SELECT 1 FROM @{t}@ AS z WHERE z.k = s.id)) SELECT id, d, lvl, row_number() OVER (PARTITION BY lvl ORDER BY id, d NULLS FIRST) AS rn FROM r"
        else: q = f"WITH RECURSIVE r(n, x) AS (SELECT id, x FROM @{t}@ WHERE id < 4 UNION ALL SELECT n + 4, (SELECT max(z.x) FROM @{t}@ AS z WHERE z.id <= r.n + 4) FROM r WHERE n < {n}) SELECT n, x, sum(x) OVER (ORDER BY n, x) AS s FROM r"
        return q, False
