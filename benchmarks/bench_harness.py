"""How near the harness keeps to what its servers can give: rates and ratios, all ways in one run.

    python benchmarks/bench_harness.py                    # needs nginx with its lua module (Debian: nginx
    python benchmarks/bench_harness.py --quick            #   libnginx-mod-http-lua)
    python benchmarks/bench_harness.py --peers VENV       # lm-eval and OpenCompass too, if VENV holds them

nginx answers after a pause, so what is measured is the client: the whole command `h2htalk run`, start-up and
run folder included, beside raw clients (aiohttp, huggingface_hub, openai) in the same run. "Ideal" is the
requests' pauses divided by the number in flight. CPU is user + system time of the process; per request it is
what 2,000 more requests cost, start-up left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

HERE = Path(__file__).resolve().parent
CONFIG = "DialogueBase"


@dataclass(frozen=True)
class Spent:
    """What a process took: wall and CPU seconds, peak memory in MB."""

    wall: float
    cpu: float
    megabytes: float


# Peak memory is inherited over a fork: a small process in between keeps this one's out of the child's.
_MEASURE = """
import json, os, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[2:], stdout=sys.stderr)
_, status, usage = os.wait4(child.pid, 0)
spent = [time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]
with open(sys.argv[1], "w") as file:
    json.dump(spent, file)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(command: list[str], *, limit: float = 900, env: dict[str, str] | None = None) -> Spent:
    """Run a command to its end and say what it took.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    with tempfile.NamedTemporaryFile() as figures, tempfile.TemporaryFile() as said:
        words = [sys.executable, "-S", "-c", _MEASURE, figures.name, *command]
        done = subprocess.run(words, stdout=said, stderr=said, env=env, timeout=limit)
        if done.returncode:
            said.seek(0)
            raise RuntimeError(f"{command[:4]}: {said.read()[-1500:].decode('utf-8', 'replace')}")
        return Spent(*json.loads(Path(figures.name).read_text()))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


_SERVER = """
    lua_shared_dict pause 64k;
    server {
        listen 127.0.0.1:%d;
        location = /info { default_type application/json; return 200
            '{"model_id":"bench/model","model_sha":"s","version":"3"}'; }
        location = /slower { content_by_lua_block {
            ngx.shared.pause:set("s", tonumber(ngx.var.arg_s)) ngx.say("ok") } }
        location / { content_by_lua_block {
            ngx.req.read_body()
            local pause = ngx.shared.pause:get("s") or %f
            if pause > 0 then ngx.sleep(pause) end
            ngx.header.content_type = "application/json"
            ngx.say(answer) } }
    }
"""


class Nginx:
    """A server that pauses before each answer, in processes of its own."""

    def __init__(self, folder: Path, pause: float) -> None:
        folder.mkdir()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        text = (HERE / "nginx.conf").read_text()
        servers = _SERVER % (port, pause)
        (folder / "nginx.conf").write_text(Template(text).substitute(folder=folder, servers=servers))
        command = ["nginx", "-c", str(folder / "nginx.conf")]
        self._child = subprocess.Popen(command, start_new_session=True)
        for _ in range(100):
            try:
                self.get("/info")
                break
            except OSError:
                time.sleep(0.05)

    def get(self, path: str) -> None:
        """Ask for a path and read the answer."""
        urllib.request.urlopen(f"{self.url}{path}").read()

    def kill(self) -> None:
        """End it as a node dies: connections break, nothing is finished."""
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()


@contextmanager
def nginx(*pauses: float) -> Iterator[list[Nginx]]:
    """One server per pause (seconds before each answer)."""
    with tempfile.TemporaryDirectory() as root:
        servers: list[Nginx] = []
        try:
            servers += [Nginx(Path(root) / str(number), pause) for number, pause in enumerate(pauses)]
            yield servers
        finally:
            for server in servers:
                server.kill()


def dataset(n: int, folder: Path) -> Path:
    """A built dataset whose DialogueBase holds ``n`` rows, repeated from the real ones under new ids."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from h2htalk_data.build import build_dataset
    from h2htalk_data.paths import card_folder
    from h2htalk_data.table import SCHEMA

    plain = folder / "plain"
    if not plain.is_dir():
        build_dataset(card_folder(), plain)
    out = folder / f"rows{n}"
    if out.is_dir():
        return out
    shutil.copytree(plain, out)
    manifest = json.loads((out / "fingerprint.json").read_text())
    entry = manifest["configs"][CONFIG]
    rows = pq.read_table(out / entry["file"]).to_pylist()
    with pq.ParquetWriter(out / entry["file"], SCHEMA, compression="zstd") as writer:
        for start in range(0, n, 1000):
            block = [
                {**rows[i % len(rows)], "id": f"{CONFIG}-{i:07d}"} for i in range(start, min(n, start + 1000))
            ]
            writer.write_table(pa.Table.from_pylist(block, schema=SCHEMA))
    entry["n"] = n
    (out / "fingerprint.json").write_text(json.dumps(manifest))
    return out


def command(servers: list[Nginx], data: Path, out: Path, concurrency: int) -> list[str]:
    """`h2htalk run` as a user would give it."""
    urls = ",".join(server.url for server in servers)
    run = [sys.executable, "-m", "h2htalk_harness.cli", "run", "--model", urls, "--configs", CONFIG]
    return [*run, "--dataset", str(data), "--out", str(out), "--concurrency", str(concurrency), "--no-score"]


def answered(out: Path) -> list[str]:
    """Ids with an answer, in order; fails if one stands twice."""
    lines = (out / "generations.jsonl").read_bytes().splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert len(ids) == len(set(ids)), "an answer stands twice"
    return ids


# The raw clients run as children of this script: `bench_harness.py --client NAME URL DATASET IN_FLIGHT`.


def _messages(data: Path) -> list[list[dict[str, str]]]:
    import pyarrow.parquet as pq

    manifest = json.loads((data / "fingerprint.json").read_text())
    table = pq.read_table(data / manifest["configs"][CONFIG]["file"], columns=["messages"])
    found: list[list[dict[str, str]]] = table.column("messages").to_pylist()
    return found


async def _gathered(send: Any, items: list[Any], in_flight: int) -> None:
    gate = asyncio.Semaphore(in_flight)

    async def one(item: Any) -> None:
        async with gate:
            assert await send(item)

    await asyncio.gather(*(one(item) for item in items))


async def _aiohttp(url: str, items: list[Any], in_flight: int) -> None:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send(messages: Any) -> str:
            body = {"model": "m", "messages": messages, "max_tokens": 64, "temperature": 0.0}
            async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                return str((await answer.json())["choices"][0]["message"]["content"])

        await _gathered(send, items, in_flight)


async def _hub(url: str, items: list[Any], in_flight: int) -> None:
    from huggingface_hub import AsyncInferenceClient

    async with AsyncInferenceClient(base_url=url, timeout=600) as client:

        async def send(messages: Any) -> str:
            answer = await client.chat_completion(messages=messages, max_tokens=64, temperature=0.0)
            return str(answer.choices[0].message.content)

        await _gathered(send, items, in_flight)


async def _openai(url: str, items: list[Any], in_flight: int) -> None:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=600) as client:

        async def send(messages: Any) -> str:
            answer = await client.chat.completions.create(
                model="m", messages=messages, max_tokens=64, temperature=0.0
            )
            return str(answer.choices[0].message.content)

        await _gathered(send, items, in_flight)


CLIENTS = {"aiohttp": _aiohttp, "huggingface_hub": _hub, "openai": _openai}


def client_command(name: str, url: str, data: Path, in_flight: int) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--client", name, url, str(data), str(in_flight)]


class Report:
    """Prints each figure with its target and remembers whether any was missed."""

    def __init__(self) -> None:
        self.missed = False
        self.figures: dict[str, float] = {}

    def say(self, text: str) -> None:
        print(text, flush=True)

    def figure(self, label: str, value: float, target: float | None, *, at_most: bool = False) -> None:
        """One figure; ``target`` None is for information."""
        self.figures[label] = value
        verdict = ""
        if target is not None:
            met = value <= target if at_most else value >= target
            self.missed |= not met
            verdict = f"   target {'≤' if at_most else '≥'} {target:g} {'reached' if met else 'MISSED'}"
        self.say(f"{value:10.3f}  {label}{verdict}")


def one_core(work: Path, report: Report, rounds: int) -> None:
    """Requests per second and client CPU per request with nothing but the client in the way."""
    report.say("\n== one core, no pause, 64 in flight")
    small, large = dataset(500, work), dataset(4500, work)
    rates, costs = [], []
    with nginx(0.0) as servers:
        for number in range(rounds):
            pinned = ["taskset", "-c", "0"]
            few = run([*pinned, *command(servers, small, work / f"few{number}", 64)])
            many = run([*pinned, *command(servers, large, work / f"many{number}", 64)])
            rates.append(4000 / (many.wall - few.wall))
            costs.append(1000 * (many.cpu - few.cpu) / 4000)
    report.figure("requests/s through the whole harness", statistics.median(rates), 1500)
    report.figure("ms client CPU per request", statistics.median(costs), 0.65, at_most=True)


def in_flight(work: Path, report: Report, rounds: int) -> None:
    """256 in flight at 500 ms, and 64 at 50 ms beside the raw clients; whole commands."""
    for n, pause, flight, target in ((5120, 0.5, 256, 0.95), (2048, 0.05, 64, None)):
        data = dataset(n, work)
        ideal = n / flight * pause
        report.say(f"\n== {n:,} requests at {1000 * pause:.0f} ms, {flight} in flight; ideal {ideal:.2f} s")
        with nginx(pause) as servers:
            walls: dict[str, list[float]] = {}
            generating: list[float] = []
            for number in range(rounds):
                out = work / f"flight{flight}-{number}"
                walls.setdefault("h2htalk run", []).append(run(command(servers, data, out, flight)).wall)
                session = json.loads((out / "manifest.json").read_text())["sessions"][0]
                generating.append(session["seconds"])
                assert len(answered(out)) == n
                for name in CLIENTS:
                    spent = run(client_command(name, servers[0].url, data, flight))
                    walls.setdefault(f"raw {name}", []).append(spent.wall)
        best = statistics.median(generating)
        report.figure("share of the ideal time, from first request to last answer", ideal / best, target)
        for name, seconds in walls.items():
            report.figure(f"s whole command, {name}", statistics.median(seconds), None)


def shards(work: Path, report: Report, rounds: int) -> None:
    """Four shards; one dies, one becomes ten times slower, a quarter through."""
    n, pause, flight = 12_000, 0.05, 32
    data = dataset(n, work)
    shares = []
    report.say(
        f"\n== {n:,} requests, four shards at 50 ms, {flight} in flight each; one dies, one slows tenfold"
    )
    for number in range(rounds):
        out = work / f"shards{number}"
        with nginx(pause, pause, pause, pause) as servers:
            words, quiet = command(servers, data, out, flight), subprocess.DEVNULL
            child = subprocess.Popen(words, stdout=quiet, stderr=quiet)
            path = out / "generations.jsonl"
            while not path.is_file() or path.read_bytes().count(b"\n") < n // 4:
                time.sleep(0.02)
            servers[0].kill()
            servers[1].get(f"/slower?s={10 * pause}")
            done, began = path.read_bytes().count(b"\n"), time.perf_counter()
            child.wait()
            spent = time.perf_counter() - began
        assert child.returncode == 0 and sorted(answered(out)) == [f"{CONFIG}-{i:07d}" for i in range(n)]
        rate = 2 * flight / pause + flight / (10 * pause)
        shares.append((n - done) / rate / spent)
    label = "share of the ideal of the shards that are left; no row lost or doubled"
    report.figure(label, statistics.median(shares), 0.9)


def memory(work: Path, report: Report, quick: bool) -> None:
    """Peak memory must not grow with the dataset; start-up must be short."""
    report.say("\n== memory and start-up")
    with nginx(0.0) as servers:
        peaks = {}
        for n in (5_000, 20_000 if quick else 200_000):
            spent = run(command(servers, dataset(n, work), work / f"memory{n}", 128), limit=1800)
            peaks[n] = spent.megabytes
            report.say(f"{n:>10,} scenarios: {spent.megabytes:.0f} MB at most, {spent.wall:.1f} s")
        few, many = sorted(peaks)
        report.figure(f"MB at most with {many:,} scenarios", peaks[many], 200, at_most=True)
        report.figure(f"times the memory of {few:,} scenarios", peaks[many] / peaks[few], None)
        first = [first_answer(work, servers, number) for number in range(3)]
    help_page = [run([sys.executable, "-m", "h2htalk_harness.cli", "--help"]).wall for _ in range(5)]
    report.figure("s for --help", statistics.median(help_page), 0.25, at_most=True)
    report.figure("s from start to the first answer", statistics.median(first), 1.5, at_most=True)


def first_answer(work: Path, servers: list[Nginx], number: int) -> float:
    """Seconds from the start of the command to the first answer in its run folder, probe included."""
    out = work / f"first{number}"
    began = time.perf_counter()
    words = command(servers, work / "rows5000", out, 4)
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = out / "generations.jsonl"
    while not path.is_file() or not path.stat().st_size:
        time.sleep(0.002)
    spent = time.perf_counter() - began
    child.kill()
    child.wait()
    return spent


def peers(work: Path, report: Report, venv: Path, rounds: int) -> None:
    """Whole commands of other harnesses on 2,000 requests at 50 ms with 64 in flight."""
    from bench_peers import PEERS

    data = dataset(2000, work)
    report.say("\n== 2,000 requests at 50 ms, 64 in flight, whole commands; ideal 1.56 s")
    with nginx(0.05) as servers:
        ours, theirs = [], {}
        for number in range(rounds):
            ours.append(run(command(servers, data, work / f"peer{number}", 64)).wall)
            for name, prepare in PEERS.items():
                words, env = prepare(venv, servers[0].url, _messages(data), work / f"{name}{number}")
                try:
                    theirs.setdefault(name, []).append(run(words, env={**os.environ, **env}).wall)
                except (RuntimeError, OSError) as error:
                    report.say(f"{name}: not measured: {str(error)[-300:]}")
    mine = statistics.median(ours)
    report.figure("s whole command, h2htalk run", mine, None)
    for name, seconds in theirs.items():
        report.figure(f"s whole command, {name}", statistics.median(seconds), None)
    # What users type is compared; lm-eval's Python interface can leave out the index of its task files.
    typed = [statistics.median(seconds) for name, seconds in theirs.items() if not name.endswith("-python")]
    if typed:
        report.figure("times faster than the fastest command of them", min(typed) / mine, 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, 20,000 scenarios instead of 200,000")
    parser.add_argument("--peers", type=Path, help="a venv with lm-eval and OpenCompass")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--only", help="one of: core, flight, shards, memory, peers")
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        name, url, data, flight = options.client
        asyncio.run(CLIENTS[name](url, _messages(Path(data)), int(flight)))
        return 0
    if shutil.which("nginx") is None:
        print("nginx is not installed (Debian: nginx libnginx-mod-http-lua); nothing measured")
        return 1
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    report = Report()
    rounds = 1 if options.quick else 3
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        parts: dict[str, Callable[[], None]] = {
            "core": lambda: one_core(work, report, rounds),
            "flight": lambda: in_flight(work, report, rounds),
            "shards": lambda: shards(work, report, rounds),
            "memory": lambda: memory(work, report, options.quick),
        }
        if options.peers:
            parts["peers"] = lambda: peers(work, report, options.peers, rounds)
        for name, part in parts.items():
            if options.only in (None, name):
                part()
    if options.json:
        options.json.write_text(json.dumps(report.figures, indent=1))
    return int(report.missed)


if __name__ == "__main__":
    sys.exit(main())
