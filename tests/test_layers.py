"""Who may import whom, read from the source, and what `import headrace` costs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SRC = Path(__file__).parent.parent / "src"

# Each library below us, and the modules that may know it: a package stands for all that is in it.
MAY_IMPORT = {
    "datafusion": (
        "_session",
        "_dataframe",
        "_scan",
        "_settings",
        "_sources",
        "_engine",
        "_flat",
        "_planner",
        "_pushdown",
    ),
    "lance": ("_sources", "tables"),
    "pyspark": ("spark", "pipeline"),
}

# Each module at the bottom, and all of headrace that it may import.
MAY_IMPORT_OF_HEADRACE = {
    "_errors": set(),
    "_arrow": {"_arrow_schema", "_errors", "_numbers"},
    "_arrow_schema": {"_errors", "_numbers"},
    "_arrow_fill": set(),
    "_async_waiters": set(),
    "_numbers": {"_errors"},
    "_batch_queue": {"_numbers"},
    "_channel": {"_errors", "_arrow", "_async_waiters", "_batch_queue"},
    "_crash": set(),
}

# Each package, and all of headrace outside of it that it may import.
MAY_IMPORT_FROM_OUTSIDE = {
    "tables": {"_errors", "_arrow_fill", "_crash", "_version"},
    "spark": {"_errors", "tables"},
    "pipeline": {"_errors", "spark"},
    "cli": {"_crash", "_errors", "_reader", "_render", "_session", "_version", "pipeline", "spark", "tables", "ui"},
    "ui": {"_errors", "_channel", "pipeline"},
}

# What loads when it is used, and not before. DataFusion is slow to load where pandas is installed: it makes
# pyarrow scalars while it loads, and pyarrow then loads pandas to recognise its values.
LOADED_ON_USE = (
    "datafusion",
    "lance",
    "pyspark",
    "pyarrow",
    "pandas",
    "asyncio",
    "click",
    "rich",
    "msgspec",
    "uvicorn",
)

MAX_IMPORT_SECONDS = 0.2

IMPORTING_CALL = re.compile(r"\b(import_module|__import__)$")


class Import(NamedTuple):
    """One imported name, absolute and dotted, and whether it is imported when its module is."""

    name: str
    at_load: bool


def imports_in(source: str, module: str, *, is_package: bool = False) -> list[Import]:
    """Every import in a module's source; `from a import b` counts as `a.b`, which is also `a`."""
    package = module.split(".") if is_package else module.split(".")[:-1]

    def walk(node: ast.AST, at_load: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (Import(f"{origin}.{alias.name}", at_load) for alias in node.names)
        elif isinstance(node, ast.Call):
            match node.args:
                case [ast.Constant(value=str(name)), *_] if IMPORTING_CALL.search(ast.unparse(node.func)):
                    yield Import(name, at_load)
        at_load = at_load and not runs_later(node)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, at_load)

    return list(walk(ast.parse(source), at_load=True))


def runs_later(node: ast.AST) -> bool:
    """Whether what is inside does not run when the module is imported."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def is_within(name: str, ancestor: str) -> bool:
    return name == ancestor or name.startswith(f"{ancestor}.")


def read_modules() -> dict[str, list[Import]]:
    modules = {}
    for path in sorted((SRC / "headrace").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = imports_in(path.read_text("utf-8"), name, is_package=is_package)
    return modules


MODULES = read_modules()


def modules_of(name: str) -> list[str]:
    """The modules of headrace that importing `name` loads: packages first, the one it lives in last."""
    parts = name.split(".")
    prefixes = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return [prefix for prefix in prefixes if prefix in MODULES]


def imported_of_headrace(module: str) -> set[str]:
    """The modules of headrace that hold what a module imports, at load or later."""
    return {modules_of(found.name)[-1] for found in MODULES[module] if modules_of(found.name)}


def reached_from(module: str, *, at_load: bool) -> set[str]:
    """The modules of headrace that one leads to, itself included: when it is loaded, or ever."""
    reached: set[str] = set()
    ahead = [module]
    while ahead:
        module = ahead.pop()
        if module not in reached:
            reached.add(module)
            names = [found.name for found in MODULES[module] if found.at_load or not at_load]
            ahead += [each for name in names for each in modules_of(name) if each != "headrace"]
    return reached


def test_the_walker_sees_every_spelling_of_an_import() -> None:
    """A rule is worth what the walker sees: absolute, relative, nested, for types only, by function."""
    source = (
        "import lance.dataset as ds\n"
        "from pyarrow import flight\n"
        "from . import _errors\n"
        "from .._arrow import align\n"
        "if TYPE_CHECKING:\n    import pyspark\n"
        "def late():\n    import datafusion\n    importlib.import_module('pandas')\n"
    )
    assert imports_in(source, "headrace.tables.store") == [
        Import("lance.dataset", True),
        Import("pyarrow.flight", True),
        Import("headrace.tables._errors", True),
        Import("headrace._arrow.align", True),
        Import("pyspark", False),
        Import("datafusion", False),
        Import("pandas", False),
    ]
    assert imports_in("from .store import open", "headrace.tables", is_package=True) == [
        Import("headrace.tables.store.open", True)
    ]


@pytest.mark.parametrize("library", MAY_IMPORT)
def test_a_library_below_is_imported_only_by_the_modules_that_may_know_it(library: str) -> None:
    """Holds for imports inside functions and for types too: to name a library is to depend on it."""
    places = [f"headrace.{place}" for place in MAY_IMPORT[library]]
    assert [
        module
        for module, imports in MODULES.items()
        if any(is_within(found.name, library) for found in imports)
        and not any(is_within(module, place) for place in places)
    ] == []


@pytest.mark.parametrize("module", MAY_IMPORT_OF_HEADRACE)
def test_a_module_at_the_bottom_imports_only_what_lies_below_it(module: str) -> None:
    """Errors import nothing of ours, Arrow only errors, the channel only those: no engine in it."""
    allowed = {f"headrace.{name}" for name in MAY_IMPORT_OF_HEADRACE[module]}
    assert imported_of_headrace(f"headrace.{module}") <= allowed


@pytest.mark.parametrize("package", MAY_IMPORT_FROM_OUTSIDE)
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    """Tables know no Spark, and Spark's adapters know no session."""
    allowed = [f"headrace.{name}" for name in (package, *MAY_IMPORT_FROM_OUTSIDE[package])]
    inside = [module for module in MODULES if is_within(module, f"headrace.{package}")]
    assert len(inside) > 1, "the package is empty: is the walk broken?"
    assert [
        (module, found)
        for module in inside
        for found in sorted(imported_of_headrace(module))
        if not any(is_within(found, place) for place in allowed)
    ] == []


def test_nothing_that_the_session_is_built_on_imports_the_session() -> None:
    """Whatever `_session` leads to never points back, be it inside a function or for a type.

    Packages are left out: the session may hand over to one that lies above it.
    """
    reached = reached_from("headrace._session", at_load=False) - {"headrace._session"}
    below = {module for module in reached if module.startswith("headrace._")}
    assert "headrace._errors" in below, "the session is built on nothing: is the walk broken?"
    assert [module for module in sorted(below) if "headrace._session" in imported_of_headrace(module)] == []


def test_no_module_inside_imports_from_the_front_door() -> None:
    """`from headrace import X` inside the package works or fails by the order of imports."""
    assert [module for module in MODULES if "headrace" in imported_of_headrace(module)] == []


def test_what_loads_on_use_is_not_reachable_from_the_front_door_at_load() -> None:
    """Follows the imports that run when `headrace` is imported."""
    loaded = reached_from("headrace", at_load=True)
    assert "headrace._errors" in loaded, "the front door does not lead to the errors: is the walk broken?"
    assert [
        (module, found.name)
        for module in sorted(loaded)
        for found in MODULES[module]
        if found.at_load and any(is_within(found.name, late) for late in LOADED_ON_USE)
    ] == []


def test_importing_headrace_is_quick_and_loads_nothing_that_loads_on_use() -> None:
    """Measured in fresh interpreters, best of three, so that a busy machine does not fail it."""
    program = (
        "import json, sys, time\n"
        "start = time.perf_counter()\n"
        "import headrace\n"
        "print(json.dumps([time.perf_counter() - start, sorted(sys.modules)]))\n"
    )
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)
        for _ in range(3)
    ]
    assert set(LOADED_ON_USE) & set(runs[0][1]) == set()
    assert min(seconds for seconds, _ in runs) < MAX_IMPORT_SECONDS


def test_a_task_of_spark_does_not_load_what_only_a_few_tables_need() -> None:
    """A namespace's client takes a second to load, in every process of every executor."""
    program = "import sys, headrace.spark.sink; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True)
    assert {"lance_namespace_urllib3_client", "datafusion"} & set(done.stdout.split()) == set()


def test_importing_the_sink_for_foreach_batch_loads_neither_lance_nor_spark() -> None:
    """Lance warns when a process that has loaded it forks, as a program does that starts Spark afterwards."""
    program = "import sys, headrace.spark; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert {"lance", "pyspark", "datafusion"} & set(done.stdout.split()) == set()
