"""The command line: verbs, options, exit codes. Each verb imports what it needs when it is called.

Exit codes: ``run`` gives the script's own. Others: 0 done, 1 the finding is negative, 2 usage or unusable input, 3
firstfault itself failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

import firstfault
from firstfault.errors import UsageError

Action = Callable[[], int]


def parse(arguments: Sequence[str]) -> Action:
    """The action that a command line asks for; nothing but help and version is done while parsing.

    Raises:
        UsageError: the command line can't be understood.
    """
    try:
        action = commands.main(list(arguments), prog_name="firstfault", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        text = error.format_message()

        def show_help() -> int:
            click.echo(text)
            return UsageError.exit_code

        return show_help
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"; see: {context.command_path} --help" if context is not None else "; see: firstfault --help"
        raise UsageError(error.format_message().rstrip(".") + hint) from None
    except click.exceptions.Exit as done:
        code = done.exit_code
        return lambda: code
    except click.Abort:
        raise KeyboardInterrupt from None
    return action if callable(action) else (lambda: int(action or 0))


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(firstfault.__version__, "--version", message="firstfault %(version)s")
def commands() -> None:
    """A failure workbench for PyTorch: keeps the first failure of a run, finds its cause, proves the fix."""


cases_option = click.option(
    "--cases", metavar="DIR", help="Folder of cases (default: .firstfault, or FIRSTFAULT_CASES)."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else."
)
case_argument = click.argument("case", required=False)


@commands.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a script, and keep the first failure with its context.",
)
@cases_option
@click.option("-m", "module", metavar="MODULE", help="Run a module, like python -m.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run_command(cases: str | None, module: str | None, arguments: tuple[str, ...]) -> Action:
    """Run SCRIPT ARGS… (or -m MODULE ARGS…) as plain python would; on a failure, keep a case.

    The script's output, exit code and traceback stay its own.
    """
    from firstfault.record.launch import Target

    if module is None and not arguments:
        raise click.UsageError("nothing to run: name a script, or -m MODULE")
    target = (
        Target(module=module, arguments=arguments)
        if module
        else Target(script=arguments[0], arguments=arguments[1:])
    )

    def act() -> int:
        from firstfault.case.store import cases_folder
        from firstfault.record.run import run

        run(target, cases_folder(cases), _box)
        return 0

    return act


def _box(folder: Path) -> str:
    from firstfault.report.box import box
    from firstfault.report.view import view_of

    return box(view_of(folder))


# ---- the steps -----------------------------------------------------------------------------------------------------

jobs_option = click.option(
    "--jobs", type=click.IntRange(1), help="Trials at once (default: the number of cores)."
)
budget_option = click.option(
    "--budget",
    metavar="SECONDS",
    type=click.FloatRange(1),
    default=60.0,
    show_default=True,
    help="Time for shrinking.",
)
batch_option = click.option(
    "--batch",
    type=click.Choice(["auto", "ids", "values"]),
    default="auto",
    help="Feed the batch by sample ids, or the kept values.",
)


@commands.command("replay", short_help="Get the failure back in a fresh process.")
@case_argument
@cases_option
@json_option
@jobs_option
@batch_option
@click.option(
    "--source",
    type=click.Choice(["today", "recorded"]),
    default="today",
    help="Today's script, or its copy in the case.",
)
def replay_command(
    case: str | None, cases: str | None, as_json: bool, jobs: int | None, batch: str, source: str
) -> Action:
    """Run the script again with its loaders fed just the failing batch, several times."""
    return lambda: _step("replay", case, cases, as_json, jobs, batch=batch, source=source)


@commands.command("locate", short_help="Find the operator, its line, and the elements at fault.")
@case_argument
@cases_option
@json_option
@jobs_option
def locate_command(case: str | None, cases: str | None, as_json: bool, jobs: int | None) -> Action:
    """Run the reproducing trial under the operator trace."""
    return lambda: _step("locate", case, cases, as_json, jobs)


@commands.command("shrink", short_help="Find the samples that suffice, and write repro.py.")
@case_argument
@cases_option
@json_option
@jobs_option
@budget_option
def shrink_command(
    case: str | None, cases: str | None, as_json: bool, jobs: int | None, budget: float
) -> Action:
    """Reduce the batch to the samples that it takes, then the failing call to a stand-alone script."""
    return lambda: _step("shrink", case, cases, as_json, jobs, seconds=budget)


def _step(
    name: str, reference: str | None, cases: str | None, as_json: bool, jobs: int | None, **options: Any
) -> int:
    """One step on one case; a step that needs a reproduction makes it first."""
    from firstfault.steps.investigate import run_step

    folder = _find(reference, cases)
    finding = run_step(name, folder, jobs=jobs, **options)
    if as_json:
        _print_json(finding)
    else:
        _print_finding(name, finding)
    return 0 if finding.not_done is None and getattr(finding, "outcome", "same") == "same" else 1


@commands.command("investigate", short_help="All steps on a case: replay, locate, explain, shrink, report.")
@case_argument
@cases_option
@json_option
@jobs_option
@budget_option
@batch_option
def investigate_command(
    case: str | None, cases: str | None, as_json: bool, jobs: int | None, budget: float, batch: str
) -> Action:
    """Do every step, each with its one-line finding; a step that can't be done says why, and the next one goes on."""

    def act() -> int:
        from firstfault.report.terminal import step_line
        from firstfault.report.view import as_json as view_json
        from firstfault.report.view import view_of
        from firstfault.steps.investigate import investigate

        folder = _find(case, cases)
        out = sys.stderr if as_json else sys.stdout
        click.echo(f"case {folder.id}", file=out)
        done = investigate(
            folder,
            jobs=jobs,
            seconds=budget,
            batch=batch,
            told=lambda name, finding: click.echo(step_line(name, finding), file=out),
        )
        reports = write_reports(folder.path)
        click.echo(f"report     {reports[0]}", file=out)
        if as_json:
            _print_json(view_json(view_of(folder.path)))
        replayed = done.get("replay")
        return 0 if getattr(replayed, "outcome", None) == "same" else 1

    return act


# ---- showing -------------------------------------------------------------------------------------------------------


@commands.command("show", short_help="What is known about a case.")
@case_argument
@cases_option
@json_option
def show_command(case: str | None, cases: str | None, as_json: bool) -> Action:
    """The facts of a case, its fault class, and the findings so far."""

    def act() -> int:
        from firstfault.report.view import as_json as view_json
        from firstfault.report.view import view_of

        view = view_of(_find(case, cases).path)
        if as_json:
            _print_json(view_json(view))
            return 0
        from firstfault.report.terminal import show

        show(view)
        return 0

    return act


@commands.command("list", short_help="The cases, oldest first.")
@cases_option
@json_option
def list_command(cases: str | None, as_json: bool) -> Action:
    """All cases of the folder."""

    def act() -> int:
        from firstfault.case.store import cases_folder, list_cases
        from firstfault.report.terminal import list_rows, show_list

        rows = list_rows(list_cases(cases_folder(cases)))
        if as_json:
            _print_json({"cases": rows})
        else:
            show_list(rows)
        return 0

    return act


@commands.command(
    "explain", short_help="The fault class of a case, of a pasted error text, or the page of a class."
)
@click.argument("what", required=False)
@cases_option
@json_option
def explain_command(what: str | None, cases: str | None, as_json: bool) -> Action:
    """Explain FILE, - (standard input), a CLASS by its name, or a case (the newest by default)."""

    def act() -> int:
        from firstfault.faults.catalogue import FAULTS
        from firstfault.faults.classify import classify_text

        if what is not None and what in FAULTS:
            fault = FAULTS[what]
            lines = (
                f"{fault.name}: {fault.title}",
                f"family      {fault.family}",
                f"first check {fault.first_check}",
                f"avoid       {fault.avoid}",
                f"tell apart  {fault.tell_apart}",
            )
            if as_json:
                _print_json(
                    {
                        "fault": fault.name,
                        "family": fault.family,
                        "first_check": fault.first_check,
                        "avoid": fault.avoid,
                        "backend": None,
                        "evidence": [],
                        "also": list(fault.also),
                    }
                )
            else:
                click.echo("\n".join(lines))
            return 0
        if what == "-" or (what is not None and Path(what).is_file()):
            text = sys.stdin.read() if what == "-" else Path(what).read_text(errors="replace")
            finding = classify_text(text)
        else:
            from firstfault.steps.investigate import run_step

            finding = run_step("explain", _find(what, cases))
        if as_json:
            _print_json(finding)
        else:
            _print_finding("explain", finding)
        return 0 if finding.fault != "other" else 1

    return act


@commands.command("report", short_help="Write report.html and report.md, or a request for help.")
@case_argument
@cases_option
@json_option
@click.option(
    "--for",
    "venue",
    type=click.Choice(["pytorch", "forum", "github"]),
    help="Print a request for help for this place.",
)
@click.option(
    "--show-private", is_flag=True, help="Leave names and paths as they are; for your own eyes only."
)
def report_command(
    case: str | None, cases: str | None, as_json: bool, venue: str | None, show_private: bool
) -> Action:
    """One self-contained HTML page and one Markdown file beside the case's facts; with --for, a text to read and post."""

    def act() -> int:
        folder = _find(case, cases)
        if venue is not None:
            from firstfault.report.request import request
            from firstfault.report.view import view_of

            text = request(view_of(folder.path), venue, show_private)  # type: ignore[arg-type]
            if as_json:
                _print_json({"venue": venue, "text": text})
            else:
                click.echo(text, nl=False)
            return 0
        written = write_reports(folder.path)
        if as_json:
            _print_json({"written": [str(path) for path in written]})
        else:
            click.echo("\n".join(str(path) for path in written))
        return 0

    return act


@commands.command("export", short_help="Write a case as one zip, without what is private.")
@click.argument("target", type=click.Path(dir_okay=False))
@case_argument
@cases_option
def export_command(target: str, case: str | None, cases: str | None) -> Action:
    """Write TARGET (a .zip): facts, findings, reports and repro.py, redacted; then list what was replaced and what stays."""

    def act() -> int:
        from firstfault.report.export import export

        done = export(_find(case, cases).path, Path(target))
        click.echo(f"{done.path}\n{done.review}")
        return 0

    return act


def write_reports(folder: Path) -> list[Path]:
    """Write the case's reports; raises UsageError when its folder can't be written."""
    from firstfault.case.store import write_atomically
    from firstfault.report.markdown import markdown
    from firstfault.report.page import page
    from firstfault.report.view import view_of

    view = view_of(folder)
    written = []
    for name, text in (("report.html", page(view)), ("report.md", markdown(view))):
        try:
            write_atomically(folder / name, text.encode())
        except OSError as error:
            raise UsageError(
                f"{folder} can't be written: {error.strerror or error}; check permissions and free space"
            ) from None
        written.append(folder / name)
    return written


# ---- beside a case -------------------------------------------------------------------------------------------------


@commands.command("doctor", short_help="Does each device compute at all? Versions and back end.")
@json_option
def doctor_command(as_json: bool) -> Action:
    """A small computation on every device that torch sees, with its result checked, in a process of its own."""

    def act() -> int:
        from firstfault.report.terminal import show_doctor
        from firstfault.steps.doctor import doctor

        found = doctor()
        if as_json:
            _print_json(found)
        else:
            show_doctor(found)
        return 0 if found.healthy else 1

    return act


@commands.command("demo", short_help="The whole road on a built-in failing script.")
@click.option(
    "--into",
    metavar="DIR",
    default="firstfault-demo",
    show_default=True,
    help="Folder for the script and its case.",
)
def demo_command(into: str) -> Action:
    """Run a failing script under firstfault, investigate its case, and write the report."""

    def act() -> int:
        from firstfault.steps.demo import demo

        return demo(Path(into))

    return act


@commands.command("trial", hidden=True)
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def trial_command(folder: str) -> Action:
    """Run one trial's folder: its plan.json; the outcome goes beside it."""

    def act() -> int:
        from firstfault.trial.child import leave, main

        leave(main(Path(folder).absolute()))
        return 0

    return act


# ---- helpers -------------------------------------------------------------------------------------------------------


def _find(reference: str | None, cases: str | None) -> Any:
    from firstfault.case.store import cases_folder, find_case

    return find_case(cases_folder(cases), reference)


def _print_json(value: Any) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def _print_finding(name: str, finding: Any) -> None:
    from firstfault.report.terminal import show_finding

    show_finding(name, finding)
