"""The house: arrows app -> analysis -> traces, one noun a file, nothing that shadows another package."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import analysis
import app
import traces
from tests.places import ROOT

PACKAGES = {"traces": 0, "analysis": 1, "app": 2}
HEAVY = {"streamlit", "altair", "numba", "polars", "duckdb", "pyarrow", "tiktoken"}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The top-level names that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.add((node.module or "").split(".")[0])
    return found


def test_arrows_point_down() -> None:
    for package, level in PACKAGES.items():
        for path in modules(package):
            up = {name for name in imported(path) if PACKAGES.get(name, -1) > level}
            assert not up, f"{path.relative_to(ROOT)} imports {up}"


def names() -> dict[str, Path]:
    """Dotted name of every module and package -> its file."""
    every = (path for package in PACKAGES for path in modules(package))
    dotted = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in every}
    return {name.removesuffix(".__init__"): path for name, path in dotted.items()}


def imports_of(path: Path, known: dict[str, Path], everywhere: bool) -> set[str]:
    """The project's modules that a file imports: in the whole file, or at import time only."""
    tree = ast.parse(path.read_text("utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known.keys() or {node.module} & known.keys()
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known.keys()
    return found


def room(name: str) -> str:
    """The room of a module: the folder below its package; a family of formats is a room of its own."""
    parts = name.split(".")
    return ".".join(parts[: 3 if parts[:2] == ["traces", "formats"] else 2])


def assert_acyclic(graph: dict[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"cycle: {' -> '.join((*way, name))}"
        if name in done:
            return
        for other in sorted(graph.get(name, ())):
            visit(other, (*way, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_no_import_cycles_between_files() -> None:
    """Imports inside functions count: a cycle that is only put off is a cycle."""
    known = names()
    assert_acyclic({name: imports_of(path, known, everywhere=True) - {name} for name, path in known.items()})


FORMATS = ["table", "lengths", "hashes", "gateways", "claude_code", "agents"]
ROOMS = {
    "traces": [
        *("source", "text", "records", "usage", "transcripts", "calls"),
        *(f"formats.{family}" for family in FORMATS),
        *("tree", "divergence", "dataset", "intake", "synth"),
    ],
    "analysis": [
        *("kernel", "store", "peers", "headline", "replica", "fleet", "why"),
        *("policies", "sessions", "money", "profile", "findings", "export"),
    ],
    "app": ["widgets", "visit", "commands", "views"],
}
"""The rooms of each package from the ground up: a room imports from those before it."""
OUTSIDE = {"traces.schema", "traces.digests", "traces.formats", "app.cli", "app.streamlit_app", *PACKAGES}
"""Modules that belong to no room."""


def test_rooms_import_downward() -> None:
    known = names()
    for name, path in known.items():
        package, _, inside = room(name).partition(".")
        if name in OUTSIDE or room(name) in OUTSIDE:
            continue
        assert inside in ROOMS[package], f"{name} lies in no room of {package}"
        floor = ROOMS[package].index(inside)
        for other in imports_of(path, known, everywhere=True) - OUTSIDE:
            where, _, below = room(other).partition(".")
            if where == package:
                assert ROOMS[package].index(below) <= floor, f"{name} imports {other}, which is above it"


MOST_ENTRIES, MOST_LINES = 15, 300


def test_folders_fit_on_a_screen() -> None:
    for package in (*PACKAGES, "tests"):
        for folder in (ROOT / package, *(ROOT / package).rglob("*")):
            if folder.is_dir() and "__pycache__" not in folder.parts and "samples" not in folder.parts:
                entries = [p.name for p in folder.iterdir() if p.name not in ("__pycache__", "__init__.py")]
                assert len(entries) <= MOST_ENTRIES, f"{folder.relative_to(ROOT)} has {len(entries)} entries"


def test_analysis_never_draws_or_prints() -> None:
    for path in modules("analysis"):
        assert not imported(path) & {"streamlit", "altair", "click"}, path
        calls = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def test_traces_knows_nothing_of_questions() -> None:
    for path in modules("traces"):
        assert not imported(path) & {"duckdb", "altair", "streamlit", "click"}, path


def test_ray_is_imported_in_one_place() -> None:
    users = [p.name for package in PACKAGES for p in modules(package) if "ray" in imported(p)]
    assert users == ["executors.py"]


def test_no_drawer_for_odds_and_ends() -> None:
    for package in PACKAGES:
        for path in modules(package):
            assert path.stem not in {"utils", "util", "common", "helpers", "helper", "manager", "misc"}, path
            assert path.parent.name != "pages", "a folder named pages breaks deep links"


def test_no_module_in_app_shadows_another() -> None:
    """`streamlit run app/` puts app/ first on the path."""
    names = {p.stem for p in (ROOT / "app").glob("*.py")} - {"__init__"}
    taken = set(sys.stdlib_module_names) | HEAVY | {"click", "numpy", "pandas"}
    assert not names & taken


def test_packages_are_ours() -> None:
    """PyPI has packages called traces, analysis and app."""
    for package in (traces, analysis, app):
        assert Path(str(package.__file__)).is_relative_to(ROOT)


def test_files_have_one_noun() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for package in PACKAGES
        for p in modules(package)
        if (n := len(p.read_text("utf-8").splitlines())) > MOST_LINES
    }
    assert not long


def test_help_imports_nothing_heavy() -> None:
    import subprocess

    code = "import sys, app.cli; app.cli.group.main(['--help'], standalone_mode=False); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(out.splitlines()[-1].split())
