"""Reports name commands that exist."""

from __future__ import annotations

from firstfault.cli import commands
from firstfault.report import words


def test_every_command_that_a_report_names_exists() -> None:
    """And a step without a command is named without one."""
    assert set(words.COMMANDS) <= set(commands.commands)
    assert words.next_command("replay") == "firstfault replay"
    assert words.next_command("nothing") is None
