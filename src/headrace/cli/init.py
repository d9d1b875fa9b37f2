"""`headrace init`: write an example pipeline as a TOML file, in Python, and as a Spark Declarative Pipeline."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from headrace.errors import ConfigurationError

_FILES = {
    "pipeline.toml": "the pipeline, for headrace run",
    "pipeline.py": "the same pipeline in Python, for python or spark-submit",
    "declarative.py": "the same pipeline for Spark Declarative Pipelines (Spark 4.1 or newer)",
    "spark-pipeline.yml": "the project file of declarative.py, for spark-pipelines",
}


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def init(folder: Path, force: bool) -> None:
    """Write an example pipeline into FOLDER.

    Writes a commented pipeline.toml, and the same pipeline in Python and for Spark Declarative Pipelines.
    """
    existing = [name for name in _FILES if (folder / name).exists()]
    if existing and not force:
        raise ConfigurationError(
            f"{folder / existing[0]} already exists; nothing was written.",
            hint="choose another folder, or overwrite with --force.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    templates = files("headrace.pipeline") / "templates"
    for name, what in _FILES.items():
        text = (templates / name).read_text()
        (folder / name).write_text(text.replace("FOLDER", folder.absolute().as_uri()))
        click.echo(f"{folder / name}  {what}")
    click.echo(f"Next: headrace run {folder / 'pipeline.toml'}")
