#!/usr/bin/env python3
"""clang-tidy (checks in .clang-tidy) over the production sources, one process a core. Needs build/release configured.

Most of the time goes into headers, so files of one folder are checked together, as one translation unit. Files whose
names clash (two may each have their own kTable) are told apart by the compiler and go into another unit.

Usage: scripts/tidy.py [FILE...]   without files: all of src/ and tools/ but the tests.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
UNITS = ROOT / "build" / "tidy"
FILES_A_UNIT = 16  # more save little and leave one core idle at the end
FINDING = re.compile(r"(warning|error): .*\[[\w.,-]+\]$", re.M)
ERROR = re.compile(r"^(.*?):\d+:\d+: (?:fatal )?error: ", re.M)


def sources():
    """Production sources of the compilation database with their flags."""
    wanted = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if (path.is_relative_to(ROOT / "src") or path.is_relative_to(ROOT / "tools")) and not path.name.endswith("_test.cc"):
            wanted[path] = flags_of(entry)
    return wanted


def flags_of(entry):
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    drop = {i + step for i, word in enumerate(words) if word in ("-o", "-c") for step in (0, 1)}
    return tuple(word for i, word in enumerate(words) if i not in drop)


def groups(files):
    """Lists of files with one folder and one set of flags."""
    rooms = {}
    for path, flags in sorted(files.items()):
        rooms.setdefault((path.parent, flags), []).append(path)
    for (_, flags), paths in rooms.items():
        parts = -(-len(paths) // FILES_A_UNIT)
        for part in range(parts):
            yield paths[part::parts], flags


def write_unit(paths):
    unit = UNITS / ("_".join(paths[0].relative_to(ROOT).with_suffix("").parts) + ".cc")
    unit.write_text("".join(f'#include "{path}"\n' for path in paths))
    return unit


def clashing(paths, flags):
    """The files of the list that do not compile behind those before them."""
    command = ["clang++", "-fsyntax-only", "-w", "-ferror-limit=0", *flags, "-x", "c++", "-"]
    text = "".join(f'#include "{path}"\n' for path in paths)
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    named = set(ERROR.findall(result.stderr))
    found = [path for path in paths if str(path) in named]
    return found if found or result.returncode == 0 else paths[1:]


def tidy(group):
    """Findings in a list of files, the files and the seconds it took."""
    paths, flags = group
    started, output = time.monotonic(), ""
    while paths:
        unit, later = paths, []
        while len(unit) > 1 and (out := clashing(unit, flags)):
            later += out
            unit = [path for path in unit if path not in out] or [later.pop(0)]
        output += tidy_unit(unit, flags)
        paths = later
    return group[0], time.monotonic() - started, output


def tidy_unit(paths, flags):
    command = ["clang-tidy", "--quiet", str(write_unit(paths) if len(paths) > 1 else paths[0]), "--", *flags,
               "-Wno-unknown-warning-option", "-Wno-everything"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    failed = result.returncode != 0 or FINDING.search(result.stdout)
    return (result.stdout + (result.stderr if not result.stdout else "")) if failed else ""


def main():
    if not (BUILD / "compile_commands.json").exists():
        print("tidy: build/release is not configured; run: make lint", file=sys.stderr)
        return 1
    UNITS.mkdir(parents=True, exist_ok=True)
    files = sources()
    if sys.argv[1:]:
        asked = {pathlib.Path(name).resolve() for name in sys.argv[1:]}
        files = {path: flags for path, flags in files.items() if path in asked}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(tidy, sorted(groups(files), key=lambda group: -len(group[0]))))
    for _, _, output in results:
        if output:
            print(output.strip())
    slowest = max(results, key=lambda r: r[1], default=None)
    if slowest:
        print(f"tidy: {len(files)} files in {len(results)} groups, slowest {slowest[0][0].parent.relative_to(ROOT)} "
              f"with {slowest[1]:.0f} s")
    return 1 if any(output for _, _, output in results) else 0


if __name__ == "__main__":
    sys.exit(main())
