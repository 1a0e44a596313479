"""English: sacrebleu's `13a` for BLEU, rouge-score's default tokenizer for ROUGE."""

from __future__ import annotations

import re
from itertools import chain

from .rules_13a import WordMemory

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_ASCII_WORD = re.compile("[a-z0-9]+")


class _RougeMemory(WordMemory):
    """ROUGE tokens by word: lowercased runs of ASCII letters and digits."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        tokens = tuple(_ASCII_WORD.findall(word.lower()))
        self[word] = tokens
        return tokens


class EnglishTokenizer:
    """`13a` tokens for BLEU (case kept), lowercased ASCII alphanumerics for ROUGE.

    rouge-score drops every other character: the é of "café" ends a word, an emoji or a curly quote vanishes.
    ROUGE here does the same, because equality with rouge-score is the point; BLEU keeps them all.
    """

    name = "13a"
    bleu_name = "13a"
    rouge_name = "rouge-score"

    def __init__(self) -> None:
        self._bleu = WordMemory()
        self._rouge = _RougeMemory()

    def tokenize_bleu(self, text: str) -> list[str]:
        """Return the `13a` tokens of `text`."""
        text = text.rstrip()
        if "<skipped>" in text:
            text = text.replace("<skipped>", "")
        if "-\n" in text:
            text = text.replace("-\n", "")
        if "&" in text:
            for entity, character in _ENTITIES:
                text = text.replace(entity, character)
        self._bleu.trim()
        return list(chain.from_iterable(map(self._bleu.__getitem__, text.split())))

    def tokenize_rouge(self, text: str) -> list[str]:
        """Return the lowercased ASCII alphanumeric tokens of `text`."""
        self._rouge.trim()
        return list(chain.from_iterable(map(self._rouge.__getitem__, text.split())))


def create() -> EnglishTokenizer:
    """Return a tokenizer with an empty memory."""
    return EnglishTokenizer()
