"""The error hierarchy: its shape, its drawing, and its way through pickle."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

import headrace
from headrace import errors

KINDS = [getattr(errors, name) for name in errors.__all__]

# What a class has beside its message and hint.
ATTRIBUTES = {
    headrace.CommitConflictError: {"retryable": True},
    headrace.TableError: {"table": "events"},
    headrace.WriteTimeoutError: {"batches_written": 3},
}


def drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """The tree in the module's docstring: each name with its parent and the built-in class beside it."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    path: list[str] = []
    for indent, name, builtin in re.findall(
        r"^((?:│   |    )*(?:├── |└── )?)([A-Z]\w+Error)(?: +\((\w+)\))?", errors.__doc__, re.MULTILINE
    ):
        depth = len(indent) // 4
        path[depth:] = [name]
        tree[name] = (path[depth - 1] if depth else None, builtin or None)
    return tree


def real_tree() -> dict[str, tuple[str | None, str | None]]:
    """The same, of the classes themselves."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    for kind in KINDS:
        ours = [base.__name__ for base in kind.__bases__ if issubclass(base, headrace.HeadraceError)]
        builtin = [base.__name__ for base in kind.__bases__ if not issubclass(base, headrace.HeadraceError)]
        is_root = kind is headrace.HeadraceError
        tree[kind.__name__] = (ours[0] if ours else None, None if is_root or not builtin else builtin[0])
    return tree


def test_the_drawing_at_the_top_of_the_module_is_the_real_tree() -> None:
    """S10: the class says what to do next, and the drawing is where a reader learns it."""
    assert drawn_tree() == real_tree()


def test_there_is_one_root_and_every_error_under_it_is_exported() -> None:
    """S10: ``except HeadraceError`` catches all of them, and each can be named."""
    classes = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert classes == set(KINDS)
    assert all(issubclass(kind, headrace.HeadraceError) for kind in KINDS)
    assert all(getattr(headrace, kind.__name__) is kind for kind in KINDS)
    assert {kind.__name__ for kind in KINDS} <= set(headrace.__all__)


def test_every_error_says_in_its_docstring_when_it_is_raised() -> None:
    assert [kind.__name__ for kind in KINDS if not kind.__dict__.get("__doc__")] == []


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (headrace.InvalidArgumentError, ValueError),
        (headrace.ConfigurationError, ValueError),
        (headrace.WriteTimeoutError, TimeoutError),
        (headrace.MissingExtraError, ImportError),
    ],
)
def test_errors_that_python_has_a_class_for_are_caught_by_it(kind, builtin) -> None:
    with pytest.raises(builtin):
        raise kind("of no account")


def test_the_hint_follows_the_message_and_can_be_read_by_itself() -> None:
    error = headrace.PlanError("There is no table 'a'.", hint="register it.")
    assert str(error) == "There is no table 'a'. Hint: register it."
    assert error.hint == "register it."
    assert headrace.PlanError("There is no table 'a'.").hint is None


def example_of(kind: type[headrace.HeadraceError], cause: BaseException | None) -> headrace.HeadraceError:
    error = kind("What went wrong.", hint="what to do.", **ATTRIBUTES.get(kind, {}))
    error.add_note("seen at dawn")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_pickles_with_its_message_hint_attributes_and_cause(kind, protocol: int) -> None:
    """S10: errors cross process boundaries, to a parent process or a driver, and arrive whole."""
    cause = headrace.TableError("Table 'a' failed.", table="a", hint="look.")
    cause.__cause__ = ValueError("the origin", 7)
    error = example_of(kind, cause)
    back = pickle.loads(pickle.dumps(error, protocol))
    assert type(back) is kind
    assert str(back) == str(error)
    assert back.args == error.args
    assert vars(back) == vars(error)
    assert vars(back).keys() >= {"hint", "__notes__", *ATTRIBUTES.get(kind, {})}
    assert type(back.__cause__) is headrace.TableError
    assert (back.__cause__.table, back.__cause__.hint) == ("a", "look.")
    assert type(back.__cause__.__cause__) is ValueError
    assert back.__cause__.__cause__.args == ("the origin", 7)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_can_be_copied(kind) -> None:
    error = example_of(kind, ValueError("the origin"))
    for back in (copy.copy(error), copy.deepcopy(error)):
        assert type(back) is kind
        assert str(back) == str(error)
        assert vars(back) == vars(error)


class UnpicklableError(Exception):
    def __reduce__(self):
        raise TypeError("holds a lock")


class OneWayError(Exception):
    """Pickles and cannot be unpickled, like many exceptions with extra arguments."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


@pytest.mark.parametrize("cause", [UnpicklableError("a"), OneWayError(7, "b")], ids=lambda cause: type(cause).__name__)
def test_an_error_pickles_without_a_cause_that_does_not(cause) -> None:
    """S10: losing the cause is better than losing the error."""
    error = example_of(headrace.TableError, cause)
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error)
    assert back.table == "events"
    assert back.__cause__ is None


def test_an_error_that_was_raised_pickles_without_its_traceback() -> None:
    """S10: a traceback holds frames, and frames hold batches."""
    with pytest.raises(headrace.PlanError) as caught:
        raise headrace.PlanError("What went wrong.") from ValueError("the origin")
    back = pickle.loads(pickle.dumps(caught.value))
    assert back.__traceback__ is None
    assert type(back.__cause__) is ValueError
