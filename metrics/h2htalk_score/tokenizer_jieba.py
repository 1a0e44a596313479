"""Chinese words as jieba cuts them (default mode), for BLEU and ROUGE. Needs the extra `zh`."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any


class JiebaTokenizer:
    """jieba words without whitespace; case kept. The dictionary is read on first use (about a second)."""

    name = "jieba"
    rouge_name = "jieba"

    def __init__(self) -> None:
        try:
            import jieba
        except ModuleNotFoundError as error:
            message = "tokenizer 'jieba' needs the package jieba: pip install jieba"
            raise ModuleNotFoundError(message) from error
        # jieba writes its loading time to stderr at DEBUG level whatever the application has configured.
        jieba.setLogLevel(logging.WARNING)
        # An own instance: words that an application adds to jieba's global dictionary must not change scores.
        self._cut: Any = jieba.Tokenizer().lcut
        # The dictionary that ships with a version decides the words.
        self.bleu_name = f"jieba-{jieba.__version__}"
        self._tokens = lru_cache(maxsize=1024)(self._tokenize)

    def _tokenize(self, text: str) -> tuple[str, ...]:
        return tuple(word for word in self._cut(text) if not word.isspace())

    def tokenize_bleu(self, text: str) -> list[str]:
        """Return the words of `text`."""
        return list(self._tokens(text))

    def tokenize_rouge(self, text: str) -> list[str]:
        """Return the same tokens as `tokenize_bleu`."""
        return self.tokenize_bleu(text)


@lru_cache(maxsize=1)
def create() -> JiebaTokenizer:
    """Return the tokenizer; the same one every time, because reading the dictionary takes a second.

    Raises:
        ModuleNotFoundError: jieba is not installed; the message says how to install it.
    """
    return JiebaTokenizer()
