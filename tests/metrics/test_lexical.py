"""The lexical parts: equal to sacrebleu and rouge-score, and right where those have nothing to say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import nltk.translate.bleu_score as nltk_bleu
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from h2htalk_metric import rules_13a
from h2htalk_metric.lexical import (
    LexicalScores,
    bleu_scores,
    iter_scores,
    mean_scores,
    scores_from_stats,
    segment_stats,
)
from h2htalk_metric.tokenizer_registry import NAMES, get, resolve

EXACT = 1e-9


def _sacrebleu(tokenize: str, effective_order: bool) -> list[BLEU]:
    return [
        BLEU(
            max_ngram_order=n,
            smooth_method="floor",
            smooth_value=0.1,
            effective_order=effective_order,
            tokenize=tokenize,
        )
        for n in (1, 2, 3, 4)
    ]


ORACLES = {(tok, eff): _sacrebleu(tok, eff) for tok in ("13a", "zh", "char") for eff in (True, False)}
SACREBLEU_TOKENS: dict[str, Callable[[str], str]] = {
    name: ORACLES[name, True][0].tokenizer for name in ("13a", "zh", "char")
}
ROUGE = RougeScorer(["rouge1", "rougeL"], use_stemmer=False)
TOKENIZERS = {name: get(name) for name in ("13a", "zh", "char")}


class _SameTokens:
    """Gives rouge-score the token list that BLEU uses (its own drops everything but ASCII)."""

    def __init__(self, name: str) -> None:
        self._name = name

    def tokenize(self, text: str) -> list[str]:
        return SACREBLEU_TOKENS[self._name](text.rstrip()).split()


ROUGE_SAME = {name: RougeScorer(["rouge1", "rougeL"], tokenizer=_SameTokens(name)) for name in ("zh", "char")}


def libraries(prediction: str, reference: str, tokenizer: str = "13a", eff: bool = True) -> list[float]:
    bleu = [oracle.sentence_score(prediction, [reference]).score / 100 for oracle in ORACLES[tokenizer, eff]]
    scorer = ROUGE if tokenizer == "13a" else ROUGE_SAME[tokenizer]
    rouge = scorer.score(reference, prediction)
    return [*bleu, rouge["rouge1"].fmeasure, rouge["rougeL"].fmeasure]


def ours(prediction: str, reference: str, tokenizer: str = "13a", eff: bool = True) -> LexicalScores:
    return scores_from_stats(segment_stats(prediction, reference, TOKENIZERS[tokenizer]), eff)


def assert_equal(prediction: str, reference: str, tokenizer: str = "13a", eff: bool = True) -> None:
    mine, theirs = (
        ours(prediction, reference, tokenizer, eff),
        libraries(prediction, reference, tokenizer, eff),
    )
    assert mine == pytest.approx(theirs, abs=EXACT, rel=0), (prediction, reference, tokenizer, eff)
    assert all(0.0 <= part <= 1.0 for part in mine)


# Everything on which the tokenizers have a rule, or on which a shortcut could go wrong.
_WORDS = r"""
the a of I you tea don't rock-n-roll e.g. U.S. 3.14 1,000 5-6 10-year-old x2 café Ünïcode naïve
( ) [ ] { } ! ? ; : " ' ` ~ @ # $ % ^ & * + = / \ | < > _ - -- ... .. , . ,, ., ,. .5 5. 5, ,5
5..6 5...6 5,,6 a.b a..b a.5 5.a 1-2-3 -1 1- &amp; &quot; &lt; &gt; &amp;lt; &am p; <skipped>
我 你 今天天气很好 喝茶。 ， 「 Ａ １ ー カ 한국어 𠀀 ö ß İ K ſ Σ σ ς ﬁ
😊 👩‍👩‍👧 ☕ ’ “ ” … — • № ²
"""
PIECES = [
    *_WORDS.split(),
    "-\n",
    "-\n-",
    "<skip-\nped>",
    "\u200b",
    "\u2003",
    "\u3000",
    "\x1c",
    "\x85",
    "\u2028",
    "\ufeff",
    "\x00",
]
JOINTS = ["", " ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000"]


def _random_text(rng: random.Random, longest: int) -> str:
    pool = rng.sample(PIECES, rng.randint(1, len(PIECES)))
    return "".join(rng.choice(pool) + rng.choice(JOINTS) for _ in range(rng.randint(0, longest)))


def _mutated(rng: random.Random, text: str) -> str:
    words = text.split(" ")
    for _ in range(rng.randint(0, 4)):
        position = rng.randrange(len(words))
        action = rng.randrange(4)
        if action == 0:
            words[position] = rng.choice(PIECES)
        elif action == 1:
            words.insert(position, words[rng.randrange(len(words))])
        elif action == 2 and len(words) > 1:
            del words[position]
        else:
            rng.shuffle(words)
    return " ".join(words)


def _random_pairs(seed: int, count: int, longest: int) -> Iterator[tuple[str, str]]:
    rng = random.Random(seed)
    for _ in range(count):
        reference = _random_text(rng, longest)
        yield (_mutated(rng, reference) if rng.random() < 0.6 else _random_text(rng, longest)), reference


@pytest.mark.parametrize("tokenizer", ["13a", "zh", "char"])
def test_thousands_of_adversarial_pairs_equal_the_libraries(tokenizer: str) -> None:
    for prediction, reference in _random_pairs(seed=1, count=2000, longest=14):
        assert_equal(prediction, reference, tokenizer)
    for prediction, reference in _random_pairs(seed=2, count=500, longest=6):
        assert_equal(prediction, reference, tokenizer, eff=False)


def test_realistic_english_pairs_equal_the_libraries() -> None:
    rng = random.Random(3)
    text = "I you feel so tired today, but (smiles) it's okay. Let's walk at 18:30 - maybe? We can rest!"
    words = text.split()
    for _ in range(400):
        reference = " ".join(rng.choice(words) for _ in range(rng.randint(1, 60)))
        prediction = " ".join(rng.choice(words) for _ in range(rng.randint(1, 60)))
        assert_equal(prediction, reference)


MESSY = st.text(
    alphabet=st.one_of(
        st.sampled_from("aAb05.,-'&;<>!() \n\t\u00a0\u3000我你。😊éİK"), st.characters(codec="utf-8")
    ),
    max_size=40,
)


@settings(max_examples=600, deadline=None)
@given(prediction=MESSY, reference=MESSY, tokenizer=st.sampled_from(["13a", "zh", "char"]), eff=st.booleans())
@example(prediction="", reference="a", tokenizer="13a", eff=True)
@example(prediction="5.", reference="5.", tokenizer="zh", eff=True)
@example(prediction=".5 a", reference=".5 a", tokenizer="zh", eff=False)
def test_any_two_texts_equal_the_libraries(
    prediction: str, reference: str, tokenizer: str, eff: bool
) -> None:
    assert_equal(prediction, reference, tokenizer, eff)


@settings(max_examples=600, deadline=None)
@given(text=MESSY)
def test_tokens_equal_sacrebleus(text: str) -> None:
    """Equal scores could hide different tokens, so the token lists are compared too."""
    for name, tokenizer in TOKENIZERS.items():
        assert tokenizer.tokenize_bleu(text) == SACREBLEU_TOKENS[name](text.rstrip()).split()


def test_chinese_tokenizer_separates_exactly_the_characters_that_sacrebleu_separates() -> None:
    """Every code point but surrogates, between two letters: one token or three."""
    zh = TOKENIZERS["zh"]
    codes = [*range(0x20, 0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 251)]
    different = []
    for code in codes:
        character = chr(code)
        apart = TokenizerZh._is_chinese_char(character)
        # ASCII punctuation and whitespace split words under the v13a rules, whatever the table says.
        if character.isspace() or code < 0x80:
            continue
        if zh.tokenize_bleu(f"a{character}a") != (["a", character, "a"] if apart else [f"a{character}a"]):
            different.append(hex(code))
    assert different == []


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("", "a b c"),
        (" \n\u3000", "a b c"),
        ("a", "a"),
        ("a", "b"),
        ("a b", "a b c d e f"),
        ("a b c d", "a b c d"),
        ("a a a a a a a a", "a"),
        ("a", "a a a a a a a a"),
        ("a a a a b b b b", "b b b b a a a a"),
        ("😊 😊 😊", "😊 ☕ 😊"),
        ("😊", "😊"),
        ("Ich fühle mich müde 我很累 I'm tired", "Ich bin müde, 我累了 I am tired"),
        ("THE CAT", "the cat"),
        ("<skipped>", "<skipped> a"),
    ],
)
@pytest.mark.parametrize("eff", [True, False])
def test_edge_cases_equal_the_libraries(prediction: str, reference: str, eff: bool) -> None:
    assert_equal(prediction, reference, eff=eff)


def test_ten_thousand_tokens() -> None:
    """rouge-score's table would have 10^8 cells here, so the LCS is known by construction instead."""
    rng = random.Random(4)
    vocabulary = [f"w{i}" for i in range(300)]
    reference = [rng.choice(vocabulary) for _ in range(10_000)]
    prediction = [word for word in reference if rng.random() < 0.9]
    stats = segment_stats(" ".join(prediction), " ".join(reference), get("13a"))
    expected = [
        oracle.sentence_score(" ".join(prediction), [" ".join(reference)]).score / 100
        for oracle in ORACLES["13a", True]
    ]
    assert bleu_scores(stats) == pytest.approx(expected, abs=EXACT)
    assert stats.rouge_lcs == stats.rouge_overlap == len(prediction)
    distinct = [f"x{i}" for i in range(10_000)]
    backwards = segment_stats(" ".join(distinct), " ".join(reversed(distinct)), get("13a"))
    assert (backwards.rouge_lcs, backwards.rouge_overlap, backwards.matches) == (1, 10_000, (10_000, 0, 0, 0))


def test_long_texts_equal_rouge_score() -> None:
    rng = random.Random(5)
    for size in (500, 700):
        first, second = (" ".join(f"w{rng.randrange(80)}" for _ in range(size)) for _ in range(2))
        assert_equal(first, second)


def test_english_worked_by_hand() -> None:
    """13a: `A cat sat on the mat .` against `The cat sat on the mat !`, 7 tokens each, so no brevity penalty.

    Unigrams that match: cat sat on the mat, 5 of 7. Bigrams 4 of 6, trigrams 3 of 5, 4-grams 2 of 4.
    ROUGE tokens: `a cat sat on the mat` against `the cat sat on the mat`: 5 common, also in order, F = 10/12.
    """
    scores = ours("A cat sat on the mat.", "The cat sat on the mat!")
    assert scores.bleu_1 == pytest.approx(5 / 7)
    assert scores.bleu_2 == pytest.approx((5 / 7 * 4 / 6) ** (1 / 2))
    assert scores.bleu_3 == pytest.approx((5 / 7 * 4 / 6 * 3 / 5) ** (1 / 3))
    assert scores.bleu_4 == pytest.approx((5 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** (1 / 4))
    assert (scores.rouge_1, scores.rouge_l) == (10 / 12, 10 / 12)


def test_brevity_penalty_worked_by_hand() -> None:
    """3 tokens of 5, all matching: BLEU-1..3 = exp(1 - 5/3); order 4 does not exist and is left out or 0."""
    scores = ours("one two three", "one two three four five")
    assert scores[:4] == pytest.approx([math.exp(1 - 5 / 3)] * 4)
    assert ours("one two three", "one two three four five", eff=False).bleu_4 == 0.0
    assert scores.rouge_1 == scores.rouge_l == 2 * 3 / (3 + 5)


@pytest.mark.parametrize("tokenizer", ["zh", "char"])
def test_chinese_of_four_tokens_worked_by_hand(tokenizer: str) -> None:
    """我很想你 against 我好想你: unigrams 3/4, bigrams 1/3 (想你), trigrams 0.1/2, 4-grams 0.1/1."""
    scores = ours("我很想你", "我好想你", tokenizer)
    assert scores.bleu_1 == pytest.approx(0.75)
    assert scores.bleu_2 == pytest.approx((0.75 / 3) ** 0.5)
    assert scores.bleu_3 == pytest.approx((0.75 / 3 * 0.05) ** (1 / 3))
    assert scores.bleu_4 == pytest.approx((0.75 / 3 * 0.05 * 0.1) ** 0.25)
    assert (scores.rouge_1, scores.rouge_l) == (0.75, 0.75)


@pytest.mark.parametrize("tokenizer", ["zh", "char", "jieba"])
@pytest.mark.parametrize(
    "text",
    [
        "我",
        "我想你",
        "（轻轻抱住你）今天辛苦了，我们一起去喝奶茶好不好？",
        "早上 9:30 去图书馆看《三体》。😊",
    ],
)
def test_identical_chinese_text_scores_one(tokenizer: str, text: str) -> None:
    scores = next(iter_scores([(text, text)], get(tokenizer)))
    assert scores == LexicalScores(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def test_jieba_cuts_words_and_names_its_version() -> None:
    jieba = get("jieba")
    assert jieba.tokenize_bleu("我们 去图书馆") == ["我们", "去", "图书馆"]
    assert jieba.tokenize_rouge("我们 去图书馆") == ["我们", "去", "图书馆"]
    assert jieba.bleu_name == "jieba-0.42.1"


def test_jieba_ignores_words_added_to_the_global_dictionary() -> None:
    import jieba

    before = get("jieba").tokenize_bleu("去图书馆喝茶")
    jieba.add_word("图书馆喝茶", freq=10**9)
    try:
        assert get("jieba").tokenize_bleu("去图书馆喝茶") == before
    finally:
        jieba.del_word("图书馆喝茶")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "13a"])
def test_rouge_never_falls_back_to_ascii_for_chinese(name: str) -> None:
    assert "".join(get(name).tokenize_rouge("我想你 A")) == "我想你A"


def test_rouge_in_english_drops_what_rouge_score_drops() -> None:
    """Documented in the card: an accent splits a word, an emoji and a curly quote vanish."""
    assert get("13a").tokenize_rouge("Café “don’t” 😊 x_2") == ["caf", "don", "t", "x", "2"]
    scores = ours("Café 😊", "caf")
    assert (scores.bleu_1, scores.rouge_1) == (0.0, 1.0)


def _nltk(prediction: str, reference: str) -> list[float]:
    hyp, ref = prediction.split(), reference.split()
    smooth = nltk_bleu.SmoothingFunction(epsilon=0.1).method1
    return [
        float(nltk_bleu.sentence_bleu([ref], hyp, weights=(1 / n,) * n, smoothing_function=smooth))
        for n in (1, 2, 3, 4)
    ]


def test_nltk_method_1_is_the_same_from_four_tokens_on() -> None:
    rng = random.Random(6)
    for _ in range(500):
        prediction = " ".join(rng.choice("abcdefg") for _ in range(rng.randint(4, 20)))
        reference = " ".join(rng.choice("abcdefg") for _ in range(rng.randint(1, 20)))
        for eff in (True, False):
            assert ours(prediction, reference, eff=eff)[:4] == pytest.approx(
                _nltk(prediction, reference), abs=EXACT
            )


def test_nltk_method_1_differs_below_four_tokens_as_documented() -> None:
    """`a` against `a`: NLTK counts each missing order as 0.1/1; here it is left out, or makes the score 0."""
    assert _nltk("a", "a") == pytest.approx([1.0, 0.1**0.5, 0.1 ** (2 / 3), 0.1**0.75])
    assert ours("a", "a")[:4] == (1.0, 1.0, 1.0, 1.0)
    assert ours("a", "a", eff=False)[:4] == (1.0, 0.0, 0.0, 0.0)
    # Orders that the prediction does have agree even so.
    assert ours("a b", "a c b")[:2] == pytest.approx(_nltk("a b", "a c b")[:2])


@settings(max_examples=200, deadline=None)
@given(prediction=MESSY, reference=MESSY)
def test_statistics_are_consistent(prediction: str, reference: str) -> None:
    stats = segment_stats(prediction, reference, TOKENIZERS["13a"])
    mirrored = segment_stats(reference, prediction, TOKENIZERS["13a"])
    assert stats.matches == mirrored.matches
    assert (stats.rouge_overlap, stats.rouge_lcs) == (mirrored.rouge_overlap, mirrored.rouge_lcs)
    assert stats.totals == tuple(max(stats.hyp_len - n, 0) for n in range(4))
    assert all(match <= total for match, total in zip(stats.matches, stats.totals, strict=True))
    assert stats.rouge_lcs <= stats.rouge_overlap <= min(stats.rouge_hyp_len, stats.rouge_ref_len)


def test_a_stream_is_scored_without_being_held() -> None:
    """The scores come out before the next pair is read, and the word memory stays bounded."""
    read = []

    def pairs() -> Iterator[tuple[str, str]]:
        for index in range(3):
            read.append(index)
            yield f"word{index} here", f"word{index} there"

    stream = iter_scores(pairs(), get("13a"))
    next(stream)
    assert read == [0]
    assert mean_scores(stream)[1] == 2
    assert mean_scores([]) == (None, 0)
    mean, n = mean_scores(iter_scores([("a b", "a b"), ("", "a b")], get("13a")))
    assert (mean, n) == (LexicalScores(0.5, 0.5, 0.5, 0.5, 0.5, 0.5), 2)


@pytest.mark.parametrize("name", ["13a", "zh"])
def test_word_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_13a, "MAX_REMEMBERED_WORDS", 100)
    tokenizer = get(name)
    sizes = []
    for start in range(0, 2000, 50):
        text = " ".join(f"w{i}." for i in range(start, start + 50))
        assert tokenizer.tokenize_bleu(text)[:2] == [f"w{start}", "."]
        sizes += [len(memory) for memory in vars(tokenizer).values()]
        tokenizer.tokenize_rouge(text)
        sizes += [len(memory) for memory in vars(tokenizer).values()]
    assert 100 < max(sizes) <= 150


def test_an_empty_reference_is_an_error_that_names_the_record() -> None:
    with pytest.raises(ValueError, match=r"record 1 \(id B\): the reference is empty"):
        list(iter_scores([("a", "a"), ("a", " \n")], get("13a"), ids=["A", "B"]))


@pytest.mark.parametrize(
    ("language", "tokenizer", "expected"),
    [
        ("en", None, "13a"),
        ("zh", None, "zh"),
        ("zh", "jieba", "jieba"),
        ("zh", "char", "char"),
        ("en", "zh", "zh"),
    ],
)
def test_tokenizer_of_a_language(language: str, tokenizer: str | None, expected: str) -> None:
    assert resolve(language, tokenizer) == expected


@pytest.mark.parametrize(
    ("language", "tokenizer", "message"),
    [
        ("de", None, "unknown language 'de'; valid: en, zh"),
        ("en", "moses", "unknown tokenizer 'moses'; valid: 13a, zh, jieba, char"),
        ("zh", "13a", "ASCII only"),
    ],
)
def test_unknown_language_or_tokenizer(language: str, tokenizer: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(language, tokenizer)
