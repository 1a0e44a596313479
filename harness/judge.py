"""Judge: the levels I-III by a rubric text per level, J_judge in [0, 5] (Eq. 3's second term).

The candidate's text is data: it stands between marks it cannot forge, and the rubric says so. A reply
without a readable verdict is asked for once more, then recorded as unscored with its reason.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from h2htalk_metric.aggregate import JUDGED

from .backends.base import Sampling
from .client import Client, FailedError
from .cost import BudgetSpentError, Meter
from .data import Dataset
from .errors import StoreError
from .models import Connected
from .progress import Progress
from .provenance import environment, now
from .run import Counts, ended, error_row, served
from .shards import ShardPool
from .store import ERRORS, GENERATIONS, JUDGE_MANIFEST, JUDGMENTS, RunFolder, read_rows, write_json
from .thinking import strip
from .verdict import Verdict, parse
from .work import each

RUBRICS: Final = Path(__file__).parent / "rubrics"
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "score": {"type": "number", "minimum": 0, "maximum": 5},
    },
    "required": ["reason", "score"],
    "additionalProperties": False,
}
# Generous: a judge that thinks first must not run out before its verdict.
SAMPLING: Final = Sampling(max_new_tokens=1024)


@dataclass(frozen=True)
class Rubrics:
    """Rubric text by config, what a judge is asked with again, and a digest over all of it."""

    texts: dict[str, str]
    again: str
    example: dict[str, str]
    digest: str


def rubrics(folder: Path = RUBRICS) -> Rubrics:
    """Read the rubric of every judged config, each followed by the common verdict form."""
    verdict = (folder / "_verdict.md").read_text(encoding="utf-8").strip()
    texts = {
        config: f"{(folder / f'{config}.md').read_text(encoding='utf-8').strip()}\n\n{verdict}"
        for config in JUDGED
    }
    again = (folder / "_again.md").read_text(encoding="utf-8").strip()
    example = (folder / "_example.json").read_text(encoding="utf-8")
    parts = [*(f"{config}\0{texts[config]}" for config in JUDGED), again, example]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return Rubrics(texts, again, json.loads(example), digest)


def neutralise(text: str) -> str:
    """``text`` with the marks' brackets replaced, so that it cannot end its own frame."""
    return text.replace("<<<", "‹‹‹").replace(">>>", "›››")


def _frame(task: str, answer: str) -> str:
    return (
        f"<<<TASK\n{neutralise(task)}\nTASK>>>\n\n<<<ANSWER\n{neutralise(answer)}\nANSWER>>>\n\n"
        "Judge the answer. JSON object only."
    )


def question(rubric: str, row: dict[str, Any], answer: str) -> list[dict[str, str]]:
    """The messages for judging ``answer`` to the scenario ``row``."""
    task = "\n\n".join(message["content"] for message in row["messages"])
    return [{"role": "system", "content": rubric}, {"role": "user", "content": _frame(task, answer)}]


def question_again(texts: Rubrics, messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """The same question once more, for the number alone and with the form shown on an example.

    The unreadable reply is left out: small models only go on with it. A judge that answers the first
    question never sees the example, so it anchors nobody who can do without.
    """
    system, last = messages
    frame = _frame(texts.example["task"], texts.example["answer"])
    return [
        system,
        {"role": "user", "content": f"{frame}\n{texts.again}"},
        {"role": "assistant", "content": texts.example["verdict"]},
        {"role": "user", "content": f"{last['content']}\n{texts.again}"},
    ]


def response_format(kind: str) -> dict[str, Any]:
    """Request fields that make a server keep to the verdict's schema, where it can."""
    if kind != "openai":
        return {}
    schema = {"name": "verdict", "schema": SCHEMA, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def signature(settings: dict[str, Any], snapshots: list[str]) -> str:
    """What names a judge: results with different judge signatures never share a ranking."""
    model = settings["model"]
    name = f"{model['model']}@{model['revision']}" if model.get("revision") else str(model["model"])
    items = {
        "judge": name,
        "snapshot": "+".join(sorted(snapshots)) or "unknown",
        "rubric": settings["rubric"],
        "temp": settings["sampling"]["temperature"],
        "k": settings["k"],
        "scale": "0-5",
    }
    return "|".join(f"{key}:{str(value).replace(':', '_').replace('|', '_')}" for key, value in items.items())


@dataclass(frozen=True)
class _Bench:
    """What judging one answer needs, the same for all of them."""

    client: Client
    meter: Meter
    folder: RunFolder
    texts: Rubrics
    sampling: Sampling
    extra: dict[str, Any]
    counts: Counts
    progress: Progress

    async def ask(
        self, messages: list[dict[str, str]], tokens: dict[str, int | None]
    ) -> tuple[Verdict, dict[str, Any]]:
        """A verdict, asked for at most twice; what it takes is added to ``tokens`` at once."""
        raw: list[str] = []
        verdict = Verdict(None, "", "parse_failure")
        model = ""
        for asked, fields in ((messages, self.extra), (question_again(self.texts, messages), {})):
            answer = await self.client.ask(asked, self.sampling, self.meter, fields)
            completion = answer.completion
            model = served(completion.model)
            raw.append(completion.text)
            for name, count in tokens.items():
                more: int | None = getattr(completion, name)
                # A count that a server leaves out is unknown from then on, and not zero.
                tokens[name] = None if count is None or more is None else count + more
            stripped = strip(completion.text)
            if stripped.unfinished or (completion.finish_reason == "length" and "{" not in stripped.text):
                verdict = Verdict(None, "", "truncated")
            else:
                verdict = parse(stripped.text)
            if verdict.unscored is None:
                break
        return verdict, {"raw": raw, "served": model}

    async def judge(self, row: dict[str, Any], generation: dict[str, Any]) -> None:
        """Judge one generation of the scenario ``row`` and record the outcome."""
        messages = question(self.texts.texts[row["config"]], row, generation["text"])
        tokens: dict[str, int | None] = {"prompt_tokens": 0, "completion_tokens": 0}
        try:
            verdict, got = await self.ask(messages, tokens)
        except FailedError as error:
            self.folder.append(ERRORS, error_row("judge", generation["id"], error) | tokens)
            self.counts.failed += 1
            self.progress.advance(failed=True)
            return
        except BudgetSpentError:
            if tokens["prompt_tokens"] != 0:
                # The first of two questions was paid for, and a later session must know of it.
                spent = {"id": generation["id"], "role": "judge", "kind": "budget", "at": now(), **tokens}
                self.folder.append(ERRORS, spent)
            raise
        judgment = {
            "id": generation["id"],
            "config": generation["config"],
            "score": verdict.score,
            "reason": verdict.reason,
            "unscored": verdict.unscored,
            **got,
            **tokens,
        }
        self.folder.append(JUDGMENTS, judgment)
        self.counts.done += 1
        self.progress.advance(failed=verdict.score is None)


async def judge(
    dataset: Dataset,
    kind: str,
    connected: Connected,
    folder: RunFolder,
    meter: Meter,
    progress_for: Callable[[str, int, int, ShardPool], Any],
    *,
    sampling: Sampling = SAMPLING,
    self_judged: bool = False,
) -> Counts:
    """Judge every generation of the levels I-III that has no judgment yet.

    Args:
        kind: how the judge is reached (``openai`` judges are held to the verdict's JSON schema).
        self_judged: the judge is the model under test, which the results then say.

    Raises:
        SettingsError: the folder was judged by another judge or rubric before.
        ServerError, StoreError: see ``run.generate``.
    """
    texts = rubrics()
    model = {name: value for name, value in connected.model.items() if name != "engine"}
    settings = {
        "model": model,
        "rubric": texts.digest,
        "sampling": sampling.payload(),
        "k": 1,
        "self_judged": self_judged,
    }
    manifest = folder.settle(JUDGE_MANIFEST, {"settings": settings, "sessions": []})
    judged = dataset.only(JUDGED)
    rows = {row["id"]: row for row in judged.stream()}
    done = folder.done(JUDGMENTS)
    generations = [row for row in read_rows(folder.path / GENERATIONS) if row["config"] in JUDGED]
    strangers = [row["id"] for row in generations if row["id"] not in rows]
    if strangers:
        raise StoreError(f"{folder.path / GENERATIONS}: {strangers[0]} is not in the dataset")
    todo = [row for row in generations if row["id"] not in done]
    counts = Counts(total=len(generations), before=len(generations) - len(todo))
    session: dict[str, Any] = {"started": now(), "environment": environment()}
    client = connected.client
    began = time.monotonic()
    try:
        with progress_for("judge", len(todo), counts.before, client.pool) as progress:
            extra = response_format(kind)
            bench = _Bench(client, meter, folder, texts, sampling, extra, counts, progress)
            await each(todo, lambda generation: bench.judge(rows[generation["id"]], generation), client.pool)
    finally:
        session |= ended(connected, counts, began)
        manifest["prices"] = {**manifest.get("prices", {}), **meter.listed()}
        manifest["sessions"] = [*manifest.get("sessions", []), session]
        write_json(folder.path / JUDGE_MANIFEST, manifest)
    return counts
