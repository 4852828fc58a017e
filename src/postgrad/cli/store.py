"""Commands about a file of decisions: store check, recover, backup, restore."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from postgrad.cli.output import EXIT_CODES, AsJson, exit_codes, say

app = typer.Typer(
    name="store",
    help="Check a file of decisions, recover it from damage, back it up and restore it.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(help="The file of decisions, such as problem.db.")]
Saved = Annotated[Path, typer.Argument(help="The backup.")]
New = Annotated[Path, typer.Argument(help="Where to write the backup; it must not exist.")]


@app.command(epilog=EXIT_CODES)
def check(file: File, as_json: AsJson = False) -> None:
    """Read everything in the file and check it. No byte of it changes."""
    with exit_codes():
        from postgrad.store.recovery import check

        found = check(file)
        if as_json:
            print(json.dumps({"stages": found.stages, "problems": found.problems}))
        else:
            for problem in found.problems:
                say(f"error: {problem}", err=True)
            say(_counted(found.stages, "good"))
        if found.problems:
            sys.exit(5)


@app.command(epilog=EXIT_CODES)
def recover(file: File, as_json: AsJson = False) -> None:
    """Replace a damaged file by one that holds what is good in it, and say what was lost.

    The damaged files are kept in a folder beside it. Nobody may have the file open meanwhile.
    """
    with exit_codes():
        from postgrad.store.recovery import recover

        done = recover(file)
        if not as_json:
            say(str(done))
            return
        streams = [
            {
                "name": stream.name,
                "stages": stream.stages,
                "kept": stream.kept,
                "lost": stream.lost,
                "lost_ids": stream.lost_ids,
                "missing_commits": stream.missing,
                "learned_again_from": stream.state,
                "lost_decisions": stream.lost_issued,
            }
            for stream in done.streams
        ]
        folder = None if done.folder is None else str(done.folder)
        print(json.dumps({"problems": done.problems, "streams": streams, "folder": folder}))


@app.command(epilog=EXIT_CODES)
def backup(file: File, to: New) -> None:
    """Write a checked copy of the file, also while others write to it."""
    with exit_codes():
        from postgrad.store.recovery import backup

        say(f"Wrote {to}: {_counted(backup(file, to), 'saved')}")


@app.command(epilog=EXIT_CODES)
def restore(saved: Saved, file: File) -> None:
    """Put a backup in the place of the file; what was there is kept in a folder beside it.

    The commit marker is set to the commits of the backup: batches observed since then are given up,
    and can be observed again. Nobody may have the file open meanwhile.
    """
    with exit_codes():
        from postgrad.store.recovery import restore

        done = restore(saved, file)
        say(f"Restored {file}: {_counted(done.stages, 'restored')}")
        if done.folder is not None:
            say(f"The files that were replaced are kept in {done.folder}")


def _counted(stages: dict[str, int], what: str) -> str:
    streams = "1 stream" if len(stages) == 1 else f"{len(stages)} streams"
    total = sum(stages.values())
    return f"{streams} with {total} {'batch' if total == 1 else 'batches'} {what}"
