"""The signature: one ordered `key:value|key:value` line that names everything a score depends on.

Two scores are comparable only if their signatures are equal. No value may hold `:` or `|`, so both (and `%`,
blanks and control characters) are percent-encoded; `parse` decodes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

VERSION = "0.1.0"
"""Version of the metric: raised whenever the same input and settings would give another score."""

_SHORT = {
    "bleu": "b",
    "tok": "t",
    "smooth": "s",
    "eff": "e",
    "case": "c",
    "rouge": "r",
    "rtok": "rt",
    "emb": "m",
    "pool": "p",
    "backend": "be",
    "ss": "ss",
    "agg": "a",
    "alpha": "al",
    "tau": "ta",
    "s_scale": "sc",
    "lang": "l",
    "weights": "w",
    "compat": "co",
    "version": "v",
}
_LONG = {short: long for long, short in _SHORT.items()}


def _encode(value: str) -> str:
    return "".join(
        "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        if char in ":|% " or not char.isprintable()
        else char
        for char in value
    )


def number(value: float) -> str:
    """Return a number as a signature shows it: `5` for 5.0, `0.6` for 0.6."""
    return f"{value:.12g}"


class Signature(Mapping[str, str]):
    """An ordered, read-only mapping of signature keys to values."""

    def __init__(self, items: Mapping[str, str]) -> None:
        """Keep a copy of `items` in their order.

        Raises:
            ValueError: A key is empty or holds `:`, `|`, `%` or a blank.
        """
        for key in items:
            if not key or any(char in ":|% \t\n" for char in key):
                raise ValueError(f"bad signature key {key!r}: it may not be empty or hold : | % or a blank")
        self._items = dict(items)

    def __getitem__(self, key: str) -> str:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __str__(self) -> str:
        return self.long()

    def __repr__(self) -> str:
        return f"Signature({self.long()!r})"

    def long(self) -> str:
        """Return `key:value|key:value` with full keys."""
        return "|".join(f"{key}:{_encode(value)}" for key, value in self._items.items())

    def short(self) -> str:
        """Return the same with abbreviated keys."""
        return "|".join(f"{_SHORT.get(key, key)}:{_encode(value)}" for key, value in self._items.items())

    def hash(self) -> str:
        """Return twelve hexadecimal digits that are the same for equal signatures on every machine."""
        return hashlib.sha256(self.long().encode("utf-8")).hexdigest()[:12]


def parse(text: str) -> dict[str, str]:
    """Read a long or short signature back.

    Args:
        text: What `Signature.long` or `Signature.short` returned.

    Returns:
        Full keys and decoded values, in order.

    Raises:
        ValueError: A part is not `key:value`, or a key comes twice.
    """
    items: dict[str, str] = {}
    for part in text.split("|"):
        key, colon, value = part.partition(":")
        key = _LONG.get(key, key)
        if not colon or not key or ":" in value:
            raise ValueError(f"bad signature part {part!r}: expected key:value")
        if key in items:
            raise ValueError(f"signature key {key!r} comes twice")
        items[key] = unquote(value, errors="surrogatepass")
    return items


def build(
    *,
    bleu_tokenizer: str,
    rouge_tokenizer: str,
    effective_order: bool,
    embedding: Mapping[str, str] | None,
    alpha: float,
    tau: float,
    s_scale: float,
    language: str,
    weights: str,
    extra: Mapping[str, str] | None = None,
) -> Signature:
    """Assemble the signature of one scoring.

    Args:
        bleu_tokenizer: `bleu_name` of the tokenizer.
        rouge_tokenizer: `rouge_name` of the tokenizer.
        effective_order: As given to `lexical.bleu_scores`.
        embedding: What the embedder says of itself (`emb`, `pool`, `backend`), or None without one.
        alpha: Weight of S in J.
        tau: Review threshold on J.
        s_scale: What S is multiplied by in J.
        language: `en` or `zh`.
        weights: Which config sizes weigh the overall score.
        extra: What the caller adds (a judge, a prompt version, stripping of thoughts).

    Raises:
        ValueError: `extra` repeats a key, or a key is not usable.
    """
    items = {
        "bleu": "1-4",
        "tok": bleu_tokenizer,
        "smooth": "floor0.1",
        "eff": "yes" if effective_order else "no",
        "case": "mixed",
        "rouge": "1,L",
        "rtok": rouge_tokenizer,
    }
    items.update(embedding or {"emb": "none"})
    if embedding:
        items["ss"] = "clip0"
    items.update(
        {
            "agg": "mean7" if embedding else "mean6",
            "alpha": number(alpha),
            "tau": number(tau),
            "s_scale": number(s_scale),
            "lang": language,
            "weights": weights,
            "compat": "sacrebleu2+rouge-score0.1",
        }
    )
    for key, value in (extra or {}).items():
        if key in items or key == "version":
            raise ValueError(f"extra signature key {key!r} is already taken")
        items[key] = value
    items["version"] = VERSION
    return Signature(items)
