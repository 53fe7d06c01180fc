"""Random statements over the tables of small values: filters, joins, grouping, windows, set operations, subqueries.

Nothing in them may fail, so that engines may evaluate in any order and skip what they like; and their rows are the same
however engines order what the statement leaves open: LIMIT comes with an order of whole rows.

A table is written `@a:csv@`: DuckDB reads `a`, Pelton `a_csv`, or the stored table where it is to run on a device.
"""

import re
from dataclasses import dataclass, replace

import expressions
from nodes import ATOM, NOT, OR, Form, Node, Scope, leaf
from tables import TYPES

STORAGES = ["stored", "stored", "parquet", "csv"]
KEYS = ["i8", "i16", "i32", "i64", "u32", "d9", "d18", "f64", "text", "date", "ts", "bool"]
# What sums of the table's values are exact for.
SUMMED = ["i8", "i16", "i32", "i64", "u32", "f64", "d9", "d18"]


def for_duckdb(text):
    return re.sub(r"@(\w+):\w+@", r"\1", text)


def for_pelton(text, all_stored):
    return re.sub(r"@(\w+):(\w+)@", lambda match: match[1] if all_stored or match[2] == "stored" else f"{match[1]}_{match[2]}", text)


@dataclass(frozen=True)
class Select:
    items: tuple
    source: Node
    where: Node | None = None
    # How many of the first items are the keys of GROUP BY; None: no grouping.
    keys: int | None = None
    having: Node | None = None
    distinct: bool = False

    def node(self):
        parts = list(self.items) + [self.source]
        columns = ", ".join(f"{{{index}}} AS x{index}" for index in range(len(self.items)))
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{columns} FROM {{{len(self.items)}}}"
        if self.where:
            parts.append(self.where)
            text += f" WHERE {{{len(parts) - 1}}}"
        if self.keys:
            text += " GROUP BY " + ", ".join(f"{{{index}}}" for index in range(self.keys))
        if self.having:
            parts.append(self.having)
            text += f" HAVING {{{len(parts) - 1}}}"
        return Node("rows", Form(text, text, OR, (OR,) * len(parts)), tuple(parts))


@dataclass(frozen=True)
class Statement:
    """One or two selects and what comes after them."""

    selects: tuple
    set_operation: str | None = None
    order: tuple = ()  # (position, descending, NULLS FIRST), of every column
    limit: int | None = None
    offset: int | None = None
    in_cte: bool = False

    @property
    def in_sequence(self):
        return bool(self.order)

    def text(self, dialect):
        texts = [write(select.node(), dialect) for select in self.selects]
        body = f" {self.set_operation} ".join(texts)
        if self.in_cte:
            body = f"WITH q AS ({body}) SELECT * FROM q"
        keys = [order_key(key, dialect) for key in self.order]
        body += " ORDER BY " + ", ".join(keys) if keys else ""
        body += f" LIMIT {self.limit}" if self.limit is not None else ""
        return body + (f" OFFSET {self.offset}" if self.offset is not None else "")

    def duckdb(self):
        return for_duckdb(self.text("duckdb"))

    def pelton(self, all_stored=False):
        return for_pelton(self.text("pelton"), all_stored)

    def known(self):
        return {name for select in self.selects for name in select.node().known()}

    def simpler(self):
        """Statements with something less."""
        if self.set_operation:
            yield from (replace(self, selects=(select,), set_operation=None) for select in self.selects)
        if self.limit is not None:
            yield replace(self, limit=None, offset=None)
        elif self.order:
            yield replace(self, order=())
        if self.in_cte:
            yield replace(self, in_cte=False)
        if len(self.selects) == 1:
            select = self.selects[0]
            yield from (replace(self, selects=(simpler,)) for simpler in simpler_selects(select, bool(self.order)))


def write(node, dialect):
    return node.pelton() if dialect == "pelton" else node.duckdb()[1:-1]


def order_key(key, dialect):
    position, descending, nulls_first = key
    text = f"{position} DESC" if descending else f"{position}"
    # Pelton's default is PostgreSQL's: NULL as if it were greatest. DuckDB's is NULLS LAST.
    is_default = nulls_first == descending
    return text if is_default and dialect == "pelton" else text + (" NULLS FIRST" if nulls_first else " NULLS LAST")


def simpler_selects(select, is_ordered):
    if select.having:
        yield replace(select, having=None)
    if select.where:
        yield replace(select, where=None)
        yield from (replace(select, where=simpler) for simpler in simpler_nodes(select.where))
    if select.distinct:
        yield replace(select, distinct=False)
    if len(select.items) > 1 and not is_ordered:
        for index in range(len(select.items)):
            keys = select.keys - 1 if select.keys and index < select.keys else select.keys
            yield replace(select, items=select.items[:index] + select.items[index + 1 :], keys=keys)
    for index, item in enumerate(select.items):
        for simpler in simpler_nodes(item):
            yield replace(select, items=select.items[:index] + (simpler,) + select.items[index + 1 :])
    for simpler in simpler_nodes(select.source):
        yield replace(select, source=simpler)


def simpler_nodes(node):
    """Trees with something less: an argument of the same type in a node's place, at any depth."""
    yield from (arg for arg in node.args if arg.kind == node.kind)
    for index, arg in enumerate(node.args):
        yield from (node.with_arg(index, simpler) for simpler in simpler_nodes(arg))
    if node.kind == "bool" and node.args:
        yield leaf("bool", "true")


# ---- sources


def table(random, name, alias):
    text = f"@{name}:{random.choice(STORAGES)}@ AS {alias}"
    return leaf("source", text), Scope({kind: [f"{alias}.c_{kind}"] for kind in TYPES}, is_tame=True, may_fail=False)


def both(*scopes):
    columns = {kind: [name for scope in scopes for name in scope.columns.get(kind, [])] for kind in TYPES}
    return Scope(columns, is_tame=True, may_fail=False)


def source(random):
    """A FROM clause, its scope, and the columns that tell its rows apart."""
    shape = random.choice(["table", "table", "table", "join", "join", "derived", "three"])
    left, left_scope = table(random, "a", "t")
    if shape == "table":
        return left, left_scope, ["t.id"]
    if shape == "derived":
        where = expressions.make(random, "bool", left_scope, 2)
        text = "(SELECT * FROM {0} WHERE {1}) AS t"
        return Node("source", Form(text, text, ATOM), (left, where)), left_scope, ["t.id"]
    right, right_scope = table(random, "b", "u")
    scope = both(left_scope, right_scope)
    kind = random.choice(KEYS)
    join = random.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    text, parts, least = f"{{0}} {join} {{1}} ON t.c_{kind} = u.c_{kind}", (left, right), ()
    if random.random() < 0.3:
        other = random.choice(KEYS)
        text += f" AND t.c_{other} = u.c_{other}"
    if random.random() < 0.3 and join != "FULL JOIN":
        text, parts = text + " AND {2}", (*parts, expressions.make(random, "bool", scope, 2))
        least = (ATOM, ATOM, NOT)
    ids = ["t.id", "u.id"]
    if shape == "three":
        third, third_scope = table(random, "b", "v")
        text += f" {random.choice(['JOIN', 'LEFT JOIN'])} {{{len(parts)}}} ON t.id = v.id"
        parts, scope, ids = (*parts, third), both(scope, third_scope), [*ids, "v.id"]
    return Node("source", Form(text, text, ATOM, least), parts), scope, ids


def condition(random, scope):
    choice = random.random()
    if choice < 0.6 or "t.c_i32" not in scope.columns["i32"]:
        return expressions.make(random, "bool", scope, 3)
    inner, inner_scope = table(random, "b", "s")
    kind = random.choice(KEYS)
    where = expressions.make(random, "bool", inner_scope, 2)
    forms = [
        f"EXISTS (SELECT 1 FROM {{0}} WHERE s.c_{kind} = t.c_{kind} AND {{1}})",
        f"NOT EXISTS (SELECT 1 FROM {{0}} WHERE s.c_{kind} = t.c_{kind} AND {{1}})",
        f"t.c_{kind} IN (SELECT s.c_{kind} FROM {{0}} WHERE {{1}})",
        f"t.c_{kind} NOT IN (SELECT s.c_{kind} FROM {{0}} WHERE {{1}})",
        f"t.c_{kind} NOT IN (SELECT s.c_{kind} FROM {{0}} WHERE s.c_{kind} IS NOT NULL AND {{1}})",
        f"t.c_{kind} >= (SELECT min(s.c_{kind}) FROM {{0}} WHERE {{1}})",
        f"t.c_{kind} = (SELECT max(s.c_{kind}) FROM {{0}} WHERE s.c_i32 = t.c_i32 AND {{1}})",
        "t.c_i64 > (SELECT count(*) FROM {0} WHERE s.c_i8 = t.c_i8 AND {1})",
    ]
    text = random.choice(forms)
    return Node("bool", Form(text, text, ATOM, (ATOM, NOT)), (inner, where), wrapped=True)


# ---- items


def aggregate(random, scope):
    choice = random.random()
    if choice < 0.1:
        return leaf("i64", "count(*)")
    function = random.choice(["sum", "avg", "min", "max", "count", "count distinct", "sum distinct", "bool"])
    if function in ("sum", "avg", "sum distinct"):
        kind = random.choice(SUMMED)
        argument = expressions.make_leaf(random, kind, scope) if kind in ("i8", "i16", "u32", "d9", "d18") else expressions.make(random, kind, scope, 1)
    else:
        kind = "bool" if function == "bool" else random.choice([kind for kind in KEYS if kind != "bool"])
        argument = expressions.make(random, kind, scope, 1)
    name = random.choice(["bool_and", "bool_or"]) if function == "bool" else function
    text = f"{name.split()[0]}(DISTINCT {{0}})" if "distinct" in name else f"{name}({{0}})"
    args = (argument,)
    if random.random() < 0.2:
        text, args = text + " FILTER (WHERE {1})", (argument, expressions.make(random, "bool", scope, 1))
    result = "i64" if function.startswith("count") else kind if function in ("min", "max", "bool") else "sum"
    return Node(result, Form(text, text, ATOM), args)


def window(random, scope, ids):
    part = expressions.make_leaf(random, random.choice(KEYS), scope)
    key = expressions.make_leaf(random, random.choice(KEYS), scope)
    unique = ", ".join(ids)
    over = f"OVER (PARTITION BY {{1}} ORDER BY {{2}} {random.choice(['', 'DESC '])}NULLS {random.choice(['FIRST', 'LAST'])}, {unique}"
    ties = "OVER (PARTITION BY {1} ORDER BY {2} NULLS LAST)"
    frame = random.choice(["ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
                           "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", ""])  # fmt: skip
    kind = random.choice(["i32", "i64", "d9", "f64"])
    value = expressions.make_leaf(random, kind, scope)
    forms = [f"row_number() {over})", f"rank() {ties}", f"dense_rank() {ties}", f"ntile(3) {over})", f"percent_rank() {ties}", f"cume_dist() {ties}",
             *(f"{name}({{0}}) {over} {frame})" for name in ("sum", "avg", "min", "max", "count", "first_value", "last_value")),
             *(f"{name}({{0}}) {ties}" for name in ("sum", "min", "max", "count")),
             f"lag({{0}}) {over})", f"lead({{0}}, 2) {over})", f"nth_value({{0}}, 2) {over} {frame})"]  # fmt: skip
    text = random.choice(forms)
    return Node("window", Form(text, text, ATOM), (value, part, key))


# ---- statements


def make_select(random, shape, kinds=None):
    origin, scope, ids = source(random)
    where = condition(random, scope) if random.random() < 0.7 else None
    if shape == "grouped":
        keys = tuple(expressions.make(random, random.choice(KEYS), scope, random.choice([0, 0, 1])) for _ in range(random.choice([0, 1, 1, 2])))
        # A literal by itself would be taken for a position.
        keys = tuple(key if key.args or "." in key.form.pelton else leaf("i32", "t.c_i32") for key in keys)
        having = None
        if random.random() < 0.3:
            text = random.choice(["count(*) > 2", "min({0}) IS NOT NULL", "count({0}) <= 5"])
            having = Node("bool", Form(text, text, ATOM), (expressions.make_leaf(random, "i32", scope),))
        items = keys + tuple(aggregate(random, scope) for _ in range(random.randrange(1, 5)))
        return Select(items, origin, where, len(keys), having)
    if shape == "window":
        items = tuple(leaf("i32", name) for name in ids) + tuple(window(random, scope, ids) for _ in range(random.randrange(1, 3)))
        return Select(items, origin, where)
    kinds = kinds or random.choices([*KEYS, "bool"], k=random.randrange(1, 5))
    items = tuple(expressions.make(random, kind, scope, random.choice([0, 1, 2])) for kind in kinds)
    return Select(items, origin, where, distinct=random.random() < 0.25)


def make(random):
    shape = random.choice(["plain", "plain", "grouped", "grouped", "grouped", "window", "set"])
    if shape == "set":
        kinds = random.choices(KEYS, k=random.randrange(1, 4))
        selects = tuple(make_select(random, "plain", kinds) for _ in range(2))
        # ALL of EXCEPT and INTERSECT counts duplicates.
        operation = random.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
        statement = Statement(selects, operation)
    else:
        statement = Statement((make_select(random, shape),))
    width = len(statement.selects[0].items)
    if random.random() < 0.4:
        positions = list(range(1, width + 1))
        random.shuffle(positions)
        order = tuple((position, random.random() < 0.5, random.random() < 0.5) for position in positions)
        limit = random.choice([None, 0, 1, 5, 20])
        offset = random.choice([None, None, 3]) if limit is not None else None
        statement = replace(statement, order=order, limit=limit, offset=offset)
    return replace(statement, in_cte=not statement.order and random.random() < 0.15)
