"""A `pelton serve` process for tests, and what its metrics say."""

import os
import pathlib
import re
import subprocess
import threading
import time
import urllib.request

PATIENCE_S = 120


class Serving:
    """A server on free ports; stopped with `stop` or at the end of a `with` block."""

    def __init__(self, pelton: str, warehouse: pathlib.Path, *flags: str):
        ports = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        environment = {name: value for name, value in os.environ.items() if name != "PELTON_TOKEN"}
        command = [pelton, "serve", "--warehouse", str(warehouse), *ports, *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.log = ""
        self.uri = self._first(r"(grpc(?:\+tls)?://[^;\s]+)")
        self.metrics_url = self._first(r"(http://\S+/metrics)")
        self.reader = threading.Thread(target=self._keep_log, daemon=True)
        self.reader.start()

    def _first(self, pattern: str) -> str:
        for line in self.process.stderr:
            self.log += line
            if found := re.search(pattern, line):
                return found.group(1)
        raise AssertionError(f"the server ended: {self.log}")

    def _keep_log(self):
        for line in self.process.stderr:
            self.log += line

    def metric(self, name: str) -> float:
        """The sum over the labels of a metric; 0 where it is not there."""
        with urllib.request.urlopen(self.metrics_url) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(name + r"[{ ]", line))

    def wait_for_metric(self, name: str, value: float):
        end = time.monotonic() + PATIENCE_S
        while (found := self.metric(name)) != value:
            assert time.monotonic() < end, f"{name} is {found}, not {value}"
            time.sleep(0.02)

    def wait_until_free(self):
        for name in ["pelton_queries_running", "pelton_queries_queued", "pelton_memory_used_bytes"]:
            self.wait_for_metric(name, 0)

    def peak_bytes(self) -> int:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024

    def stop(self) -> int:
        """Asks the server to stop; its exit status."""
        self.process.terminate()
        status = self.process.wait(PATIENCE_S)
        self.reader.join()
        self.process.stderr.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stderr.close()
