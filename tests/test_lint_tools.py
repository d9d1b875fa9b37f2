"""What `make lint` finds in prose and in links."""

from __future__ import annotations

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


def test_the_check_fails_if_a_file_has_a_listed_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a.md"
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "files", lambda: ["a.md"])
    page.write_text("Again.")
    assert words.main() == 0
    assert capsys.readouterr().out == ""
    page.write_text("Again.\nAnew.")
    assert words.main() == 1
    assert capsys.readouterr().out == "a.md:2: 'Anew': write again, from scratch\n"


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
