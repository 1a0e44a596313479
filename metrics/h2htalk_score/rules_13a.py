"""The mteval-v13a word rules that BLEU's `13a` and `zh` tokenizers share, one word at a time.

sacrebleu applies four substitutions to a whole line. Every one of them looks at a character and at most one
neighbour, whitespace is neither a digit, nor a period, comma or dash, and no substitution removes it, so no
match reaches from one whitespace-separated word into the next. Tokenising a line therefore equals tokenising
its words one by one between blanks, and a word's tokens can be remembered: that memory is what makes the
metric fast. `tests/metrics/test_lexical.py` compares it with sacrebleu.
"""

from __future__ import annotations

import re

# ASCII punctuation except the apostrophe, and the comma, period and dash, which have rules of their own.
_SYMBOL = re.compile(r"([!-&(-+/:-@\[-`{-~])")
_STOP_AFTER_NON_DIGIT = re.compile(r"([^0-9])([.,])")
_STOP_BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")

MAX_REMEMBERED_WORDS = 1 << 16


def split_word(text: str) -> tuple[str, ...]:
    """Apply the v13a substitutions to `text` and split it at whitespace.

    Args:
        text: One word, with a blank on each side where the line has whitespace (or padding) there.

    Returns:
        The tokens of the word, in order.
    """
    text = _SYMBOL.sub(r" \1 ", text)
    if "." in text or "," in text:
        text = _STOP_AFTER_NON_DIGIT.sub(r"\1 \2 ", text)
        text = _STOP_BEFORE_NON_DIGIT.sub(r" \1 \2", text)
    if "-" in text:
        text = _DASH_AFTER_DIGIT.sub(r"\1 \2 ", text)
    return tuple(text.split())


class WordMemory(dict[str, tuple[str, ...]]):
    """Tokens by word, for words that stand between whitespace. Filled on first look-up."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        tokens = (word,) if word.isalnum() else split_word(f" {word} ")
        self[word] = tokens
        return tokens

    def trim(self) -> None:
        """Forget everything once the memory is full, so that a stream of texts needs bounded space."""
        if len(self) > MAX_REMEMBERED_WORDS:
            self.clear()
