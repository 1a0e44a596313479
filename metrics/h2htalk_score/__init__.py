"""The H2HTalk metric as a package: scoring, aggregation and statistics, with nothing heavy imported.

`h2htalk_score.py` beside this file is the same metric for `evaluate.load`.
"""

from .aggregate import (
    CONFIGS,
    DIMENSIONS,
    JUDGED,
    OFFICIAL_SIZES,
    Cell,
    Table,
    aggregate,
    config_cell,
    table_from_means,
)
from .core import score
from .judged import combine, needs_review
from .lexical import LexicalScores, SegmentStats, iter_scores, mean_scores, scores_from_stats, segment_stats
from .signature import VERSION, Signature
from .signature import parse as parse_signature
from .tokenizer_registry import get as get_tokenizer

__all__ = [
    "CONFIGS",
    "DIMENSIONS",
    "JUDGED",
    "OFFICIAL_SIZES",
    "VERSION",
    "Cell",
    "LexicalScores",
    "SegmentStats",
    "Signature",
    "Table",
    "aggregate",
    "combine",
    "config_cell",
    "get_tokenizer",
    "iter_scores",
    "mean_scores",
    "needs_review",
    "parse_signature",
    "score",
    "scores_from_stats",
    "segment_stats",
    "table_from_means",
]
