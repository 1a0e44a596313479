"""English: sacrebleu's `13a` for BLEU, rouge-score's default tokenizer for ROUGE."""

from __future__ import annotations

from itertools import chain

from .rules_13a import WordMemory

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_ALPHANUMERIC = b"abcdefghijklmnopqrstuvwxyz0123456789"
_BLANK_OUT = bytes(code if code in _ALPHANUMERIC else ord(" ") for code in range(256))


class EnglishTokenizer:
    """`13a` tokens for BLEU (case kept), lowercased ASCII alphanumerics for ROUGE.

    rouge-score drops every other character: the é of "café" ends a word, an emoji or a curly quote vanishes.
    ROUGE here does the same, because equality with rouge-score is the point; BLEU keeps them all.
    """

    name = "13a"
    bleu_name = "13a"
    rouge_name = "rouge-score"

    def __init__(self) -> None:
        self._memory = WordMemory()

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
        self._memory.trim()
        return list(chain.from_iterable(map(self._memory.__getitem__, text.split())))

    def tokenize_rouge(self, text: str) -> list[str]:
        """Return the lowercased ASCII alphanumeric tokens of `text`."""
        # What is not ASCII becomes a question mark here, and with all other punctuation a blank there.
        return text.lower().encode("ascii", "replace").translate(_BLANK_OUT).decode("ascii").split()


def create() -> EnglishTokenizer:
    """Return a tokenizer with an empty memory."""
    return EnglishTokenizer()
