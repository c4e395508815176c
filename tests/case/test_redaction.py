"""Planted secrets of each kind never come out, in whatever way they are written."""

from __future__ import annotations

import io
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sample_cases
from firstfault.case import findings as found
from firstfault.case import schema
from firstfault.case.known_secrets import SECRET_NAME, Known, known_here
from firstfault.case.public import _ALLOWED, _RULES, KEPT_BACK, known_of, public_case
from firstfault.case.redaction import Redactor, quoted_text, variants
from firstfault.report import box, terminal
from firstfault.report.markdown import markdown
from firstfault.report.page import page
from firstfault.report.redacted import redacted
from firstfault.report.request import request
from firstfault.report.view import CaseView

ALNUM = string.ascii_letters + string.digits


def text_of(alphabet: str, low: int, high: int) -> st.SearchStrategy[str]:
    return st.text(alphabet=alphabet, min_size=low, max_size=high)


Planted = tuple[str, str]  # a secret, and the part of it that gives it away


def shaped(part: st.SearchStrategy[str], form: str = "{}") -> st.SearchStrategy[Planted]:
    return part.map(lambda drawn: (form.format(drawn), drawn))


def whole(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[Planted]:
    return strategy.map(lambda drawn: (drawn, drawn))


HEX = "0123456789abcdef"
NAME = text_of(string.ascii_lowercase, 6, 12).map("q{}".format)
# Secrets by their shape alone, as their makers hand them out.
SHAPES: dict[str, st.SearchStrategy[Planted]] = {
    "hugging face": shaped(text_of(ALNUM, 30, 40), "hf_{}"),
    "openai": shaped(text_of(ALNUM, 40, 50), "sk-proj-{}"),
    "github": shaped(text_of(ALNUM, 36, 36), "ghp_{}"),
    "github, fine-grained": shaped(text_of(ALNUM, 60, 82), "github_pat_{}"),
    "aws": shaped(text_of(string.ascii_uppercase + string.digits, 16, 16), "AKIA{}"),
    "google": shaped(text_of(ALNUM + "_-", 35, 35), "AIza{}"),
    "slack": shaped(text_of(string.digits, 10, 12), "xoxb-{}-abcDEF012345"),
    "gitlab": shaped(text_of(ALNUM, 20, 20), "glpat-{}"),
    "json web token": shaped(text_of(ALNUM, 20, 40), "eyJhbGciOiJIUzI1NiJ9.eyJ{}.c2lnbmF0dXJl"),
    "w&b": whole(text_of(HEX, 40, 40)),
    "private key": shaped(
        text_of(ALNUM, 64, 64), "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----"
    ),
    "password in an address": shaped(text_of(ALNUM, 10, 20), "postgres://ada:{}@db.clinic.example:5432/x"),
    "e-mail": shaped(NAME, "{}@clinic.example"),
    "ipv4": whole(st.tuples(*[st.integers(11, 250)] * 4).map(lambda parts: ".".join(map(str, parts)))),
    "ipv6": whole(
        st.lists(st.integers(0x1000, 0xFFFF), min_size=8, max_size=8).map(
            lambda parts: ":".join(f"{part:x}" for part in parts)
        )
    ),
    "path": shaped(NAME, "/mnt/clinic/{}/scan_7"),
    "windows path": shaped(NAME, "D:\\clinic\\{}\\scan.dcm"),
    "address": shaped(NAME, "s3://{}/scans/7.dcm"),
    "hardware address": whole(
        st.lists(st.integers(0x10, 0xFF), min_size=6, max_size=6).map(
            lambda parts: ":".join(f"{part:02x}" for part in parts)
        )
    ),
}
AROUND = st.sampled_from([" ", "\n", "'", '"', "(", "=", ", ", ": ", "[", "<", "|"])
ANY_SECRET = (
    st.text(alphabet=ALNUM + "!$%&/()=?+*#-_.:,;<>'\"\\ äß€", min_size=8, max_size=40)
    .filter(lambda value: len(value.strip()) >= 8 and not value.strip().isspace())
    .map(str.strip)
)


@pytest.mark.parametrize("kind", SHAPES)
@given(data=st.data())
def test_shapes_are_known_without_being_told(kind: str, data: st.DataObject) -> None:
    """A token, address or path is replaced by its form, wherever it stands in a text."""
    (secret, telling), before, after = data.draw(SHAPES[kind]), data.draw(AROUND), data.draw(AROUND)
    redactor = Redactor()
    out = redactor.text(f"failed with{before}{secret}{after} and went on")
    assert telling not in out
    assert out.startswith("failed with")
    assert out.endswith(" and went on")
    assert sum(redactor.ledger.values()) >= 1


@given(secret=ANY_SECRET, data=st.data(), lead=st.text(max_size=20), rest=st.text(max_size=20))
def test_a_known_secret_goes_in_every_writing(secret: str, data: st.DataObject, lead: str, rest: str) -> None:
    """Plain, in an address, in JSON, in HTML, as repr, one inside of another, next to anything."""
    written = data.draw(st.sampled_from(variants(secret)))
    out = Redactor(Known(secrets=(secret,))).text(f"{lead}{written}{rest}")
    assert secret not in out or secret in lead + rest
    assert written not in out or written in lead + rest or len(written) < 8


@given(secret=text_of(ALNUM, 16, 40), cut=st.integers(6, 15))
def test_a_secret_that_was_cut_off_goes_too(secret: str, cut: int) -> None:
    """A message that somebody cut inside of a secret ends in a placeholder."""
    out = Redactor(Known(secrets=(secret,))).text(f"login failed for {secret[:cut]}…")
    assert secret[:6] not in out
    assert out.endswith("<secret 1>…")


@given(secret=text_of(ALNUM, 12, 40), lead=st.binary(max_size=9), rest=st.binary(max_size=9))
def test_a_secret_inside_of_base64_goes_too(secret: str, lead: bytes, rest: bytes) -> None:
    """At each of the three places that a byte can have in base64."""
    import base64

    coded = base64.b64encode(lead + secret.encode() + rest).decode()
    out = Redactor(Known(secrets=(secret,))).text(f"Proxy-Auth {coded}")
    assert coded not in out


@given(text=st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    """Placeholders are stable: they are no secrets themselves."""
    known = Known(secrets=("correct-horse",), folders=(("~", "/home/ada"),), users=("ada",), hosts=("gpu-7",))
    once = Redactor(known).text(text)
    assert Redactor(known).text(once) == once


def test_the_same_value_has_the_same_placeholder() -> None:
    """A reader can tell that two places speak of one thing, and the ledger counts without values."""
    redactor = Redactor(Known(secrets=("correct-horse",)))
    out = redactor.text(
        "a@x.example to b@x.example, again a@x.example with correct-horse and correct%2Dhorse, correct-horse"
    )
    assert out == "<e-mail 1> to <e-mail 2>, again <e-mail 1> with <secret 1> and correct%2Dhorse, <secret 1>"
    assert redactor.ledger == {"e-mail": 3, "secret": 2}


KNOWN = Known(
    secrets=("hunter2hunter2",),
    folders=(("~", "/home/jane.doe"), ("<project>", "/home/jane.doe/acme/fraud")),
    users=("jane.doe",),
    hosts=("gpu-box-7.lab.example", "gpu-box-7"),
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('File "/home/jane.doe/acme/fraud/models/net.py", line 3', 'File "net.py", line 3'),
        (
            'File "/opt/conda/envs/x/lib/python3.11/site-packages/torch/nn/functional.py", line 3',
            'File "torch/nn/functional.py", line 3',
        ),
        ('File "/opt/conda/lib/python3.11/site-packages/acme_core/load.py"', 'File "load.py"'),
        (
            'File "/usr/lib/python3.11/multiprocessing/queues.py"',
            'File "python3.11/multiprocessing/queues.py"',
        ),
        (
            "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1553: kernel",
            "aten/src/ATen/native/cuda/Indexing.cu:1553: kernel",
        ),
        ("No such file: '/home/jane.doe/data/patient 12.png'", "No such file: '<path 1>.png'"),
        ("user jane.doe on gpu-box-7.lab.example", "user <user> on <host>"),
        ("JANE.DOE@GPU-BOX-7", "<user>@<host>"),
        (
            "see https://docs.nvidia.com/cuda/x.html and http://10.1.2.3:5000/run",
            "see https://docs.nvidia.com/cuda/x.html and <address 1>",
        ),
        ("CUDA 12.4.127.0, cudnn==9.1.0.70, at 127.0.0.1", "CUDA <IP 1>, cudnn==9.1.0.70, at 127.0.0.1"),
        ('login(token="hunter2hunter2")', 'login(token="<secret 1>")'),
        ('api_key = "abcd-efgh-ijkl"', 'api_key = "<token 1>"'),
        ("tokens = batch['input_ids'].view(-1)", "tokens = batch['input_ids'].view(-1)"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer <token 1>"),
        (
            "at::native::nll_loss c10::Error 1:2:3 x[::2] 12:30:45",
            "at::native::nll_loss c10::Error 1:2:3 x[::2] 12:30:45",
        ),
        (
            "shape [16, 3, 224, 224] loss 0.125 / 2.5 a/b and/or 3/4",
            "shape [16, 3, 224, 224] loss 0.125 / 2.5 a/b and/or 3/4",
        ),
    ],
)
def test_what_a_text_becomes(raw: str, expected: str) -> None:
    """What helps a reader stays; what tells of somebody goes."""
    assert Redactor(KNOWN).text(raw) == expected


def test_quoted_text_in_a_message_goes_but_a_traceback_s_lines_stay() -> None:
    """What code quotes in its own errors is mostly data; file names of frames are left to the rules for paths."""
    message = "KeyError: 'Jane Roe'\nwith \"x y\" and '3'\n  File \"train.py\", line 3\n    labels['kind']\n"
    assert (
        quoted_text(Redactor(), message)
        == "KeyError: '<text 1>'\nwith \"<text 2>\" and '3'\n  File \"train.py\", line 3\n    labels['kind']\n"
    )


# ---- what is known of a machine --------------------------------------------------------------------------------------


def test_secrets_are_known_by_the_names_that_they_go_under(tmp_path: Path) -> None:
    """Variables with secret names, and the files in which tools keep tokens; settings with similar names aren't."""
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password netrc-password-1\n")
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    (tmp_path / ".cache/huggingface/token").write_text("file-token-2\n")
    (tmp_path / ".kaggle").mkdir()
    (tmp_path / ".kaggle/kaggle.json").write_text('{"username": "ada", "key": "kaggle-key-3"}')
    (tmp_path / ".git-credentials").write_text("https://ada:git-password-4@github.com\n")
    environ = {
        "WANDB_API_KEY": "variable-5",
        "DATABASE_URL": "postgres://ada:url-password-6@db/x",
        "SERVICE_ACCOUNT_CREDENTIALS": '{"private": "json-secret-7", "n": 1}',
        "TOKENIZERS_PARALLELISM": "parallelism",
        "KEY": "true",
        "USER": "ada.lovelace",
        "PATH": "/usr/bin",
    }
    known = known_here(environ, tmp_path, "gpu-box-7.lab.example")
    told = " ".join(known.secrets)
    for secret in (
        "netrc-password-1",
        "file-token-2",
        "kaggle-key-3",
        "git-password-4",
        "variable-5",
        "url-password-6",
        "json-secret-7",
    ):
        assert secret in told
    for harmless in ("parallelism", "true", "/usr/bin"):
        assert harmless not in known.secrets
    assert "ada.lovelace" in known.users
    assert known.hosts == ("gpu-box-7.lab.example", "gpu-box-7")
    assert ("~", str(tmp_path)) in known.folders


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "GITHUB_PAT",
        "SENTRY_DSN",
        "SESSION_COOKIE",
        "MYAPIKEY",
        "SLACK_WEBHOOK_URL",
    ],
)
def test_names_of_secrets(name: str) -> None:
    """Names that hold secrets."""
    assert SECRET_NAME.search(name)


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "PATH",
        "PWD",
        "CUDA_VISIBLE_DEVICES",
        "KEYBOARD",
        "PASSES",
        "MONKEYS",
        "NCCL_DEBUG",
    ],
)
def test_names_of_settings(name: str) -> None:
    """Names that don't."""
    assert not SECRET_NAME.search(name)


def test_generic_names_are_nobody_s() -> None:
    """'root' and 'localhost' would only spoil the text."""
    known = known_here({"USER": "root"}, Path("/root"), "localhost")
    assert known.users == ()
    assert known.hosts == ()


# ---- a whole case ----------------------------------------------------------------------------------------------------

Plant = Callable[[schema.Case, str], tuple[schema.Case, dict[str, found.Finding]]]


def _failure(case: schema.Case, **fields: Any) -> schema.Case:
    return msgspec.structs.replace(case, failure=msgspec.structs.replace(case.failure, **fields))


def _frame(secret: str) -> schema.Frame:
    return schema.Frame(file=f"/data/{secret}/train.py", line=3, function="main", code=f"load({secret!r})")


PLANTS: dict[str, Plant] = {
    "message": lambda case, x: (_failure(case, exception=schema.ExceptionInfo(type="ValueError", message=f"can't log in with {x}")), {}),
    "message, as repr": lambda case, x: (_failure(case, exception=schema.ExceptionInfo(type="KeyError", message=repr(x))), {}),
    "cause": lambda case, x: (_failure(case, exception=schema.ExceptionInfo(type="RuntimeError", message="x", caused_by=(schema.ExceptionInfo(type="OSError", message=f"at {x} "),))), {}),
    "frame": lambda case, x: (_failure(case, seen=_frame(x), frames=(_frame(x),)), {}),
    "module": lambda case, x: (_failure(case, modules=(f"model {x} (Net)",)), {}),
    "device": lambda case, x: (_failure(case, device_asserts=(schema.DeviceAssert(text=f"assert {x} failed", file=f"/a/{x}/b.cu"),)), {}),
    "consequence": lambda case, x: (_failure(case, consequences=(schema.Consequence(exception=schema.ExceptionInfo(type="IOError", message=f"<{x}>"), note=f"note: {x}"),)), {}),
    "output": lambda case, x: (_failure(case, stderr_tail=f"logging in with {x}"), {}),
    "variable": lambda case, x: (msgspec.structs.replace(case, environment=msgspec.structs.replace(case.environment, variables={"TORCH_HOME": x})), {}),
    "argument": lambda case, x: (msgspec.structs.replace(case, source=msgspec.structs.replace(case.source, argv=("--key", x), launcher=(x,))), {}),
    "note": lambda case, x: (msgspec.structs.replace(case, notes=(f"note {x} ",)), {}),
    "structure": lambda case, x: (msgspec.structs.replace(case, batch=schema.Batch(indices=(1,), structure={"list": [{"plain": x}]})), {}),
    "finding": lambda case, x: (case, {"replay": found.Replay(summary=f"differs: {x}", other_signature=f"OSError · {x} ")}),
    "element": lambda case, x: (case, {"locate": found.Locate(summary="s", operator="aten.x", violations=(found.Violation(contract="c", argument="a", allowed="[0, 4)", elements=(found.Element(index=(0,), value=x, sample=x, changed_by=(f"aten.to: {x} -> 1",)),), note=f"n {x} "),))}),
    "scan": lambda case, x: (case, {"scan": found.Scan(summary="s", rule="r", samples=(found.Breach(sample=x, value=x, source="a"),), histogram=((x, 1),))}),
    "condition": lambda case, x: (case, {"shrink": found.Shrink(summary="s", culprits=(x,), samples=(x,), conditions=(found.Condition(what=f"value {x} ", needed=True),), others_seen=(f"other {x} ",))}),
}  # fmt: skip


def every_form(view: CaseView, known: Known) -> dict[str, str]:
    """All that a person may be given."""
    public, _ = redacted(view, known)
    out = io.StringIO()
    terminal.show(public, terminal.console(file=out, width=4_000))
    return {
        "page": page(public),
        "markdown": markdown(public),
        "box": box.box(public, width=80, colour=False),
        "terminal": out.getvalue(),
        "facts": msgspec.json.encode(public.case).decode(),
        "findings": msgspec.json.encode(public.findings).decode(),
        "pytorch": request(view, "pytorch", known=known, versions="PyTorch version: 2.13.0"),
        "forum": request(view, "forum", known=known),
        "github": request(view, "github", known=known, versions="PyTorch version: 2.13.0"),
    }


@pytest.mark.parametrize("place", PLANTS)
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_a_planted_secret_comes_out_in_no_form(place: str, data: st.DataObject) -> None:
    """Whatever the kind of secret, wherever it stands in a case, no report, request or export shows it."""
    kind = data.draw(st.sampled_from(["known", *sorted(SHAPES)]))
    secret, telling = data.draw(
        whole(text_of(ALNUM, 9, 29).map("z{}".format)) if kind == "known" else SHAPES[kind]
    )
    known = Known(secrets=(secret,) if kind == "known" else ())
    case, findings = PLANTS[place](sample_cases.index_error().case, secret)
    view = sample_cases.view(case, findings, f"# key {secret}\nimport torch\n")
    for form, text in every_form(view, known).items():
        assert telling not in text, (form, kind)


@pytest.mark.parametrize("place", PLANTS)
def test_home_user_and_host_come_out_in_no_form(place: str) -> None:
    """Names of people, machines and projects, in every place."""
    base = sample_cases.index_error().case
    for secret in ("/home/jane.doe/acme/fraud/labels.csv", "jane.doe", "gpu-box-7", "jane%2Edoe"):
        case, findings = PLANTS[place](base, secret)
        for form, text in every_form(sample_cases.view(case, findings), KNOWN).items():
            assert not re.search(r"jane.doe|gpu-box-7|acme", text, re.IGNORECASE) or secret == "jane%2Edoe", (
                form,
                secret,
            )


def test_sample_names_go_everywhere_and_numbers_stay() -> None:
    """An index that is a name has one placeholder in all places; an integer says nothing and stays."""
    failing = sample_cases.index_error().case
    batch = msgspec.structs.replace(
        failing.batch, indices=("patient-0017", 42), structure={"list": [{"plain": "Jane Roe, 54"}]}
    )
    case = msgspec.structs.replace(
        failing,
        batch=batch,
        failure=msgspec.structs.replace(
            failing.failure,
            exception=schema.ExceptionInfo(
                type="ValueError", message="bad row of patient-0017: Jane Roe, 54"
            ),
        ),
    )
    locate = found.Locate(summary="target holds 4 (sample patient-0017)", operator="aten.nll_loss_forward")
    for form, text in every_form(sample_cases.view(case, {"locate": locate}), Known()).items():
        assert "patient-0017" not in text, form
        assert "Jane Roe" not in text, form
    public = public_case(case, Redactor(known_of(case, {})))
    assert public.batch is not None
    assert public.batch.indices == ("<sample 1>", 42)
    assert public.failure.exception is not None
    assert public.failure.exception.message == "bad row of <sample 1>: <text 1>"


def test_names_in_home_folders_of_another_machine_are_learned() -> None:
    """A case from a cluster names its people in its paths."""
    case = sample_cases.index_error().case
    case = msgspec.structs.replace(case, notes=("written by jane.doe",))
    assert public_case(case, Redactor(known_of(case, {}))).notes == ("written by <user>",)


def test_what_is_useful_stays() -> None:
    """Shapes, dtypes, operators, versions, places in the source, the commit."""
    view = sample_cases.index_error()
    public, redactor = redacted(view, Known())
    text = markdown(public)
    for said in (
        "train.py:41 in main",
        "Target 4 is out of bounds.",
        "float32\\[16, 4\\]",
        "aten.nll\\_loss\\_forward",
        "2.13.0+cpu",
        "9f2c1d7e5b6a4c3d2e1f0a9b8c7d6e5f4a3b2c1d",
        "torch/nn/functional.py",
        "1182",
        "numpy",
    ):
        assert said in text, said
    assert redactor.ledger["argument"] == 2


def test_private_packages_and_values_of_variables_go() -> None:
    """Only well-known packages are named; a variable's value stays where it is a plain setting."""
    case = sample_cases.index_error().case
    facts = msgspec.structs.replace(
        case.environment,
        packages={"torch": "2.13.0", "acme-fraud": "1.0", "nvidia-cudnn-cu12": "9.1.0.70"},
        variables={"CUDA_VISIBLE_DEVICES": "0,1", "TORCH_HOME": "/mnt/acme", "NCCL_DEBUG": "INFO"},
    )
    public = public_case(msgspec.structs.replace(case, environment=facts), Redactor())
    assert public.environment.packages == {"torch": "2.13.0", "nvidia-cudnn-cu12": "9.1.0.70"}
    assert public.environment.variables == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "TORCH_HOME": "<value 1>",
        "NCCL_DEBUG": "INFO",
    }


def _structs(module: Any) -> list[type[msgspec.Struct]]:
    bases = (schema.Fact, found.Finding)
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, schema.Fact) and each not in bases
    ]


@pytest.mark.parametrize("kind", [*_structs(schema), *_structs(found)], ids=lambda kind: kind.__name__)
def test_every_field_of_a_case_has_been_decided_on(kind: type[msgspec.Struct]) -> None:
    """A new field must be listed in case/public.py: it may leave, has a rule of its own, or is kept back."""
    decided = {*_ALLOWED.get(kind, ()), *_RULES.get(kind, {}), *KEPT_BACK.get(kind, ())}
    assert set(kind.__struct_fields__) == decided


def test_a_field_that_is_not_listed_does_not_leave() -> None:
    """The list allows; it doesn't forbid."""

    class Later(schema.Fact, frozen=True, kw_only=True):
        secret: str = "default"

    from firstfault.case.public import allowed

    assert allowed(Later(secret="told"), Redactor()) == Later()
