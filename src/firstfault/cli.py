"""The command line: verbs, options, exit codes. Each verb imports what it needs when it is called.

Exit codes: ``run`` gives the script's own. Others: 0 done, 1 the finding is negative, 2 usage or unusable input, 3
firstfault itself failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path


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


cases_option = click.option("--cases", metavar="DIR", help="Folder of cases (default: .firstfault, or FIRSTFAULT_CASES).")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else.")
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
    target = Target(module=module, arguments=arguments) if module else Target(script=arguments[0], arguments=arguments[1:])

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
