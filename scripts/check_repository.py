#!/usr/bin/env python3
"""Checks the tracked tree as a whole: its size, left-over notes, paths of the machine it was written on, that the
documents name only files that exist, and that tests/cli/readme_test.py knows each command of README.md.

Usage: scripts/check_repository.py [ROOT]
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
MAX_TREE_MIB, MAX_FILE_MIB = 40, 20
# Spelled apart so that this file passes its own check.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w./-])/(" + "|".join(["wo" + "rk", "tmp/" + "ref", "ho" + "me/\\w+"]) + r")(/|\b)")


def tracked_files():
    output = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    return [name.decode() for name in output.split(b"\0") if name and (ROOT / name.decode()).is_file()]


def text_of(path):
    """The file's text; None when it is binary."""
    data = path.read_bytes()
    return None if b"\0" in data[:8192] else data.decode("utf-8", errors="replace")


def check_text(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        if name.startswith(("src/", "tools/")) and UNFINISHED.search(line):
            yield f"{name}:{number}: unfinished work: {line.strip()[:100]}"
        if not name.startswith(("models/", "tests/data/")) and MACHINE_PATH.search(line):
            yield f"{name}:{number}: a path of one machine: {line.strip()[:100]}"


def check_document(name, text):
    """Paths in backticks or links must exist, below the root or below src/. Those of a build are not checked."""
    for number, line in enumerate(text.splitlines(), 1):
        for path in re.findall(r"`([\w.-]+/[\w./-]+\.(?:h|cc|py|sh|md|json|cmake))`|\]\(([\w./-]+)\)", line):
            path = path[0] or path[1]
            if path.startswith("build/") or re.search(r"YYYY|foo", path):
                continue
            if not any((ROOT / top / path).exists() for top in ("", "src", pathlib.PurePath(name).parent)):
                yield f"{name}:{number}: names a file that does not exist: {path}"


def main():
    files = tracked_files()
    problems = []
    sizes = {name: (ROOT / name).stat().st_size for name in files}
    total = sum(sizes.values()) / 2**20
    if total > MAX_TREE_MIB:
        problems.append(f"the tracked tree has {total:.1f} MiB; at most {MAX_TREE_MIB}")
    problems += [f"{name}: {size / 2**20:.1f} MiB; a file has at most {MAX_FILE_MIB}"
                 for name, size in sizes.items() if size > MAX_FILE_MIB * 2**20]
    for name in files:
        text = text_of(ROOT / name)
        if text is not None:
            problems += check_text(name, text)
            if name.endswith(".md") and not name.startswith("models/"):
                problems += check_document(name, text)
    readme = subprocess.run([sys.executable, ROOT / "tests/cli/readme_test.py", "--list"], capture_output=True, text=True)
    if readme.returncode != 0:
        problems.append((readme.stdout + readme.stderr).strip())
    print("\n".join(problems + [f"check_repository: {len(files)} files, {total:.1f} MiB, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
