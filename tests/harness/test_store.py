"""The run store: whole lines only, whatever happens to the process or the disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h2htalk_harness.errors import SettingsError, StoreError
from h2htalk_harness.store import Appender, RunFolder, differences, read_json, read_rows, write_json

rows = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=30) | st.integers(-9, 9), max_size=4), max_size=8
)


@given(rows, st.binary(max_size=40).filter(lambda tail: b"\n" not in tail))
def test_a_torn_tail_is_dropped_and_everything_before_it_kept(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, object]], tail: bytes
) -> None:
    path = tmp_path_factory.mktemp("store") / "rows.jsonl"
    appender = Appender(path)
    for row in written:
        appender.append(row)
    appender.close()
    with path.open("ab") as file:
        file.write(tail)
    assert list(read_rows(path)) == written
    again = Appender(path)
    again.append({"id": "next"})
    again.close()
    assert list(read_rows(path)) == [*written, {"id": "next"}]


def test_a_torn_tail_longer_than_a_block_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"id": 1}\n' + b"x" * 200_000)
    Appender(path).close()
    assert path.read_bytes() == b'{"id": 1}\n'


def test_killed_while_writing_leaves_whole_lines(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from h2htalk_harness.store import RunFolder\n"
        "folder = RunFolder(Path(sys.argv[1]))\n"
        "for number in range(10**9):\n"
        "    folder.append('rows.jsonl', {'id': number, 'text': 'x' * (number % 5000)})\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "run")])
    path = tmp_path / "run" / "rows.jsonl"
    while not path.exists() or path.stat().st_size < 500_000:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with RunFolder(tmp_path / "run") as folder:
        count = len(folder.done("rows.jsonl"))
        assert [row["id"] for row in read_rows(path)] == list(range(count)) and count > 100


def test_full_disk_is_one_error_and_earlier_rows_are_safe(tmp_path: Path) -> None:
    """A file-size limit makes the kernel refuse the write just as a full disk does."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from h2htalk_harness.store import RunFolder\n"
        "from h2htalk_harness.errors import StoreError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "folder = RunFolder(Path(sys.argv[1]))\n"
        "try:\n"
        "    for number in range(1000): folder.append('rows.jsonl', {'id': number, 'text': 'x' * 100})\n"
        "except StoreError as error: print(error)\n"
    )
    assert resource.RLIMIT_FSIZE
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True)
    assert "rows.jsonl: cannot be written" in done.stdout and "earlier rows are safe" in done.stdout
    path = tmp_path / "run" / "rows.jsonl"
    kept = list(read_rows(path))
    assert [row["id"] for row in kept] == list(range(len(kept))) and len(kept) > 50
    assert path.read_bytes().endswith(b"\n")


def test_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1}\n{"id": \n{"id": 3}\n')
    with pytest.raises(StoreError, match=r"rows.jsonl:2: not JSON"):
        list(read_rows(path))


def test_settings_are_settled_once(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as folder:
        folder.settle("manifest.json", {"settings": {"a": {"b": 1}, "c": 2}})
        folder.settle("manifest.json", {"settings": {"a": {"b": 1}, "c": 2}})
        with pytest.raises(SettingsError, match=r"a\.b: 1 there, 3 now; c: 2 there, None now"):
            folder.settle("manifest.json", {"settings": {"a": {"b": 3}}})


@given(st.recursive(st.integers() | st.text(max_size=3),
                    lambda inner: st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=3)))  # fmt: skip
def test_no_difference_to_itself_through_json(value: object) -> None:
    assert differences(value, json.loads(json.dumps(value))) == []


def test_json_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]
