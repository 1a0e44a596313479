"""Result files with made-up numbers, for tests only: they measure nothing and are never shipped."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from h2htalk_harness.baselines import FLOORS
from h2htalk_harness.result import Published
from h2htalk_metric.aggregate import CONFIGS, DIMENSIONS, JUDGED

SIZES = dict.fromkeys(CONFIGS, 40) | {"DialogueBase": 400}
SIGNATURE = "bleu:1-4|tok:13a|smooth:floor0.1|eff:yes|case:mixed|rouge:1,L|rtok:rouge-score|emb:BAAI/bge-m3@made|pool:cls|ss:clip0|agg:mean7|alpha:0.6|tau:3.5|s_scale:5|lang:en|weights:made|compat:made|version:0.1.0"
JUDGE = "judge:made/judge@1|rubric:0123456789ab|temp:0.0|k:1|scale:0-5"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _average(value: float | None, n: int, expected: int) -> dict[str, Any]:
    return {"value": value, "n": n, "expected": expected, "coverage": n / expected, "missing": []}


def _interval(mean: float | None, n: int, half: float = 1.5) -> dict[str, Any] | None:
    if mean is None:
        return None
    return {
        "mean": mean,
        "low": mean - half,
        "high": mean + half,
        "se": half / 2,
        "n": n,
        "n_clusters": n,
        "note": None,
    }


def _view(values: dict[str, float], counts: dict[str, int]) -> dict[str, Any]:
    total = sum(SIZES.values())
    return {
        "configs": {name: _average(values[name], counts[name], SIZES[name]) for name in CONFIGS},
        "dimensions": {
            dimension: _average(sum(values[n] for n in names) / len(names), sum(counts[n] for n in names),
                                sum(SIZES[n] for n in names))
            for dimension, names in DIMENSIONS.items()
        },
        "overall": _average(sum(SIZES[n] * values[n] for n in CONFIGS) / total, sum(counts.values()), total),
    }  # fmt: skip


def results(model: str, level: float, *, seed: int = 0, missing: int = 0, comparable: bool = True,
            signature: str = SIGNATURE, judge: str | None = JUDGE, fingerprint: str = "0123456789abcdef",
            revision: str | None = "abc123", half: float = 1.5) -> dict[str, Any]:  # fmt: skip
    """A results.json whose config scores lie around ``level``."""
    dice = random.Random(f"{model}{seed}")
    s = {name: min(95.0, max(3.0, level + dice.uniform(-6, 6))) for name in CONFIGS}
    lexical = {name: 0.8 * value for name, value in s.items()}
    task = {name: 0.6 * value + 32 if name in JUDGED and judge else value for name, value in s.items()}
    counts = {name: size - (missing if name == "DialogueBase" else 0) for name, size in SIZES.items()}
    parts = {
        "bleu_1": 0.4,
        "bleu_2": 0.3,
        "bleu_3": 0.2,
        "bleu_4": 0.1,
        "rouge_1": 0.5,
        "rouge_l": 0.4,
        "ss": 0.8,
    }
    cells = {}
    for name in CONFIGS:
        judged = name in JUDGED and judge is not None
        cells[name] = {
            "s": s[name] / 100, "s_100": s[name], "s_lexical": lexical[name] / 100, **parts,
            "j": task[name] / 20 if judged else None, "j_100": task[name] if judged else None,
            "human_flag_rate": 0.9 if judged else None, "judge_flag_rate": 0.4 if judged else None,
            "n": counts[name], "n_judged": counts[name] if judged else 0, "expected": SIZES[name],
            "coverage": counts[name] / SIZES[name],
            "task": _average(task[name] if judged or name not in JUDGED else None, counts[name], SIZES[name]),
            "intervals": {
                "s_100": _interval(s[name], counts[name], half), "lexical_100": _interval(lexical[name], counts[name], half),
                "j_100": _interval(task[name], counts[name], half) if judged else None,
                "task_100": _interval(task[name], counts[name], half) if judged or name not in JUDGED else None,
            },
        }  # fmt: skip
    main = _view(task, counts)
    if judge is None:
        for average in (main["dimensions"]["Itinerary"], main["overall"]):
            average |= {"value": None, "missing": list(JUDGED)}
    s_only, lex = _view(s, counts), _view(lexical, counts)
    total = sum(counts.values())
    scores = {
        "s": s_only["overall"]["value"] / 100, "s_100": s_only["overall"]["value"],
        "s_lexical": lex["overall"]["value"] / 100, **parts, "j": None, "j_100": None,
        "human_flag_rate": 0.9 if judge else None, "judge_flag_rate": 0.4 if judge else None,
        "n": total, "n_judged": sum(counts[n] for n in JUDGED) if judge else 0,
        "intervals": {"s_100": _interval(s_only["overall"]["value"], total, half / 2),
                      "lexical_100": _interval(lex["overall"]["value"], total, half / 2), "j_100": None},
        "configs": cells, "dimensions": main["dimensions"], "overall": main["overall"],
        "s_only": s_only, "lexical": lex,
    }  # fmt: skip
    identity = {"model": model, "revision": revision, "embedded": False}
    dataset = {"fingerprint": fingerprint, "prompt_version": "aaaabbbbcccc"}
    sampling = {"max_tokens": 512, "temperature": 0.0, "seed": 0}
    floors = {
        name: {
            "configs": {config: {"s": float(level_), "lexical": level_ * 0.8} for config in CONFIGS},
            "overall": {"s": float(level_), "lexical": level_ * 0.8},
        }
        for name, level_ in zip(FLOORS, (0, 16, 14, 12), strict=True)
    }
    return {
        "schema_version": 1, "harness": "0.1.0", "comparable": comparable,
        "not_comparable_because": [] if comparable else ["the model judged itself"],
        "model": identity,
        "settings": {"model": identity, "dataset": dataset, "configs": list(CONFIGS), "sample": None,
                     "sample_seed": None, "part": None, "sampling": sampling, "sap": None},
        "dataset": dataset | {"sizes": SIZES, "selected": SIZES, "authored_by": "language models; no human votes yet"},
        "signature": signature, "signature_hash": digest(signature),
        "judge": None if judge is None else {
            "signature": judge, "model": identity | {"model": "made/judge"}, "rubric": "0123456789ab",
            "sampling": sampling, "k": 1, "self_judged": False},
        "scores": scores, "floors": floors, "beaten_by_constant": ["DialogueBase"] if level < 16 else [],
        "checks": {name: {"n": counts[name], "checks": 0.8, "all_passed": 0.5, "by_kind": {"max_words": 0.9}}
                   for name in CONFIGS},
        "failures": {"target": {"timeout": missing} if missing else {}, "judge": {}, "judge_unscored": {}},
        "truncated": 0,
        "cost": {"target": {"prompt_tokens": 812345, "completion_tokens": 23456, "usd": 1.25,
                            "price": {"input": 2.5, "output": 10.0, "as_of": "2026-11"}}, "judge": None},
    }  # fmt: skip


def publish(folder: Path, model: str, level: float, *, time: str = "20261120T120000Z",
            answers: list[str] | None = None, **options: Any) -> Path:  # fmt: skip
    """Write a result file where it belongs below ``folder``, with evidence if there are answers."""
    found = results(model, level, **options)
    complete = not options.get("missing")
    value: dict[str, Any] = {"kind": "h2htalk-result", "model_id": model, "time": time, "complete": complete,
                             "evidence": None, "results": found}  # fmt: skip
    path = folder / Published.model_validate(value).path
    path.parent.mkdir(parents=True, exist_ok=True)
    if answers:
        rows = [{"id": f"{config}-{number:04d}", "config": config, "text": text}
                for config in CONFIGS for number, text in enumerate(answers)]  # fmt: skip
        file = path.with_suffix(".parquet")
        pq.write_table(pa.Table.from_pylist(rows), file)
        value["evidence"] = {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "rows": len(rows)}
    path.write_text(json.dumps(value), encoding="utf-8")
    return path
