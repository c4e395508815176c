"""One engine for all tests of trials, so that torch is imported once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from firstfault.trial.engine import Engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose trials are forked, two at once."""
    with Engine(tmp_path_factory.mktemp("trials"), jobs=2) as shared:
        yield shared


@pytest.fixture(scope="session")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose trials are new interpreters; without torch they start faster than torch is imported."""
    with Engine(tmp_path_factory.mktemp("fresh"), jobs=2, fork=False) as shared:
        yield shared
