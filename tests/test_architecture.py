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


def test_no_import_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in modules(package):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            graph[name] = set()
            for node in ast.parse(path.read_text("utf-8")).body:  # at import time only
                if isinstance(node, ast.ImportFrom) and node.module:
                    graph[name] |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
                elif isinstance(node, ast.Import):
                    graph[name] |= {a.name for a in node.names}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"cycle: {' -> '.join((*way, name))}"
        if name in done:
            return
        for other in graph[name] & graph.keys():
            visit(other, (*way, name))
        done.add(name)

    for name in graph:
        visit(name, ())


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
        if (n := len(p.read_text("utf-8").splitlines())) > 400
    }
    assert not long


def test_help_imports_nothing_heavy() -> None:
    import subprocess

    code = "import sys, app.cli; app.cli.group.main(['--help'], standalone_mode=False); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(out.splitlines()[-1].split())
