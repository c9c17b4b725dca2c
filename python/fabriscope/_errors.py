"""Errors: the text of the program, and what to do, as exceptions."""

from __future__ import annotations


class FabriscopeError(Exception):
    """Something cannot be read, or cannot be run.

    ``str`` gives what the program would print: what is wrong, where (file, line, column), and what to do.

    Attributes
    ----------
    message
        What is wrong, in a line.
    help
        What to do instead, where there is something to say.
    code
        A short name of the kind of error, such as ``bench::usage``.
    """

    def __init__(self, message: str, help: str | None = None, code: str | None = None, text: str | None = None) -> None:
        super().__init__(message, help, code, text)
        self.message = message
        self.help = help
        self.code = code
        self._text = text

    def __str__(self) -> str:
        if self._text:
            return self._text
        return self.message if self.help is None else f"{self.message}\n  help: {self.help}"


class CatalogError(FabriscopeError):
    """A part, a cluster or a lab file: it is not there, or something in it is wrong."""


class RunError(FabriscopeError):
    """What a tool, a cluster or an engine does not do."""


class TableError(FabriscopeError):
    """A table of measurements: it is not there, or cannot be read."""


class FlawError(FabriscopeError):
    """A collective operation that does not do what it has to: at which rank, which byte, and why."""
