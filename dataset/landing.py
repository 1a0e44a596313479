"""Landing a writer's part: join it with its second reading, number the records, append them.

A part is a folder with ``personas.jsonl`` and ``pairs.jsonl`` (either may be absent) and
``<Config>.jsonl`` files whose records have a ``key`` instead of an id and no provenance. Its reading,
``review.jsonl``, has one line per key::

    {"key": …, "reader": …, "accurate": true, "consistent": true, "compliant": true, "distinct": true,
     "verdict": "keep" | "rewrite" | "drop", "fault": "…", "changes": {field: new value}}

Votes are the reader's judgment of the record as first written; ids are permanent once landed. A key that is
a cell of the plan is noted in ``plan_written.jsonl`` with its id.

Usage: ``python -m h2htalk_data.landing PART DATASET_CARD --author NAME [--check]``
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .catalog import CONFIGS
from .records import Authored, Pair, Persona
from .sources import SourceError, explain, read_lines, record_problems

VOTES = ("accurate", "consistent", "compliant", "distinct")


def _objects(path: Path, problems: list[str]) -> list[tuple[int, dict[str, Any]]]:
    found: list[tuple[int, dict[str, Any]]] = []
    if not path.is_file():
        return found
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            problems.append(f"{path}:{number}: not JSON: {error.msg} at column {error.colno}")
            continue
        if not isinstance(value, dict):
            problems.append(f"{path}:{number}: not an object")
            continue
        found.append((number, value))
    return found


def _reviews(part: Path, problems: list[str]) -> dict[str, dict[str, Any]]:
    reviews: dict[str, dict[str, Any]] = {}
    path = part / "review.jsonl"
    for number, review in _objects(path, problems):
        missing = [name for name in ("key", "reader", "verdict", *VOTES) if name not in review]
        if missing:
            problems.append(f"{path}:{number}: missing {', '.join(missing)}")
        elif review["verdict"] not in {"keep", "rewrite", "drop"}:
            problems.append(f"{path}:{number}: verdict: unknown {review['verdict']!r}")
        elif review["verdict"] == "rewrite" and not review.get("changes"):
            problems.append(f"{path}:{number}: changes: a rewrite needs the changed fields")
        elif review["key"] in reviews:
            problems.append(f"{path}:{number}: key: duplicate {review['key']!r}")
        else:
            reviews[review["key"]] = review
    return reviews


def _next_number(path: Path) -> int:
    if not path.is_file():
        return 1
    ids = [json.loads(line)["id"] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return max((int(identity.rsplit("-", 1)[1]) for identity in ids), default=0) + 1


def _plan(card: Path, problems: list[str]) -> tuple[set[str], set[str]]:
    """Cells of the plan, and those of them that are written."""
    plan, written = (_objects(card / f"{name}.jsonl", problems) for name in ("plan", "plan_written"))
    return {str(cell["cell"]) for _, cell in plan}, {str(cell["cell"]) for _, cell in written}


def read_part(
    part: Path, card: Path, author: str, *, reviewed: bool
) -> tuple[dict[str, list[Authored]], dict[str, str], Counter[str], list[str]]:
    """Records of a part, ready to append, its other lines by file, verdict counts, problems."""
    problems: list[str] = []
    reviews = _reviews(part, problems) if reviewed else {}
    clusters = {record.cluster for _, record in read_lines(card / "pairs.jsonl", Pair, problems)}
    personas = {record.persona_id for _, record in read_lines(card / "personas.jsonl", Persona, problems)}
    lines: dict[str, str] = {}
    cells, written = _plan(card, problems)
    for name, model, key in (("personas", Persona, "persona_id"), ("pairs", Pair, "cluster")):
        path, known = part / f"{name}.jsonl", personas if name == "personas" else clusters
        if not path.is_file():
            continue
        for number, record in read_lines(path, model, problems):
            value = getattr(record, key)
            if value in known:
                problems.append(f"{path}:{number}: {key}: {value!r} exists already")
            if isinstance(record, Pair) and record.persona_id not in personas:
                problems.append(f"{path}:{number}: persona_id: no persona {record.persona_id!r}")
            known.add(value)
            lines[name] = lines.get(name, "") + record.model_dump_json() + "\n"
    verdicts: Counter[str] = Counter()
    keys: set[str] = set()
    landed: dict[str, list[Authored]] = {}
    for config in CONFIGS:
        number = _next_number(card / "scenarios" / f"{config}.jsonl")
        for line, value in _objects(part / f"{config}.jsonl", problems):
            where = f"{part / config}.jsonl:{line}"
            key = str(value.pop("key", ""))
            if not key or key in keys:
                problems.append(f"{where}: key: {'missing' if not key else f'duplicate {key!r}'}")
            keys.add(key)
            review = reviews.get(key)
            if reviewed and review is None:
                problems.append(f"{where}: key: no review of {key!r}")
            verdict = review["verdict"] if review else "keep"
            verdicts[f"{config} {verdict}"] += 1
            if verdict == "drop":
                continue
            votes = []
            if review:
                value.update(review.get("changes") or {} if verdict == "rewrite" else {})
                judged = {name: review[name] for name in VOTES}
                votes = [{"reader": review["reader"], "kind": "language_model", **judged}]
            value |= {
                "id": f"{config}-{number:04d}",
                "provenance": {
                    "author": author,
                    "author_kind": "language_model",
                    "written": datetime.now(timezone.utc).date().isoformat(),
                    "rewritten": verdict == "rewrite",
                    "votes": votes,
                },
            }
            try:
                record = Authored.model_validate(value)
            except ValidationError as error:
                problems += [f"{where} ({key}): {text}" for text in explain(error)]
                continue
            number += 1
            if record.cluster not in clusters:
                problems.append(f"{where} ({key}): cluster: no pair {record.cluster!r}")
            problems += [f"{where} ({key}): {text}" for text in record_problems(record)]
            if key in written:
                problems.append(f"{where}: key: cell {key!r} is written already")
            elif key in cells:
                cell = json.dumps({"cell": key, "id": record.id})
                lines["plan_written"] = lines.get("plan_written", "") + cell + "\n"
            landed.setdefault(config, []).append(record)
    return landed, lines, verdicts, problems


def _line(record: Authored) -> str:
    return record.model_dump_json(exclude_defaults=True) + "\n"


def main() -> None:
    """Check a part (``--check``) or append it to the dataset card; prints one line per problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", type=Path)
    parser.add_argument("card", type=Path)
    parser.add_argument("--author", required=True)
    parser.add_argument("--check", action="store_true", help="only check; a part without a reading is fine")
    parser.add_argument("--dry", action="store_true", help="apply the reading, write nothing")
    options = parser.parse_args()
    landed, lines, verdicts, problems = read_part(
        options.part, options.card, options.author, reviewed=not options.check
    )
    if problems:
        sys.exit("\n".join(problems))
    counts = ", ".join(f"{config} {len(records)}" for config, records in landed.items())
    sys.stdout.write(f"{counts or 'no records'}; verdicts: {dict(verdicts)}\n")
    if options.check or options.dry:
        return
    for name, text in lines.items():
        with (options.card / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(text)
    for config, records in landed.items():
        path = options.card / "scenarios" / f"{config}.jsonl"
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(_line(record) for record in records)


if __name__ == "__main__":
    try:
        main()
    except SourceError as error:
        sys.exit(str(error))
