"""The repositories of the tests' stand-in Hub: commits, tags and pull requests, kept in memory."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import yaml

Tree = Mapping[str, bytes]
PULL_REQUEST = "refs/pr/"


class HubError(Exception):
    """An answer other than success, with the error code that the clients look for."""

    def __init__(self, status: int, message: str, code: str = "", **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        named = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self.headers = named | {name.replace("_", "-"): value for name, value in headers.items()}


def blob_id(data: bytes) -> str:
    """Git's name for a file's contents."""
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


def now() -> str:
    """The time as the Hub writes it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def front_matter(card: str) -> dict[str, Any]:
    """The metadata of a card; broken YAML raises."""
    parts = card.replace("\r\n", "\n").split("---\n", 2)
    return (yaml.safe_load(parts[1]) or {}) if len(parts) == 3 and not parts[0] else {}


def merged(base: Tree, ours: Tree, theirs: Tree) -> tuple[dict[str, bytes], list[str]]:
    """Put the changes from ``base`` to ``theirs`` on ``ours``; also the files that both changed."""
    changed = {path for path in {*base, *theirs} if base.get(path) != theirs.get(path)}
    clash = [path for path in sorted(changed) if ours.get(path) not in (base.get(path), theirs.get(path))]
    kept = {path: data for path, data in ours.items() if path not in changed}
    return kept | {path: theirs[path] for path in changed if path in theirs}, clash


def changed(before: Tree, items: Iterable[dict[str, Any]], objects: Tree) -> Tree:
    """Apply a commit's items to a tree; ``objects`` are the uploads over LFS."""
    files = dict(before)
    for key, value in ((item["key"], item["value"]) for item in items):
        path = value["path"]
        if key == "file":
            files[path] = base64.b64decode(value["content"])
        elif key == "lfsFile":
            files[path] = objects[value["oid"]]
        else:
            inside = f"{path.rstrip('/')}/" if key == "deletedFolder" else None
            gone = [name for name in files if (name.startswith(inside) if inside else name == path)]
            if not gone:
                raise HubError(404, f"{path} does not exist", "EntryNotFound")
            for name in gone:
                del files[name]
    return files


def folder(path: str) -> dict[str, Any]:
    """What the Hub says of a folder."""
    return {"type": "directory", "path": path, "size": 0, "oid": blob_id(path.encode())}


@dataclass(frozen=True)
class Commit:
    """One state of a repository."""

    sha: str
    files: Tree
    parent: str | None
    title: str
    body: str
    date: str = field(default_factory=now)


@dataclass
class Discussion:
    """A discussion, or a pull request if it starts from a commit, its ``base``."""

    num: int
    title: str
    author: str
    base: str | None = None
    status: str = "open"
    merge_commit: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    created: str = field(default_factory=now)

    def add(self, kind: str, **data: Any) -> dict[str, Any]:
        """Note an event."""
        name, author = f"{self.num}-{len(self.events)}", {"name": self.author}
        event = {"id": name, "type": kind, "createdAt": now(), "author": author, "data": data}
        self.events.append(event)
        return event


class Repo:
    """One repository; every change is a commit of the whole tree."""

    def __init__(self, kind: str, name: str, *, sdk: str | None = None, lfs: tuple[str, ...] = ()) -> None:
        self.kind, self.name, self.sdk, self.lfs, self.created = kind, name, sdk, lfs, now()
        self.private = False
        self.commits: dict[str, Commit] = {}
        self.branches: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.discussions: list[Discussion] = []
        self.commit("main", {".gitattributes": b""}, "initial commit")

    def sha(self, revision: str) -> str:
        """The commit that a branch, tag, pull request or commit id means."""
        if revision in self.commits:
            return revision
        name = "main" if revision == "HEAD" else revision
        found = self.branches.get(name.removeprefix("refs/heads/"))
        if not (found := found or self.tags.get(name.removeprefix("refs/tags/"))):
            raise HubError(404, f"There is no revision {revision}", "RevisionNotFound")
        return found

    def files(self, revision: str = "main") -> Tree:
        """What lies in the repository at a revision."""
        return self.commits[self.sha(revision)].files

    def commit(self, ref: str, files: Tree, title: str, body: str = "") -> str:
        """Make ``files`` the tree of a branch; the commit's id."""
        parent = self.branches.get(ref)
        listing = [f"{path} {blob_id(files[path])}" for path in sorted(files)]
        text = "\n".join([self.kind, self.name, str(len(self.commits)), str(parent), title, body, *listing])
        sha = hashlib.sha1(text.encode()).hexdigest()
        self.commits[sha] = Commit(sha, dict(files), parent, title, body)
        self.branches[ref] = sha
        return sha

    def history(self, revision: str) -> Iterator[Commit]:
        """The commits of a revision, the newest first."""
        sha: str | None = self.sha(revision)
        while sha:
            yield self.commits[sha]
            sha = self.commits[sha].parent

    def discussion(self, number: str) -> Discussion:
        """The discussion of a number."""
        if found := [item for item in self.discussions if str(item.num) == number]:
            return found[0]
        raise HubError(404, f"There is no discussion {number}")

    def discuss(self, title: str, text: str, author: str, base: str | None = None) -> Discussion:
        """Open a discussion, or a pull request on top of the commit ``base``."""
        opened = Discussion(len(self.discussions) + 1, title, author, base)
        opened.add("comment", edited=False, hidden=False, latest={"raw": text})
        if base:
            self.branches[f"{PULL_REQUEST}{opened.num}"] = base
        self.discussions.append(opened)
        return opened

    def attempt(self, request: Discussion) -> tuple[dict[str, bytes], list[str]]:
        """What main would hold if a pull request were merged, and the files that keep it from being so."""
        return merged(
            self.files(request.base or "main"), self.files(), self.files(f"{PULL_REQUEST}{request.num}")
        )

    def merge(self, request: Discussion) -> None:
        """Put a pull request's changes on main, as one commit."""
        if not request.base or request.status not in ("open", "draft"):
            raise HubError(400, f"Discussion {request.num} cannot be merged: it is {request.status}")
        files, conflicts = self.attempt(request)
        if conflicts:
            raise HubError(409, f"This branch has conflicts: {', '.join(conflicts)}")
        request.merge_commit = self.commit("main", files, f"{request.title} (#{request.num})")
        request.status = "merged"

    # -- what the Hub says of it

    def entry(self, path: str, data: bytes) -> dict[str, Any]:
        """What the Hub says of a file."""
        found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": blob_id(data)}
        if data and path.endswith(self.lfs):
            sha256 = hashlib.sha256(data).hexdigest()
            found["lfs"] = {"oid": sha256, "sha256": sha256, "size": len(data), "pointerSize": 130}
        return found

    def content_id(self, path: str, data: bytes) -> str:
        """What clients compare a file of theirs with."""
        entry = self.entry(path, data)
        return str(entry.get("lfs", entry)["oid"])

    def info(self, revision: str) -> dict[str, Any]:
        """What the Hub says of the repository."""
        commit = self.commits[self.sha(revision)]
        entries = [self.entry(path, data) for path, data in sorted(commit.files.items())]
        siblings = [{**item, "rfilename": item["path"], "blobId": item["oid"]} for item in entries]
        card = front_matter(commit.files.get("README.md", b"").decode("utf-8", "replace"))
        results = [
            {"filename": path, "data": entry}
            for path, data in commit.files.items()
            if path.startswith(".eval_results/")
            for entry in yaml.safe_load(data) or []
        ]
        return {
            **{
                "id": self.name,
                "author": self.name.split("/")[0],
                "sha": commit.sha,
                "private": self.private,
            },
            **{"createdAt": self.created, "lastModified": commit.date, "gated": False, "disabled": False},
            **{"downloads": 0, "likes": 0, "tags": card.get("tags") or [], "cardData": card},
            **{"siblings": siblings, "sdk": self.sdk, "evalResults": results},
        }

    def tree(self, revision: str, under: str, *, deep: bool) -> list[dict[str, Any]]:
        """The files and folders below a folder."""
        prefix = f"{under}/" if under else ""
        files = {path: data for path, data in self.files(revision).items() if path.startswith(prefix)}
        if under and not files:
            raise HubError(404, f"{under} does not exist at {revision}", "EntryNotFound")
        entries: dict[str, dict[str, Any]] = {}
        for path, data in sorted(files.items()):
            inner = path[len(prefix) :].split("/")
            for depth in range(1, len(inner) if deep else min(2, len(inner))):
                name = prefix + "/".join(inner[:depth])
                entries[name] = folder(name)
            if deep or len(inner) == 1:
                entries[path] = self.entry(path, data)
        return list(entries.values())

    def paths(self, revision: str, asked: Iterable[str]) -> list[dict[str, Any]]:
        """The files and folders of these names, as far as they are there."""
        every = {item["path"]: item for item in self.tree(revision, "", deep=True)}
        return [every[name] for path in asked if (name := path.strip("/")) in every]

    def refs(self) -> dict[str, list[dict[str, str]]]:
        """Branches, tags and pull requests."""
        found: dict[str, list[dict[str, str]]] = {
            "branches": [],
            "converts": [],
            "tags": [],
            "pullRequests": [],
        }
        for name, sha in self.branches.items():
            pull = name.startswith(PULL_REQUEST)
            ref = {"name": name.removeprefix("refs/"), "ref": name if pull else f"refs/heads/{name}"}
            found["pullRequests" if pull else "branches"].append({**ref, "targetCommit": sha})
        for name, sha in self.tags.items():
            found["tags"].append({"name": name, "ref": f"refs/tags/{name}", "targetCommit": sha})
        return found

    def told(self, item: Discussion) -> dict[str, Any]:
        """What the Hub says of a discussion."""
        conflicts = self.attempt(item)[1] if item.base and item.status != "merged" else []
        return {
            **{"num": item.num, "title": item.title, "status": item.status, "isPullRequest": bool(item.base)},
            **{"createdAt": item.created, "author": {"name": item.author}, "events": item.events, "diff": ""},
            **{"repo": {"name": self.name, "type": self.kind}, "filesWithConflicts": conflicts},
            "changes": {"base": "refs/heads/main", "mergeCommitId": item.merge_commit},
        }
