"""A real browser without a window: what a page comes to, and how it looks."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from support.deadlines import PROGRAM_SECONDS

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """Chromium, with a separate profile for each page."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def page(self, url: str, *flags: str, seconds: float = 3.5) -> str:
        """Return the page as HTML, after ``seconds`` of virtual time. A console message fails the test."""
        done = self._run(f"--virtual-time-budget={int(seconds * 1000)}", "--dump-dom", *flags, url)
        complaints = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        assert complaints == [], complaints
        return done.stdout

    def look(self, url: str, image: Path, *flags: str, width: int = 1280, height: int = 1260) -> None:
        """A picture of the page."""
        size = f"--window-size={width},{height}"
        self._run("--virtual-time-budget=2500", f"--screenshot={image}", "--hide-scrollbars", size, *flags, url)

    def _run(self, *flags: str) -> subprocess.CompletedProcess[str]:
        profile = self._folder / f"profile{len(list(self._folder.iterdir()))}"
        always = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--no-first-run"]
        return subprocess.run(
            [self._program, *always, f"--user-data-dir={profile}", *flags],
            check=True,
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
        )


def find_browser(folder: Path) -> Browser:
    """The machine's own; the test is skipped where there is none."""
    for name in NAMES:
        if program := shutil.which(name):
            return Browser(program, folder)
    pytest.skip(f"there is no browser on this machine; one of {', '.join(NAMES)} is needed (apt-get install chromium)")


def corner(image: Path) -> tuple[int, int, int]:
    """The colour of a PNG's first pixel, which is the same under each of the format's filters."""
    content = image.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    (kind,) = struct.unpack(">B", content[25:26])
    assert kind in (2, 6), "neither RGB nor RGBA"
    packed = b""
    at = 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            packed += content[at + 8 : at + 8 + length]
        at += 12 + length
    red, green, blue = zlib.decompressobj().decompress(packed, 8)[1:4]
    return red, green, blue


def text_of(page: str, element: str) -> str:
    """What an element without others inside it says, by its id."""
    found = re.search(rf'<(\w+)[^>]*\bid="{element}"[^>]*>([^<]*)</\1>', page)
    assert found, f"no element {element} in {page[:2000]}"
    return found[2]


def is_hidden(page: str, element: str) -> bool:
    found = re.search(rf'<\w+[^>]*\bid="{element}"[^>]*>', page)
    assert found, f"no element {element} in {page[:2000]}"
    return bool(re.search(r'\bhidden=""', found[0]))
