"""The systemd unit: systemd accepts it, and headrace accepts its command."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli import exit_codes
from headrace.cli.run import run
from support.deadlines import PROGRAM_SECONDS
from support.deployed import DEPLOY

UNIT = DEPLOY / "headrace@.service"


def unit() -> configparser.ConfigParser:
    """The unit. A name that appears twice keeps its last value."""
    found = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read(UNIT, "utf-8")
    return found


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """C27: without a word about a name that it does not know."""
    if not (program := shutil.which("systemd-analyze")):
        pytest.skip("there is no systemd-analyze on this machine (apt-get install systemd)")
    text, found = re.subn(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text("utf-8"), flags=re.MULTILINE)
    assert found == 1
    (tmp_path / UNIT.name).write_text(text)
    done = subprocess.run(
        [program, "verify", str(tmp_path / "headrace@orders.service")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_SECONDS,
        env=os.environ | {"SYSTEMD_LOG_LEVEL": "warning"},
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_headrace_accepts_the_command_of_the_unit() -> None:
    """C27: the options are those of this version, and the run stays until it is stopped."""
    program, command, *arguments = shlex.split(unit()["Service"]["ExecStart"])
    assert (Path(program).name, command) == ("headrace", run.name)
    port = re.findall(r"Environment=HEADRACE_UI_PORT=(\d+)", UNIT.read_text("utf-8"))
    assert port == ["0"]
    filled = [each.replace("${HEADRACE_UI_PORT}", *port) for each in arguments]
    given = run.make_context("run", filled).params
    assert (given["pipeline"], given["once"], given["ui"]) == (Path("pipeline.toml"), False, 0)


def test_the_unit_restarts_what_a_restart_can_help() -> None:
    """C27: neither a wrong file nor a missing Java; and a stop is no failure."""
    service = unit()["Service"]
    assert service["Restart"] == "on-failure"
    assert {int(code) for code in service["RestartPreventExitStatus"].split()} == {
        exit_codes.MISUSED,
        exit_codes.MISSING,
    }
    assert int(service["SuccessExitStatus"]) == exit_codes.TERMINATED == 128 + signal.SIGTERM


def test_the_unit_sends_sigterm_to_headrace_alone() -> None:
    """C27: Spark's processes would die in the middle of the last epoch."""
    assert unit()["Service"]["KillMode"] == "mixed"
    assert "KillSignal" not in unit()["Service"]


def test_logrotate_rotates_the_log_of_a_run() -> None:
    """C27: the file stays open, so it is copied."""
    text = (DEPLOY / "headrace.logrotate").read_text("utf-8")
    assert "/.headrace/*.log {" in text
    assert "copytruncate" in text.split()
