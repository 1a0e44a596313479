"""J and its two flags (equations 3 and 4 of the paper), for the itinerary levels I-III.

J = alpha * S5 + (1 - alpha) * J_judge, with S5 = s_scale * S. The paper does not say how S in [0, 1] meets a
rubric score in [0, 5]; s_scale = 5 puts both on [0, 5] (the default), s_scale = 1 is the literal reading.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

from .lexical import record_name

ALPHA = 0.6
TAU = 3.5
S_SCALE = 5.0
JUDGE_MAX = 5.0


def check_parameters(alpha: float, tau: float, s_scale: float) -> None:
    """Refuse parameters that would put J outside [0, 5].

    Raises:
        ValueError: alpha is outside [0, 1], tau is not finite, or s_scale is outside (0, 5].
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must be in [0, 1], not {alpha!r}")
    if not math.isfinite(tau):
        raise ValueError(f"tau must be a finite number, not {tau!r}")
    if not 0.0 < s_scale <= JUDGE_MAX:
        raise ValueError(f"s_scale must be in (0, 5], not {s_scale!r}")


def check_judge_scores(scores: Sequence[object], ids: Sequence[str] | None = None) -> list[float | None]:
    """Return the judge scores as floats; None stays None (unscored).

    Args:
        scores: One rubric score in [0, 5] or None a record.
        ids: Names of the records for error messages.

    Raises:
        ValueError: A score is not a number, is NaN or infinite, or is outside [0, 5]; the message names the
            record.
    """
    checked: list[float | None] = []
    for index, score in enumerate(scores):
        if score is None:
            checked.append(None)
            continue
        where = record_name(index, ids)
        if isinstance(score, bool) or not isinstance(score, Real):
            raise ValueError(f"{where}: judge score {score!r} is not a number (None means unscored)")
        value = float(score)
        if math.isnan(value):
            raise ValueError(f"{where}: judge score is NaN (None means unscored)")
        if not 0.0 <= value <= JUDGE_MAX:
            raise ValueError(f"{where}: judge score {value:g} is outside [0, 5]")
        checked.append(value)
    return checked


def combine(s: float, judge_score: float, alpha: float = ALPHA, s_scale: float = S_SCALE) -> float:
    """Return J in [0, 5] (equation 3).

    Args:
        s: S of the record, in [0, 1].
        judge_score: The rubric score, in [0, 5].
        alpha: Weight of S.
        s_scale: 5 for the default reading, 1 for the literal one.
    """
    return alpha * s_scale * s + (1.0 - alpha) * judge_score


def needs_review(score: float, tau: float = TAU) -> bool:
    """Return whether a score sends the record to a person: strictly below the threshold (equation 4).

    Called with J it is the human flag, with the rubric score alone the judge flag.
    """
    return score < tau
