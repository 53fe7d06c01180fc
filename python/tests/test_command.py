"""The command that comes with the package, and where the package finds native libraries."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pelton
import pytest
from conftest import ENDLESS

SCRIPT = Path(sys.executable).parent / "pelton"


@pytest.mark.parametrize("command", [[str(SCRIPT)], [sys.executable, "-m", "pelton"]])
def test_the_command_runs_as_script_and_as_module(command: list[str], warehouse: Path) -> None:
    query = ["sql", "--warehouse", str(warehouse), "--format", "csv", "SELECT count(*) AS n FROM trips"]
    done = subprocess.run([*command, *query], capture_output=True, text=True, check=True)
    assert done.stdout == "n\n50000\n"
    failed = subprocess.run([*command, "sql", "SELECT nothing"], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.startswith("pelton: ")
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"pelton {pelton.__version__}\n"


def test_ctrl_c_ends_the_command() -> None:
    running = subprocess.Popen([SCRIPT, "sql", ENDLESS], stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=10)
    assert running.returncode == 130
    assert said == "pelton: cancelled\n"


def test_the_machine_is_described() -> None:
    here = pelton.topology()
    assert set(here) == {"topology", "profile", "notes"}
    assert here["topology"]["nodes"]
    with pytest.raises(pelton.InvalidInputError, match="dgx-a100"):
        pelton.topology("abacus")
    findings = pelton.doctor()["findings"]
    assert any("NVRTC" in str(finding) for finding in findings)


def test_nvrtc_is_looked_for_in_the_wheels_of_this_interpreter(tmp_path: Path) -> None:
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc.so.13").write_text("no library")
    found = run("import pelton, json; print(json.dumps(pelton.doctor()))", PYTHONPATH=str(tmp_path))
    (nvrtc,) = [finding for finding in json.loads(found)["findings"] if finding["name"] == "NVRTC"]
    assert str(folder) in nvrtc["detail"]
    assert nvrtc["fix"] is None


def test_importing_the_package_imports_none_of_those_that_it_feeds() -> None:
    heavy = ["IPython", "numpy", "pandas", "polars", "pyarrow"]
    assert run(f"import pelton, sys; print([name for name in {heavy} if name in sys.modules])") == "[]\n"


def test_a_machine_without_a_gpu_is_told_what_is_missing() -> None:
    assert "CUDA" in run("import pelton; print(pelton.doctor())")
    refusal = run(
        "import pelton\ntry: pelton.connect(device='gpu').sql('SELECT 1')\n"
        "except pelton.UnsupportedError as error: print(error)"
    )
    assert "driver" in refusal or refusal == ""


def run(script: str, **variables: str) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-c", script]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
