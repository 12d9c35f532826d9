"""The facts about every kind of output but tables of scores, as plain values by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paredown.describing.origins import as_time, modified, origin
from paredown.embeddings.store import read_shard
from paredown.errors import PareError
from paredown.output_kinds import Output
from paredown.records import DIGESTS, read_record
from paredown.score_files import SCORES_FOLDER
from paredown.sources.arrays import RECORD

Facts = dict[str, Any]


def resume_advice(path: Path) -> str:
    """What to do about an output that is not complete."""
    name = path.name.removeprefix(".").removesuffix(".parts").removesuffix(".new") or path
    return f"run the command that writes {name} again; it resumes from what is finished"


def _store(output: Output) -> Facts:
    record = read_record(output.path / RECORD)
    if record is None or not isinstance(record.get("settings"), dict):
        raise PareError(
            f"{output.path / RECORD}: the record of this store is missing or damaged; run the command that made it "
            "again."
        )
    settings, complete = record["settings"], bool(record.get("complete"))
    facts = {
        "examples": record.get("examples", settings.get("examples")),
        "classes": len(record.get("classes", ())) or None,
        "dimensions": record.get("dim"),
        "dtype": settings.get("dtype"),
        "encoder": record.get("encoder"),
        "skipped": len(record.get("skipped", ())) or None,
        "source": origin(record.get("images"), modified(output.path / RECORD) if complete else None),
        "paredown": record.get("paredown"),
        "written": as_time(modified(output.path / RECORD)),
        "complete": complete,
        "warnings": record.get("warnings", []),
    }
    if complete:
        return facts | {"parts": {"what": "shards", "done": record.get("shards")}}
    shards = -(-settings.get("examples", 0) // settings.get("shard_size", 1))
    done = sum(read_shard(shard) is not None for shard in output.path.glob("[0-9]*.npy"))
    return facts | {"parts": {"what": "shards", "done": done, "of": shards}}


def _sweep(output: Output) -> Facts:
    from paredown.sweeps.sweeping import PLAN

    settings = read_record(output.path / "settings.json") or {}
    planned = (read_record(output.path / PLAN) or {}).get("runs")
    records = {file.stem: read_record(file) for file in sorted((output.path / "runs").glob("*.json"))}
    ended = [record for name, record in records.items() if record and (planned is None or name in planned)]
    runs = [record["run"] for record in ended if isinstance(record.get("run"), dict)]
    names = ("initial_size", "keep_fraction", "metric", "strategy", "seed")
    return {
        "examples": settings.get("found", {}).get("examples"),
        "parts": {"what": "runs", "done": len(ended)} | ({} if planned is None else {"of": len(planned)}),
        "failed": sum(record.get("status") == "failed" for record in ended) or None,
        "grid": {name: sorted({run[name] for run in runs if run.get(name) is not None}) for name in names},
        "source": origin({"location": settings.get("data", {}).get("source")}, None),
        "paredown": settings.get("paredown"),
        "complete": (output.path / DIGESTS).exists() and (planned is None or len(ended) >= len(planned)),
    }


def _figures(output: Output) -> Facts:
    from paredown.reproduce.base import Claim

    records = [read_record(file) for file in sorted(output.path.glob("*.json"))]
    made = [record for record in records if record is not None and "figure" in record]
    claims = [claim for record in made for claim in record.get("claims", ())]
    # Records of earlier versions only say whether a claim held.
    told = (each.get("verdict") or Claim.judged("", each.get("held"), "").verdict.value for each in claims)
    verdicts = Counter(map(str, told))
    settings = made[0].get("settings", {}) if made else {}
    return {
        "figures": [record["figure"] for record in made],
        "claims": dict(verdicts) or None,
        "size": settings.get("size"),
        "seed": settings.get("seed"),
        "paredown": settings.get("version"),
        "complete": bool(made),
    }


def _score_tables(output: Output) -> Facts:
    """Scores by ranges of rows of which some are missing."""
    return _parts(output) | {"parts": {"what": "tables", "done": sum(1 for _ in output.path.glob("*.parquet"))}}


def _parts(output: Output) -> Facts:
    """What an interrupted run has finished, which the same command resumes from."""
    records = [record for file in sorted(output.path.rglob("*settings.json")) if (record := read_record(file))]
    first = records[0] if records else {}
    return {
        "parts": {"what": "parts", "done": sum(1 for _ in output.path.rglob("*.np[yz]"))},
        "metric": first.get("metric"),
        "source": origin(first.get("source"), None),
        "paredown": first.get("paredown"),
        "complete": False,
    }


def _model(output: Output) -> Facts:
    from paredown.scoring.saved_models import read_model

    model = read_model(output.path)
    return {
        "metric": model.metric,
        "dimensions": model.dim,
        "centroids": len(model.centroids) if "centroids" in model.arrays else None,
        "classes": None if model.classes is None else len(model.classes),
        "options": model.provenance.get("options") or None,
        "source": origin(model.provenance.get("source"), modified(output.path)),
        "seed": model.provenance.get("seed"),
        "paredown": model.provenance.get("paredown"),
        "written": as_time(modified(output.path)),
        "complete": True,
        "warnings": list(model.model.report().get("warnings", ())),
    }


def _recording(output: Output) -> Facts:
    from paredown.recorder import Recorder

    recorder = Recorder.load(output.path)
    coverage = recorder.coverage()
    return {
        "examples": recorder.n_examples,
        "classes": recorder.n_classes,
        "members": len(coverage.epochs),
        "epochs": len({epoch for seen in coverage.epochs.values() for epoch in seen}),
        "observations": list(coverage.observations),
        "unseen": len(coverage.unseen) or None,
        "written": as_time(modified(output.path)),
        "complete": True,
    }


def _encoder(output: Output) -> Facts:
    return {
        "files": {"number": 1, "bytes": output.path.stat().st_size},
        "written": as_time(modified(output.path)),
        "complete": True,
    }


OUTPUT_FACTS: dict[str, Callable[[Output], Facts]] = {
    "store of embeddings": _store,
    "sweep": _sweep,
    "set of figures": _figures,
    "unfinished run": _parts,
    SCORES_FOLDER: _score_tables,
    "unfinished training": _parts,
    "model": _model,
    "recording": _recording,
    "encoder": _encoder,
}
