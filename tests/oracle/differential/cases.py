"""A case: one expression or statement, made from a seed and a number alone."""

from dataclasses import dataclass
from random import Random

import expressions
import statements
from nodes import Node, Scope
from tables import TYPES

SCOPE = Scope({kind: [f"c_{kind}"] for kind in TYPES})
# Of ten cases, so many are expressions.
EXPRESSIONS_OF_TEN = 6


@dataclass(frozen=True)
class Expression:
    """Over each row of the table of extremes."""

    node: Node
    in_sequence = False

    def duckdb(self):
        return f"SELECT id, {self.node.duckdb()} AS x FROM w"

    def pelton(self, all_stored=True):
        return f"SELECT id, {self.node.pelton()} AS x FROM w"

    def known(self):
        return self.node.known()

    def simpler(self):
        # A part of any type may show the difference just as well.
        yield from (Expression(arg) for arg in self.node.args)
        yield from (Expression(node) for node in statements.simpler_nodes(self.node))


def make(seed, round_number, number):
    random = Random(f"{seed}/{round_number}/{number}")
    if random.randrange(10) < EXPRESSIONS_OF_TEN:
        kind = expressions.types_of_results(random)
        scope = random.choice([SCOPE, SCOPE.total()])
        return Expression(expressions.make(random, kind, scope, random.choice([1, 1, 2, 3])))
    return statements.make(random)
