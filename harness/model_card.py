"""A result for the model's own page: the Markdown block of its card, and the Hub's evaluation entries."""

from __future__ import annotations

from .result import Average, Published, Results


def block(results: Results) -> str:
    """A Markdown block for a model card: the table, the signature, the command."""
    command = command_of(results)
    scores = results.scores
    rows: list[tuple[str, Average]] = [
        *((name, cell.task) for name, cell in scores.configs.items()),
        *((f"{name} average", average) for name, average in scores.dimensions.items()),
        ("**Overall**", scores.overall),
    ]
    lines = ["## H2HTalk", "", "| task | score | n | coverage |", "|---|---:|---:|---:|"]
    for name, average in rows:
        value = "n/a" if average.value is None else f"{average.value:.2f}"
        coverage = "n/a" if average.coverage is None else f"{100 * average.coverage:.0f} %"
        lines.append(f"| {name} | {value} | {average.n} | {coverage} |")
    lines += ["", f"Signature `{results.signature}`", "", f"Dataset `{results.dataset.fingerprint}`"]
    judged = (
        f"Judge `{results.judge.signature}`" if results.judge else "Not judged: levels I-III without score"
    )
    lines += ["", judged]
    if not results.comparable:
        lines += ["", f"**Not comparable**: {'; '.join(results.not_comparable_because)}."]
    lines += ["", "```", command, "```", ""]
    lines += ["Scores say how near answers are to one good answer each; they are no clearance for use with "
              "people in distress."]  # fmt: skip
    return "\n".join(lines) + "\n"


def command_of(results: Results) -> str:
    """The command that makes this result again, with the server's and the judge's address left open."""
    settings = results.settings
    words = ["h2htalk run --model URL"]
    if results.judge:
        words.append("--judge JUDGE")
    if set(settings.configs) != set(results.dataset.sizes):
        words.append(f"--configs {','.join(settings.configs)}")
    if settings.sample is not None:
        words.append(f"--sample {settings.sample} --sample-seed {settings.sample_seed or 0}")
    if settings.sap:
        words.append(f"--sap --sap-principles {','.join(settings.sap.principles)}")
    sampling = settings.sampling
    words.append(f"--max-new-tokens {sampling.max_tokens} --temperature {sampling.temperature:g}")
    if sampling.top_p is not None:
        words.append(f"--top-p {sampling.top_p:g}")
    return " ".join(words)


def eval_results(published: Published, dataset_repo: str, url: str) -> str:
    """The file ``.eval_results/h2htalk.yaml`` for the model's own repository."""
    import yaml
    from huggingface_hub import EvalResultEntry
    from huggingface_hub import eval_result_entries_to_yaml as to_yaml

    results = published.results
    day = f"{published.time[:4]}-{published.time[4:6]}-{published.time[6:8]}"
    judge = results.judge.signature if results.judge else "none"
    notes = f"signature {results.signature_hash}; judge {judge}; dataset {results.dataset.fingerprint}"
    values: dict[str, float | None] = {
        config: cell.task.value for config, cell in results.scores.configs.items()
    }
    values["overall"] = results.scores.overall.value
    entries = [
        EvalResultEntry(
            dataset_id=dataset_repo,
            task_id=task,
            value=round(value, 4),
            date=day,
            source_url=url,
            source_name="H2HTalk results",
            notes=notes,
        )
        for task, value in values.items()
        if value is not None
    ]
    return str(yaml.safe_dump(to_yaml(entries), sort_keys=False, allow_unicode=True, width=110))
