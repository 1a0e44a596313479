"""What a run would take, without asking anybody: requests, tokens and money that are still to come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from h2htalk_metric.aggregate import JUDGED

from .cost import EXPECTED_BYTES, Price, expected_tokens, most_tokens, price_for
from .judge import question, rubrics
from .models import ModelSpec, parse
from .run import Plan
from .sap import apply
from .store import GENERATIONS, JUDGMENTS, read_rows


@dataclass
class Forecast:
    """One role's coming requests. ``expected`` and ``most``: (prompt, completion) tokens."""

    role: str
    price: Price | None
    requests: int = 0
    expected: tuple[int, int] = (0, 0)
    most: tuple[int, int] = (0, 0)

    def add(self, expected: tuple[int, int], most: tuple[int, int]) -> None:
        """Count one more request."""
        self.requests += 1
        self.expected = (self.expected[0] + expected[0], self.expected[1] + expected[1])
        self.most = (self.most[0] + most[0], self.most[1] + most[1])


def _priced(spec: ModelSpec, given: str | None) -> Price | None:
    return price_for(spec.name or "", given)


def forecast(
    plan: Plan,
    out: Path,
    spec: ModelSpec,
    price: str | None,
    judge: str | None,
    judge_tokens: int,
    judge_price: str | None,
) -> list[Forecast]:
    """Target and, with ``judge``, judge; what ``out`` holds already is left out.

    An answer is expected to be as long as the reference, and a verdict a hundred tokens. At most an answer
    takes all tokens it may, a prompt as many as its script can have, and a judge is asked twice.
    """
    answered = {row["id"] for row in read_rows(out / GENERATIONS)}
    judged = {row["id"] for row in read_rows(out / JUDGMENTS)}
    target = Forecast("target", _priced(spec, price))
    found = [target]
    texts = rubrics().texts
    if judge is not None:
        found.append(Forecast("judge", _priced(parse(judge), judge_price)))
    for row in plan.dataset.stream():
        answer = len(row["reference"].encode()) // EXPECTED_BYTES
        if row["id"] not in answered:
            messages = apply(plan.sap, row["messages"])
            limit = plan.sampling.max_new_tokens
            target.add((expected_tokens(messages), min(answer, limit)), (most_tokens(messages), limit))
        if judge is not None and row["config"] in JUDGED and row["id"] not in judged:
            asked = question(texts[row["config"]], row, row["reference"])
            room = max(0, plan.sampling.max_new_tokens - answer)
            most = (2 * (most_tokens(asked) + room), 2 * judge_tokens)
            found[1].add((expected_tokens(asked), min(100, judge_tokens)), most)
    return found


def lines(found: list[Forecast]) -> Iterator[str]:
    """The forecast in words, one line a role and a total if all have prices."""
    for role in found:
        money = ""
        if role.price:
            expected, most = (role.price.of(*tokens) for tokens in (role.expected, role.most))
            money = f", about ${expected:,.2f}, at most ${most:,.2f} (price of {role.price.as_of})"
        yield (
            f"{role.role}: {role.requests:,} requests, about {sum(role.expected):,} tokens "
            f"({role.expected[0]:,} in, {role.expected[1]:,} out), at most {sum(role.most):,}{money}"
        )
    priced = [(role.price, role) for role in found if role.price]
    if len(priced) == len(found) > 1:
        total = sum(price.of(*role.expected) for price, role in priced)
        most = sum(price.of(*role.most) for price, role in priced)
        yield f"together: about ${total:,.2f}, at most ${most:,.2f}"
    elif not priced:
        yield "no price known: give --price IN,OUT (and --judge-price)"
