"""`pelton serve` as the ADBC driver for Flight SQL meets it.

    PELTON=target/release/pelton python -m unittest discover tests/server

A warehouse with a small table is made for the tests, with the command's own `generate` and `load`.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow

import certificate
from serving import Serving

PELTON = os.environ.get("PELTON", "target/release/pelton")
TOKEN = "0123456789abcdef-and-more"
CLIENTS = 20
QUERIES_EACH = 10
MEMORY_LIMIT = 128 << 20
# What the process holds beside the memory of operators, generously.
BESIDE = 350 << 20
FLOOD = "SELECT a.lo_orderkey, b.lo_revenue FROM lineorder a JOIN lineorder b ON a.lo_quantity = b.lo_quantity"

folder: tempfile.TemporaryDirectory
warehouse: pathlib.Path


def setUpModule():
    global folder, warehouse
    folder = tempfile.TemporaryDirectory()
    data = pathlib.Path(folder.name) / "data"
    warehouse = pathlib.Path(folder.name) / "warehouse"
    subprocess.run([PELTON, "generate", "ssb", "--scale", "0.02", "--out", data, "--quiet"], check=True)
    for table in ["customer", "supplier", "part", "date", "lineorder"]:
        load = [PELTON, "load", "--warehouse", warehouse, "--table", table, "--quiet", data / table]
        subprocess.run([str(word) for word in load], check=True)


def tearDownModule():
    folder.cleanup()


def connect(server: Serving, **options) -> flightsql.Connection:
    return flightsql.connect(server.uri, db_kwargs=options or None, autocommit=True)


def answer(connection: flightsql.Connection, sql: str, parameters=None) -> list:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


class OneServer(unittest.TestCase):
    """Tests that share a server."""

    @classmethod
    def setUpClass(cls):
        cls.server = Serving(PELTON, warehouse, "--threads", "2", "--max-queries", "4")
        cls.connection = connect(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.connection.close()
        cls.server.wait_until_free()
        status = cls.server.stop()
        assert status == 0, cls.server.log
        assert "panicked" not in cls.server.log, cls.server.log

    def test_rows_come_as_python_values_and_as_arrow(self):
        sql = "SELECT c_region, count(*) AS n FROM customer GROUP BY c_region ORDER BY c_region"
        rows = answer(self.connection, sql)
        self.assertEqual([region for region, _ in rows], ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"])
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            table = cursor.fetch_arrow_table()
        self.assertEqual(table.schema.field("c_region").type, pyarrow.string())
        self.assertEqual(list(zip(*table.to_pydict().values())), rows)

    def test_every_row_of_a_large_result_arrives(self):
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT * FROM lineorder")
            count = sum(batch.num_rows for batch in cursor.fetch_record_batch())
        self.assertEqual([(count,)], answer(self.connection, "SELECT count(*) FROM lineorder"))

    def test_parameters_are_values_and_never_text_of_the_query(self):
        sql = "SELECT ?, ? + 1, ?"
        self.assertEqual(answer(self.connection, sql, ("'; --", 41, None)), [("'; --", 42, None)])
        one = answer(self.connection, "SELECT count(*) FROM customer WHERE c_region = $1", ("ASIA",))
        self.assertEqual(one, answer(self.connection, "SELECT count(*) FROM customer WHERE c_region = 'ASIA'"))

    def test_a_prepared_statement_runs_again_with_other_values(self):
        with self.connection.cursor() as cursor:
            cursor.adbc_prepare("SELECT count(*) FROM lineorder WHERE lo_discount = $1")
            counts = []
            for discount in range(11):
                cursor.execute("SELECT count(*) FROM lineorder WHERE lo_discount = $1", (discount,))
                counts.append(cursor.fetchone()[0])
        self.assertEqual([(sum(counts),)], answer(self.connection, "SELECT count(*) FROM lineorder"))

    def test_objects_are_listed_to_their_columns(self):
        catalogs = self.connection.adbc_get_objects(depth="all").read_all().to_pylist()
        schemas = {catalog["catalog_name"]: catalog["catalog_db_schemas"] for catalog in catalogs}
        tables = {table["table_name"]: table for table in schemas["pelton"][0]["db_schema_tables"]}
        self.assertEqual(set(tables), {"customer", "supplier", "part", "date", "lineorder"})
        self.assertEqual(tables["part"]["table_type"], "TABLE")
        columns = [column["column_name"] for column in tables["supplier"]["table_columns"]]
        self.assertEqual(columns[0], "s_suppkey")
        some = self.connection.adbc_get_objects(depth="tables", table_name_filter="c%").read_all().to_pylist()
        names = [table["table_name"] for table in some[0]["catalog_db_schemas"][0]["db_schema_tables"]]
        self.assertEqual(names, ["customer"])

    def test_the_schema_of_a_table_is_the_schema_of_its_rows(self):
        for table in ["customer", "lineorder"]:
            announced = self.connection.adbc_get_table_schema(table)
            with self.connection.cursor() as cursor:
                self.assertEqual(cursor.adbc_execute_schema(f"SELECT * FROM {table}"), announced)
                cursor.execute(f"SELECT * FROM {table} LIMIT 1")
                self.assertEqual(cursor.fetch_arrow_table().schema, announced)
        with self.assertRaises(adbc_driver_manager.Error):
            self.connection.adbc_get_table_schema("nowhere")

    def test_facts_and_types_are_told(self):
        self.assertEqual(self.connection.adbc_get_info()["vendor_name"], "Pelton")
        self.assertEqual(self.connection.adbc_get_table_types(), ["TABLE", "VIEW"])

    def test_errors_say_what_the_command_line_would(self):
        for sql, text in [
            ("SELECT * FROM nowhere", "tables in this warehouse: customer"),
            ("SELEC 1", r"1 \| SELEC 1"),
            ("SELECT 1; SELECT 2", "one query expected"),
            ("CREATE VIEW v AS SELECT 1", "--init"),
            ("SELECT ?", "1 parameters"),
        ]:
            with self.subTest(sql), self.assertRaisesRegex(adbc_driver_manager.Error, text):
                answer(self.connection, sql)

    def test_a_cancelled_query_ends_and_frees_its_permit(self):
        before = self.server.metric("pelton_queries_cancelled_total")
        with self.connection.cursor() as cursor:
            cursor.execute(FLOOD)
            next(cursor.fetch_record_batch())
            cursor.adbc_cancel()
        self.server.wait_until_free()
        self.assertEqual(self.server.metric("pelton_queries_cancelled_total"), before + 1)

    def test_a_killed_client_frees_everything(self):
        before = self.server.metric("pelton_queries_cancelled_total")
        client = textwrap.dedent(f"""
            import adbc_driver_flightsql.dbapi as flightsql, sys, time
            connection = flightsql.connect({self.server.uri!r}, autocommit=True)
            cursor = connection.cursor()
            cursor.execute({FLOOD!r})
            batches = cursor.fetch_record_batch()
            next(batches)
            print("reading", flush=True)
            time.sleep(1000)
        """)
        process = subprocess.Popen([sys.executable, "-c", client], stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "reading\n")
        self.assertEqual(self.server.metric("pelton_queries_running"), 1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        self.server.wait_until_free()
        self.assertEqual(self.server.metric("pelton_queries_cancelled_total"), before + 1)
        self.assertIn("cancelled by disconnect", self.server.log)


class Tokens(unittest.TestCase):
    """Who gets in, in the open and encrypted."""

    def check(self, server: Serving, **options):
        option = adbc_driver_flightsql.DatabaseOptions
        bearer = {option.AUTHORIZATION_HEADER.value: f"Bearer {TOKEN}"}
        password = {"username": "ann", "password": TOKEN}
        for right in [bearer, password]:
            with connect(server, **options, **right) as connection:
                self.assertEqual(answer(connection, "SELECT 1"), [(1,)])
                connection.adbc_get_objects(depth="tables").read_all()
        wrong = {option.AUTHORIZATION_HEADER.value: "Bearer guess"}
        for wrong in [wrong, {"username": "ann", "password": "guess"}, {}]:
            with self.assertRaisesRegex(adbc_driver_manager.Error, "(?i)token"):
                with connect(server, **options, **wrong) as connection:
                    answer(connection, "SELECT 1")
        self.assertNotIn(TOKEN, server.log)

    def token_file(self) -> str:
        path = pathlib.Path(folder.name) / "token"
        path.write_text(TOKEN + "\n")
        return str(path)

    def test_a_token_is_asked_for_in_the_open(self):
        with Serving(PELTON, warehouse, "--token-file", self.token_file()) as server:
            self.check(server)

    def test_a_token_is_asked_for_behind_a_certificate_of_ones_own(self):
        cert, key = certificate.write(pathlib.Path(folder.name))
        flags = ["--token-file", self.token_file(), "--tls-cert", str(cert), "--tls-key", str(key)]
        with Serving(PELTON, warehouse, *flags) as server:
            roots = adbc_driver_flightsql.DatabaseOptions.TLS_ROOT_CERTS.value
            self.assertTrue(server.uri.startswith("grpc+tls://"), server.uri)
            self.check(server, **{roots: cert.read_text()})
            with self.assertRaisesRegex(adbc_driver_manager.Error, "(?i)certificate"):
                with connect(server, username="ann", password=TOKEN) as connection:
                    answer(connection, "SELECT 1")


class Crowd(unittest.TestCase):
    """Many clients on little memory."""

    QUERIES = [
        "SELECT count(*), sum(lo_revenue) FROM lineorder",
        "SELECT lo_discount, sum(lo_revenue) FROM lineorder GROUP BY 1 ORDER BY 1",
        "SELECT d_year, sum(lo_revenue) FROM lineorder JOIN date ON lo_orderdate = d_datekey GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM (SELECT lo_orderkey, lo_linenumber, sum(lo_tax) FROM lineorder GROUP BY 1, 2)",
        "SELECT lo_orderkey, lo_linenumber FROM lineorder ORDER BY lo_revenue, lo_orderkey, lo_linenumber LIMIT 20000",
    ]

    def test_two_hundred_queries_of_twenty_clients_are_right_and_within_memory(self):
        flags = ["--memory-limit", str(MEMORY_LIMIT), "--max-queries", "4", "--threads", "2"]
        with Serving(PELTON, warehouse, *flags, "--queue-seconds", "600") as server:
            with connect(server) as connection:
                expected = [answer(connection, sql) for sql in self.QUERIES]
            failures = []

            def client(number: int):
                try:
                    with connect(server) as connection:
                        for turn in range(QUERIES_EACH):
                            index = (number + turn) % len(self.QUERIES)
                            if answer(connection, self.QUERIES[index]) != expected[index]:
                                failures.append(f"wrong answer: {self.QUERIES[index]}")
                except Exception as error:  # an assertion in a thread would be lost
                    failures.append(repr(error))

            threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            server.wait_until_free()
            done = server.metric("pelton_queries_completed_total")
            self.assertEqual(done, CLIENTS * QUERIES_EACH + len(expected))
            peak = server.peak_bytes()
            print(f"{done:.0f} queries, at most {peak >> 20} MiB in use")
            self.assertLess(peak, MEMORY_LIMIT + BESIDE)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
