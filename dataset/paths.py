"""Where a checkout keeps the authored files and the metric's source."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


class NotACheckoutError(FileNotFoundError):
    """The authored files are not beside the code (an installed wheel ships none)."""


def root() -> Path:
    """The checkout's root folder.

    Raises:
        NotACheckoutError: when the code runs from an installed wheel.
    """
    if not (_ROOT / "dataset_card").is_dir():
        raise NotACheckoutError(
            f"{_ROOT / 'dataset_card'}: not found; building needs a checkout of the repository "
            "(a built dataset is read with --dataset FOLDER or --dataset ORG/NAME)"
        )
    return _ROOT


def card_folder() -> Path:
    """Folder of the dataset card with the authored files."""
    return root() / "dataset_card"


def metric_folder() -> Path:
    """Folder of the metric's source."""
    return root() / "metrics" / "h2htalk_score"
