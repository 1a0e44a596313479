"""A stand-in for the Hugging Face Hub: HTTP on 127.0.0.1, in memory, for the unmodified client libraries.

It answers what ``huggingface_hub``, ``datasets`` and ``evaluate`` ask when ``HF_ENDPOINT`` names it (set
before they are imported, with ``HF_HUB_DISABLE_XET=1``), and fails on request. That something passes here
does not show that the Hub accepts a card, an ``eval.yaml`` or a quota.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from aiohttp import web

from .hub_store import PULL_REQUEST, HubError, Repo, Tree, changed, front_matter

KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}
CHANGES_NOTHING = re.compile(r"/(preupload|paths-info)/|/validate-yaml$|/objects/batch$")


@dataclass
class Call:
    """One request, taken apart. An encoded slash does not part segments: ``refs%2Fpr%2F1`` is one."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""

    def __post_init__(self) -> None:
        self.path, query = urlsplit(self.url).path, urlsplit(self.url).query
        self.segments = [unquote(part) for part in self.path.split("/") if part]
        self.query = {name: values[-1] for name, values in parse_qs(query).items()}
        self.reads = self.method in ("GET", "HEAD")

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body or b"null")


@dataclass
class Fault:
    """What is to go wrong: a ``status``, an ``upload`` or a ``reply`` cut off after so many bytes."""

    kind: str
    amount: int
    path: str
    left: int = 1

    def concerns(self, call: Call) -> bool:
        """Whether it strikes this request."""
        if self.left < 1 or call.method == "HEAD":
            return False
        if self.path:
            return bool(re.search(self.path, call.url))
        return not (call.reads or CHANGES_NOTHING.search(call.path))


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer in JSON, dates of YAML as text."""
    return web.json_response(text=json.dumps(value, default=str), status=status, headers=headers)


class StandInHub:
    """A Hub on a free port; use it in a ``with`` statement.

    Args:
        user: whose token it is. orgs: the other namespaces that the user may write to; None is all.
        token: what writing insists on; None takes anything. read_token: a token that may not write.
        lfs: endings of the files that are uploaded over LFS, such as ``.parquet``; all others are regular.

    ``requests`` has (method, URL's path and query, status) of all requests; the status of one that got no
    answer is 0. Leaving it fails if a client asked for something that is not emulated.
    """

    def __init__(
        self,
        *,
        user: str = "tester",
        orgs: Collection[str] | None = None,
        token: str | None = None,
        read_token: str | None = None,
        lfs: tuple[str, ...] = (),
    ) -> None:
        self.user, self.orgs, self.token, self.read_token, self.lfs = user, orgs, token, read_token, lfs
        self.repos: dict[tuple[str, str], Repo] = {}
        self.requests: list[tuple[str, str, int]] = []
        self.problems: list[str] = []
        self._lock = threading.RLock()
        self._objects: dict[str, bytes] = {}
        self._faults: list[Fault] = []
        self._ready = threading.Event()
        self.url = ""

    # -- for tests

    def create(self, kind: str, name: str, files: Tree | None = None, *, sdk: str | None = None) -> Repo:
        """Make a repository without HTTP, with files if given."""
        with self._lock:
            repo = self.repos[kind, name] = Repo(kind, name, sdk=sdk, lfs=self.lfs)
            if files:
                repo.commit("main", {**repo.files(), **files}, "seed")
            return repo

    def repo(self, kind: str, name: str) -> Repo:
        """A repository, to look into."""
        if (kind, name) not in self.repos:
            raise HubError(404, "There is no such repository", "RepoNotFound")
        return self.repos[kind, name]

    def files(self, kind: str, name: str, revision: str = "main") -> dict[str, bytes]:
        """What lies in a repository."""
        with self._lock:
            return dict(self.repo(kind, name).files(revision))

    def fail_next(self, n: int, status: int, path: str = "") -> None:
        """Answer ``status`` to the next ``n`` writing requests, or those whose URL has the pattern ``path``."""
        self._faults.append(Fault("status", status, path, n))

    def drop_after(self, n_bytes: int, path: str = "") -> None:
        """Kill the next writing request's connection when so much of its body is there: it has no effect."""
        self._faults.append(Fault("upload", n_bytes, path))

    def cut_reply(self, n_bytes: int = 0, path: str = "") -> None:
        """Carry out the next writing request, but kill the connection after so much of the answer's body."""
        self._faults.append(Fault("reply", n_bytes, path))

    # -- serving

    def __enter__(self) -> StandInHub:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=[self._serve()], daemon=True
        )
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)
        self._loop.close()
        if kind is None:
            assert not self.problems, self.problems[:3]

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        await self._stopping.wait()
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.method, request.raw_path, request.headers)
        fault = next((fault for fault in self._faults if fault.concerns(call)), Fault("none", 0, ""))
        fault.left -= 1
        if fault.kind == "upload":
            missing = fault.amount
            while missing > 0 and (chunk := await request.content.read(missing)):
                missing -= len(chunk)
            return self._kill(request, call)
        call.body = await request.read()
        failed = HubError(fault.amount, "as the test asked") if fault.kind == "status" else None
        answer = self._refusal(failed) if failed else self._answer(call)
        if fault.kind == "reply" and not fault.amount:
            return self._kill(request, call)
        self.requests.append((call.method, call.url, answer.status))
        return await self._cut(request, answer, fault.amount) if fault.kind == "reply" else answer

    def _kill(self, request: web.Request, call: Call) -> web.Response:
        self.requests.append((call.method, call.url, 0))
        if request.transport:
            request.transport.abort()
        return web.Response()

    async def _cut(self, request: web.Request, whole: web.Response, amount: int) -> web.StreamResponse:
        part = web.StreamResponse(status=whole.status, headers=whole.headers)
        part.content_length = whole.content_length
        await part.prepare(request)
        assert isinstance(whole.body, bytes)
        await part.write(whole.body[:amount])
        if request.transport:
            request.transport.close()  # unlike abort() it sends first what is on its way
        return part

    def _answer(self, call: Call) -> web.Response:
        """Carry out a request, whole and alone: no other sees a commit half done."""
        try:
            with self._lock:
                found = self._route(call)
        except HubError as error:
            return self._refusal(error)
        except Exception as error:  # noqa: BLE001  # a client that waits for ever would say less
            self.problems.append(f"{call.method} {call.url}: {error!r}")
            return self._refusal(HubError(500, repr(error)))
        return found if isinstance(found, web.Response) else as_json(found)

    def _refusal(self, error: HubError) -> web.Response:
        return as_json({"error": error.message}, error.status, error.headers)

    # -- who may do what

    def _role(self, call: Call) -> str:
        given = call.headers.get("Authorization", "").removeprefix("Bearer ")
        if given and self.token and given not in (self.token, self.read_token):
            raise HubError(401, "Invalid credentials in Authorization header")
        if given == self.read_token:
            return "read"
        return "write" if given or not self.token else ""

    def _need_token(self, call: Call, *roles: str) -> None:
        if not (role := self._role(call)):
            raise HubError(401, "A token is needed")
        if role not in roles:
            raise HubError(403, "This token may only read")

    def _need_rights(self, name: str) -> None:
        namespace = name.split("/")[0]
        if self.orgs is not None and namespace not in (self.user, *self.orgs):
            raise HubError(403, f"{self.user} may not write under the namespace {namespace}")

    # -- routes: the method _get_tree answers GET and HEAD …/tree, and so on

    def _route(self, call: Call) -> Any:
        top, *rest = call.segments or [""]
        if top == "lfs" and call.method == "PUT":  # a signed address on the Hub: no token
            return self._put_object(call, *rest)
        if top != "api":
            rest = rest if top in KINDS else call.segments
            repo = self._readable(call, KINDS.get(top, "model"), rest[:2])
            return self._call(call, rest[2:3] if rest[2:3] == ["resolve"] else rest[2:], repo, *rest[3:])
        if rest[:1] and rest[0] in KINDS and len(rest) > 1:
            repo = self._readable(call, KINDS[rest[0]], rest[1:3])
            action, *arguments = rest[3:] or ["revision", "main"]
            if not call.reads and action != "paths-info":
                self._need_token(call, "write")
            return self._call(call, [action], repo, *arguments)
        return self._call(call, rest)

    def _call(self, call: Call, action: list[str], *arguments: Any) -> Any:
        verb = "get" if call.reads else call.method.lower()
        handler = getattr(self, re.sub(r"\W", "_", "_".join(["", verb, *action])), None)
        if handler is None:
            self.problems.append(f"not emulated: {call.method} {call.url}")
            raise HubError(501, f"not emulated: {call.method} {call.url}")
        return handler(call, *arguments)

    def _readable(self, call: Call, kind: str, name: list[str]) -> Repo:
        repo = self.repo(kind, "/".join(name).removesuffix(".git"))
        if not self._role(call) and repo.private:
            raise HubError(401, "There is no such repository", "RepoNotFound")
        return repo

    def _page(self, repo: Repo, *more: str) -> str:
        return "/".join([self.url, *([] if repo.kind == "model" else [f"{repo.kind}s"]), repo.name, *more])

    def _get_agent_harnesses(self, call: Call) -> Any:
        return {"standardEnvVars": [], "harnesses": {}}

    def _get_whoami_v2(self, call: Call) -> Any:
        self._need_token(call, "read", "write")
        orgs = [{"type": "org", "name": name} for name in self.orgs or ()]
        access = {"displayName": "test", "role": self._role(call)}
        return {"type": "user", "name": self.user, "orgs": orgs, "auth": {"accessToken": access}}

    def _post_validate_yaml(self, call: Call) -> Any:
        try:
            front_matter(call.json()["content"])
        except yaml.YAMLError as error:
            return as_json({"errors": [{"message": str(error)}], "warnings": []}, 400)
        return {"errors": [], "warnings": []}

    def _post_repos_create(self, call: Call) -> Any:
        self._need_token(call, "write")
        asked = call.json()
        kind, name = asked.get("type") or "model", f"{asked.get('organization') or self.user}/{asked['name']}"
        self._need_rights(name)
        if there := self.repos.get((kind, name)):
            return as_json({"error": "The repository is there already", "url": self._page(there)}, 409)
        made = self.create(kind, name, sdk=asked.get("sdk"))
        made.private = asked.get("visibility") == "private"
        return {"url": self._page(made)}

    # -- reading a repository

    def _get_revision(self, call: Call, repo: Repo, revision: str) -> Any:
        return repo.info(revision)

    def _get_tree(self, call: Call, repo: Repo, revision: str, *under: str) -> Any:
        return repo.tree(revision, "/".join(under), deep=call.query.get("recursive", "").lower() == "true")

    def _post_paths_info(self, call: Call, repo: Repo, revision: str) -> Any:
        return repo.paths(revision, parse_qs(call.body.decode()).get("paths", []))

    def _get_refs(self, call: Call, repo: Repo) -> Any:
        return repo.refs()

    def _get_commits(self, call: Call, repo: Repo, revision: str) -> Any:
        author = {"authors": [{"user": self.user}]}
        return [
            {"id": item.sha, "title": item.title, "message": item.body, "date": item.date, **author}
            for item in repo.history(revision)
        ]

    def _get_resolve(self, call: Call, repo: Repo, revision: str, *parts: str) -> web.Response:
        sha, path = repo.sha(revision), "/".join(parts)
        data = repo.files(sha).get(path)
        if data is None:
            raise HubError(404, f"There is no file {path}", "EntryNotFound", X_Repo_Commit=sha)
        size, etag = len(data), repo.content_id(path, data)
        headers = {"X-Repo-Commit": sha, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", call.headers.get("Range", ""))
        if not asked:
            return web.Response(body=data, headers=headers)
        start, stop = int(asked[1]), min(size, int(asked[2] or size) + 1)
        if start >= stop:
            return web.Response(status=416, headers={"Content-Range": f"bytes */{size}"})
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        return web.Response(status=206, body=data[start:stop], headers=headers)

    # -- writing a repository

    def _post_preupload(self, call: Call, repo: Repo, revision: str) -> Any:
        files, found = repo.files(revision), []
        for path in (item["path"] for item in call.json()["files"]):
            mode = {"path": path, "uploadMode": "lfs" if path.endswith(self.lfs) else "regular"}
            if path in files:  # clients leave out what is there already
                mode["oid"] = repo.content_id(path, files[path])
            found.append({**mode, "shouldIgnore": False})
        return {"files": found}

    def _post_commit(self, call: Call, repo: Repo, ref: str) -> Any:
        items = [json.loads(line) for line in call.body.splitlines()]
        head = items[0]["value"]
        title, body, parent = head["summary"], head["description"], repo.sha(head.get("parentCommit") or ref)
        opens = call.query.get("create_pr") == "1"
        if not opens:
            self._check_branch(repo, ref, parent)
        files = changed(repo.files(parent), items[1:], self._objects)
        found: dict[str, Any] = {"success": True}
        if opens:
            opened = repo.discuss(title, body, self.user, parent)
            ref, found["pullRequestUrl"] = (
                f"{PULL_REQUEST}{opened.num}",
                self._page(repo, f"discussions/{opened.num}"),
            )
        sha = repo.commit(ref, files, title, body)
        if ref.startswith(PULL_REQUEST):
            repo.discussion(ref.removeprefix(PULL_REQUEST)).add("commit", subject=title, oid=sha)
        return {**found, "commitOid": sha, "commitUrl": self._page(repo, "commit", sha)}

    def _check_branch(self, repo: Repo, ref: str, parent: str) -> None:
        if ref not in repo.branches:
            raise HubError(404, f"There is no branch {ref}", "RevisionNotFound")
        if not ref.startswith(PULL_REQUEST):
            self._need_rights(repo.name)
        if parent != repo.sha(ref):
            raise HubError(412, "The branch has moved on since the parent commit")

    def _post_info_lfs_objects_batch(self, call: Call, repo: Repo, *_: str) -> Any:
        self._need_token(call, "write")
        objects = call.json()["objects"]
        for item in objects:
            if item["oid"] not in self._objects:
                item["actions"] = {"upload": {"href": f"{self.url}/lfs/{item['oid']}", "header": {}}}
        return {"transfer": "basic", "objects": objects}

    def _put_object(self, call: Call, oid: str) -> Any:
        if hashlib.sha256(call.body).hexdigest() != oid:
            raise HubError(400, "The object is not what its name says")
        self._objects[oid] = call.body
        return {}

    def _post_tag(self, call: Call, repo: Repo, revision: str) -> Any:
        self._need_rights(repo.name)
        if (name := call.json()["tag"]) in repo.tags:
            raise HubError(409, f"Tag {name} is there already")
        repo.tags[name] = repo.sha(revision)
        return {}

    # -- discussions and pull requests

    def _get_discussions(self, call: Call, repo: Repo, number: str = "") -> Any:
        if number:
            return repo.told(repo.discussion(number))
        kinds = {"discussion": [False], "pull_request": [True]}.get(call.query.get("type", ""), [False, True])
        still_open = {"open": [True], "closed": [False]}.get(call.query.get("status", ""), [False, True])
        shown = [
            repo.told(item)
            for item in reversed(repo.discussions)
            if bool(item.base) in kinds and (item.status in ("open", "draft")) in still_open
        ]
        return {"discussions": shown, "count": len(shown), "start": 0}

    def _post_discussions(self, call: Call, repo: Repo, number: str = "", action: str = "") -> Any:
        asked = call.json()
        if not number:
            base = repo.sha("main") if asked["pullRequest"] else None
            opened = repo.discuss(asked["title"], asked["description"], self.user, base)
            opened.status = "draft" if base else "open"
            return {"num": opened.num}
        item = repo.discussion(number)
        if action == "comment":
            return {
                "newMessage": item.add(
                    "comment", edited=False, hidden=False, latest={"raw": asked["comment"]}
                )
            }
        self._need_rights(repo.name)
        if action == "merge":
            repo.merge(item)
        else:
            item.status = asked["status"]
        return {"newStatus": item.add("status-change", status=item.status)}
