"""From a text that a person pasted to the failures in it, in the order in which they stand.

A text may be a whole log, a notebook's output with colour codes, a test's report, or three lines of one; several ranks
may have written it at the same time. It is read line by line, each process's lines by themselves: a traceback's frames
belong to the exception line that ends them, exceptions joined by 'During handling of…' or 'The above exception was the
direct cause…' are one chain, assertion lines and log lines stand alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from firstfault.case.device_asserts import parse_device_asserts
from firstfault.faults.sighting import Place, Sighting, assertion, exception, folded, quoted

MAX_TEXT = 8_000_000  # characters; of a longer log the end is read, where runs that fail stop
MAX_MESSAGE_LINES = 80  # of one exception; compilers print whole programs

# ---- the text ---------------------------------------------------------------------------------------------------------

_ESCAPES = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_LOST_ESCAPES = re.compile(r"(?:\^\[|\\x1b|\\u001b|\\033)\[[0-9;]*m|\[(?:\d{1,2};)*\d{1,2}m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BOX = re.compile(r"^\s*[│┃|] ?|[ \t]*[│┃]\s*$")  # what rich draws around a traceback
_BOX_BORDER = re.compile(r"^[╭╰┏┗+][─━+\- ]*|[─━]{3,}[╮╯┓┛]?\s*$")


def clean(text: str) -> str:
    """The text without colour codes, carriage returns and control characters."""
    text = text[-MAX_TEXT:].replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\\n") > 4 * text.count("\n"):  # a message quoted as JSON or by repr
        text = text.replace("\\n", "\n").replace('\\"', '"')
    return _CONTROLS.sub("", _LOST_ESCAPES.sub("", _ESCAPES.sub("", text)))


# ---- whose lines they are ---------------------------------------------------------------------------------------------

_RANK = re.compile(
    r"\[(?:rank|default|trainer)_?(?P<rank>\d+)\]:? ?"  # torchrun, torch's own logger
    r"|\[(?P<mpi>\d+,\d+)\]<std(?:err|out)>: ?"  # mpirun --tag-output
    r"|\((?P<ray>[\w.]+ (?:rank=\d+ )?pid=\d+(?:, ip=[\d.]+)?)\) ?"  # Ray
)
_HOST = re.compile(
    r"^([\w.-]+): Traceback \(most recent", re.MULTILINE
)  # pdsh, DeepSpeed's launcher: the host's name
_SRUN = re.compile(r"(?P<task>\d{1,4}): ?")  # srun --label; only where most lines have it
_TRACEBACK = re.compile(r"Traceback (?:\(most recent call last\)|of TorchScript)")
# What loggers put before each line of a traceback. Recognised on the traceback's own first line.
_LOGGED = re.compile(
    r"^(?P<prefix>(?:(?:E {3}|>+|\||#|//|\S*\d\S*|\[[^\]]*\]|[A-Z]+:?|-|\|) ?)+)Traceback \("
)


class Line(NamedTuple):
    """One line, without what a launcher or logger put before it. ``number`` is its place in the text."""

    number: int
    text: str


def streams(text: str) -> dict[str, list[Line]]:
    """The lines of each process that wrote into the text; '' where they don't say who wrote them."""
    lines = text.split("\n")
    labelled = sum(_SRUN.match(line) is not None for line in lines if line.strip())
    rank = _SRUN if labelled > 2 and 2 * labelled > sum(bool(line.strip()) for line in lines) else _RANK
    hosts = sorted(set(_HOST.findall(text)))
    if hosts:
        rank = re.compile(rf"(?P<host>{'|'.join(map(re.escape, hosts))}): ?")
    prefix = _logger_prefix(lines)
    found: dict[str, list[Line]] = {}
    for number, line in enumerate(lines):
        match = rank.match(line)
        who = next((group for group in match.groups() if group), "") if match else ""
        rest = line[match.end() :] if match else line
        if prefix is not None and (logged := prefix.match(rest)):
            rest = rest[logged.end() :]
        found.setdefault(who, []).append(Line(number, _unboxed(rest)))
    return found


def _logger_prefix(lines: Sequence[str]) -> re.Pattern[str] | None:
    """The prefix that a logger put before every line of a traceback, with its digits left open."""
    for line in lines:
        match = _LOGGED.match(line) if "Traceback (" in line and not line.startswith("Traceback") else None
        if match is not None and re.search(r"\w*(?:Error|Exception)\s*$", match["prefix"]) is None:
            return re.compile(re.sub(r"\d+", r"\\d+", re.escape(match["prefix"])))
    return None


def _unboxed(line: str) -> str:
    if line[:1] in "╭╰┏┗":
        return _BOX_BORDER.sub("", line)
    return _BOX.sub("", line).rstrip() if line.lstrip()[:1] in ("│", "┃") else line.rstrip()


# ---- frames -----------------------------------------------------------------------------------------------------------

_FRAMES = (
    re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+(?:, in (?P<function>.+))?$'),
    re.compile(r"^\s*File (?P<file>\S+?):\d+(?:, in (?P<function>[\w.<>]+)[ (]?.*)?$"),  # IPython 8
    re.compile(
        r"^(?P<file><ipython-input-[^>]+>|<timed \w+>|(?:~|[A-Za-z]:)?[\w.~/\\ -]*[/\\][\w.-]+\.py[xc]?) in (?P<function>[\w.<>]+)(?:\(.*\))?,?.*$"
    ),
    re.compile(r"^(?P<file>(?:Cell )?In(?:put In)? ?\[\d+\]),? (?:in )?(?P<function><.*?>|line \d+|\w+\(.*)"),
    re.compile(r"^(?P<file>\S+\.py):\d+:? in (?P<function>[\w.<>]+)\s*$"),  # pytest, rich
    re.compile(r"^(?P<file>/\S+\.py):\d+\s*$"),  # rich, where the function went to the next line
)
_RICH_FUNCTION = re.compile(r"^in (?P<function>[\w.<>]+)\s*$")
_ARROW = re.compile(r"^\s*(?:-+> ?\d+|❱ *\d+|>) ?(?P<code>.*)$")
_NUMBERED = re.compile(r"^\s*\d+\s(?!of )")
_CODE = re.compile(
    r"^\s*(?:(?:raise|return|assert|if|for|while|with|try|except|else|elif|def|class|import|from)\b|self\.|[@#]|\.\.\.|\[Previous line)"
    r"|^\s+[\w.,\[\]'\" ()*]+ = |^\s+(?!what\(\))[\w.]+\(|^\s*[~^]+\s*$"
)


def _frame(line: str) -> Place | None:
    for form in _FRAMES:
        match = form.match(line)
        if match is not None:
            function = (match.groupdict().get("function") or "").strip()
            return Place(match["file"], function, "")
    return None


# ---- exceptions -------------------------------------------------------------------------------------------------------

_CHAINED = re.compile(
    r"During handling of the above exception|The above exception was the direct cause|Caused by:?\s*$"
)
_ENDING = (
    r"(?:Error|Exception|Warning|Exit|Interrupt|Failed|Errors|Iteration|Timeout|OutOfResources|Unsupported|Violation|Hit"
    r"|Exceeded|NotFound|Expired|EnforceNotMet|Empty|Traceback|Fail|Abort|Crash\w*|Mismatch|Missing|Symbol|Node)"
)
_EXCEPTION = re.compile(
    rf"^\s{{0,3}}(?:E {{3,7}}|Exception: )?(?P<type>(?:(?:[A-Za-z_]\w*\.)*(?=[A-Z_])\w*{_ENDING}|(?:\w+\.)+(?:error|timeout))(?:Group)?(?:\([\w., ]*\))?)(?:: ?(?P<message>.*)|)\s*$"
)
# At the end of a traceback anything may be an exception's name.
_ANY_EXCEPTION = re.compile(
    r"^(?:E {3,7})?(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\([\w., ]*\))?)(?:: (?P<message>.*)|:?)$"
)
_INLINE = re.compile(
    r"(?P<type>(?<![\w.'\"<])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\(\w+\))?): (?P<message>.+)$"
)
_NO_EXCEPTION = frozenset({"Killed", "Terminated", "Aborted", "Done", "done", "exit", "logout", "Error"})
_LOG_LINE = re.compile(
    r"^\s*(?:\[?[EWIFC] ?\d{4} |\[[EWIFC]\d{3} |\[?\d{4}[-/]\d\d[-/]\d\d|\[?\d\d[:/]\d\d[:/]\d\d|(?:INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL|FATAL)\b|srun:|slurmstepd:|wandb:|Epoch|Fatal Python error|terminate called|\w+@[\w-]+:)"
)
_WARNING = re.compile(r"(?:^|[\s.:])\w*Warning: |\bWARN(?:ING)?\b|^\s*warnings\.warn\(")
_ERROR_WORD = re.compile(r"\berror\b|\bfail(?:ed|ure)?\b|Error:", re.IGNORECASE)
# These only carry another exception, which follows or precedes them with its own traceback.
_CARRIER = re.compile(
    r"Caught \S+ in (?:DataLoader worker process|pin memory thread|replica)|-- Process \d+ terminated with the following error"
)
_CARRIER_TYPES = re.compile(
    r"(?:^|\.)(?:_?RemoteTraceback|RayTaskError(?:\(\w+\))?|SystemExit|KeyboardInterrupt|CalledProcessError|ProcessRaisedException|ProcessExitedException|ChildFailedError|SignalException|Empty)$"
)


def sightings(text: str) -> list[Sighting]:
    """All failures of a text, the first first."""
    found: list[Sighting] = []
    chains = 0
    for stream, lines in streams(clean(text)).items():
        for sighting in _Reader(lines, stream, chains).read():
            found.append(sighting)
            chains = max(chains, sighting.chain)
    return sorted(found, key=lambda sighting: sighting.position)


class _Reader:
    """Reads the lines of one process. State: the open traceback's frames, and the chain that it belongs to."""

    def __init__(self, lines: Sequence[Line], stream: str, chain: int) -> None:
        self.lines = lines
        self.stream = stream
        self.chain = chain
        self.at = 0
        self.frames: list[Place] = []
        self.open = False  # inside a traceback, before its exception line
        self.linked = False  # 'During handling of…' was read: what follows is the same chain
        self.loose_code = ""  # an indented line before an exception without a traceback

    def read(self) -> Iterator[Sighting]:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            if not line.text.strip():
                continue
            yield from self._line(line)

    def _line(self, line: Line) -> Iterator[Sighting]:
        if _CHAINED.search(line.text):
            self.linked = True
        elif _TRACEBACK.search(line.text):
            self._new_traceback("Original Traceback" in line.text)
        elif (place := _frame(line.text)) is not None:
            self._new_frame(place)
        elif "ssertion" in line.text and (asserted := parse_device_asserts(line.text)):
            for each in asserted:
                yield self._placed(assertion(each), line, alone=True)
        elif (match := self._exception(line.text)) is not None:
            yield self._ended(line, match["type"], match["message"] or "")
        elif self._is_code(line.text):
            self._code(line.text)
        else:
            yield self._logged(line)

    # ---- tracebacks ----

    def _new_traceback(self, inner: bool) -> None:
        if not (self.linked or inner):
            self.chain += 1
        self.linked, self.open, self.frames = False, True, []

    def _new_frame(self, place: Place) -> None:
        if not self.open:  # the text begins inside a traceback
            if not self.linked:
                self.chain += 1
            self.linked, self.open, self.frames = False, True, []
        self.frames.append(place)

    def _is_code(self, text: str) -> bool:
        if _ARROW.match(text) or _NUMBERED.match(text):
            return True
        if self.open and (text.startswith(" ") or _RICH_FUNCTION.match(text)):
            return True
        return text.startswith("  ") and _CODE.match(text) is not None

    def _code(self, text: str) -> None:
        arrow = _ARROW.match(text)
        code = (arrow["code"] if arrow else text).strip()
        if not self.open or not self.frames:
            self.loose_code = code
            return
        last = self.frames[-1]
        function = _RICH_FUNCTION.match(text)
        if function is not None and not last.function:
            self.frames[-1] = last._replace(function=function["function"])
        elif arrow or (not last.code and not _NUMBERED.match(text)):
            self.frames[-1] = last._replace(code=code)

    def _exception(self, text: str) -> re.Match[str] | None:
        match = _EXCEPTION.match(text)
        if match is None and self.open and self.frames:
            match = _ANY_EXCEPTION.match(text)
        if match is None or match["type"] in _NO_EXCEPTION:
            return None
        # 'RuntimeError      Traceback (most recent call last)' was a traceback; a warning's line names its file first.
        return match

    def _ended(self, line: Line, type_: str, first: str) -> Sighting:
        if not self.open and not self.linked:
            self.chain += 1
        message = "\n".join([first, *self._message_lines()])
        frames = self.frames or ([Place("", "", self.loose_code)] if self.loose_code else [])
        sighting = exception(type_, message, frames)
        self.open, self.linked, self.frames, self.loose_code = False, False, [], ""
        return self._placed(sighting, line)._replace(warning=type_.endswith("Warning"))

    def _message_lines(self) -> Iterator[str]:
        """The further lines of an exception's message."""
        for _ in range(MAX_MESSAGE_LINES):
            if self.at >= len(self.lines) or self._ends_message(self.lines[self.at].text):
                return
            text = self.lines[self.at].text
            self.at += 1
            if "ssertion" in text and parse_device_asserts(text):
                self.at -= 1
                return
            yield re.sub(r"^E {3,7}", "", text)

    def _ends_message(self, text: str) -> bool:
        return bool(
            _CHAINED.search(text)
            or _TRACEBACK.search(text)
            or _LOG_LINE.match(text)
            or (text[:1] not in (" ", "\t") and _EXCEPTION.match(text))
        )

    # ---- lines that stand alone ----

    def _logged(self, line: Line) -> Sighting:
        inline = _INLINE.search(line.text)
        warning = _WARNING.search(line.text) is not None and _ERROR_WORD.search(line.text) is None
        type_ = inline["type"] if inline else ""
        message = inline["message"] if inline else line.text
        sighting = Sighting(
            "log", folded(message), quoted(line.text), type_, (type_,) if type_ else (), warning=warning
        )
        return self._placed(sighting, line, alone=True)

    def _placed(self, sighting: Sighting, line: Line, alone: bool = False) -> Sighting:
        """At its place in the text. What stands alone is a chain of its own, and leaves an open traceback as it is."""
        chain = -1 - line.number if alone else self.chain
        return sighting._replace(position=line.number, chain=chain, stream=self.stream)


def is_carrier(sighting: Sighting) -> bool:
    """Whether a failure only brings the news of another one."""
    return bool(_CARRIER.match(sighting.message)) or (
        sighting.kind == "exception" and bool(_CARRIER_TYPES.search(sighting.type))
    )


def everything(text: str) -> Sighting:
    """The whole text as one line that somebody logged: where nothing in it has the form of a failure."""
    said = clean(text)
    return Sighting("log", folded(said), quoted(said))
