"""What a run costs in tokens and money, and a limit that it never exceeds.

Target and judge have a meter each and share one budget. A request is let through only if what was spent,
what is in flight and the most that it can cost itself fit into the limit; otherwise it waits for others
to finish below their most, and the run ends, to be continued, when none is left to wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from .backends.base import Completion, Sampling
from .errors import HarnessError, SettingsError

_TABLE: Final = Path(__file__).parent / "prices.yaml"
# UTF-8 bytes per token: English has about four, and no script in common use fewer than three.
EXPECTED_BYTES: Final = 4
FEWEST_BYTES: Final = 3
# What a chat template adds to each message, at most.
TEMPLATE_TOKENS: Final = 16


class BudgetSpentError(HarnessError):
    """The limit is reached; everything finished is kept and the same command with a higher one goes on."""

    exit_code = 6


class Price(NamedTuple):
    """USD per million tokens, and for when they are known (``YYYY-MM``, or ``given``)."""

    input: float
    output: float
    as_of: str

    def of(self, prompt: float, completion: float) -> float:
        """USD for so many tokens."""
        return (prompt * self.input + completion * self.output) / 1e6


def price_for(model: str, given: str | None = None) -> Price | None:
    """The price ``given`` as ``IN,OUT``, else the table's for exactly this model; None if it has none.

    Raises:
        SettingsError: ``given`` is not two numbers of at least 0.
    """
    if given is not None:
        try:
            values = [float(part) for part in given.split(",")]
        except ValueError:
            values = []
        if len(values) != 2 or not all(0 <= value < 1e6 for value in values):
            raise SettingsError(f"price {given!r}: must be IN,OUT in USD per million tokens, as in 2.5,10")
        return Price(values[0], values[1], "given")
    for row in yaml.safe_load(_TABLE.read_text(encoding="utf-8")):
        if row["model"] == model:
            return Price(row["input"], row["output"], str(row["as_of"]))
    return None


def _bytes(messages: Iterable[Mapping[str, str]]) -> int:
    return sum(len(message["content"].encode()) for message in messages)


def expected_tokens(messages: Sequence[Mapping[str, str]]) -> int:
    """About how many tokens these messages have (English)."""
    return _bytes(messages) // EXPECTED_BYTES


def most_tokens(messages: Sequence[Mapping[str, str]]) -> int:
    """How many tokens these messages have at most."""
    return _bytes(messages) // FEWEST_BYTES + TEMPLATE_TOKENS * (len(messages) + 1)


@dataclass
class Budget:
    """Limits in USD and in tokens (prompt and completion together), over both roles; None: no limit."""

    max_cost: float | None = None
    max_tokens: int | None = None
    meters: list[Meter] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self.max_cost is not None or self.max_tokens is not None

    def fits(self, meter: Meter, prompt: int, completion: int) -> bool:
        """Whether one more request of so many tokens at most keeps within the limits."""
        tokens = sum(each.prompt + each.completion + each.held for each in self.meters)
        if self.max_tokens is not None and tokens + prompt + completion > self.max_tokens:
            return False
        if self.max_cost is None:
            return True
        cost = sum(each.cost + each.held_cost for each in self.meters)
        return cost + meter.worth(prompt, completion) <= self.max_cost

    def explain(self) -> str:
        """The limits and what was spent, for the one line at the end."""
        limits = []
        if self.max_cost is not None:
            limits.append(f"--max-cost {self.max_cost:g}")
        if self.max_tokens is not None:
            limits.append(f"--max-tokens {self.max_tokens}")
        spent = "; ".join(meter.line() for meter in self.meters)
        return f"{' and '.join(limits)} would be exceeded ({spent}); the same command with more goes on"


@dataclass
class Meter:
    """Tokens of one role, with those of earlier sessions, and what requests in flight may still take."""

    role: str
    price: Price | None
    budget: Budget
    prompt: int = 0
    completion: int = 0
    estimated: bool = False
    held: int = 0
    held_cost: float = 0.0
    in_flight: int = 0

    def __post_init__(self) -> None:
        if self.budget.max_cost is not None and self.price is None:
            raise SettingsError(
                f"--max-cost needs the {self.role}'s price: give "
                f"{'--price' if self.role == 'target' else '--judge-price'} IN,OUT"
            )
        self.budget.meters.append(self)

    def worth(self, prompt: float, completion: float) -> float:
        """USD for so many tokens; 0 without a price."""
        return self.price.of(prompt, completion) if self.price else 0.0

    @property
    def cost(self) -> float:
        """USD spent so far."""
        return self.worth(self.prompt, self.completion)

    def listed(self) -> dict[str, dict[str, Any]]:
        """The role's price for a manifest; empty without one."""
        return {self.role: self.price._asdict()} if self.price else {}

    def line(self) -> str:
        """Spent tokens and money in words."""
        about = "about " if self.estimated else ""
        money = f", ${self.cost:.2f}" if self.price else ""
        return f"{self.role} {about}{self.prompt + self.completion:,} tokens{money}"

    def count(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add what rows of earlier sessions took; a row without counts has none known."""
        for row in rows:
            self.prompt += row.get("prompt_tokens") or 0
            self.completion += row.get("completion_tokens") or 0

    async def admit(self, messages: Sequence[Mapping[str, str]], sampling: Sampling) -> tuple[int, int]:
        """Wait until the request fits; gives what is held for it until ``settle``.

        Raises:
            BudgetSpentError: it does not fit, and nothing in flight could make room.
        """
        if not self.budget.limited:
            return (0, 0)
        prompt, completion = most_tokens(messages), sampling.max_new_tokens
        while not self.budget.fits(self, prompt, completion):
            if not any(meter.in_flight for meter in self.budget.meters):
                raise BudgetSpentError(self.budget.explain())
            self.budget.changed.clear()
            await self.budget.changed.wait()
        self.held += prompt + completion
        self.held_cost += self.worth(prompt, completion)
        self.in_flight += 1
        return prompt, completion

    def settle(
        self, held: tuple[int, int], messages: Sequence[Mapping[str, str]], completion: Completion | None
    ) -> None:
        """Replace what was held by what the request took; nothing for one that failed."""
        if self.budget.limited:
            self.held -= sum(held)
            self.held_cost -= self.worth(*held)
            self.in_flight -= 1
            self.budget.changed.set()
        if completion is None:
            return
        prompt, answer = completion.prompt_tokens, completion.completion_tokens
        if prompt is None or answer is None:
            # A server that reports nothing still costs; the larger estimate keeps the limit.
            self.estimated = True
            prompt = most_tokens(messages) if prompt is None else prompt
            answer = len(completion.text.encode()) // FEWEST_BYTES if answer is None else answer
        self.prompt += prompt
        self.completion += answer
