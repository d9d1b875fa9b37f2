"""Find the Java that Spark uses, and check that it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from headrace.errors import MissingExtraError

OLDEST = 17

_HINT = (
    "install it with apt install openjdk-17-jre-headless, dnf install java-17-openjdk-headless or brew install "
    "openjdk@17; if it is installed, set JAVA_HOME."
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> tuple[str, int]:
    """Return the path of the Java that Spark will use, and its major version.

    Raises:
        MissingExtraError: There is no Java, or it cannot be run.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise MissingExtraError(f"Spark needs Java {OLDEST} or newer, but no Java was found.", hint=_HINT)
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        where = f"{java} (JAVA_HOME is {home})" if home else java
        raise MissingExtraError(f"Spark needs Java, but {where} cannot be run: {error}", hint=_HINT) from error
    found = _VERSION.search(done.stderr + done.stdout)
    return java, int(found[1]) if found else 0


def require_java() -> None:
    """Check that there is a Java, and that it is new enough.

    Raises:
        MissingExtraError: There is no Java, it cannot be run, or it is too old.
    """
    java, version = find_java()
    if version < OLDEST:
        raise MissingExtraError(f"Spark needs Java {OLDEST} or newer, but {java} is Java {version}.", hint=_HINT)
