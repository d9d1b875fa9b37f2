"""`headrace init`: a pipeline file to begin with, and the same in Python and as a Declarative Pipeline."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from headrace.errors import ConfigurationError

_FILES = {
    "pipeline.toml": "the pipeline, for headrace run",
    "pipeline.py": "the same in Python, for spark-submit or python",
    "declarative.py": "the same for Spark Declarative Pipelines (4.1 and newer)",
    "spark-pipeline.yml": "what spark-pipelines needs for it",
}


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--force", is_flag=True, help="Write over files that are there.")
def init(folder: Path, force: bool) -> None:
    """Write a commented pipeline.toml into FOLDER, and its twins in Python and for Spark Declarative Pipelines."""
    there = [name for name in _FILES if (folder / name).exists()]
    if there and not force:
        raise ConfigurationError(
            f"There is a {there[0]} in {folder} already; nothing was written.",
            hint="choose another folder, or --force.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    templates = files("headrace.pipeline") / "templates"
    for name, what in _FILES.items():
        text = (templates / name).read_text()
        (folder / name).write_text(text.replace("FOLDER", folder.absolute().as_uri()))
        click.echo(f"{folder / name}  {what}")
    click.echo(f"Next: headrace run {folder / 'pipeline.toml'}")
