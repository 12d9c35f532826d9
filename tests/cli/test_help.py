"""What `--help` shows, and what an unknown option is answered with."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import get_args

import pytest
import typer

import paredown as pdn
from paredown.cli.app import as_option, near_options
from paredown.cli.run import app
from paredown.clustering.kernels import KERNELS
from paredown.embeddings.embedding import STORED_DTYPES
from paredown.embeddings.encoders import ENCODERS
from paredown.errors import PareError, argument
from paredown.exporting import EXPORTS
from paredown.perceptron.sampling import HARDNESS, PROBE_KINDS, SIMULATED_STRATEGIES
from paredown.projection import LAYOUTS
from paredown.reproduce import SIZES
from paredown.scoring.run_plan import ITEM_BYTES
from paredown.selection import STRATEGIES
from paredown.sources import OnError
from paredown.theory import THEORY_STRATEGIES
from paredown.training.recipes import RECIPES

# The options of every verb that users' scripts may rely on; none may disappear.
_OPTIONS = {
    "": "--debug --install-completion --show-completion --version",
    "compare": "--balance --json --keep-fraction --metric --out --overwrite --seed --strategy --top -o",
    "demo": "--json --out --repeats --seed -o",
    "embed": "--column --download --dtype --encoder --epochs --flip --ids --image-size --json --labels --memory "
    "--no-flip --on-error --out --overwrite --runtime --seed --shard-size --split --train-encoder "
    "--trust-source --weights --workers -o",
    "prune": "--address --balance --column --drop-hardest --embeddings --encoder --engine --epochs --exact --ids "
    "--json --k --keep-fraction --kernel --labels --members --memory --metric --mix-random --model --on-error "
    "--option --out --overwrite --pseudo-labels --quota --recipe --save-model --seed --split --strategy "
    "--trust-source --warm-start --workers -o",
    "export": "--ids --json --link --out --overwrite --shard-size --source --to --trust-source -o",
    "report": "--balance --embeddings --exhibits --json --keep-fraction --map --metric --out --overwrite --seed "
    "--source --strategy --texts --trust-source -o",
    "reproduce": "--all --data --dry-run --json --out --overwrite --seed --size --workers -o",
    "score": "--address --column --embeddings --encoder --engine --epochs --exact --from --higher-is --ids --json --k "
    "--kernel --labels --members --memory --metric --model --on-error --option --out --overwrite --pseudo-labels "
    "--recipe --save-model --seed --shard --split --trust-source --warm-start --workers -o",
    "merge": "--json",
    "plan": "--core-speed --dim --dtype --json --k --memory --metric --option --read-speed --rows --workers",
    "simulate": "--alpha-prune --draws --hardness --json --keep-fraction --n-features --probe --probe-epochs --seed "
    "--strategy --theta --window --workers",
    "sweep": "--address --engine --json --out --retry-failed --workers -o",
    "theory": "--alpha-prune --alpha-tot --json --keep-fraction --min-keep-fraction --strategy --theta --window",
    "info": "--json",
    "verify": "--json",
    "clean": "--dry-run --json --unfinished",
}
_VERBS = sorted(set(_OPTIONS) - {""})


def test_the_options_of_every_verb_are_listed() -> None:
    assert set(typer.main.get_command(app).commands) == set(_VERBS)  # type: ignore[attr-defined]


@pytest.fixture
def help_of(paredown, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)

    def show(*verb: str) -> str:
        result = paredown(*verb, "--help")
        assert result.returncode == 0, result.stderr
        return result.stdout

    return show


@pytest.mark.parametrize("verb", _OPTIONS)
def test_no_option_has_disappeared(verb) -> None:
    group = typer.main.get_command(app)
    command = group.commands[verb] if verb else group  # type: ignore[attr-defined]
    assert set(_OPTIONS[verb].split()) <= {option for p in command.params for option in p.opts + p.secondary_opts}


@pytest.mark.parametrize("verb", _VERBS)
def test_every_verb_shows_an_example_and_flags_without_a_type(verb, help_of) -> None:
    shown = help_of(verb)
    assert shown.count(f"paredown {verb}") > 1  # once in the usage
    assert not re.search(
        r"<\w+|BOOLEAN|\{\w+\}|INTEGER", shown.partition("Arguments")[2] or shown.partition("Options")[2]
    )


def test_the_first_help_fits_a_screen(help_of) -> None:
    shown = help_of()
    assert len(shown.splitlines()) <= 48
    assert [line.split()[1] for line in shown.splitlines() if re.match(r"│ [a-z]", line)] == (
        [
            "demo",
            "embed",
            "score",
            "merge",
            "plan",
            "compare",
            "prune",
            "export",
            "report",
            "info",
            "sweep",
            "theory",
            "simulate",
            "reproduce",
            "verify",
            "clean",
        ]
    )


def test_options_are_in_groups(help_of) -> None:
    panels = lambda verb: re.findall(r"╭─ (\w+)", help_of(verb))
    common = ["Metric", "Training", "Input", "Scale", "Advanced"]
    assert panels("prune") == ["Arguments", "Basics", "Selection", *common]
    assert panels("score") == ["Arguments", "Basics", *common]
    assert panels("compare") == ["Arguments", "Basics", "Selection", "Advanced"]
    assert panels("theory") == ["Basics", "Selection", "Advanced"]
    assert panels("simulate") == ["Basics", "Selection", "Training", "Scale", "Advanced"]
    assert panels("embed") == ["Arguments", "Basics", "Training", "Input", "Scale", "Advanced"]


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("prune", [*pdn.METRICS, *STRATEGIES, *KERNELS, *RECIPES, "proportional"]),
        ("score", [*pdn.METRICS, *KERNELS, *RECIPES]),
        ("embed", [*ENCODERS, "onnx", "torch", *STORED_DTYPES, *get_args(OnError)]),
        ("export", [*EXPORTS, "symbolic"]),
        ("reproduce", [*SIZES]),
        ("compare", [*STRATEGIES]),
        ("plan", [*ITEM_BYTES, *KERNELS]),
        ("report", [*LAYOUTS, "none", *STRATEGIES]),
        ("theory", [*(name for name in THEORY_STRATEGIES if name != "density")]),  # for which there is no option
        ("simulate", [*SIMULATED_STRATEGIES, *PROBE_KINDS, *HARDNESS]),
    ],
)
def test_choices_are_those_of_the_registries(verb, names, help_of) -> None:
    assert set(names) <= set(re.findall(r"[\w:/]+[\w]", help_of(verb)))


def test_help_imports_no_registry() -> None:
    code = (
        "import sys; from paredown.cli.run import run; run(['--help']); "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'paredown.metrics.registry', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [("--keep", ["--keep-fraction"]), ("--force", ["--overwrite"]), ("--metrics", ["--metric"]), ("--zzz", [])],
)
def test_near_options(given, meant) -> None:
    assert near_options(given, _OPTIONS["prune"].split()) == meant


def test_an_unknown_option_is_answered_with_the_near_one(paredown) -> None:
    result = paredown("prune", "x.npy", "--keep", "0.5", "-o", "pruned")
    assert result.returncode == 2
    assert "no such option: --keep. Did you mean --keep-fraction?" in result.stderr


@pytest.mark.parametrize(
    ("named", "in_python", "as_options"),
    [
        (argument("keep_fraction"), "keep_fraction", "--keep-fraction"),
        (argument("overwrite", True), "overwrite=True", "--overwrite"),
        (argument("on_error", "skip"), "on_error='skip'", "--on-error skip"),
        (argument("split", "my set"), "split='my set'", "--split 'my set'"),
        (argument("labels", ...), "labels=...", "--labels"),
        (argument("balance", 0), "balance=0", "--balance 0"),
        (argument("start"), "start", "--warm-start"),
        (argument("closed_form", True), "closed_form=True", "--option closed_form=true"),
        (argument("restarts"), "restarts", "--option restarts"),
        (argument("subset", 0.7), "subset=0.7", "--option subset=0.7"),
        (argument("columns", {"id": "NAME"}), "columns={'id': 'NAME'}", "--column id=NAME"),
        (argument("column", "NAME"), "column='NAME'", "--column score=NAME"),
    ],
)
def test_messages_name_arguments_in_python_and_options_on_the_command_line(named, in_python, as_options) -> None:
    inner = PareError(f"give {named}.")
    assert str(inner) == f"give {in_python}."
    assert str(PareError(f"x: {inner.message}")) == f"x: give {in_python}."
    assert inner.with_arguments(as_option) == f"give {as_options}."
