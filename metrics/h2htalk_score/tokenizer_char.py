"""Characters: every character that is not whitespace is a token, for BLEU and ROUGE (sacrebleu's `char`)."""

from __future__ import annotations


class CharacterTokenizer:
    """One token a code point; case kept."""

    name = "char"
    bleu_name = "char"
    rouge_name = "char"

    def tokenize_bleu(self, text: str) -> list[str]:
        """Return the characters of `text` without whitespace."""
        return list("".join(text.split()))

    def tokenize_rouge(self, text: str) -> list[str]:
        """Return the same tokens as `tokenize_bleu`."""
        return self.tokenize_bleu(text)


def create() -> CharacterTokenizer:
    """Return the tokenizer (it has no state)."""
    return CharacterTokenizer()
