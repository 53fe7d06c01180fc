"""One round: tables of its own, a thousand cases over them, on DuckDB, on Pelton's CPU and as kernels of the host target.

```text
    case ─┬─ DuckDB ──────────────┐
          ├─ Pelton, CPU ─────────┴─ compare ─ known difference? ─ shrink ─ report
          │
          └─ what kernels can compute: expressions some forty to a kernel, statements one by one ─ compare with the CPU
```

A kernel of the host target takes about a second to compile. That is why expressions share one, and why only so many
statements of a round run there. A batch that disagrees or fails is cut in halves until the expression stands alone.
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import answers
import cases
import differences
import tables
from engines import DuckDB, Failed, Pelton
from shrink import shrink

EXPRESSIONS_OF_A_BATCH = 40


class Round:
    def __init__(self, options, number, folder):
        self.options, self.number, self.folder = options, number, folder
        # Beside the folder, which goes when a round fails.
        self.at = Path(options.scratch, f"at-{number}")
        # Kernels of random sources are of no use to anybody else.
        os.environ["PELTON_CACHE"] = str(folder / "cache")
        made = tables.make(Random(f"{options.seed}/{number}"))
        self.duckdb = DuckDB()
        tables.give_to_duckdb(self.duckdb, made)
        self.cpu = Pelton(options.package, folder / "warehouse", "cpu")
        tables.store(self.cpu.connection, made)
        tables.show_in_place(self.cpu.connection, made, folder)
        self.host = Pelton(options.package, folder / "warehouse", "host")
        self.counts, self.excused, self.failures = Counter(), Counter(), []
        self.batch = []

    # ---- CPU beside DuckDB

    def check(self, number):
        """Runs one case and returns what the CPU gave, or None where that is no measure for the host target."""
        case = cases.make(self.options.seed, self.number, number)
        expected, actual = self.duckdb.ask(case.duckdb()), self.cpu.ask(case.pelton())
        found = answers.compare(expected, actual, case.in_sequence)
        self.counts["cases"] += 1
        self.counts["errors"] += isinstance(expected, Failed)
        if found is None:
            return case, actual
        name = differences.excuse(case, expected, actual, found)
        if name:
            self.excused[name] += 1
            return case, None
        self.report(number, case, "DuckDB", self.differs_from_duckdb, found)
        return case, None

    def differs_from_duckdb(self, case):
        expected, actual = self.duckdb.ask(case.duckdb()), self.cpu.ask(case.pelton())
        found = answers.compare(expected, actual, case.in_sequence)
        return found and not differences.excuse(case, expected, actual, found)

    # ---- the host target beside the CPU

    def check_statement_on_host(self, number, case, expected):
        sql = case.pelton(all_stored=True)
        if not self.host.runs_on_device(sql):
            return
        self.counts["statements on the host target"] += 1
        found = answers.compare(expected, self.host.ask(sql), case.in_sequence)
        if found:
            self.report(number, case, "the host target", self.differs_on_host, found)

    def differs_on_host(self, case):
        sql = case.pelton(all_stored=True)
        return answers.compare(self.cpu.ask(sql), self.host.ask(sql), case.in_sequence)

    def check_batch_on_host(self, batch):
        """`batch`: (number, case, what the CPU gave) of expressions that kernels can compute."""
        columns = ", ".join(f"{case.node.pelton()} AS x{index}" for index, (_, case, _) in enumerate(batch))
        outcome = self.host.ask(f"SELECT id, {columns} FROM w WHERE id >= 0")
        if isinstance(outcome, Failed):
            return self.halves(batch, outcome)
        for index, (number, case, expected) in enumerate(batch):
            found = answers.compare(expected, outcome.select([0, index + 1]))
            if found:
                self.report(number, case, "the host target", self.differs_on_host_alone, found)

    def check_error_on_host(self, number, case):
        """What fails on the CPU fails in a kernel; alone, for it would take a batch with it."""
        self.counts["errors on the host target"] += 1
        found = self.differs_on_host_alone(case)
        if found:
            self.report(number, case, "the host target", self.differs_on_host_alone, found)

    def halves(self, batch, outcome):
        if len(batch) == 1:
            number, case, _ = batch[0]
            return self.report(number, case, "the host target", self.differs_on_host_alone, outcome.text)
        middle = len(batch) // 2
        self.check_batch_on_host(batch[:middle])
        self.check_batch_on_host(batch[middle:])

    def differs_on_host_alone(self, case):
        sql = case.pelton() + " WHERE id >= 0"
        return answers.compare(self.cpu.ask(sql), self.host.ask(sql))

    # ---- the process

    def report(self, number, case, beside, still_fails, found):
        small = shrink(case, still_fails)
        self.failures.append(
            {
                "case": f"{self.number}.{number}",
                "beside": beside,
                "found": found,
                "made": case.pelton(),
                "pelton": small.pelton(),
                "duckdb": small.duckdb(),
                "answers": {
                    "DuckDB": answers.text(self.duckdb.ask(small.duckdb()), case.in_sequence),
                    "Pelton, CPU": answers.text(self.cpu.ask(small.pelton()), case.in_sequence),
                    "Pelton, host target": answers.text(self.host.ask(small.pelton(all_stored=True)), case.in_sequence),
                },
            }
        )

    def run(self, numbers):
        for number in numbers:
            # Where the process dies, this says on what.
            self.at.write_text(f"{self.number}.{number}")
            case, answer = self.check(number)
            if answer is None:
                continue
            if isinstance(case, cases.Expression):
                self.take_expression(number, case, answer)
            elif self.counts["statements on the host target"] < self.options.host_statements:
                self.check_statement_on_host(number, case, answer)
        if self.batch:
            self.check_batch_on_host(self.batch)

    def take_expression(self, number, case, answer):
        """Runs it as a kernel, where it can be one and there is time: what has an answer with others, an error alone."""
        is_error = isinstance(answer, Failed)
        if is_error and self.counts["errors on the host target"] == self.options.host_errors:
            return
        if not self.host.runs_on_device(case.pelton() + " WHERE id >= 0"):
            return
        if is_error:
            return self.check_error_on_host(number, case)
        self.counts["expressions on the host target"] += 1
        self.batch.append((number, case, answer))
        if len(self.batch) == EXPRESSIONS_OF_A_BATCH:
            self.check_batch_on_host(self.batch)
            self.batch = []


def main(options, number):
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="differential-", dir=options.scratch) as folder:
        one = Round(options, number, Path(folder))
        one.run(range(options.cases_per_round) if options.case is None else [options.case])
        result = {"counts": one.counts, "excused": one.excused, "failures": one.failures, "seconds": time.monotonic() - started}
        Path(options.scratch, f"round-{number}.json").write_text(json.dumps(result))
    sys.stdout.flush()
    # Threads of both engines may be at work still; nobody waits for them.
    os._exit(0)
