"""Views of one case of each kind."""

from __future__ import annotations

import pytest

import sample_cases
from firstfault.report.view import CaseView


@pytest.fixture(params=sorted(sample_cases.KINDS))
def view(request: pytest.FixtureRequest) -> CaseView:
    """A case of every kind in turn."""
    return sample_cases.KINDS[request.param]()
