"""Text without what is private, with stable placeholders and a ledger of what was replaced.

The rules, in their order. Longer and surer things come first, so that no rule breaks up what a later one would know:

1. literal taint: every value known by heart (:mod:`firstfault.case.known_secrets`), wherever it turns up, plain or written as
   in an address, in JSON, in HTML, in Python's ``repr`` or in base64, also when the text was cut inside of it;
2. known folders (home, project, working folder) as literals;
3. shapes: private keys, tokens by their makers' prefixes, assignments to secret names, addresses of the web other than
   public documentation, e-mail and IP addresses, paths;
4. names of users and hosts, as words.

A placeholder stands for the same value everywhere in one redactor: ``<token 1>`` twice is one token. Numbers follow the
order of first appearance, so that the same case gives the same text.
"""

from __future__ import annotations

import base64
import html
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote, quote_plus

from firstfault.case.known_secrets import SECRET_NAME, SHORTEST_SECRET, Known, users

_WHOLE_WORD = (
    8  # characters; a shorter secret is replaced as a word only, or it would be found inside of others
)
_MOST_TEXTS = 2_000  # texts of samples that are looked for
_LONGEST_TEXT = 1_000  # characters of one; of longer ones an error quotes a part at most
_SHORTEST_PART = 6  # characters of a secret that a cut text may end in without its being replaced
_PUBLIC_SITES = re.compile(
    r"(?:[\w-]+\.)*(?:pytorch\.org|python\.org|numpy\.org|docs\.nvidia\.com|developer\.nvidia\.com|rocm\.docs\.amd\.com"
    r"|docs\.scipy\.org)(?:[/?#]|$)|github\.com/pytorch/",
    re.IGNORECASE,
)
_CODE_SUFFIXES = (".py", ".pyx", ".ipynb", ".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hip", ".so", ".rs")
# Packages that anybody may have: their files and versions say nothing of whose installation it is.
PUBLIC_PACKAGES = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "torchdata",
        "torchmetrics",
        "torch_geometric",
        "triton",
        "numpy",
        "scipy",
        "pandas",
        "sklearn",
        "scikit_learn",
        "PIL",
        "pillow",
        "cv2",
        "opencv_python",
        "safetensors",
        "transformers",
        "tokenizers",
        "accelerate",
        "datasets",
        "diffusers",
        "peft",
        "huggingface_hub",
        "lightning",
        "pytorch_lightning",
        "lightning_fabric",
        "timm",
        "ignite",
        "pytorch_ignite",
        "monai",
        "einops",
        "hydra",
        "omegaconf",
        "hydra_core",
        "fsspec",
        "deepspeed",
        "apex",
        "xformers",
        "flash_attn",
        "bitsandbytes",
        "webdataset",
        "h5py",
        "pyarrow",
        "matplotlib",
        "tqdm",
        "tensorboard",
        "wandb",
        "mlflow",
        "sympy",
        "mpmath",
        "networkx",
        "filelock",
        "jinja2",
        "Jinja2",
        "typing_extensions",
        "setuptools",
        "msgspec",
        "click",
        "rich",
        "firstfault",
        "pytest",
        "hypothesis",
        "ipython",
        "IPython",
        "ipykernel",
        "dask",
        "ray",
        "optuna",
        "ROCm",
        "hip",
    ]
)
_INSTALLED = re.compile(r"(?:^|[/\\])(?:site-packages|dist-packages)[/\\]+((\w+)[/\\.].*)$")
_STANDARD = re.compile(r"(?:^|[/\\])lib[/\\]+(python3\.\d+[/\\](?!site-packages|dist-packages).*)$")
_BUILT = re.compile(r"(?:^|[/\\])((?:aten[/\\]+src|c10|torch[/\\]+csrc)[/\\].*)$")

_SYSTEM = re.compile(
    r"/usr/(?:lib|lib64|include)/|/usr/local/cuda[\w.-]*(?:/|$)|/proc/|/dev/(?:shm|null|nvidia\d*)(?:$|/)"
)
_PATH = re.compile(
    r"(?:(?<![\w.~/\\>])(?:~|<project>|/[^\s/:'\"<>|,;()\[\]{}`]+)(?:/[^\s/:'\"<>|,;()\[\]{}`]+)+/?"  # /a/b, never /a alone
    r"|(?<![A-Za-z0-9])[A-Za-z]:(?:\\{1,2}|/)(?:[^\s\\/:'\"<>|*?]+(?:\\{1,2}|/))*[^\s\\/:'\"<>|*?]*"  # C:\a\b
    r"|(?<![\w\\])\\\\[\w.$-]+(?:\\[^\s\\/:'\"<>|*?]+)+)"  # \\host\share
)
_QUOTED_PATH = re.compile(
    r"""(['"])((?:~|<project>|/|[A-Za-z]:[\\/])[^'"\n]*[/\\][^'"\n]*)\1"""
)  # may hold blanks
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
# Prefixes that makers gave their tokens so that they can be found: Hugging Face, OpenAI and Anthropic, GitHub, AWS, Google,
# Slack, GitLab, W&B, npm, PyPI, Stripe, Replicate, Groq, NVIDIA, SendGrid, JSON Web Tokens.
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?:hf|api_org)_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{12,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}"
    r"|gh[pousr]_[A-Za-z0-9]{12,}|github_pat_[A-Za-z0-9_]{12,}|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}"
    r"|AIza[A-Za-z0-9_-]{16,}|ya29\.[A-Za-z0-9_-]{8,}|xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}"
    r"|gl(?:pat|ptt|dt|rt|cbt|oas)-[A-Za-z0-9_-]{8,}|npm_[A-Za-z0-9]{12,}|pypi-[A-Za-z0-9_-]{16,}"
    r"|wandb_v\d_[A-Za-z0-9_]{8,}|r8_[A-Za-z0-9]{12,}|gsk_[A-Za-z0-9]{12,}|nvapi-[A-Za-z0-9_-]{12,}|dop_v1_[a-f0-9]{16,}"
    r"|SG\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"
    r"|[0-9a-f]{40}(?![0-9a-f]))"  # W&B's older keys; also a commit, which is given elsewhere
)
_BEARER = re.compile(r"(?i)\b(Bearer|Basic|Authorization:)\s+(?!Bearer|Basic)([A-Za-z0-9._~+/=-]{8,})")
_ASSIGNMENT = re.compile(
    r"""(?ix)(?P<name>[\w.-]*(?:token|secret|passw(?:or)?d|passphrase|api_?key|access_?key|credential)[\w.-]*)
    (?P<sign>["']?\s*[:=]\s*) (?: (?P<quote>\\?["'])(?P<quoted>[^"'\\\n]{4,})(?P=quote) | (?P<bare>(?=\S*\d)[A-Za-z0-9_+/=-]{12,}) )"""
)
_ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>`]+")
_EMAIL = re.compile(
    r"[A-Za-z0-9._+-]+(?:@|%40|&#(?:64|x40);|\\u0040)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b"
)
_IPV4 = re.compile(r"(?<![\w.])(?<!==)(?<!ersion )(?<!ersion: )(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)(?:[0-9A-Fa-f:]{2,38}[0-9A-Fa-f]|[0-9A-Fa-f:]{1,37}::)(?!\w|:[\w:])"
)
_MAC = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?!\w|:\w)")
_HOME = re.compile(r"(?:/home/|/Users/|/export/home/|[A-Za-z]:\\{1,2}Users\\{1,2})([^\s/\\:'\"<>|,;()\[\]]+)")
_HARMLESS_IPS = ("127.0.0.1", "0.0.0.0", "255.255.255.255")

STAYS = (
    "the type and message of the exception, with the rules above applied: read it",
    "names of functions, modules and source files, and the lines of code in the traceback",
    "operators, shapes, dtypes, devices, strides, smallest and largest values",
    "numbers of samples where they are integers, and how many there are",
    "the program in repro.py, with the values that the failure needs",
    "versions of Python, torch, the driver and well-known packages; names of the devices; switches of torch's",
    "the commit of the source, as its hash",
)


class Redactor:
    """Replaces what is private. One redactor serves one report, so that placeholders agree within it."""

    def __init__(self, known: Known = Known()) -> None:  # noqa: B008  (frozen)
        self.known = known
        self._numbers: dict[tuple[str, str], int] = {}
        self._ledger: Counter[str] = Counter()
        self._literals, self._meaning = _literals(known)
        self._folders = _folders(known)
        self._names = _names(known)

    @property
    def ledger(self) -> Mapping[str, int]:
        """How often each rule replaced something. No values."""
        return dict(sorted(self._ledger.items()))

    def put(self, rule: str, value: str) -> str:
        """The placeholder for a value, counted."""
        self._ledger[rule] += 1
        number = self._numbers.setdefault((rule, value), 1 + sum(each == rule for each, _ in self._numbers))
        return f"<{rule} {number}>"

    def left_out(self, rule: str, count: int = 1) -> None:
        """Count something that was left out whole."""
        self._ledger[rule] += count

    def text(self, raw: str) -> str:
        """The text with every rule applied."""
        if not raw:
            return raw
        out = self._literals.sub(self._literal, raw) if self._literals is not None else raw
        out = self._cut_secret(out)
        out = _PRIVATE_KEY.sub(lambda found: self.put("private key", found[0]), out)
        out = _TOKENS.sub(lambda found: self.put("token", found[0]), out)
        out = _BEARER.sub(lambda found: f"{found[1]} {self.put('token', found[2])}", out)
        out = _ASSIGNMENT.sub(self._assignment, out)
        for pattern, placeholder in self._folders:
            out = pattern.sub(self._counted("folder", placeholder), out)
        out = _ADDRESS.sub(self._address, out)
        out = _EMAIL.sub(lambda found: self.put("e-mail", found[0].lower()), out)
        out = _MAC.sub(lambda found: self.put("hardware address", found[0].lower()), out)
        out = _IPV4.sub(lambda found: self._ip(found[0]), out)
        out = _IPV6.sub(lambda found: self._ip(found[0]), out)
        out = _QUOTED_PATH.sub(lambda found: f"{found[1]}{self.path(found[2])}{found[1]}", out)
        out = _PATH.sub(lambda found: self.path(found[0]), out)
        for pattern, rule in self._names:
            out = pattern.sub(self._counted(rule, f"<{rule}>"), out)
        return out

    def path(self, raw: str) -> str:
        """A path: from the part that all installations share, or the file's name if it is code, else a placeholder."""
        stem, dot, suffix = re.split(r"[/\\]", raw.rstrip("/\\"))[-1].rpartition(".")
        code = bool(stem) and f".{suffix.lower()}" in _CODE_SUFFIXES
        if code and (shared := _shared_part(raw)) is not None:
            self._ledger["path"] += 1
            return shared
        if code:
            self._ledger["path"] += 1
            return f"{stem}.{suffix}"
        if _SYSTEM.match(raw):
            return raw
        if raw in ("~", "~/"):
            return raw
        ending = f".{suffix}" if stem and dot and re.fullmatch(r"[A-Za-z0-9]{1,5}", suffix) else ""
        return self.put("path", raw) + ending

    def sample(self, value: object) -> object:
        """A data-set index: integers stay, names don't; lists and pairs of them likewise."""
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, (list, tuple)):
            return tuple(self.sample(each) for each in value)
        return self.put("sample", str(value))

    def value(self, value: object) -> object:
        """A value out of a sample: numbers stay, text doesn't."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, (list, tuple)):
            return tuple(self.value(each) for each in value)
        text = str(value)
        if _is_number(text):
            return text
        return self.put("text", text)

    # ---- one rule each -----------------------------------------------------------------------------------------------

    def _literal(self, found: re.Match[str]) -> str:
        rule, canonical = self._meaning[found[0]]
        return self.put(rule, canonical)

    def _cut_secret(self, text: str) -> str:
        """A text that ends inside of a secret, because somebody cut it there."""
        bare = text.rstrip(". …'\"")
        tail = bare[-_SHORTEST_PART:]
        if len(tail) < _SHORTEST_PART:
            return text
        longest, whose = 0, ""
        for variant, (rule, canonical) in self._meaning.items():
            at = variant.find(tail) if rule == "secret" else -1
            while at >= 0:
                length = at + _SHORTEST_PART
                if length > longest and bare.endswith(variant[:length]):
                    longest, whose = length, canonical
                at = variant.find(tail, at + 1)
        return (
            text
            if not longest
            else bare[: len(bare) - longest] + self.put("secret", whose) + text[len(bare) :]
        )

    def _assignment(self, found: re.Match[str]) -> str:
        value = found["quoted"] or found["bare"]
        if not SECRET_NAME.search(found["name"]) or value.startswith("<"):
            return found[0]
        mark = found["quote"] or ""
        return f"{found['name']}{found['sign']}{mark}{self.put('token', value)}{mark}"

    def _counted(self, rule: str, placeholder: str) -> Callable[[re.Match[str]], str]:
        def replace(found: re.Match[str]) -> str:
            self._ledger[rule] += 1
            return placeholder

        return replace

    def _address(self, found: re.Match[str]) -> str:
        if _PUBLIC_SITES.match(found[0].partition("://")[2]):
            return found[0]
        return self.put("address", found[0])

    def _ip(self, raw: str) -> str:
        """An address that is one; ``x[::2]`` and ``a::b`` are code."""
        try:
            ipaddress.ip_address(raw)
        except ValueError:
            return raw
        code = ":" in raw and len(raw.split(":")[0]) < 3
        return raw if code or raw in _HARMLESS_IPS else self.put("IP", raw)


def _shared_part(path: str) -> str | None:
    """What lies below a public package, the standard library, or a folder of torch's own sources."""
    installed = _INSTALLED.search(path)
    if installed is not None and installed[2] not in PUBLIC_PACKAGES:
        return None
    found = installed or _STANDARD.search(path) or _BUILT.search(path)
    return None if found is None else re.sub(r"[/\\]+", "/", found[1])


def quoted_text(redactor: Redactor, message: str) -> str:
    """An exception's message with quoted text replaced: what code quotes in its own errors is mostly data.

    Lines of a traceback (indented, or ``File "…"``) are left to the other rules.
    """

    def replace(found: re.Match[str]) -> str:
        inner = found[2]
        if _is_number(inner) or re.fullmatch(r"<[\w -]+ \d+>\S*", inner):
            return found[0]
        return f"{found[1]}{redactor.put('text', inner)}{found[1]}"

    lines = []
    for line in message.split("\n"):
        inside = line.startswith((" ", "\t", "Traceback", "Original Traceback"))
        lines.append(
            line if inside else re.sub(r"(?<!\w)(['\"])((?:(?!\1)[^\\\n]|\\.)+)(?:\1|$)", replace, line)
        )
    return "\n".join(lines)


def learned(texts: Iterable[str]) -> Known:
    """What texts give away about whose they are: the names in paths below a folder of homes."""
    found = [match[1] for text in texts for match in _HOME.finditer(text)]
    return Known(users=users(found))


def variants(value: str, depth: int = 2) -> tuple[str, ...]:
    """A value as it may be written: plain, in an address, in JSON, in HTML, as Python's repr, one inside of another."""
    seen = {value: None}
    for _ in range(depth):
        for text in list(seen):
            for write in _WRITINGS:
                seen.setdefault(write(text))
    for lead in range(3):
        seen.setdefault(_base64_core(value, lead))
    return tuple(each for each in seen if each)


def _base64_core(value: str, lead: int) -> str:
    """The characters of a base64 text that only this value decides, when it begins ``lead`` bytes after a border."""
    data = value.encode()
    if len(data) < 12:
        return ""
    coded = base64.b64encode(b"\0" * lead + data).decode().rstrip("=")
    first = {0: 0, 1: 2, 2: 3}[lead]
    return coded[first : 4 * ((lead + len(data)) // 3)]


_WRITINGS: tuple[Callable[[str], str], ...] = (
    lambda text: quote(text, safe=""),
    lambda text: quote(text),
    quote_plus,
    lambda text: re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quote(text, safe="")),
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: json.dumps(text).replace("/", "\\/")[1:-1],
    lambda text: html.escape(text),
    lambda text: html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
    lambda text: html.escape(text, quote=False),
    lambda text: repr(text)[1:-1],
    lambda text: repr(text.encode())[2:-1],
    lambda text: text.replace("'", "\\'").replace('"', '\\"'),
)


def _literals(known: Known) -> tuple[re.Pattern[str] | None, dict[str, tuple[str, str]]]:
    """One pattern for all known values, longest first, and what each of its matches means."""
    meaning: dict[str, tuple[str, str]] = {}
    patterns: dict[str, str] = {}
    for rule, values, depth in (
        ("secret", known.secrets, 2),
        ("sample", known.samples[:_MOST_TEXTS], 1),
        ("text", known.texts[:_MOST_TEXTS], 1),
    ):
        for value in values:
            if len(value) < SHORTEST_SECRET or (rule != "secret" and len(value) > _LONGEST_TEXT):
                continue
            for variant in variants(value, depth):
                if len(variant) >= SHORTEST_SECRET and variant not in meaning:
                    meaning[variant] = (rule, value)
                    word = len(variant) < _WHOLE_WORD or rule != "secret"
                    escaped = re.escape(variant)
                    patterns[variant] = rf"(?<![A-Za-z0-9]){escaped}(?![A-Za-z0-9])" if word else escaped
    if not patterns:
        return None, {}
    ordered = sorted(patterns, key=len, reverse=True)
    return re.compile("|".join(patterns[variant] for variant in ordered)), meaning


def _folders(known: Known) -> list[tuple[re.Pattern[str], str]]:
    """Patterns of known folders with their placeholders, the longest folder first."""
    found = []
    for placeholder, folder in sorted(known.folders, key=lambda pair: -len(pair[1])):
        if len(folder.strip("/\\")) < 2:
            continue
        alternatives = "|".join(
            re.escape(each) for each in sorted(variants(folder.rstrip("/\\")), key=len, reverse=True)
        )
        found.append((re.compile(rf"(?:{alternatives})(?![\w-])"), placeholder))
    return found


def _names(known: Known) -> list[tuple[re.Pattern[str], str]]:
    found = []
    for rule, names in (("host", known.hosts), ("user", known.users)):
        spelled = sorted({each for name in names for each in variants(name)}, key=len, reverse=True)
        if spelled:
            words = "|".join(re.escape(each) for each in spelled)
            found.append((re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", re.IGNORECASE), rule))
    return found


def _is_number(text: str) -> bool:
    return (
        re.fullmatch(r"[-+]?(?:\d[\d,_]*\.?\d*(?:[eE][-+]?\d+)?|nan|inf|True|False|None)", text.strip())
        is not None
    )
