"""The command line, run in this process."""

import pytest

from semclass.cli.main import main


@pytest.fixture
def run(capsys):
    """Runs a command, and gives its exit code, standard output and standard error."""

    def called(*arguments):
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return (code, *capsys.readouterr())

    return called
