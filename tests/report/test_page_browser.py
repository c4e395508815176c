"""The page in a real browser: its policy lets its own script and style act, and nothing of a case; it fits a phone."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sample_cases
from firstfault.report.page import page

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
MEASURE = """
<script>
addEventListener("load", () => {
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const inner = frame.contentDocument, root = inner.documentElement, style = frame.contentWindow.getComputedStyle(inner.body);
    found[frame.id] = {
      wide: root.scrollWidth, room: root.clientWidth, title: inner.title, ground: style.backgroundColor,
      buttons: [...inner.querySelectorAll("button")].map(button => button.hidden),
      foreign: inner.querySelectorAll("img, iframe, object, embed, link, form, main script").length,
      headings: inner.querySelectorAll("h2").length,
    };
  }
  document.body.textContent = "MEASURED" + JSON.stringify(found) + "END";
});
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_pages_in_chromium(tmp_path: Path) -> None:
    """At the width of a phone and of a desk, for every kind of case: no sideways scrolling, styled, inert, with its button."""
    kinds = sorted(sample_cases.KINDS)
    frames = [
        f'<iframe id="{kind}-{width}" width="{width}" height="600" srcdoc="{html.escape(page(sample_cases.KINDS[kind]()), quote=True)}"></iframe>'
        for kind in kinds
        for width in (360, 1200)
    ]
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!doctype html><meta charset=utf-8><body>{MEASURE}{''.join(frames)}</body>")
    done = subprocess.run(
        [
            str(BROWSER),
            *FLAGS.split(),
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            outer.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    measured = re.search(r"MEASURED(.*)END", done.stdout, re.DOTALL)
    assert measured is not None, done.stderr[-2_000:]
    found: dict[str, dict[str, Any]] = json.loads(html.unescape(measured[1]))
    assert set(found) == {f"{kind}-{width}" for kind in kinds for width in (360, 1200)}
    for name, each in found.items():
        assert each["wide"] <= each["room"], f"{name} scrolls sideways"
        assert each["ground"] != "rgba(0, 0, 0, 0)", f"{name} has no style"
        assert each["foreign"] == 0, name
        assert each["headings"] == found["index_error-1200"]["headings"] or name.startswith("out_of_memory")
        assert each["buttons"] == (
            [False] if sample_cases.KINDS[name.rsplit("-", 1)[0]]().repro is not None else []
        ), name
