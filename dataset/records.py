"""The record schema: companions, pairs and scenarios, checked at the boundary by pydantic.

An authored scenario holds only what its writer decided. ``Scenario`` is the full record: the authored
fields joined with its pair, with the config's contract added to its checks.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from .catalog import CONFIGS
from .checks import Check
from .labels import EMOTIONS, INTERACTIONS, MEMORY_CATEGORIES, NEEDS, TOPICS

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z]+(?:-[a-z]+)*$")]
Cluster = Annotated[str, StringConstraints(pattern=r"^[a-z]+(?:-[a-z]+)*\.[a-z]+(?:-[a-z]+)*$")]


class Strict(BaseModel):
    """Base of all records: unknown fields are errors, values are not changed after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Persona(Strict):
    """A companion: what a writer needs to give it a voice. ``age`` in years, adults only."""

    persona_id: Slug
    name: Text
    gender: Text
    pronouns: Text
    age: Annotated[int, Field(ge=18, le=110)]
    culture: Text
    profession: Text
    temper: Text
    story: Text
    likes: Annotated[list[Text], Field(min_length=3)]
    skills: Annotated[list[Text], Field(min_length=1)]
    fears: Text
    voice: Text
    sample_lines: Annotated[list[Text], Field(min_length=2, max_length=4)]
    rhythm: Text
    limits: Text


class User(Strict):
    """The person who writes to the companion; an adult, invented."""

    name: Text
    profile: Text


class Pair(Strict):
    """A persona and a user: the ``cluster`` that scenarios share. ``bond`` is their history."""

    cluster: Cluster
    persona_id: Slug
    user: User
    relation: Text
    bond: Text

    @model_validator(mode="after")
    def _prefix(self) -> Pair:
        if self.cluster.split(".")[0] != self.persona_id:
            raise ValueError(f"cluster {self.cluster!r} must begin with its persona_id {self.persona_id!r}")
        return self


class Turn(Strict):
    """One message; ``assistant`` is the companion."""

    role: Literal["user", "assistant"]
    content: Text


class GoldMemory(Strict):
    """A fact that RecollectionSynthesis must extract. ``importance`` 0 week, 1 months, 2 lasting."""

    content: Text
    category: Text
    importance: Annotated[int, Field(ge=0, le=2)]

    @field_validator("category")
    @classmethod
    def _known(cls, category: str) -> str:
        if category not in MEMORY_CATEGORIES:
            raise ValueError(f"unknown memory category {category!r}; known: {', '.join(MEMORY_CATEGORIES)}")
        return category


class Vote(Strict):
    """A second reader's verdict on the record as first written. ``kind``: what the reader is."""

    reader: Text
    kind: Literal["language_model", "human"]
    accurate: bool
    consistent: bool
    compliant: bool
    distinct: bool


class Provenance(Strict):
    """Who wrote the record and who read it; ``rewritten``: changed after its second reading."""

    author: Text
    author_kind: Literal["language_model", "human"]
    written: date
    rewritten: bool = False
    votes: list[Vote] = []


class Authored(Strict):
    """A scenario as it stands in ``scenarios/<Config>.jsonl``; unused fields are left out."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]+-\d{4}$")]
    cluster: Cluster
    interaction: Text
    emotion: Text
    need: Text
    complexity: Annotated[int, Field(ge=1, le=3)]
    topic: Text
    history: list[Turn] = []
    memories: list[Text] = []
    hobbies: list[Text] = []
    today_schedule: list[Text] = []
    current_activity: Text | None = None
    day_overview: Text | None = None
    user_comment: Text | None = None
    reference: Text
    gold_memories: list[GoldMemory] = []
    checks: list[Check] = []
    provenance: Provenance

    @property
    def config(self) -> str:
        """The config's name, which is the id's first part."""
        return self.id.rsplit("-", 1)[0]

    @field_validator("interaction", "emotion", "need", "topic")
    @classmethod
    def _label(cls, label: str, info: object) -> str:
        field = getattr(info, "field_name", "")
        known = {"interaction": INTERACTIONS, "emotion": EMOTIONS, "need": NEEDS, "topic": TOPICS}[field]
        if label not in known:
            raise ValueError(f"unknown {field} {label!r}; known: {', '.join(known)}")
        return label

    @model_validator(mode="after")
    def _fits_config(self) -> Authored:
        if self.config not in CONFIGS:
            raise ValueError(f"unknown config in id {self.id!r}; known: {', '.join(CONFIGS)}")
        required = _REQUIRED[self.config]
        missing = [name for name in required if not getattr(self, name)]
        if missing:
            raise ValueError(f"{self.config} needs {', '.join(missing)}")
        surplus = [name for name in _INPUTS if getattr(self, name) and name not in required]
        if surplus:
            raise ValueError(f"{self.config} has no {', '.join(surplus)}")
        if self.config.startswith("Dialogue") and self.history[-1].role != "user":
            raise ValueError("history must end in a user turn")
        if len(self.history) > 12:
            raise ValueError(f"history has {len(self.history)} turns, at most 12 are allowed")
        if self.config in _SLOTTED and not _SLOT.match(self.current_activity or ""):
            raise ValueError("current_activity must begin HH:MM-HH:MM")
        return self


_SLOT = re.compile(r"^(?:[01]\d|2[0-3]):[0-5]\d-(?:[01]\d|2[0-3]):[0-5]\d \S")
_SLOTTED = {"ItineraryAdvanced"}
_INPUTS = (
    "history", "memories", "hobbies", "today_schedule", "current_activity", "day_overview", "user_comment",
)  # fmt: skip
_REQUIRED: dict[str, tuple[str, ...]] = {
    "DialogueBase": ("history",),
    "DialogueEmotion": ("history",),
    "DialogueSchedule": ("history", "today_schedule", "current_activity"),
    "RecollectionSynthesis": ("history",),
    "RecollectionRefinement": ("memories",),
    "RecollectionInitialization": ("memories",),
    "ItineraryBasic": ("hobbies", "memories"),
    "ItineraryMiddle": ("day_overview",),
    "ItineraryAdvanced": ("today_schedule", "current_activity", "memories"),
    "ItineraryResponse": ("current_activity", "user_comment"),
    "ItineraryInitialization": ("current_activity", "memories"),
}


class Message(Strict):
    """One message ready to send to a Messages API."""

    role: Literal["system", "user", "assistant"]
    content: str


class Scenario(Strict):
    """The full record of the built dataset: one schema for all configs, unused fields null or empty."""

    id: str
    config: str
    dimension: str
    language: str
    persona_id: str
    cluster: str
    user: User
    interaction: str
    emotion: str
    need: str
    complexity: int
    topic: str
    history: list[Turn]
    memories: list[str]
    hobbies: list[str]
    today_schedule: list[str]
    current_activity: str | None
    day_overview: str | None
    user_comment: str | None
    messages: list[Message]
    reference: str
    gold_memories: list[GoldMemory]
    checks: list[Check]
    provenance: Provenance
    prompt_version: str
    canary: str
