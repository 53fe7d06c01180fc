"""Typed expressions as trees that are written as Pelton's SQL or DuckDB's.

DuckDB's text has all its parentheses. Pelton's has those that PostgreSQL's precedence asks for, and others by chance, so
that a parser that binds otherwise gives another answer.

```text
    OR < AND < NOT < IS < comparisons < BETWEEN IN LIKE < || < + - < * / % < unary minus < :: < everything else
```
"""

from dataclasses import dataclass, field

OR, AND, NOT, IS, COMPARE, IN, CONCAT, ADD, MULTIPLY, NEGATE, CAST, ATOM = range(12)


@dataclass(frozen=True)
class Form:
    """How an operation is written: `{0}`, `{1}` … are its arguments."""

    pelton: str
    duckdb: str
    level: int = ATOM
    # The least level that each argument may have without parentheses; those not listed may have any.
    args: tuple = ()
    # The known difference that it belongs to, if any.
    known: str | None = None


@dataclass(frozen=True)
class Node:
    kind: str
    form: Form
    args: tuple = ()
    # Parentheses where none are needed.
    wrapped: bool = False

    def duckdb(self):
        if not self.args:
            return self.form.duckdb
        return "(" + self.form.duckdb.format(*(arg.duckdb() for arg in self.args)) + ")"

    def pelton(self, level_min=OR):
        if self.args:
            least = self.form.args + (OR,) * (len(self.args) - len(self.form.args))
            text = self.form.pelton.format(*(arg.pelton(level) for arg, level in zip(self.args, least)))
        else:
            text = self.form.pelton
        return f"({text})" if self.wrapped or self.form.level < level_min else text

    def nodes(self):
        yield self
        for arg in self.args:
            yield from arg.nodes()

    def known(self):
        return {node.form.known for node in self.nodes() if node.form.known}

    def with_arg(self, index, arg):
        args = self.args[:index] + (arg,) + self.args[index + 1 :]
        return Node(self.kind, self.form, args, self.wrapped)


def leaf(kind, pelton, duckdb=None, level=ATOM, known=None):
    return Node(kind, Form(pelton, duckdb or pelton, level, (), known))


@dataclass
class Scope:
    """What an expression may name: columns by type, and whether their values are small."""

    columns: dict = field(default_factory=dict)
    is_tame: bool = False
    # Whether evaluation may end in an error: only where every engine must evaluate it.
    may_fail: bool = True

    def total(self):
        return Scope(self.columns, self.is_tame, may_fail=False)
