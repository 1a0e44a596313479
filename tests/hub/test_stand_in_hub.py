"""The stand-in Hub serves the unmodified client libraries, each scenario in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .stand_in_hub import StandInHub

if TYPE_CHECKING:
    from huggingface_hub import HfApi

KIND = "dataset"
DATA, METRIC, MODEL = "org/talk", "org/talk_score", "maker/model"
CARD = """---
configs:
- config_name: one
  data_files: [{split: test, path: one/test.parquet}]
- config_name: two
  data_files: [{split: test, path: two/test.parquet}]
---
# Talk
"""
SCRIPT = '''"""Counts matches."""
import datasets
import evaluate
from .helper import FACTOR
class TalkScore(evaluate.Metric):
    def _info(self):
        kinds = dict.fromkeys(("predictions", "references"), datasets.Value("string"))
        text = {"description": "", "citation": "", "inputs_description": ""}
        return evaluate.MetricInfo(features=datasets.Features(kinds), **text)
    def _compute(self, predictions, references):
        return {"hits": FACTOR * sum(a == b for a, b in zip(predictions, references))}
'''
RESULT = "- dataset: {id: org/talk, task_id: one}\n  value: 0.5\n"


def run_client(hub: StandInHub, home: Path, name: str) -> None:
    """Run one of the functions below in a process of its own, as a user of the libraries would."""
    settings = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home / "hf"),
        "HF_TOKEN": hub.token or "hf_any",
        "HF_HUB_DISABLE_XET": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "NO_PROXY": "127.0.0.1",
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    root = Path(__file__).parents[__name__.count(".")]
    done = subprocess.run(
        [sys.executable, "-m", __name__, name, str(home)],
        cwd=root,
        env=inherited | settings,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def refused(call: Callable[[], object], status: int) -> None:
    """Assert that the Hub answers a call with this status."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        call()
    except HfHubHTTPError as error:
        assert error.response.status_code == status, error
    else:
        raise AssertionError(f"not refused with {status}")


def write_dataset(folder: Path) -> Path:
    """A dataset of two configs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, texts in (("one", ["t0", "t1", "t2"]), ("two", ["a", "b"])):
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table({"text": texts}), folder / name / "test.parquet")
    (folder / "README.md").write_text(CARD)
    return folder


# -- what the child processes do


def client_publish(api: HfApi, home: Path) -> None:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    assert api.whoami()["name"] == "tester"
    for name, kind in ((DATA, "dataset"), (METRIC, "space"), (MODEL, "model")):
        for _ in range(2):
            url = api.create_repo(
                name, repo_type=kind, exist_ok=True, space_sdk="gradio" if kind == "space" else None
            )
            assert (url.repo_id, url.repo_type) == (name, kind)
    refused(lambda: api.create_repo(DATA, repo_type=KIND), 409)
    folder = write_dataset(home / "data")
    first = api.upload_folder(repo_id=DATA, repo_type=KIND, folder_path=folder, delete_patterns="*")
    again = api.upload_folder(repo_id=DATA, repo_type=KIND, folder_path=folder, delete_patterns="*")
    assert first.oid == again.oid  # nothing had changed
    assert first.oid == api.dataset_info(DATA).sha
    api.upload_file(path_or_fileobj=b"x", path_in_repo="a b/ü.txt", repo_id=DATA, repo_type=KIND)
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationAdd("c/d.txt", b"d"),
        CommitOperationDelete("a b/", is_folder=True),
    ]
    made = api.create_commit(
        DATA, operations, commit_message="edit", repo_type=KIND, parent_commit=api.dataset_info(DATA).sha
    )
    late = [CommitOperationAdd("late.txt", b"")]
    refused(
        lambda: api.create_commit(DATA, late, commit_message="x", repo_type=KIND, parent_commit=first.oid),
        412,
    )
    names = [".gitattributes", "README.md", "c/d.txt", "one/test.parquet", "two/test.parquet"]
    assert sorted(api.list_repo_files(DATA, repo_type=KIND)) == names
    assert [item.path for item in api.list_repo_tree(DATA, "two", repo_type=KIND)] == ["two/test.parquet"]
    infos = api.get_paths_info(DATA, ["c", "README.md", "none"], repo_type=KIND)
    assert sorted(item.path for item in infos) == ["README.md", "c"]
    titles = [item.title for item in api.list_repo_commits(DATA, repo_type=KIND)]
    assert titles[0] == "edit" and len(titles) == 4
    api.create_tag(DATA, tag="v1.0.0", revision=first.oid, repo_type=KIND)
    api.create_tag(DATA, tag="v1.0.0", repo_type=KIND, exist_ok=True)
    refs = api.list_repo_refs(DATA, repo_type=KIND, include_pull_requests=True)
    assert [(ref.name, ref.target_commit) for ref in refs.tags] == [("v1.0.0", first.oid)]
    assert refs.branches[0].target_commit == made.oid
    assert api.dataset_info(DATA, revision="v1.0.0", files_metadata=True).sha == first.oid
    assert api.space_info(METRIC).sdk == "gradio" and api.model_info(MODEL).id == MODEL
    assert api.repo_exists(MODEL) and not api.repo_exists("org/none")


def client_requests(api: HfApi, home: Path) -> None:
    from huggingface_hub import CommitOperationAdd

    (home / "m/.eval_results").mkdir(parents=True)
    (home / "m/.eval_results/talk.yaml").write_text(RESULT)
    sent = api.upload_folder(repo_id=MODEL, folder_path=home / "m", create_pr=True, commit_message="Results")
    assert (sent.pr_num, sent.pr_revision) == (1, "refs/pr/1")
    add = [CommitOperationAdd(".eval_results/talk.yaml", b"[]")]
    api.create_commit(MODEL, add, commit_message="Rival", create_pr=True)
    api.create_commit(MODEL, [CommitOperationAdd("more", b"1")], commit_message="More", revision="refs/pr/1")
    assert [item.num for item in api.get_repo_discussions(MODEL, discussion_type="pull_request")] == [2, 1]
    details = api.get_discussion_details(MODEL, 1)
    assert (details.status, details.title, details.target_branch) == ("open", "Results", "refs/heads/main")
    api.merge_pull_request(MODEL, 1)
    assert api.get_discussion_details(MODEL, 1).merge_commit_oid == api.model_info(MODEL).sha
    refused(lambda: api.merge_pull_request(MODEL, 2), 409)
    assert api.get_discussion_details(MODEL, 2).conflicting_files == [".eval_results/talk.yaml"]
    api.change_discussion_status(MODEL, 2, "closed")
    assert not list(api.get_repo_discussions(MODEL, discussion_status="open"))
    found = api.model_info(MODEL, expand=["evalResults"]).eval_results
    assert found and (found[0].dataset_id, found[0].value) == (DATA, 0.5)


def client_load(api: HfApi, home: Path) -> None:
    import datasets
    import evaluate
    from huggingface_hub import hf_hub_download, snapshot_download

    copy = Path(snapshot_download(DATA, repo_type="dataset", revision="v1.0.0"))
    assert (copy / "README.md").read_text() == CARD
    assert datasets.load_dataset(DATA, "one", split="test")["text"][:] == ["t0", "t1", "t2"]
    assert datasets.load_dataset(DATA, "two", split="test", revision="v1.0.0")["text"][:] == ["a", "b"]
    assert evaluate.load(METRIC).compute(predictions=["a"], references=["a"]) == {"hits": 2}
    assert evaluate.load(METRIC, revision="1.0.0").compute(predictions=["a"], references=["a"]) == {"hits": 1}
    big = Path(hf_hub_download(DATA, "big.bin", repo_type="dataset"))
    assert big.read_bytes() == bytes(range(256)) * 45_000


def client_faults(api: HfApi, home: Path) -> None:
    import httpx2

    def upload() -> None:
        api.upload_file(path_or_fileobj=os.urandom(500_000), path_in_repo="x", repo_id=MODEL)

    refused(upload, 503)
    for _ in range(2):
        try:
            upload()
        except httpx2.TransportError:
            continue
        raise AssertionError("the connection was to be killed")


def client_rights(api: HfApi, home: Path) -> None:
    from huggingface_hub import HfApi

    def upload(token: str | bool, *, pull: bool = False) -> None:
        HfApi(token=token).upload_file(path_or_fileobj=b"1", path_in_repo="x", repo_id=MODEL, create_pr=pull)

    refused(lambda: upload("hf_wrong"), 401)
    refused(lambda: upload(False), 401)
    refused(lambda: upload("hf_read"), 403)
    refused(lambda: upload("hf_write"), 403)  # someone else's model
    upload("hf_write", pull=True)
    refused(lambda: api.create_repo("others/data", repo_type="dataset"), 403)
    api.create_repo("mine", repo_type="dataset", private=True)
    refused(lambda: HfApi(token=False).dataset_info("tester/mine"), 401)


def client_many(api: HfApi, home: Path) -> None:
    def upload(number: int) -> None:
        api.upload_file(path_or_fileobj=b"%d" % number, path_in_repo=f"runs/{number}", repo_id=MODEL)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(upload, range(16)))


# -- the tests


@pytest.mark.parametrize("lfs", [(), (".parquet",)])
def test_publish(tmp_path: Path, lfs: tuple[str, ...]) -> None:
    with StandInHub(token="hf_write", orgs=["org", "maker"], lfs=lfs) as hub:
        run_client(hub, tmp_path, "publish")
        assert hub.files("dataset", DATA)["c/d.txt"] == b"d"
        assert "c/d.txt" not in hub.files("dataset", DATA, "v1.0.0")
        uploads = [path for method, path, status in hub.requests if (method, status) == ("PUT", 200)]
        assert len(uploads) == 2 * len(lfs)


def test_pull_requests(tmp_path: Path) -> None:
    with StandInHub() as hub:
        hub.create("model", MODEL)
        run_client(hub, tmp_path, "requests")
        assert set(hub.files("model", MODEL)) == {".gitattributes", ".eval_results/talk.yaml", "more"}


def test_load(tmp_path: Path) -> None:
    """The libraries read what lies there; a download that breaks off is resumed."""
    source = write_dataset(tmp_path / "data")
    files = {path.relative_to(source).as_posix(): path.read_bytes() for path in source.rglob("*.*")}
    with StandInHub(lfs=(".parquet",)) as hub:
        data = hub.create("dataset", DATA, files)
        data.tags["v1.0.0"] = data.sha("main")
        data.commit("main", {**data.files(), "big.bin": bytes(range(256)) * 45_000}, "big")
        space = hub.create("space", METRIC, {"talk_score.py": SCRIPT.encode(), "helper.py": b"FACTOR = 1\n"})
        space.tags["v1.0.0"] = space.sha("main")
        space.commit("main", {**space.files(), "helper.py": b"FACTOR = 2\n"}, "twice")
        hub.cut_reply(11_000_000, "/resolve/main/big.bin")
        run_client(hub, tmp_path, "load")
        # the client resumes after whole chunks of 10 MiB
        assert any(status == 206 for _, _, status in hub.requests)


def test_faults(tmp_path: Path) -> None:
    with StandInHub() as hub:
        model = hub.create("model", MODEL)
        hub.fail_next(1, 503)
        hub.drop_after(100_000)
        hub.cut_reply(0)
        run_client(hub, tmp_path, "faults")
        assert [status for _, path, status in hub.requests if "/commit/" in path] == [503, 0, 0]
        assert len(model.commits) == 2  # only the last was carried out, unheard


def test_rights(tmp_path: Path) -> None:
    with StandInHub(token="hf_write", read_token="hf_read", orgs=["org"]) as hub:
        model = hub.create("model", MODEL)
        run_client(hub, tmp_path, "rights")
        assert len(model.commits) == 2 and model.discussions[0].status == "open"
        assert set(hub.repos) == {("model", MODEL), ("dataset", "tester/mine")}


def test_sixteen_committers(tmp_path: Path) -> None:
    with StandInHub() as hub:
        model = hub.create("model", MODEL)
        run_client(hub, tmp_path, "many")
        assert len(list(model.history("main"))) == 17
        assert {path for path in model.files() if path != ".gitattributes"} == {
            f"runs/{i}" for i in range(16)
        }


def test_unknown_request_fails_the_test() -> None:
    import urllib.error
    import urllib.request

    with (
        pytest.raises(AssertionError, match="not emulated"),
        StandInHub() as hub,
        pytest.raises(urllib.error.HTTPError, match="501"),
    ):
        urllib.request.urlopen(f"{hub.url}/api/collections")


if __name__ == "__main__":
    from huggingface_hub import HfApi as _HfApi

    globals()[f"client_{sys.argv[1]}"](_HfApi(), Path(sys.argv[2]))
