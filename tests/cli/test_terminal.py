"""Names from data cannot steer the terminal, vanish or crash, whatever is in them; JSON is JSON."""

from __future__ import annotations

import ast
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.text import Text

import paredown as pdn
from paredown.cli import terminal
from paredown.cli.terminal import TextTable, compose, emit, say
from paredown.errors import PareError
from paredown.text import encodable, printable, quoted

CLI = Path(terminal.__file__).parent

# What a name may hold -> how it is shown.
HOSTILE = {
    "[/red]": "[/red]",
    "[red]gone": "[red]gone",
    "[link=x]l[/link]": "[link=x]l[/link]",
    "\\[bold]": "\\[bold]",
    "back\\": "back\\",
    "back\\\\\\": "back\\\\\\",
    ":smile:": ":smile:",
    "a{}b{0}": "a{}b{0}",
    "$\\frac$": "$\\frac$",
    "\x1b[8mconceal": "\\x1b[8mconceal",
    "\x1b]0;title\x07": "\\x1b]0;title\\x07",
    "\x9b8mC1": "\\x9b8mC1",
    "carriage\rreturn": "carriage\\rreturn",
    "new\nline": "new\\nline",
    "bell\x07": "bell\\x07",
    "tab\tback\x08": "tab\\tback\\x08",
    "bidi\u202egnp.exe": "bidi\\u202egnp.exe",
    "isolate\u2066x\u2069": "isolate\\u2066x\\u2069",
    "line\u2028sep": "line\\u2028sep",
    "zero\u200bwidth\ufeff": "zero\\u200bwidth\\ufeff",
    "byte\udcff": "byte\\xff",
    "lone\ud800": "lone\\ud800",
    "Größe 大きさ גודל 🙂": "Größe 大きさ גודל 🙂",
    "no\xa0break": "no\xa0break",
}
# Those that a file's name can hold in part: no slash and no byte that is not UTF-8.
IN_NAMES = {name: shown for name, shown in HOSTILE.items() if "/" not in name and encodable(name) == name}
OWN_SEQUENCES = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]")  # colours, cursor, and progress


@pytest.mark.parametrize(("name", "shown"), HOSTILE.items(), ids=ascii)
def test_values_are_shown_and_not_obeyed(name: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printable(name) == shown
    assert printable(Path(name)) == shown
    text = compose("[bold]{}[/] of {:>3}: {}", name, 7, Path(name))
    assert text.plain == f"{shown} of   7: {shown}"
    assert [(span.start, span.end, span.style) for span in text.spans] == [(0, len(shown), "bold")]
    assert compose("<{}>", compose("[red]{}[/]", name)).plain == f"<{shown}>"
    terminal.encode_all()
    say("{}", name)
    assert capsys.readouterr().out == shown + "\n"
    table = TextTable(compose("{}", name), {name: "left"}, caption=compose("{}", name))
    table.add(name)
    table.add(compose("[red]{}[/]", name))
    table.show()
    assert capsys.readouterr().out.count(shown) == 5


def test_values_and_slots_must_match() -> None:
    with pytest.raises(ValueError, match="zip"):
        compose("{}")
    with pytest.raises(ValueError, match="zip"):
        compose("nothing", 1)
    assert compose("{{{}}}", "x").plain == "{x}"
    assert isinstance(compose("plain"), Text)


def test_encodable_text_stays_as_it_is() -> None:
    assert encodable("a\x1b\udcffb") == "a\x1b\\xffb"
    assert encodable("Größe\n") == "Größe\n"


@pytest.mark.parametrize("name", [*HOSTILE, "", "it's", "a b", "'\x1b'", "!history"], ids=ascii)
def test_a_shell_reads_what_was_quoted(name: str) -> None:
    if "\ud800" in name:
        pytest.skip("no byte of a command line is read as this")
    command = b"printf %s " + os.fsencode(quoted(name))
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout == os.fsencode(name)
    assert printable(quoted(name)) == quoted(name)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_json_is_json_whatever_is_in_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [float("nan"), float("inf"), -float("inf"), 0.1, 3, None, True]
    result = {name: [name, (name, *numbers)], "deep": {"x": np.float64("nan")}}
    emit(result, as_json=True, show=lambda: pytest.fail("JSON and nothing else"))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    key = encodable(name)
    printed = capsys.readouterr().out
    printed.encode("ascii")
    assert json.loads(printed, parse_constant=refuse) == {
        key: [key, [key, None, None, None, 0.1, 3, None, True]],
        "deep": {"x": None},
    }


# --- nobody prints in another way ----------------------------------------------------------------------------------

PRINTING = {"print", "echo", "secho", "console", "Console", "print_exc", "print_exception"}


class Misuses(ast.NodeVisitor):
    """Where a module prints by itself, or has a template that was put together of data."""

    def __init__(self, source: str) -> None:
        self.found: list[str] = []
        self.visit(ast.parse(source))

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self._imported([alias.name for alias in node.names])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._imported([node.module or ""])

    def _imported(self, modules: list[str]) -> None:
        self.found += [f"imports {m}" for m in modules if m.split(".")[0] in ("rich", "click", "logging")]

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in PRINTING:
            self.found.append(f"line {node.lineno} uses {node.id}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in PRINTING or ast.unparse(node) in ("sys.stdout", "sys.stderr"):
            self.found.append(f"line {node.lineno} uses {node.attr}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        template = node.args[0] if node.args else None
        if ast.unparse(node.func) in ("say", "aside", "compose") and not self._is_literal(template):
            self.found.append(f"line {node.lineno}: the template is not written out")
        self.generic_visit(node)

    def _is_literal(self, node: ast.expr | None) -> bool:
        if isinstance(node, ast.IfExp):
            return self._is_literal(node.body) and self._is_literal(node.orelse)
        return isinstance(node, ast.Constant)


@pytest.mark.parametrize("file", sorted(CLI.glob("*.py")), ids=lambda file: file.name)
def test_all_that_is_printed_goes_through_the_terminal(file: Path) -> None:
    if file.name not in ("terminal.py", "signals.py"):  # of which the last one has a line to say before rich is there
        assert Misuses(file.read_text()).found == []


def test_the_check_of_what_is_printed_finds_misuse() -> None:
    bad = [
        "print(1)",
        "import rich",
        "from rich.markup import escape",
        "typer.echo('x')",
        "sys.stdout.write('x')",
        "console.print('x')",
        "traceback.print_exc()",
        "say(f'{out}')",
        "say('a' + out)",
        "say(text)",
        "aside('a' if b else c)",
        "def f():\n  compose()",
    ]
    assert [source for source in bad if not Misuses(source).found] == []
    good = "say('a {}' 'b', out)\nif TYPE_CHECKING:\n  from rich.text import Text"
    assert Misuses(good).found == []


# --- whole runs on a terminal --------------------------------------------------------------------------------------


def on_terminal(*command: object, cwd: Path) -> tuple[int, str]:
    """Run a Python command on a terminal of its own; its exit code and all that it printed."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "400", "LINES": "50", "PYTHONUTF8": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not block:
            break
        printed += block
    os.close(ours)
    return process.wait(), printed.decode()


def assert_harmless(printed: str) -> None:
    """Nothing but the command line's own colours, and nothing that cannot be seen."""
    rest = OWN_SEQUENCES.sub("", printed.replace("\r\n", "\n"))
    unseen = {c for c in rest if not c.isprintable() and c not in "\n\xa0"}
    assert unseen <= {"\r"}, sorted(unseen)  # a progress bar begins its line again
    assert "carriage\rreturn" not in rest
    assert "\x1b[8m" not in printed  # that is the data's
    assert "Traceback" not in printed


def paredown_on_terminal(*arguments: object, cwd: Path) -> str:
    code, printed = on_terminal("-m", "paredown", *arguments, cwd=cwd)
    assert code == 0, printed
    assert_harmless(printed)
    return OWN_SEQUENCES.sub("", printed)


def test_progress_and_errors_on_a_terminal(tmp_path: Path) -> None:
    code = (
        "from paredown.cli.terminal import progress_bar, aside; import time, sys\n"
        "for label in eval(sys.argv[1]):\n"
        "    for _ in progress_bar(range(2), label): time.sleep(0.01)\n"
    )
    names = [name for name in HOSTILE if encodable(name) == name]
    status, printed = on_terminal("-c", code, ascii(names), cwd=tmp_path)
    assert status == 0, printed
    assert_harmless(printed)
    assert [name for name in names if HOSTILE[name] not in printed] == []
    missing = "no [/red]\x1b[8m\x07.npy"
    for arguments in (
        ["prune", missing, "-o", "x"],
        ["prune", "x.npy", f"--{missing}"],
        [missing],
        ["theory", missing],
    ):
        status, printed = on_terminal("-m", "paredown", *arguments, cwd=tmp_path)
        assert status == 2
        assert_harmless(printed)
        assert "[/red]\\x1b[8m\\x07.npy" in printed


IMAGES = "im[/red]ages\x1b[8m"  # a folder in another one


@pytest.fixture
def hostile_images(tmp_path: Path) -> Path:
    """A class for every name, whose images have that name too; one image is broken."""
    rng = np.random.default_rng(0)
    folder = tmp_path / IMAGES
    for name in IN_NAMES:
        (folder / name).mkdir(parents=True)
        for copy in range(2):
            Image.fromarray(rng.integers(0, 255, (8, 8), np.uint8)).save(folder / name / f"{name}{copy}.png")
    (folder / "[red]gone" / "broken\x1b[8m[red].png").write_bytes(b"no image")
    return folder


@pytest.mark.usefixtures("hostile_images")
def test_verbs_on_hostile_names(tmp_path: Path) -> None:
    out = "out[red]\x1b[8m\x07"
    quick = ("--encoder", "pixels", "--on-error", "skip")
    said = paredown_on_terminal("embed", IMAGES, "-o", out, *quick, cwd=tmp_path)
    assert "broken\\x1b[8m[red].png" in said
    assert "in out[red]\\x1b[8m\\x07" in said
    said = paredown_on_terminal("score", out, "-o", f"s{out}.parquet", "--k", "3", cwd=tmp_path)
    assert "out[red]\\x1b[8m\\x07 (" in said  # the estimate
    assert "written to sout[red]\\x1b[8m\\x07.parquet" in said
    said = paredown_on_terminal("prune", f"s{out}.parquet", "-o", f"p{out}", "--keep-fraction", "0.5", cwd=tmp_path)
    assert "written to pout[red]\\x1b[8m\\x07" in said
    shown = [name for name in sorted(IN_NAMES) if IN_NAMES[name] in said]
    assert len(shown) == min(len(IN_NAMES), 20), said  # as many as the table has rows
    said = paredown_on_terminal("prune", IMAGES, *quick, "-o", f"q{out}", "--metric", "random", cwd=tmp_path)
    assert "written to qout[red]\\x1b[8m\\x07" in said
    said = paredown_on_terminal("export", f"q{out}", "-o", f"e{out}", "--to", "images", cwd=tmp_path)
    assert "written to eout[red]\\x1b[8m\\x07" in said
    for arguments in (
        ["prune", f"s{out}.parquet", "-o", f"j{out}"],
        ["export", f"p{out}", "--to", "indices", "-o", "n"],
    ):
        printed = subprocess.run(
            [sys.executable, "-m", "paredown", *arguments, "--json"], cwd=tmp_path, check=True, capture_output=True
        ).stdout
        assert json.loads(printed.decode("ascii"))["out"] == arguments[arguments.index("-o") + 1]


def test_a_sweep_of_hostile_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = list(IN_NAMES)
    kinds = 3 * len(names)
    source = tmp_path / "x[red]\x1b[8m.npy"
    np.save(source, rng.standard_normal((kinds, 4)))
    np.save(tmp_path / "test.npy", rng.standard_normal((kinds, 4)))
    np.save(tmp_path / "y.npy", np.array(names * 3))
    own = "own[/red]\x1b[8m$\\frac$"
    np.savetxt(tmp_path / "own.csv", np.arange(kinds), header="score", comments="")
    config = {
        "data": {"source": str(source), "labels": "y.npy", "test": "test.npy", "test_labels": "y.npy"},
        "grid": {"initial_size": kinds, "keep_fraction": [0.3], "seeds": 2, "metric": [own]},
        "student": {"recipe": "linear", "steps": 2},
        "probe": {own: {"metric": "prototypes", "k": 2}},
    }
    toml = "".join(
        f"[{part}]\n" + "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in values.items())
        for part, values in config.items()
    )
    (tmp_path / "sweep.toml").write_text(toml)
    said = paredown_on_terminal("sweep", "sweep.toml", "-o", "out[red]\x1b[8m", "--workers", "1", cwd=tmp_path)
    assert "x[red]\\x1b[8m.npy: 6 students" in said
    assert "own[/red]\\x1b[8m$\\frac$, hard" in said
    assert "Results: out[red]\\x1b[8m/results.parquet" in said
    assert (tmp_path / "out[red]\x1b[8m" / "curves.png").exists()


def test_the_table_of_a_sweep_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    from paredown.cli import sweep_command
    from paredown.sweeps.summary import ComparisonWithRandom

    wide = {"initial_size": 1_281_167, "keep_fraction": 0.125, "matched_iterations": 1.0, "kept": 160_146, "seeds": 4}
    numbers = {"test_error": 0.98765, "stderr": 0.1234, "random_error": 0.8765, "random_stderr": 0.1, "difference": 0.1}
    row = ComparisonWithRandom(
        **wide,
        **numbers,
        metric="supervised_prototypes",
        strategy="stratified",
        balance=0.5,
        difference_stderr=0.12345,
        unpruned_error=0.87654,
    )
    written = io.StringIO()
    monkeypatch.setattr("paredown.cli.terminal._out", Console(file=written, width=80))
    sweep_command._show_way("supervised_prototypes, stratified, floor 0.5", [row])
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    cells = [cell.strip() for cell in lines[-2].strip("│").split("│")]
    assert cells == ["1,281,167", "0.125", "98.77", "87.65", "87.65", "+10.00 ± 12.35", "+0.8"]
    headings = [cell.strip() for cell in lines[2].strip("┃").split("┃")]
    assert headings == ["initial", "keep", "pruned", "random", "unpruned", "pruned - random", "z"]


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def test_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(
        [sys.executable, "-m", "paredown", "simulate", "--alpha-prune", "2", "--draws", "2", "--n-features", "20"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert rb"\xb1" in result.stdout  # the sign for plus or minus


def test_errors_quote_names_as_they_are(paredown) -> None:
    result = paredown("prune", "no[/red].npy", "-o", "x")
    assert result.returncode == 2
    assert "error: no[/red].npy" in result.stderr
    with pytest.raises(PareError, match=r"no\[/red\]"):
        pdn.open_source("no[/red].npy")
