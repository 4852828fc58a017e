"""Counts lines of code in src: docstrings, comments, blank lines and imports aside.

`python benchmarks/lines_of_code.py` prints the total, the files above 400 lines, the median length
of a file, and folders with more than a dozen files. `--rooms` adds a line for each room.
"""

import argparse
import ast
import statistics
import tokenize
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "postgrad"
LONGEST, CROWDED = 400, 12


def code_lines(path: Path) -> int:
    """Lines that hold code: of a template or a style sheet, all that are not blank."""
    text = path.read_text()
    if path.suffix not in (".py", ".pyi"):
        return sum(1 for line in text.splitlines() if line.strip())
    tree = ast.parse(text)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if isinstance(node, ast.Import | ast.ImportFrom) and path.suffix == ".py":
            left_out.update(range(node.lineno, node.end_lineno + 1))
        elif documented and ast.get_docstring(node, clean=False) is not None:
            left_out.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    with path.open("rb") as file:
        kept = {
            line
            for token in tokenize.tokenize(file.readline)
            if token.type not in _LAYOUT
            for line in range(token.start[0], token.end[0] + 1)
        }
    return len(kept - left_out)


_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", action="store_true", help="a line for each room")
    rooms = parser.parse_args().rooms
    files = [
        path
        for path in sorted(SOURCE.rglob("*"))
        if path.suffix in (".py", ".pyi", ".html", ".css", ".toml", ".jinja")
    ]
    counts = {path.relative_to(SOURCE): code_lines(path) for path in files}
    if rooms:
        for room in dict.fromkeys(path.parts[0] for path in counts):
            print(f"{room:16} {sum(n for path, n in counts.items() if path.parts[0] == room):6,}")
    lengths = {path.relative_to(SOURCE): len(path.read_text().splitlines()) for path in files}
    modules = [length for path, length in lengths.items() if path.name != "__init__.py"]
    print(f"lines of code    {sum(counts.values()):6,}")
    print(f"all lines        {sum(lengths.values()):6,}")
    print(f"median of a file {statistics.median(modules):6g}")
    for path, length in lengths.items():
        if length > LONGEST:
            print(f"longer than {LONGEST}: {path} ({length})")
    for folder in sorted({path.parent for path in lengths}):
        inside = [path for path in lengths if path.parent == folder and path.name != "__init__.py"]
        if len(inside) > CROWDED:
            print(f"more than {CROWDED} files: {folder} ({len(inside)})")


if __name__ == "__main__":
    main()
