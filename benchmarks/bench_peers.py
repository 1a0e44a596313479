"""Other harnesses for `bench_harness.py --peers VENV`: how each is told to send the same requests.

    python -m venv VENV
    VENV/bin/pip install "lm_eval[api]" opencompass "pyarrow<22"   # newer ones want numpy 2, OpenCompass 1

Every peer gets the message lists as messages, 64 in flight, 64 new tokens at most, temperature 0, no scoring,
and keeps its answers on disk, as `h2htalk run` does. Where a peer offers its users a faster way, it is taken;
the comments say which.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Messages = list[dict[str, str]]
Started = tuple[list[str], dict[str, str]]
Prepare = Callable[[Path, str, list[Messages], Path], Started]

IN_FLIGHT = 64
NEW_TOKENS = 64
MODEL = "bench/model"
PATH = "/v1/chat/completions"


def _environment(folder: Path) -> dict[str, str]:
    """Nothing from the Hub, caches in the peer's own folder, and a key that no server looks at."""
    return {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
        "OPENAI_API_KEY": "none",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _program(venv: Path, name: str) -> str:
    """A program of the venv, from any working directory."""
    return str(venv.absolute() / "bin" / name)


def _rows(messages: list[Messages], path: Path) -> None:
    """The message lists as JSON lines."""
    path.write_text("".join(json.dumps({"messages": each}) + "\n" for each in messages), encoding="utf-8")


# A YAML task alone can give no more than a system and a user message; a class can hand over any list.
_LM_EVAL_CLASS = '''
from lm_eval.api.task import ConfigurableTask


class Chat(ConfigurableTask):
    """Rows that already are message lists."""

    def __init__(self, config):
        super().__init__(config={key: value for key, value in config.items() if key != "class"})

    def fewshot_context(self, doc, num_fewshot, chat_template=None, **others):
        return chat_template(doc["messages"])
'''

_LM_EVAL_TASK = """
task: bench_chat
class: !function chat.Chat
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
output_type: generate_until
doc_to_text: "{{{{messages[-1]['content']}}}}"
doc_to_target: ""
num_fewshot: 0
generation_kwargs:
  until: []
  max_gen_toks: {new_tokens}
  temperature: 0
  do_sample: false
metric_list:
  - metric: bypass
"""

# The command line always indexes its 14,000 task files; its Python interface can leave them out.
_LM_EVAL_SCRIPT = """
import sys

from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

tasks, model_args, out = sys.argv[1:]
tracker = EvaluationTracker(output_path=out)
results = simple_evaluate(
    model="local-chat-completions",
    model_args=model_args,
    tasks=["bench_chat"],
    task_manager=TaskManager(include_path=tasks, include_defaults=False),
    apply_chat_template=True,
    fewshot_as_multiturn=True,
    log_samples=True,
    evaluation_tracker=tracker,
)
samples = results.pop("samples")
tracker.save_results_aggregated(results=results, samples=samples)
tracker.save_results_samples(task_name="bench_chat", samples=samples["bench_chat"])
"""


def _lm_eval_files(url: str, messages: list[Messages], folder: Path) -> tuple[Path, str]:
    """Write the rows and the task; the task's folder and the model's arguments."""
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    _rows(messages, folder / "rows.jsonl")
    (tasks / "chat.py").write_text(_LM_EVAL_CLASS)
    task = _LM_EVAL_TASK.format(rows=json.dumps(str(folder / "rows.jsonl")), new_tokens=NEW_TOKENS)
    (tasks / "bench_chat.yaml").write_text(task)
    named = {"model": MODEL, "base_url": url + PATH, "num_concurrent": IN_FLIGHT, "max_retries": 3}
    return tasks, ",".join(f"{key}={value}" for key, value in named.items())


def lm_eval(venv: Path, url: str, messages: list[Messages], folder: Path) -> Started:
    """lm-eval from its command line, with a task of its own."""
    tasks, model = _lm_eval_files(url, messages, folder)
    command = [_program(venv, "lm-eval"), "run", "--model", "local-chat-completions"]
    command += ["--model_args", model, "--tasks", "bench_chat", "--include_path", str(tasks)]
    command += ["--apply_chat_template", "--log_samples", "--output_path", str(folder / "out")]
    return command, _environment(folder)


def lm_eval_python(venv: Path, url: str, messages: list[Messages], folder: Path) -> Started:
    """lm-eval from its Python interface, which need not index the tasks it ships."""
    tasks, model = _lm_eval_files(url, messages, folder)
    (folder / "evaluate.py").write_text(_LM_EVAL_SCRIPT)
    command = [_program(venv, "python"), str(folder / "evaluate.py"), str(tasks), model]
    return [*command, str(folder / "out")], _environment(folder)


def _tokenizer(folder: Path) -> None:
    """A tokenizer that only splits words: OpenCompass counts tokens and would fetch one from the network."""
    folder.mkdir()
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    whole: dict[str, Any] = {"version": "1.0", "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}
    empty = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    whole |= {"added_tokens": [], **dict.fromkeys(empty)}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))


def _opencompass_config(url: str, rows: int, folder: Path) -> dict[str, Any]:
    """One model, one dataset, one task.

    One batch holds all rows, so that no batch waits for its slowest row. The runner is in debug mode, which
    runs the task in this process; `--debug` would also log every answer. The rate is above what 64 in flight
    can reach, and no higher, because OpenCompass spends a thread on it. Without ``max_seq_len`` the prompts
    are not counted once more before the start.
    """
    model = {
        "type": "opencompass.models.OpenAI",
        "abbr": "bench",
        "path": MODEL,
        "key": "none",
        "openai_api_base": url + PATH,
        "tokenizer_path": str(folder / "tokenizer"),
        "temperature": 0.0,
        "query_per_second": 2000,
        "max_workers": IN_FLIGHT,
        "max_out_len": NEW_TOKENS,
        "batch_size": rows,
    }
    inference = {
        "prompt_template": {
            "type": "opencompass.openicl.icl_raw_prompt_template.RawPromptTemplate",
            "messages": [{"expand_column": "messages"}],
        },
        "retriever": {"type": "opencompass.openicl.icl_retriever.ZeroRetriever"},
        "inferencer": {"type": "opencompass.openicl.icl_inferencer.GenInferencer"},
    }
    dataset = {
        "type": "opencompass.datasets.CustomDataset",
        "abbr": "bench_chat",
        "path": str(folder / "rows.jsonl"),
        "reader_cfg": {"input_columns": ["messages"], "output_column": None},
        "infer_cfg": inference,
    }
    task = {"type": "opencompass.tasks.OpenICLInferTask"}
    infer = {
        "partitioner": {"type": "opencompass.partitioners.NaivePartitioner"},
        "runner": {"type": "opencompass.runners.LocalRunner", "debug": True, "task": task},
    }
    return {"models": [model], "datasets": [dataset], "infer": infer}


def opencompass(venv: Path, url: str, messages: list[Messages], folder: Path) -> Started:
    """OpenCompass with its OpenAI API model, inference only, in one process.

    It writes into its working directory, so that is the peer's folder.
    """
    folder.mkdir(parents=True)
    _rows(messages, folder / "rows.jsonl")
    _tokenizer(folder / "tokenizer")
    config = _opencompass_config(url, len(messages), folder)
    lines = [f"{key} = {value!r}\n" for key, value in config.items()]
    (folder / "bench.py").write_text("".join(lines))
    command = ["env", "-C", str(folder), _program(venv, "opencompass"), str(folder / "bench.py")]
    return [*command, "--mode", "infer", "--work-dir", str(folder / "out")], _environment(folder)


PEERS: dict[str, Prepare] = {
    "lm-eval": lm_eval,
    "lm-eval-python": lm_eval_python,
    "opencompass": opencompass,
}
