"""The page's tabs: one module each, found by themselves.

A module here that has a ``TAB`` is a tab. It is shown if the table holds the columns that it needs, so a tab
for judges, safety, probes or memory is one new module and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

from data import Board
from filters import Filters


class Tab(NamedTuple):
    """One tab. ``needs``: columns, or prefixes that end in a point, without which it is not shown."""

    title: str
    order: int
    build: Callable[[Board, Filters], None]
    needs: Sequence[str] = ()


def found() -> list[Tab]:
    """All tabs, in their order."""
    modules = (importlib.import_module(f"{__name__}.{item.name}") for item in pkgutil.iter_modules(__path__))
    tabs: list[Tab] = [module.TAB for module in modules if hasattr(module, "TAB")]
    return sorted(tabs, key=lambda tab: (tab.order, tab.title))


def shown(board: Board) -> list[Tab]:
    """The tabs whose columns the table holds."""
    return [tab for tab in found() if board.has(tab.needs)]
