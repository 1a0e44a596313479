"""The figures of the dataset card: word cloud, verb-noun pairs, length distributions, label balance.

Counterparts of the paper's Figs. 4-6, drawn from the rows; needs the extra ``stats``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure
from wordcloud import STOPWORDS, WordCloud

from .catalog import CONFIGS
from .floors import last_input
from .statistics import Count, reference

COLOURS: Final = {"Dialogue": "#33658a", "Recollection": "#b5651d", "Itinerary": "#5b8c5a"}
_VERBS, _NOUNS = 18, 4
Row = dict[str, Any]


def _save(figure: Figure, path: Path) -> None:
    # Without the software's name and version in it, the same data give the same file.
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})


def word_cloud(rows: Sequence[Row], path: Path) -> None:
    """The words of the references, larger where they are more frequent (Fig. 4)."""
    stop = {*STOPWORDS, "will", "one", "now", "don", "ll", "ve", "re", "m", "s", "t"}
    cloud = WordCloud(
        width=1100, height=550, background_color="white", colormap="viridis", stopwords=stop,
        collocations=False, max_words=180, random_state=0, min_word_length=3,
    )  # fmt: skip
    cloud.generate(" ".join(reference(row) for row in rows)).to_file(str(path))


def verb_nouns(pairs: Sequence[tuple[str, str, int]], path: Path) -> None:
    """Frequent verbs (inner ring) with their most frequent objects (outer ring) (Fig. 5)."""
    by_verb: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for verb, noun, n in pairs:
        # A pair that occurs once would be a sliver without room for its name.
        if n > 1:
            by_verb[verb].append((noun, n))
    ranked = sorted(by_verb, key=lambda verb: -sum(n for _, n in by_verb[verb][:_NOUNS]))[:_VERBS]
    figure = Figure(figsize=(9, 9))
    axes = figure.add_subplot()
    palette = [_shade(index / max(1, len(ranked))) for index in range(len(ranked))]
    inner = [sum(n for _, n in by_verb[verb][:_NOUNS]) for verb in ranked]
    outer = [(noun, n, index) for index, verb in enumerate(ranked) for noun, n in by_verb[verb][:_NOUNS]]
    edge = {"edgecolor": "white", "linewidth": 0.8}
    ring = axes.pie(inner, radius=0.72, colors=palette, startangle=90, wedgeprops={"width": 0.42, **edge})[0]
    leaves = axes.pie(
        [n for _, n, _ in outer],
        radius=1.14,
        colors=[(*palette[index][:3], 0.55) for _, _, index in outer],
        startangle=90,
        wedgeprops={"width": 0.42, **edge},
    )[0]
    for wedges, texts, radius in ((ring, ranked, 0.51), (leaves, [noun for noun, _, _ in outer], 0.93)):
        for wedge, text in zip(wedges, texts, strict=True):
            angle = (wedge.theta1 + wedge.theta2) / 2
            x, y = radius * math.cos(math.radians(angle)), radius * math.sin(math.radians(angle))
            turned = angle + 180 if 90 < angle % 360 < 270 else angle
            axes.text(x, y, text, ha="center", va="center", rotation=turned, fontsize=9)
    _save(figure, path)


def _shade(position: float) -> tuple[float, float, float, float]:
    from matplotlib import colormaps

    red, green, blue, _ = colormaps["Spectral"](0.08 + 0.84 * position)
    return (red, green, blue, 0.9)


def lengths(rows: dict[str, list[Row]], tokens: Count, unit: str, path: Path) -> None:
    """Lengths of last inputs and of references by dimension (Fig. 6)."""
    figure = Figure(figsize=(9, 6))
    panels = figure.subplots(2, 1)
    for axes, (name, text) in zip(
        panels, (("last input", last_input), ("reference", reference)), strict=True
    ):
        found: dict[str, list[int]] = {dimension: [] for dimension in COLOURS}
        for config, some in rows.items():
            found[CONFIGS[config].dimension] += [tokens(text(row)) for row in some]
        every = sorted(n for some in found.values() for n in some)
        # A few very long inputs would squeeze all the others into one bar.
        end = every[math.ceil(0.99 * len(every)) - 1]
        axes.hist(
            [[min(n, end) for n in some] for some in found.values()],
            bins=40, range=(0, max(1, end)), stacked=True, color=list(COLOURS.values()), label=list(COLOURS),
        )  # fmt: skip
        mean, median = sum(every) / len(every), every[len(every) // 2]
        axes.set_title(f"{name}: mean {mean:.1f}, median {median}", fontsize=11, loc="left")
        axes.set_xlabel(f"{unit} (the longest hundredth in the last bar)")
        axes.set_ylabel("scenarios")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False)
    figure.tight_layout()
    _save(figure, path)


def labels(figures: dict[str, Any], path: Path) -> None:
    """How often each interaction and each emotion occurs."""
    figure = Figure(figsize=(9, 8))
    panels = figure.subplots(1, 2)
    for axes, name in zip(panels, ("interaction", "emotion"), strict=True):
        counts = figures["all"]["labels"][name]
        names = list(reversed(counts))
        axes.barh(range(len(names)), [counts[label] for label in names], color=COLOURS["Dialogue"])
        axes.set_yticks(range(len(names)), [label.replace("_", " ") for label in names], fontsize=8)
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.set_title(f"{name} ({len(names)} labels)", fontsize=11, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    _save(figure, path)


def draw(
    rows: dict[str, list[Row]],
    figures: dict[str, Any],
    pairs: Sequence[tuple[str, str, int]],
    tokens: Count,
    folder: Path,
) -> list[Path]:
    """All four figures as PNG files in ``folder``; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    every = [row for some in rows.values() for row in some]
    paths = [folder / f"{name}.png" for name in ("words", "verb_nouns", "lengths", "labels")]
    word_cloud(every, paths[0])
    verb_nouns(pairs, paths[1])
    lengths(rows, tokens, figures["tokens"], paths[2])
    labels(figures, paths[3])
    return paths
