"""What `headrace doctor` found: one line, or one JSON object, per finding."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click

from headrace.cli.output import print_json

OK, NOTE, WRONG = "ok", "note", "wrong"
_COLORS = {OK: "green", NOTE: "yellow", WRONG: "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        what: What was checked.
        state: ``ok``, ``note`` for a setting that may be intended, ``wrong`` for what prevents pipelines from running.
        message: What was found, and what to do about it.
    """

    what: str
    state: str
    message: str


def print_finding(finding: Finding, *, is_json: bool) -> None:
    """Print a finding, as soon as it is there: some checks take seconds."""
    if is_json:
        print_json(asdict(finding))
        return
    click.secho(f"{finding.state:5} ", fg=_COLORS[finding.state], bold=True, nl=False)
    click.echo(f"{finding.what}: {finding.message}")
