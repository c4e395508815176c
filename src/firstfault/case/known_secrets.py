"""What is private on this machine, known by heart: secrets by the names that they go under, home, user, host.

Nothing here leaves the process. The values serve to be found and replaced wherever else they turn up
(:mod:`firstfault.case.redaction`).
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 64 * 1024  # of a file that holds tokens; a larger one holds something else
SHORTEST_SECRET = 4  # characters; a shorter value would be found in every text

# Names of variables and settings that hold secrets; TOKENIZERS_PARALLELISM and the like are not among them.
SECRET_NAME = re.compile(
    r"SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|WEBHOOK|TOKEN(?!I)"
    r"|(?:^|[_.-])(?:KEY|AUTH|PASS|PAT|DSN|COOKIE|SIGNATURE)S?(?:$|[_.-])|KEY$",
    re.IGNORECASE,
)
_NO_SECRETS = frozenset(
    [
        "true",
        "false",
        "none",
        "null",
        "yes",
        "no",
        "on",
        "off",
        "auto",
        "default",
        "enabled",
        "disabled",
        "always",
        "never",
        "ssh",
        "gpg",
        "agent",
    ]
)
_USERINFO = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/@:]*:([^\s/@]+)@", re.IGNORECASE)
_ASSIGNED = re.compile(r"""["']?([\w.-]+)["']?\s*[:=]\s*["']?([^\s"',}]+)""")
_NETRC = re.compile(r"\b(?:password|account)\s+(\S+)")

# Where well-known tools keep tokens, below the home folder: a whole file that is one, .netrc's words, or assignments.
# huggingface_hub constants.py; wandb and kaggle docs; pip, git, aws, gh, docker manuals.
_TOKEN_FILES = {
    ".cache/huggingface/token": "whole",
    ".huggingface/token": "whole",
    ".cache/huggingface/stored_tokens": "assigned",
    ".netrc": "netrc",
    "_netrc": "netrc",
    ".config/wandb/settings": "assigned",
    ".kaggle/kaggle.json": "assigned",
    ".kaggle/access_token": "whole",
    ".comet.config": "assigned",
    ".aws/credentials": "assigned",
    ".git-credentials": "addresses",
    ".pypirc": "assigned",
    ".databrickscfg": "assigned",
    ".mlflow/credentials": "assigned",
    ".config/gh/hosts.yml": "assigned",
    ".docker/config.json": "assigned",
}
# Names of people who aren't one: replacing these words would only spoil the text.
_NOBODY = frozenset(
    [
        "root",
        "user",
        "users",
        "admin",
        "administrator",
        "ubuntu",
        "debian",
        "centos",
        "fedora",
        "ec2-user",
        "runner",
        "jovyan",
        "docker",
        "vscode",
        "test",
        "nobody",
        "guest",
        "home",
        "train",
        "model",
        "data",
        "app",
        "python",
        "torch",
        "main",
    ]
)
_NOWHERE = frozenset(["localhost", "localhost.localdomain", "docker", "debian", "ubuntu", "linux"])


@dataclass(frozen=True)
class Known:
    """Private things by kind. ``folders`` are (placeholder, path) pairs; ``samples`` are indices that are names,
    ``texts`` what samples hold."""

    secrets: tuple[str, ...] = ()
    folders: tuple[tuple[str, str], ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def __or__(self, other: Known) -> Known:
        """Both together, without doubles, in order."""
        return Known(
            secrets=_once((*self.secrets, *other.secrets)),
            folders=tuple(dict.fromkeys((*self.folders, *other.folders))),
            users=_once((*self.users, *other.users)),
            hosts=_once((*self.hosts, *other.hosts)),
            samples=_once((*self.samples, *other.samples)),
            texts=_once((*self.texts, *other.texts)),
        )


def known_here(
    environ: Mapping[str, str] | None = None, home: Path | None = None, host: str | None = None
) -> Known:
    """What is private in this process's environment, home folder and host name; each may be given instead."""
    environ = os.environ if environ is None else environ
    home = Path(os.path.expanduser("~")) if home is None else home
    names = [environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")]
    hosts = [
        platform.node() if host is None else host,
        environ.get("HOSTNAME", ""),
        environ.get("COMPUTERNAME", ""),
    ]
    return Known(
        secrets=_once((*_of_environment(environ), *_of_files(home, environ))),
        folders=(("~", str(home)),) if len(home.parts) > 1 else (),
        users=users((*names, home.name)),
        hosts=_once(part for each in hosts for part in _host_parts(each)),
    )


def users(names: Iterable[str]) -> tuple[str, ...]:
    """The names that are somebody's."""
    return _once(name for name in names if len(name) > 2 and name.lower() not in _NOBODY)


def _host_parts(host: str) -> Iterator[str]:
    """A host's full name, and its first part alone."""
    for name in (host, host.split(".", 1)[0]):
        if len(name) > 2 and name.lower() not in _NOWHERE:
            yield name


def _of_environment(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        if SECRET_NAME.search(name):
            yield from _with_parts(value)
        yield from _USERINFO.findall(value)


def _with_parts(value: str) -> Iterator[str]:
    """A secret, and what would give it away in part: its lines, the strings of a JSON document."""
    yield value
    if "\n" in value.strip():
        yield from (line for line in value.splitlines() if len(line) >= 16)
    if value.lstrip().startswith("{"):
        try:
            document = json.loads(value)
        except ValueError:
            return
        yield from (each for each in document.values() if isinstance(each, str) and len(each) >= 8)


def _of_files(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    files = {home / name: kind for name, kind in _TOKEN_FILES.items()}
    for variable, below, kind in (
        ("HF_HOME", "token", "whole"),
        ("HF_TOKEN_PATH", "", "whole"),
        ("NETRC", "", "netrc"),
    ):
        if environ.get(variable):
            files[Path(environ[variable], below)] = kind
    for path, kind in files.items():
        try:
            if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
                continue
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if kind == "whole":
            yield text.strip()
        elif kind == "netrc":
            yield from _NETRC.findall(text)
        elif kind == "assigned":
            yield from (value for name, value in _ASSIGNED.findall(text) if SECRET_NAME.search(name))
        yield from _USERINFO.findall(text)


def _once(values: Iterable[str]) -> tuple[str, ...]:
    stripped = (value.strip() for value in values)
    return tuple(
        dict.fromkeys(value for value in stripped if len(value) >= 3 and value.lower() not in _NO_SECRETS)
    )
