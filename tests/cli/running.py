"""The command line, run in this process."""

from semclass.cli.main import main


def running(capsys):
    """Gives, for a fixture, what runs a command; that gives exit code, standard output and standard error."""

    def run(*arguments):
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
