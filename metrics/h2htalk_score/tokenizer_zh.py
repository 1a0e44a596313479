"""Chinese: sacrebleu's `zh` (one token a Chinese character, v13a rules for the rest) for BLEU and ROUGE."""

from __future__ import annotations

import re
from itertools import chain

from .rules_13a import WordMemory, split_word

# What sacrebleu's `zh` sets apart: its table of ranges, merged. Two rows of that table are written with five
# hexadecimal digits after a four-digit escape, so it covers U+2001 to U+2A6D (punctuation, arrows, dingbats)
# and not the ideographs beyond the basic plane. Scores are comparable only if both slips are kept.
_SET_APART = re.compile(
    "([\u2001-\u2a6d\u2e80-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef\u3200-\u4db5"
    "\u4e00-\u9fbb\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef])"
)


class ChineseTokenizer:
    """sacrebleu's `zh` tokens for BLEU and for ROUGE; case kept."""

    name = "zh"
    bleu_name = "zh"
    rouge_name = "zh"

    def __init__(self) -> None:
        self._memory = WordMemory()

    def tokenize_bleu(self, text: str) -> list[str]:
        """Return the `zh` tokens of `text`."""
        spaced = _SET_APART.sub(r" \1 ", text.strip())
        words = spaced.split()
        if not words:
            return []
        self._memory.trim()
        # sacrebleu pads a `13a` line with blanks but not a `zh` line, and a final "5." depends on it.
        first = "" if not spaced[0].isspace() else " "
        last = "" if not spaced[-1].isspace() else " "
        if len(words) == 1:
            return list(split_word(f"{first}{words[0]}{last}"))
        return [
            *split_word(f"{first}{words[0]} "),
            *chain.from_iterable(map(self._memory.__getitem__, words[1:-1])),
            *split_word(f" {words[-1]}{last}"),
        ]

    def tokenize_rouge(self, text: str) -> list[str]:
        """Return the same tokens as `tokenize_bleu`: rouge-score's own would drop every Chinese character."""
        return self.tokenize_bleu(text)


def create() -> ChineseTokenizer:
    """Return a tokenizer with an empty memory."""
    return ChineseTokenizer()
