"""The main job on a machine with nothing: build, serve the embedded model, run, judge, score, report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from . import data, pipeline
from .backends.base import Sampling
from .errors import HarnessError
from .models import Connection, ModelSpec
from .run import Plan
from .store import MANIFEST, read_json

# Lengths that two cores can generate in a few minutes; a real run has no reason to be so short.
TARGET: Final = Sampling(max_new_tokens=64)
JUDGE: Final = Sampling(max_new_tokens=40)


def _set_aside(out: Path, fingerprint: str) -> None:
    """Keep a demo of an older dataset under its fingerprint, so that a new one can be made."""
    manifest = read_json(out / MANIFEST)
    if manifest is None:
        return
    theirs = manifest["settings"]["dataset"]["fingerprint"]
    if theirs != fingerprint:
        out.rename(out.with_name(f"{out.name}-{theirs}-{int(time.time())}"))


def demo(out: Path, sample: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Run ``sample`` scenarios of every config through the embedded model and score them.

    Raises:
        HarnessError: sources wrong, packages of the extra ``embedded`` missing, or most answers failed.
    """
    from h2htalk_data.build import build
    from h2htalk_data.paths import card_folder, metric_folder

    from .embedded import CONCURRENCY, EMBEDDER

    try:
        built = build(card_folder(), metric_folder(), Path())
    except (ValueError, OSError) as error:
        raise HarnessError(str(error)) from error
    say(f"built {sum(built.counts.values())} scenarios, fingerprint {built.fingerprint}")
    _set_aside(out, built.fingerprint)
    dataset = data.load(str(built.folder), data.parse_configs(None), sample=sample)
    plan = Plan(dataset, data.parse_configs(None), sample, 0, TARGET, None)
    spec = ModelSpec("embedded")
    connection = Connection(concurrency=CONCURRENCY, read_timeout=600.0)
    judging = pipeline.Judging(spec, connection, JUDGE)
    say("serving the embedded model (the first answer takes a while) …")
    counts, _ = asyncio.run(pipeline.run_and_judge(plan, out, spec, connection, judging, say))
    results = pipeline.score_and_report(out, dataset, EMBEDDER)
    if counts.failure_share > 0:
        raise pipeline.TooManyFailuresError(f"some scenarios have no answer, see {out / 'errors.jsonl'}")
    return results
