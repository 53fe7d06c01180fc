"""What the differential test catches and lets pass, and that each known difference still occurs.

    PELTON_PACKAGE=DIR python -m unittest discover tests/oracle/differential
"""

import os
import tempfile
import unittest
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa

import answers
import cases
import differences
import expressions
import operators
import semantics
from engines import DuckDB, Failed, Pelton
from shrink import shrink


def table(*columns):
    return pa.table({f"c{index}": column for index, column in enumerate(columns)})


class Answers(unittest.TestCase):
    def test_widths_scales_and_units_do_not_matter(self):
        decimals = pa.array([Decimal("1"), None], pa.decimal128(9, 0))
        self.assertIsNone(answers.compare(table(pa.array([1, None], pa.int8())), table(decimals)))
        self.assertIsNone(answers.compare(table(pa.array([5], pa.timestamp("us"))), table(pa.array([5000], pa.timestamp("ns")))))
        self.assertIsNone(answers.compare(table(pa.array([0.0, float("nan")])), table(pa.array([-0.0, float("nan")]))))

    def test_values_types_and_errors_do(self):
        one = table(pa.array([1], pa.int64()))
        for other in (pa.array([2]), pa.array([None], pa.int64()), pa.array([1.0]), pa.array(["1"]), pa.array([1, 1])):
            self.assertIsNotNone(answers.compare(one, table(other)), other)
        self.assertIsNotNone(answers.compare(one, Failed("no")))
        self.assertIsNotNone(answers.compare(Failed("no"), one))
        self.assertIsNone(answers.compare(Failed("no"), Failed("never")))

    def test_order_matters_where_the_statement_orders(self):
        one, other = table(pa.array([1, 2])), table(pa.array([2, 1]))
        self.assertIsNone(answers.compare(one, other))
        self.assertIsNotNone(answers.compare(one, other, in_sequence=True))


class Cases(unittest.TestCase):
    def test_a_seed_gives_the_same_cases_again(self):
        texts = lambda seed: [(cases.make(seed, 0, n).pelton(), cases.make(seed, 0, n).duckdb()) for n in range(50)]
        self.assertEqual(texts("a"), texts("a"))
        self.assertNotEqual(texts("a"), texts("b"))

    def test_every_operation_is_made(self):
        made = set()
        random = Random("operations")
        for operation in operators.OPERATIONS:
            for _ in range(4000):
                if operation.form in made:
                    break
                node = expressions.make(random, operation.result, cases.SCOPE, 2)
                made |= {node.form for node in node.nodes()}
            self.assertIn(operation.form, made)

    def test_shrinking_keeps_what_fails_and_drops_the_rest(self):
        random = Random("shrink")
        case = next(
            case
            for case in (cases.Expression(expressions.make(random, "bool", cases.SCOPE, 4)) for _ in range(1000))
            if "c_i8" in case.pelton() and len(case.pelton()) > 150
        )
        small = shrink(case, lambda case: "c_i8" in case.pelton())
        self.assertIn("c_i8", small.pelton())
        self.assertLess(len(small.pelton()), len(case.pelton()))


class BothEngines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.duckdb = DuckDB()
        cls.pelton = Pelton(os.environ["PELTON_PACKAGE"], Path(cls.folder.name, "warehouse"), "cpu")

    @classmethod
    def tearDownClass(cls):
        cls.pelton.connection.close()
        cls.folder.cleanup()

    def test_each_known_difference_still_occurs(self):
        for difference in differences.WRITTEN_AROUND + differences.EXCUSED:
            with self.subTest(difference.name):
                self.assertNotEqual(difference.pelton, difference.duckdb)
                self.assertEqual(semantics.value(self.pelton, difference.example), difference.pelton)
                self.assertEqual(semantics.value(self.duckdb, difference.example), difference.duckdb)

    def test_differences_that_expressions_name_are_listed(self):
        listed = {difference.name for difference in differences.WRITTEN_AROUND}
        named = {operation.form.known for operation in operators.OPERATIONS} - {None}
        self.assertEqual(named | {"integer-literals-are-bigint"}, listed)

    def test_the_page_of_semantics_is_true(self):
        page = Path(__file__).parents[3] / "docs/guide/semantics.md"
        lines = list(semantics.lines(page.read_text()))
        self.assertGreater(len(lines), 80)
        for line in lines:
            for engine, expected in ((self.pelton, line.pelton), (self.duckdb, line.duckdb)):
                with self.subTest(line.expression, engine=type(engine).__name__):
                    self.assertEqual(semantics.value(engine, line.expression, line.of_type), expected)


if __name__ == "__main__":
    unittest.main()
