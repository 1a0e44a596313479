"""The main table as gr.Dataframe takes it: numbers to sort by, texts to show, colours for the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from columns import CONFIGS, DIMENSIONS
from data import Row
from ranking import leaders, ranks, status

# As in the paper's Table 2: best, second, third. Dark text on a pale ground reads in both modes.
COLOURS: Final = {1: "#a7e3b5", 2: "#a9cdf5", 3: "#f7e39c"}
LABELS: Final = {
    "overall": "Overall",
    **{name: f"{name} avg" for name in DIMENSIONS},
    **{name: name for name in CONFIGS},
}
# Overall, then each dimension before its configs.
ORDER: Final = ("overall", *(name for dimension, names in DIMENSIONS.items() for name in (dimension, *names)))


def _header(scope: str) -> str:
    """A scope's label where a narrow column may break it: ``Dialogue Emotion``."""
    for dimension in DIMENSIONS:
        if scope in CONFIGS and scope.startswith(dimension):
            return f"{dimension} {scope.removeprefix(dimension)}"
    return LABELS[scope]


HEADERS: Final = (
    "#", "Model", LABELS["overall"], "Ranks", "Size", *(_header(name) for name in ORDER[1:]),
    "Checks", "Coverage", "Status",
)  # fmt: skip
TYPES: Final = (
    "number",
    "str",
    "number",
    "str",
    "str",
    *["number"] * (len(ORDER) - 1),
    "number",
    "number",
    "str",
)
_SCORE_WIDTHS: Final = ["122px"] * (len(ORDER) - 1)
WIDTHS: Final = ("52px", "150px", "108px", "84px", "92px", *_SCORE_WIDTHS, "90px", "104px", "240px")


def score(row: Row, scope: str, measure: str, between: str = " ") -> str:
    """A score with its interval, and its coverage where that is not full, set apart by ``between``."""
    name = f"{scope}.{measure}"
    value, low, high = row[name], row[f"{name}.low"], row[f"{name}.high"]
    if value is None:
        return "–"
    text = f"{value:.2f}"
    if low is not None and high is not None:
        text += f"{between}[{low:.1f}, {high:.1f}]"
    share = coverage(row, scope, measure)
    if share is not None and share < 1:
        text += f"{between}{percent(share)}"
    return text


def coverage(row: Row, scope: str, measure: str) -> float | None:
    """The share of all the dataset's scenarios that have a score: a sample's coverage is small."""
    n, size = row[f"{scope}.{measure}.n"], row[f"{scope}.size"]
    return n / size if n is not None and size else None


def percent(share: float | None) -> str:
    """A share; never rounded up to a full one."""
    if share is None:
        return "–"
    return f"{100 * share:.0f} %" if share in (0, 1) else f"{min(99.9, 100 * share):.1f} %"


def name(row: Row) -> str:
    """A row's name in the table: what kind it is must be readable without colour."""
    if row["kind"] == "floor":
        return f"floor: {row['model_id']}"
    if row["kind"] == "reported":
        return f"{row['model_id']} (reported)"
    return f"{row['model_id']} + SAP" if row["sap"] else str(row["model_id"])


def _order(row: Row, measure: str, placed: dict[int, Any]) -> tuple[int, float]:
    kind = 0 if row["row"] in placed else {"result": 1, "floor": 2, "reported": 3}[row["kind"]]
    value = row[f"overall.{measure}"]
    return kind, -value if value is not None else 0.0


def table(rows: Sequence[Row], measure: str) -> dict[str, Any]:
    """The table of these rows: ranked ones first, then unranked, floors, and the paper's."""
    placed = ranks(rows, measure)
    best = {scope: leaders(rows, f"{scope}.{measure}", measure) for scope in ORDER}
    best["checks"] = leaders(rows, "checks", measure)
    data: list[list[Any]] = []
    shown: list[list[str]] = []
    styles: list[list[str]] = []
    for row in sorted(rows, key=lambda row: _order(row, measure, placed)):
        number = row["row"]
        rank = placed.get(number)
        spread = (
            "" if rank is None else str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"
        )
        share = coverage(row, "overall", measure)
        values = [row[f"{scope}.{measure}"] for scope in ORDER]
        texts = [score(row, scope, measure, "\n") for scope in ORDER]
        between = [spread, row["group"] or ""]
        state = status(row, measure)
        data.append(
            [
                rank.rank if rank else None,
                name(row),
                values[0],
                *between,
                *values[1:],
                row["checks"],
                share,
                state,
            ]
        )
        texts = [name(row), texts[0], *between, *texts[1:], percent(row["checks"]), percent(share), state]
        shown.append([str(rank.rank) if rank else "–", *texts])
        faint = "" if rank else "opacity: .72; font-style: italic"
        scored = [_colour(best[scope].get(number)) or faint for scope in (*ORDER, "checks")]
        styles.append([faint, faint, scored[0], faint, faint, *scored[1:], faint, faint])
    return {"headers": list(HEADERS), "data": data, "metadata": {"display_value": shown, "styling": styles}}


def _colour(place: int | None) -> str:
    return f"background-color: {COLOURS[place]}; color: #14213d" if place else ""
