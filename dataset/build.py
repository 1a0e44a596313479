"""Build the Hub dataset and the metric folder, and fill the local Hugging Face caches with them.

Data files are named by their content, because `datasets` keys its cache for a local folder by the
card's metadata alone: a changed source gives another file name, another key and never an old answer.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from . import rows as row_maker
from . import table
from .catalog import CONFIGS
from .sources import SourceError

DATASET = "h2htalk"
METRIC = "h2htalk_score"
MANIFEST = "fingerprint.json"
# What goes to the Hub as it stands; the figures are drawn by `h2htalk stats --write`.
_COPIED = ("CANARY", "eval.yaml", "statistics.json", "figures/*.png")
# The Hub's own classes of size, by their upper ends.
_SIZES = {1_000: "n<1K", 10_000: "1K<n<10K"}


@dataclass(frozen=True)
class Built:
    """What a build wrote. ``counts``: rows by config; ``fingerprint``: of the whole dataset."""

    folder: Path
    metric_folder: Path
    fingerprint: str
    prompt_version: str
    counts: dict[str, int]


def split_card(text: str, path: Path) -> tuple[dict[str, Any], str]:
    """YAML front matter and body of a Hub card.

    Raises:
        SourceError: if there is no front matter or it is not YAML.
    """
    if not text.startswith("---\n") or "\n---\n" not in text[4:]:
        raise SourceError([f"{path}: no YAML front matter"])
    head, body = text[4:].split("\n---\n", 1)
    try:
        metadata = yaml.safe_load(head)
    except yaml.YAMLError as error:
        raise SourceError([f"{path}: front matter is not YAML: {error}"]) from error
    return dict(metadata), body


def _feature(kind: Any) -> dict[str, Any]:
    """A field of ``dataset_info.features`` for an Arrow type, in the form Hub cards use."""
    if kind.equals(pa.string()) or kind.equals(pa.int32()) or kind.equals(pa.bool_()):
        return {"dtype": str(kind)}
    if pa.types.is_struct(kind):
        return {"struct": [{"name": kind[i].name, **_feature(kind[i].type)} for i in range(kind.num_fields)]}
    item = _feature(kind.value_type)
    return {"list": item["struct"] if "struct" in item else item["dtype"]}


def _card(source: Path, files: dict[str, Path], counts: dict[str, int], folder: Path) -> str:
    metadata, body = split_card(source.read_text(encoding="utf-8"), source)
    version = str(metadata.pop("version"))
    metadata["size_categories"] = [next(name for n, name in _SIZES.items() if sum(counts.values()) < n)]
    features = [{"name": field.name, **_feature(field.type)} for field in table.SCHEMA]
    metadata["configs"] = [
        {
            "config_name": config,
            "data_files": [{"split": "test", "path": files[config].relative_to(folder).as_posix()}],
        }
        for config in CONFIGS
    ]
    metadata["dataset_info"] = [
        {
            "config_name": config,
            "version": version,
            "features": features,
            "splits": [
                {
                    "name": "test",
                    "num_bytes": files[config].stat().st_size,
                    "num_examples": counts[config],
                }
            ],
            "download_size": files[config].stat().st_size,
            "dataset_size": files[config].stat().st_size,
        }
        for config in CONFIGS
    ]
    head = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=110)
    return f"---\n{head}---\n{body}"


def _replace(new: Path, target: Path) -> None:
    """Put ``new`` where ``target`` is; a reader sees the old folder or the new one."""
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    if target.exists():
        os.replace(target, old)
    os.replace(new, target)
    shutil.rmtree(old, ignore_errors=True)


def build_dataset(card: Path, out: Path) -> tuple[str, str, dict[str, int]]:
    """Write ``out`` from the authored files in ``card``; fingerprint, prompt version, counts.

    Raises:
        SourceError, PromptError: nothing is written then and the old folder stays.
    """
    rows = row_maker.rows(card)
    digests = {config: row_maker.digest(rows[config]) for config in CONFIGS}
    counts = {config: len(rows[config]) for config in CONFIGS}
    prompt_version = next(row["prompt_version"] for config in CONFIGS for row in rows[config])
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.new-", dir=out.parent))
    try:
        temporary.chmod(0o755)
        files = {
            config: temporary / "data" / config / f"test-{digests[config][:16]}.parquet" for config in CONFIGS
        }
        for config in CONFIGS:
            table.write(rows[config], files[config])
        (temporary / "README.md").write_text(
            _card(card / "README.md", files, counts, temporary), encoding="utf-8"
        )
        for path in (path for pattern in _COPIED for path in sorted(card.glob(pattern))):
            target = temporary / path.relative_to(card)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
        manifest = {
            "fingerprint": row_maker.fingerprint(digests),
            "prompt_version": prompt_version,
            "configs": {
                config: {
                    "n": counts[config],
                    "sha256": digests[config],
                    "file": files[config].relative_to(temporary).as_posix(),
                }
                for config in CONFIGS
            },
        }
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        _replace(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return str(manifest["fingerprint"]), prompt_version, counts


def build_metric(source: Path, out: Path) -> str:
    """Copy the metric's files to ``out`` and stamp them with their digest, which is returned.

    `evaluate` hashes a module's code without comments; the stamp makes every change show.
    """
    names = sorted(
        path.name
        for path in source.iterdir()
        if path.suffix in {".py", ".md", ".txt"} and path.name not in {"__init__.py"}
    )
    state = hashlib.sha256()
    for name in names:
        state.update(name.encode() + b"\0" + (source / name).read_bytes())
    stamp = state.hexdigest()[:16]
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.new-", dir=out.parent))
    try:
        temporary.chmod(0o755)
        for name in names:
            shutil.copyfile(source / name, temporary / name)
        with (temporary / f"{METRIC}.py").open("a", encoding="utf-8") as file:
            file.write(f'\nSOURCE_DIGEST = "{stamp}"\n')
        _replace(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return stamp


def fill_dataset_cache(folder: Path) -> None:
    """Make ``load_dataset("h2htalk", config)`` work offline from any folder.

    Older builds are removed first: `datasets` would answer a bare name with the newest by time of
    change, which is not always the last build.
    """
    datasets = importlib.import_module("datasets")
    shutil.rmtree(Path(datasets.config.HF_DATASETS_CACHE) / DATASET, ignore_errors=True)
    shown = datasets.utils.logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        for config in CONFIGS:
            datasets.load_dataset(str(folder.resolve()), config)
    finally:
        if shown:
            datasets.enable_progress_bars()


def fill_metric_cache(folder: Path) -> None:
    """Make ``evaluate.load("h2htalk_score")`` work offline from any folder."""
    loading = importlib.import_module("evaluate.loading")
    script = folder / f"{METRIC}.py"
    modules = Path(loading.init_dynamic_modules())
    name = f"evaluate-metric/{METRIC}"
    shutil.rmtree(modules / "metrics" / name.replace("/", "--"), ignore_errors=True)
    imports = loading._download_additional_modules(
        name=METRIC,
        base_path=str(folder),
        imports=loading.get_imports(str(script)),
        download_config=loading.DownloadConfig(),
    )
    loading._create_importable_file(
        local_path=str(script),
        local_imports=imports,
        additional_files=[],
        dynamic_modules_path=str(modules),
        module_namespace="metrics",
        name=name,
        download_mode=loading.DownloadMode.REUSE_DATASET_IF_EXISTS,
    )


def build(card: Path, metric_source: Path, out: Path, *, caches: bool = True) -> Built:
    """Build ``out/h2htalk`` and ``out/h2htalk_score`` and, with ``caches``, fill the local caches."""
    fingerprint, prompt_version, counts = build_dataset(card, out / DATASET)
    build_metric(metric_source, out / METRIC)
    if caches:
        fill_dataset_cache(out / DATASET)
        fill_metric_cache(out / METRIC)
    return Built(out / DATASET, out / METRIC, fingerprint, prompt_version, counts)
