"""Which tokenizer a language gets, and how to get one by name. Nothing is loaded before it is asked for.

The module is not called `tokenizers`: the Space runs its app inside this folder, where that name would hide
the library that transformers imports.
"""

from __future__ import annotations

from typing import Protocol

DEFAULTS = {"en": "13a", "zh": "zh"}
NAMES = ("13a", "zh", "jieba", "char")


class Tokenizer(Protocol):
    """What scoring needs of a tokenizer: two token lists, and the two names that go into the signature."""

    name: str
    bleu_name: str
    rouge_name: str

    def tokenize_bleu(self, text: str) -> list[str]:
        """Return the tokens that BLEU counts."""
        ...

    def tokenize_rouge(self, text: str) -> list[str]:
        """Return the tokens that ROUGE counts."""
        ...


def get(name: str) -> Tokenizer:
    """Return a new tokenizer.

    Args:
        name: `13a`, `zh`, `jieba` or `char`.

    Raises:
        ValueError: No tokenizer has that name.
        ModuleNotFoundError: `jieba` is asked for and not installed.
    """
    if name == "13a":
        from .tokenizer_en import create as create_13a

        return create_13a()
    if name == "zh":
        from .tokenizer_zh import create as create_zh

        return create_zh()
    if name == "jieba":
        from .tokenizer_jieba import create as create_jieba

        return create_jieba()
    if name == "char":
        from .tokenizer_char import create as create_char

        return create_char()
    raise ValueError(f"unknown tokenizer {name!r}; valid: {', '.join(NAMES)}")


def resolve(language: str, tokenizer: str | None = None) -> str:
    """Return the tokenizer name for a language, or `tokenizer` itself if it is given and known.

    Args:
        language: `en` or `zh`.
        tokenizer: A name that overrides the language's default.

    Raises:
        ValueError: The language or the tokenizer is unknown, or `13a` is asked for on `zh` (its ROUGE side
            keeps ASCII only, so every Chinese character would be dropped without a word).
    """
    if language not in DEFAULTS:
        raise ValueError(f"unknown language {language!r}; valid: {', '.join(DEFAULTS)}")
    name = DEFAULTS[language] if tokenizer is None else tokenizer
    if name not in NAMES:
        raise ValueError(f"unknown tokenizer {name!r}; valid: {', '.join(NAMES)}")
    if language == "zh" and name == "13a":
        raise ValueError("tokenizer '13a' is for language 'en': its ROUGE tokens are ASCII only")
    return name
