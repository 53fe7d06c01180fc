"""The fixed statements: how they are read and compared, and that both engines still answer each as its file says.

    PELTON_PACKAGE=DIR python -m unittest discover tests/oracle/differential
"""

import os
import re
import tempfile
import unittest
from pathlib import Path

import pyarrow as pa

import answers
import fixed_statements
import fixed_tables
from fixed_statements import DEFECTS, DIFFERENCES, UNSUPPORTED, Engines, Outcome, Statement

ONE = pa.table({"x": [1]})
REFUSED = fixed_statements.Failed("no")


def outcome(topic, duckdb, pelton):
    statement = Statement(topic, 1, "SELECT 1", "SELECT 1", "")
    return Outcome(statement, duckdb, pelton, answers.compare(duckdb, pelton))


class Reading(unittest.TestCase):
    def test_a_file_is_cut_at_semicolons_that_end_lines(self):
        text = "-- Of a topic.\n\n-- Why.\nSELECT ';',\n1;\n-- duckdb: SELECT 7 // 2;\nSELECT 7 / 2;\n\nSELECT 2;\n"
        found = list(fixed_statements.parse("topic", text))
        self.assertEqual([statement.place for statement in found], ["topic.sql:4", "topic.sql:7", "topic.sql:9"])
        self.assertEqual([statement.pelton for statement in found], ["SELECT ';',\n1", "SELECT 7 / 2", "SELECT 2"])
        self.assertEqual([statement.duckdb for statement in found], ["SELECT ';',\n1", "SELECT 7 // 2", "SELECT 2"])
        self.assertEqual([statement.reason for statement in found], ["Why.", "Why.", ""])

    def test_a_statement_without_an_end_is_an_error(self):
        with self.assertRaises(ValueError):
            list(fixed_statements.parse("topic", "SELECT 1;\nSELECT 2\n"))

    def test_rows_are_in_sequence_where_the_statement_itself_orders_them(self):
        self.assertTrue(fixed_statements.is_ordered("SELECT (SELECT 1) FROM a\nORDER BY f(x), y LIMIT 2"))
        self.assertFalse(fixed_statements.is_ordered("SELECT rank() OVER (ORDER BY (x)) FROM (SELECT x FROM a ORDER BY x) AS s"))
        self.assertFalse(fixed_statements.is_ordered("SELECT 'ORDER BY x'"))

    def test_no_statement_is_there_twice(self):
        seen = {}
        for statement in fixed_statements.read():
            text = re.sub(r"\s+", " ", statement.pelton)
            self.assertNotIn(text, seen, statement.place)
            seen[text] = statement.place

    def test_each_difference_and_each_defect_has_a_reason(self):
        for statement in fixed_statements.read():
            if statement.topic in (DIFFERENCES, DEFECTS):
                self.assertTrue(statement.reason, statement.place)


class Outcomes(unittest.TestCase):
    def test_a_topic_wants_answers_that_agree(self):
        self.assertIsNone(outcome("joins", ONE, ONE).failure())
        self.assertIsNotNone(outcome("joins", ONE, pa.table({"x": [2]})).failure())
        self.assertIsNotNone(outcome("joins", ONE, REFUSED).failure())
        self.assertIsNotNone(outcome("joins", REFUSED, REFUSED).failure())

    def test_what_is_mended_has_to_move(self):
        self.assertIsNone(outcome(UNSUPPORTED, ONE, REFUSED).failure())
        self.assertIsNotNone(outcome(UNSUPPORTED, ONE, ONE).failure())
        self.assertIsNotNone(outcome(UNSUPPORTED, REFUSED, REFUSED).failure())
        for topic in (DEFECTS, DIFFERENCES):
            self.assertIsNone(outcome(topic, ONE, pa.table({"x": [2]})).failure())
            self.assertIsNotNone(outcome(topic, ONE, ONE).failure())


class BothEngines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            engines = Engines(os.environ["PELTON_PACKAGE"], Path(folder, "warehouse"))
            cls.outcomes = [engines.run(statement) for statement in fixed_statements.read()]
            engines.close()

    def test_each_statement_is_answered_as_its_file_says(self):
        for outcome in self.outcomes:
            with self.subTest(outcome.statement.place):
                self.assertIsNone(outcome.failure(), outcome.text())

    def test_no_answer_depends_on_the_order_of_the_tables(self):
        duckdb = fixed_statements.duckdb({name: backwards(rows) for name, rows in fixed_tables.make().items()})
        for outcome in self.outcomes:
            statement = outcome.statement
            with self.subTest(statement.place):
                again = duckdb.ask(statement.duckdb)
                self.assertIsNone(answers.compare(outcome.duckdb, again, statement.in_sequence), statement.duckdb)


def backwards(rows):
    return rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))


if __name__ == "__main__":
    unittest.main()
