"""The HTML page: self-contained, inert, complete, accessible."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

import sample_cases
from firstfault.report import words
from firstfault.report.page import page
from firstfault.report.view import CaseView

VOID = {"meta", "img", "br", "hr", "input", "link"}
ACTING = {
    "href",
    "src",
    "srcset",
    "style",
    "action",
    "formaction",
    "data",
    "poster",
    "background",
    "xlink:href",
}


class Read(HTMLParser):
    """What a browser would make of the page: elements with their attributes, and whether they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.content: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.content.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_elements_are_closed_in_order(view: CaseView) -> None:
    """The page is well formed, so nothing of a case can swallow what comes after it."""
    read = Read(page(view))
    assert read.wrong == []
    assert read.open == []


def test_nothing_is_loaded_from_elsewhere(view: CaseView) -> None:
    """No attribute names a resource, but for links inside of the page; no style sheet imports one."""
    read = Read(page(view))
    for tag, attributes in read.elements:
        for name in ACTING & set(attributes):
            assert (name, (attributes[name] or "")[:1]) == ("href", "#"), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert tag_names(read).isdisjoint(
        {"img", "link", "iframe", "object", "embed", "form", "base", "audio", "video"}
    )
    assert "@import" not in page(view)
    assert re.findall(r"url\(([^)]*)\)", page(view).split("</style>")[0]) == ["#hatch"]


def tag_names(read: Read) -> set[str]:
    return {tag for tag, _ in read.elements}


def test_only_the_page_s_own_script_and_style_may_act(view: CaseView) -> None:
    """The policy allows the one script and the one style sheet by their hashes, and nothing else."""
    text = page(view)
    read = Read(text)
    assert len(read.all("script")) == 1
    assert len(read.all("style")) == 1
    (policy,) = [
        each["content"] for each in read.all("meta") if each.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]  # type: ignore[index]
        assert (
            f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"
            in policy
        )


def test_hostile_content_is_shown_as_text() -> None:
    """Markup of a case arrives as text, template syntax is not evaluated, controls are gone."""
    text = page(sample_cases.hostile())
    read = Read(text)
    content = "".join(read.content)
    assert '<script>alert("1")</script><img src=x onerror=alert(2)>' in content
    assert "{{ 7*7 }}" in content
    assert not set(text) & set("\x1b\x07\u202e")


def test_ids_are_unique_and_links_lead_somewhere(view: CaseView) -> None:
    """Every link inside of the page, every label and every copy button has its target."""
    read = Read(page(view))
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in read.elements:
        for name in ("href", "aria-labelledby", "data-copy"):
            if name in attributes:
                assert (attributes[name] or "").removeprefix("#") in ids


def test_headings_descend_one_level_at_a_time(view: CaseView) -> None:
    """One h1, and no level is left out: screen readers go by them."""
    levels = [int(tag[1]) for tag, _ in Read(page(view)).elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_page_can_be_used_without_a_mouse_and_without_seeing(view: CaseView) -> None:
    """A language, a skip link first, landmarks, figures with words, scrolling parts that take the focus."""
    read = Read(page(view))
    assert read.all("html")[0]["lang"] == "en"
    assert next(attributes for tag, attributes in read.elements if tag == "a")["class"] == "skip"
    assert {"header", "nav", "main", "footer"} <= tag_names(read)
    for figure in [attributes for attributes in read.all("svg") if attributes.get("class") == "plot"]:
        assert figure["role"] == "img"
        assert figure["aria-label"]
    assert all(attributes.get("tabindex") == "0" for attributes in read.all("pre"))
    assert all(attributes.get("scope") for attributes in read.all("th"))


def test_kinds_are_told_in_words() -> None:
    """Fact, inference and open question are named beside their colours and signs."""
    content = "".join(Read(page(sample_cases.out_of_memory())).content)
    for kind in ("fact", "inference", "open question"):
        assert kind in content


def test_what_was_not_done_says_so() -> None:
    """A step's section is there with 'Not tested', and with the command where there is one."""
    content = "".join(Read(page(sample_cases.device_assert())).content)
    for step in ("replay", "locate", "contrast", "shrink", "compare", "scan", "verify"):
        command = words.next_command(step)
        assert ("Not tested." + (f" Next: {command} 20261201-141931-a2a9" if command else "")) in content


@pytest.mark.parametrize(
    ("kind", "figures"),
    [
        (
            "index_error",
            {
                "The first failure came at batch 34 of 75",
                "target may be [0, 4) or -100; at fault: 4.",
                "maximum of [1]: 4 in the failing batch",
                "Values met in the data set",
                "Samples that break the rule, by source",
            },
        ),
        ("out_of_memory", {"The process held", "extent of [0] along 1: 7131 in the failing batch"}),
        ("swallowed", {"The first failure came at batch 14 of 20"}),
    ],
)
def test_figures_say_what_they_show(kind: str, figures: set[str]) -> None:
    """Each figure is there, with its sentence as its label."""
    labels = [
        attributes.get("aria-label") or "" for attributes in Read(page(sample_cases.KINDS[kind]())).all("svg")
    ]
    for figure in figures:
        assert any(label.startswith(figure) for label in labels), (figure, labels)


def test_repro_can_be_copied() -> None:
    """The program is in the page as it is, with a button that works by keyboard."""
    text = page(sample_cases.index_error())
    read = Read(text)
    assert [button["type"] for button in read.all("button")] == ["button"]
    body = re.search(r'<code id="[^"]*">(.*?)</code>', text.split("repro.py</span>")[1], re.DOTALL)[1]  # type: ignore[index]
    assert "".join(Read(body).content).strip() == sample_cases.REPRO.strip()


def contrast(one: str, other: str) -> float:
    """The contrast of two colours (WCAG 2.1, relative luminance)."""

    def luminance(colour: str) -> float:
        channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_contrast(scheme: int) -> None:
    """At least 4.5 to 1 for every colour of text on every ground that it is set on, in light and dark."""
    style = re.search(r"<style>(.*?)</style>", page(sample_cases.setup()), re.DOTALL)[1]  # type: ignore[index]
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[scheme]))
    pairs = [
        (text, ground)
        for text in ("ink", "soft", "fail", "good", "fact", "inference", "open")
        for ground in ("ground", "paper")
    ]
    pairs += [
        ("fail", "fail-ground"),
        ("good", "good-ground"),
        ("fact", "fact-ground"),
        ("inference", "inference-ground"),
        ("open", "open-ground"),
    ]
    pairs += [("ink", f"{kind}-ground") for kind in ("fact", "inference", "open", "fail", "good")]
    pairs += [("soft", f"{kind}-ground") for kind in ("fact", "inference", "open")]
    pairs += [(text, "code") for text in ("ink", "word", "string", "number", "remark")]
    assert {
        pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2)
        for pair in pairs
        if contrast(colours[pair[0]], colours[pair[1]]) < 4.5
    } == {}
