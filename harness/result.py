"""The published form of a result: ``results.json`` and what is needed to trust it, as a strict schema.

A result file stands at ``results/<org>__<model>/<revision>/<signature hash>/<time>.json`` in the results
dataset; its evidence, every generation and judgment, beside it as Parquet of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from h2htalk_data.catalog import CONFIGS

SCHEMA_VERSION: Final = 1
TIME: Final = "%Y%m%dT%H%M%SZ"

Unit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Stars = Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]
Finite = Annotated[float, Field(ge=-1e4, le=1e4, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Tokens = Annotated[int, Field(ge=0, le=10**12)]
# Names of models, engines, signatures: no markup, no control characters, no path tricks.
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\w][\w .,()/+@:=|~-]*$")]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]
Text = Annotated[str, Field(max_length=500, pattern=r"^[^<>\x00-\x08\x0b-\x1f]*$")]


def _config(name: str) -> str:
    if name not in CONFIGS:
        raise ValueError("not a config")
    return name


ConfigName = Annotated[str, AfterValidator(_config)]


class Strict(BaseModel):
    """Base: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Identity(Strict):
    """The model under test. ``embedded``: the default model that only shows the machinery."""

    model: Name
    revision: Name | None
    embedded: bool


class Sampling(Strict):
    """How text was drawn."""

    max_tokens: Annotated[int, Field(ge=1, le=10**6)]
    temperature: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
    top_p: Unit | None = None
    seed: int | None = None


class DatasetRef(Strict):
    """Which build of the dataset was answered."""

    fingerprint: Hash
    prompt_version: Hash


class Sap(Strict):
    """The Secure Attachment Persona as it was put first."""

    principles: list[Name]
    digest: Hash


class Settings(Strict):
    """What the run folder was bound to."""

    model: Identity
    dataset: DatasetRef
    configs: list[ConfigName]
    sample: Count | None
    sample_seed: int | None
    part: None = None
    sampling: Sampling
    sap: Sap | None


class DatasetInfo(DatasetRef):
    """``sizes``: rows of every config; ``selected``: those that were to be answered."""

    sizes: dict[ConfigName, Count]
    selected: dict[ConfigName, Count]
    authored_by: Text


class Judge(Strict):
    """Who judged the levels I-III, and how."""

    signature: Name
    model: Identity
    rubric: Hash
    sampling: Sampling
    k: Annotated[int, Field(ge=1, le=100)]
    self_judged: bool


class Interval(Strict):
    """A mean with its 95 % interval; bounds are None where there are too few clusters."""

    mean: Finite
    low: Finite | None
    high: Finite | None
    se: Finite | None
    n: Count
    n_clusters: Count
    note: Text | None

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.low is not None and self.high is not None and not self.low <= self.mean <= self.high:
            raise ValueError("low, mean and high are not in order")
        return self


class Average(Strict):
    """A weighted average in [0, 100] with coverage; ``missing``: parts that have no score."""

    value: Percent | None
    n: Count
    expected: Count
    coverage: Unit | None
    missing: list[Name]


class Parts(Strict):
    """Means over examples: S and its parts in [0, 1], J in [0, 5]."""

    s: Unit | None
    s_100: Percent | None
    s_lexical: Unit | None
    bleu_1: Unit | None
    bleu_2: Unit | None
    bleu_3: Unit | None
    bleu_4: Unit | None
    rouge_1: Unit | None
    rouge_l: Unit | None
    ss: Unit | None
    j: Stars | None
    j_100: Percent | None
    human_flag_rate: Unit | None
    judge_flag_rate: Unit | None
    n: Count
    n_judged: Count
    intervals: dict[Literal["s_100", "lexical_100", "j_100", "task_100"], Interval | None]


class Cell(Parts):
    """One config."""

    expected: Count
    coverage: Unit | None
    task: Average

    @model_validator(mode="after")
    def _counts(self) -> Cell:
        if self.n > self.expected or self.n_judged > self.n:
            raise ValueError("more scores than scenarios")
        return self


class View(Strict):
    """The table by one measure."""

    configs: dict[ConfigName, Average]
    dimensions: dict[Literal["Dialogue", "Recollection", "Itinerary"], Average]
    overall: Average


class Scores(Parts):
    """Everything that was scored."""

    configs: dict[ConfigName, Cell]
    dimensions: dict[Literal["Dialogue", "Recollection", "Itinerary"], Average]
    overall: Average
    s_only: View
    lexical: View


class FloorCell(Strict):
    """A trivial system's mean, 0-100."""

    s: Percent | None
    lexical: Percent | None


class Floor(Strict):
    """One trivial system."""

    configs: dict[ConfigName, FloorCell]
    overall: FloorCell


class Checks(Strict):
    """Share of verifiable constraints that answers met."""

    n: Count
    checks: Unit | None
    all_passed: Unit
    by_kind: dict[Name, Unit]


class Failures(Strict):
    """Failures that still stand, by kind."""

    target: dict[Name, Count]
    judge: dict[Name, Count]
    judge_unscored: dict[Name, Count]


class PriceRef(Strict):
    """USD per million tokens and for when that is known."""

    input: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
    as_of: Name


class Cost(Strict):
    """Tokens of one role; None where a server did not say."""

    prompt_tokens: Tokens | None
    completion_tokens: Tokens | None
    usd: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None
    price: PriceRef | None


class Costs(Strict):
    """Target and judge apart."""

    target: Cost
    judge: Cost | None


class Results(Strict):
    """``results.json`` of a run folder."""

    schema_version: Literal[1]
    harness: Name | None
    comparable: bool
    not_comparable_because: list[Text]
    model: Identity
    settings: Settings
    dataset: DatasetInfo
    signature: Annotated[str, Field(max_length=600, pattern=r"^[\w .,()/+@:=|~-]+$")]
    signature_hash: Hash
    judge: Judge | None
    scores: Scores
    floors: dict[Name, Floor]
    beaten_by_constant: list[ConfigName]
    checks: dict[ConfigName, Checks]
    failures: Failures
    truncated: Count
    cost: Costs

    @model_validator(mode="after")
    def _consistent(self) -> Results:
        for mine, theirs, what in (
            (self.model, self.settings.model, "model"),
            (self.dataset.fingerprint, self.settings.dataset.fingerprint, "dataset fingerprint"),
            (self.dataset.prompt_version, self.settings.dataset.prompt_version, "prompt version"),
            (self.comparable, not self.not_comparable_because, "comparable"),
        ):
            if mine != theirs:
                raise ValueError(f"{what} contradicts itself")
        return self

    @property
    def complete(self) -> bool:
        """Whether every scenario of all eleven configs has an answer."""
        selected = all(self.dataset.selected.get(name) == n for name, n in self.dataset.sizes.items())
        return selected and all(cell.n == cell.expected for cell in self.scores.configs.values())


class Evidence(Strict):
    """The Parquet file beside a result: its digest, and how many answers it holds."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    rows: Count


class Published(Strict):
    """A result file. ``model_id``: the Hub id that the submitter names; ``time``: when it was published."""

    kind: Literal["h2htalk-result"]
    model_id: Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
    time: Annotated[str, Field(pattern=r"^\d{8}T\d{6}Z$")]
    complete: bool
    evidence: Evidence | None
    results: Results

    @model_validator(mode="after")
    def _honest(self) -> Published:
        if self.complete != self.results.complete:
            raise ValueError("complete contradicts the counts")
        return self

    @property
    def path(self) -> PurePosixPath:
        """Where the file belongs in the results dataset."""
        return PurePosixPath(
            "results",
            self.model_id.replace("/", "__"),
            slug(self.results.model.revision or "unknown"),
            self.results.signature_hash,
            f"{self.time}.json",
        )


def slug(text: str) -> str:
    """``text`` as one component of a path."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:64] or "unknown"


def problems(error: ValidationError) -> Iterator[str]:
    """``field: what is wrong`` for every fault of a result."""
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part)[:60] for part in item["loc"]) or "result"
        yield f"{where}: {item['msg'].removeprefix('Value error, ')}"


def parse(value: Any) -> Published:
    """A result file's JSON value as a record.

    Raises:
        ValidationError: it does not keep to the schema.
    """
    return Published.model_validate(value)


def read_results(folder: Path) -> Results:
    """``results.json`` of a run folder.

    Raises:
        FileNotFoundError: the run is not scored. ValidationError: it does not keep to the schema.
    """
    return Results.model_validate_json((folder / "results.json").read_bytes())
