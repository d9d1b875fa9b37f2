"""What `make lint` finds in prose and in links."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import links
import words

LISTED = words.load()


def found(path: str, text: str) -> list[tuple[int, str]]:
    return [(word.line, word.text) for word in words.find(path, text, LISTED)]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.md", "Made anew."),
        ("a.py", "x = 1  # Made anew."),
        ("a.py", 'x = "Made anew."'),
        ("a.py", 'x = f"Made {x!r} anew."'),
        ("a.py", 'def f():\n    """Made anew."""'),
        ("a.py", "def test_tables_are_made_anew(): ..."),
    ],
)
def test_a_listed_word_is_found_wherever_there_is_prose(path: str, text: str) -> None:
    assert [word for _, word in found(path, text)] == ["anew"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "anew = told"),
        ("a.py", 'f"{anew}"'),
        ("a.py", 'x = "a process of its"; own = 1'),
        ("a.md", "`anew` is a name, and renewed is another word."),
    ],
)
def test_code_and_names_are_not_prose(path: str, text: str) -> None:
    assert found(path, text) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.md", "\nA process of\nits own."),
        ("a.py", "\n# A process of\n# its own.\n"),
        ("a.py", '\nx = ("A process of "\n    f"its own.")\n'),
        ("a.py", '\n"""A process of\nits own."""\n'),
    ],
)
def test_a_phrase_is_found_across_lines_and_reported_where_it_begins(path: str, text: str) -> None:
    assert found(path, text) == [(2, "of its own")]


def test_a_finding_has_its_place_the_word_and_what_to_write_instead() -> None:
    (word,) = words.find("docs/a.md", "One.\n\nDeleted for good.", LISTED)
    assert str(word) == "docs/a.md:3: 'for good': write permanently"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the check on a.md with a text, and a baseline beside it that allows one word."""
    baseline = tmp_path / "baseline.json"
    baseline.write_text('{"a.md": 1}')
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "BASELINE", baseline)
    monkeypatch.setattr(words, "files", lambda: ["a.md"])

    def run(text: str, *options: str) -> int:
        (tmp_path / "a.md").write_text(text)
        monkeypatch.setattr("sys.argv", ["words.py", *options])
        return words.main()

    return run


def test_a_file_may_keep_the_words_it_had_and_gain_none(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("Anew.") == 0
    assert capsys.readouterr().out == ""
    assert run("Anew.\nAnew.") == 1
    assert "a.md:2: 'Anew': write" in capsys.readouterr().out
    assert run("Again.") == 0
    assert "make words-lower" in capsys.readouterr().out


def test_the_baseline_is_lowered_and_never_raised(run: Callable[..., int], tmp_path: Path) -> None:
    run("Anew.\nAnew.", "--lower")
    assert json.loads((tmp_path / "baseline.json").read_text()) == {"a.md": 1}
    run("Again.", "--lower")
    assert json.loads((tmp_path / "baseline.json").read_text()) == {}
    assert run("Anew.") == 1


def test_links_to_missing_files_and_headings_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# Push, pull: `sql()`\n[1](page.md) [2](#push-pull-sql) [3](https://example.org)\n"
        "[4](gone.md)\n[5](#gone)\n[6](../outside.md)\n```\n[7](gone.md)\n```\n"
    )
    assert [line.partition(":")[2] for line in links.broken(page)] == [
        "3: gone.md: no such file in the repository",
        "4: #gone: no such heading",
        "5: ../outside.md: no such file in the repository",
    ]
