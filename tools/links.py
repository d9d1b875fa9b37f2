"""Checks that every link in Markdown leads to a file of the repository, and to a heading in it. Fetches nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)|^\[[^\]]+\]: (\S+)|\b(?:href|src)=\"([^\"]+)\"", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:", re.IGNORECASE)


def broken(path: Path) -> Iterator[str]:
    """Each link of a file that leads nowhere, with its line."""
    text = _without_fences(path)
    for match in _LINK.finditer(text):
        link = next(filter(None, match.groups()))
        if _ELSEWHERE.match(link):
            continue
        file, _, anchor = unquote(link).partition("#")
        target = (path.parent / file).resolve() if file else path.resolve()
        line = text.count("\n", 0, match.start()) + 1
        if not target.is_relative_to(ROOT) or not target.exists():
            yield f"{path.relative_to(ROOT)}:{line}: {link}: no such file in the repository"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{path.relative_to(ROOT)}:{line}: {link}: no such heading"


def anchors(path: Path) -> set[str]:
    """The anchors that hosting sites make of a file's headings."""
    text = _without_fences(path)
    seen: Counter[str] = Counter()
    found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in _HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def _without_fences(path: Path) -> str:
    return _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), path.read_text("utf-8"))


def main() -> int:
    """Check every Markdown file that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in sorted(set(listed.split("\0"))) if name and (ROOT / name).is_file()]
    found = [line for path in paths for line in broken(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
