"""What the comparison lets pass and what it catches: `python -m unittest discover tests/oracle`."""

import unittest
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

import statement
from compare import Column, compare, for_scale
from limited import compare_limited


def differ(expected, actual, keys=()):
    """The differences between one-column answers `a`, or between whole tables."""
    as_table = lambda side: side if isinstance(side, pa.Table) else pa.table({"a": side})
    expected, actual = as_table(expected), as_table(actual)
    return compare(expected, actual, [expected.column_names.index(key) for key in keys])


def decimals(*values, scale=2):
    return pa.array([Decimal(value) for value in values], pa.decimal128(20, scale))


class Values(unittest.TestCase):
    def test_widths_of_a_kind_do_not_matter(self):
        self.assertFalse(differ(pa.array([1, None], pa.int32()), pa.array([1, None], pa.int64())))
        self.assertFalse(differ(decimals("1", scale=0), pa.array([1], pa.int64())))
        self.assertFalse(differ(decimals("1.50"), decimals("1.500", scale=3)))
        self.assertFalse(differ(pa.array(["x"]), pa.array(["x"], pa.string_view())))

    def test_decimals_and_integers_are_exact(self):
        self.assertTrue(differ(decimals("123456789012345678.01"), decimals("123456789012345678.02")))
        self.assertTrue(differ(pa.array([2**53], pa.int64()), pa.array([2**53 + 1], pa.int64())))

    def test_floats_may_be_off_by_1e_9(self):
        self.assertFalse(differ(pa.array([1e10]), pa.array([1e10 + 1])))
        self.assertTrue(differ(pa.array([1e10]), pa.array([1e10 + 100])))
        self.assertFalse(differ(pa.array([float("nan")]), pa.array([float("nan")])))
        self.assertTrue(differ(pa.array([float("nan")]), pa.array([1.0])))
        self.assertTrue(differ(pa.array([float("inf")]), pa.array([1.0])))

    def test_a_float_agrees_with_a_decimal_to_its_last_place(self):
        self.assertFalse(differ(pa.array([1 / 3]), decimals("0.333333", scale=6)))
        self.assertTrue(differ(pa.array([1 / 3]), decimals("0.333335", scale=6)))

    def test_null_is_only_null(self):
        self.assertTrue(differ(pa.array([0], pa.int64()), pa.array([None], pa.int64())))
        self.assertTrue(differ(pa.array([""]), pa.array([None], pa.string())))

    def test_dates_are_midnights(self):
        day, midnight = pa.array([date(1998, 3, 1)]), pa.array([datetime(1998, 3, 1)], pa.timestamp("us"))
        self.assertFalse(differ(day, midnight))
        self.assertTrue(differ(day, pa.array([datetime(1998, 3, 1, 0, 0, 1)], pa.timestamp("us"))))

    def test_times_are_compared_in_nanoseconds_whatever_their_unit_or_zone(self):
        instant = lambda value, unit: pa.array([value], pa.int64()).cast(pa.timestamp(unit))
        zoned = instant(5, "us").cast(pa.timestamp("us", "Europe/Berlin"))
        self.assertFalse(differ(instant(5, "us"), zoned))
        self.assertFalse(differ(instant(5, "us"), instant(5_000, "ns")))
        self.assertTrue(differ(instant(5, "us"), instant(5_001, "ns")))

    def test_kinds_do_not_mix(self):
        self.assertTrue(differ(pa.array(["1"]), pa.array([1])))


class Rows(unittest.TestCase):
    def test_order_does_not_matter_without_keys(self):
        self.assertFalse(differ(pa.array([1, 2, None]), pa.array([None, 2, 1])))

    def test_order_of_keys_matters_but_not_that_of_ties(self):
        expected = pa.table({"k": [1, 1, 2], "v": ["a", "b", "c"]})
        self.assertFalse(differ(expected, pa.table({"k": [1, 1, 2], "v": ["b", "a", "c"]}), ["k"]))
        self.assertTrue(differ(expected, pa.table({"k": [2, 1, 1], "v": ["c", "b", "a"]}), ["k"]))

    def test_how_often_a_row_comes_matters(self):
        self.assertTrue(differ(pa.array([1, 1, 2]), pa.array([1, 2, 2])))
        self.assertTrue(differ(pa.array([1, 1]), pa.array([1])))

    def test_rounding_does_not_misalign_rows(self):
        expected = pa.table({"f": [1.0, 1.0 + 1e-12], "name": ["a", "b"]})
        self.assertFalse(differ(expected, pa.table({"f": [1.0 + 1e-12, 1.0], "name": ["a", "b"]})))

    def test_columns_are_counted(self):
        self.assertTrue(differ(pa.table({"a": [1], "b": [1]}), pa.table({"a": [1]})))


class Limited(unittest.TestCase):
    KEYS = [1, 1, 2, 2, 2, 3]
    NAMES = ["a", "b", "c", "d", "e", "f"]

    def wrong(self, names, keys=None, limit=3, offset=1):
        """Of an answer `names`, whose keys are shown where they are given."""
        columns = [Column("name", self.NAMES, names, None)]
        key = Column("key", self.KEYS, keys, None) if keys else None
        return compare_limited(columns + [key] * bool(keys), [(self.KEYS, key)], len(self.KEYS), limit, offset)

    def test_rows_that_tie_at_the_ends_are_free(self):
        for names in (["a", "c", "d"], ["b", "e", "d"]):
            self.assertFalse(self.wrong(names))
            self.assertFalse(self.wrong(names, [1, 2, 2]))

    def test_rows_beyond_the_keys_are_wrong(self):
        self.assertTrue(self.wrong(["a", "c", "f"]))
        self.assertTrue(self.wrong(["a", "c", "x"]))

    def test_no_row_comes_twice(self):
        self.assertTrue(self.wrong(["b", "c", "c"]))

    def test_rows_strictly_within_the_keys_are_needed(self):
        self.assertFalse(self.wrong(["b", "c", "d", "e", "f"], limit=5))
        self.assertTrue(self.wrong(["b", "a", "d", "e", "f"], limit=5))

    def test_keys_that_are_shown_come_in_order(self):
        self.assertTrue(self.wrong(["c", "a", "d"], [2, 1, 2]))
        self.assertTrue(self.wrong(["a", "b", "c"], [1, 1, 2]))

    def test_rows_are_as_many_as_the_limit_leaves(self):
        self.assertTrue(self.wrong(["a", "c"]))
        self.assertFalse(self.wrong(["f"], limit=10, offset=5))
        self.assertFalse(self.wrong([], limit=10, offset=6))
        self.assertTrue(self.wrong(["f"], limit=10, offset=6))


class Queries(unittest.TestCase):
    def test_only_the_final_order_by_counts(self):
        query = statement.parse("select a, b from t\norder by b desc, \"A\"\nlimit 10;\n")
        self.assertEqual(query.key_columns(["a", "b"]), [1, 0])
        self.assertEqual(statement.parse("select sum(x) over (order by y) from t;").keys, [])
        self.assertEqual(statement.parse("select a from t").keys, [])

    def test_keys_are_found_by_alias_expression_or_name(self):
        query = statement.parse("select x, count(*) as c, f(',', y) from t order by count(*), c, f(',', y)")
        self.assertEqual(query.key_columns(["x", "c", "f"]), [1, 1, 2])
        everything = statement.parse('select * from t order by "Time"')
        self.assertEqual(everything.key_columns(["Id", "Time"]), [1])

    def test_a_limit_is_cut_off_and_hidden_keys_are_added(self):
        query = statement.parse('select "A" from t where x like \'% from %\' order by "T" limit 10 offset 5;')
        self.assertEqual((query.limit, query.offset), (10, 5))
        added = 'select "A", "T" from t where x like \'% from %\' order by "T"'
        self.assertEqual(query.with_hidden_keys(["A"]), added)
        self.assertEqual(query.with_hidden_keys(["A", "T"]), query.unlimited)

    def test_the_marked_parameter_follows_the_scale(self):
        self.assertEqual(for_scale("x > 0.0001 /* divided by the scale */", 0.1), "x > 0.0010000000")
        self.assertEqual(for_scale("x > 100000 /* times the scale */", 0.01), "x > 1000")


if __name__ == "__main__":
    unittest.main()
