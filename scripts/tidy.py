#!/usr/bin/env python3
"""clang-tidy (checks in .clang-tidy) over the production sources, one process a core. Needs build/release configured.

Usage: scripts/tidy.py [FILE...]   without files: all of src/ and tools/ but the tests.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
FINDING = re.compile(r"(warning|error): .*\[[\w.,-]+\]$", re.M)


def sources():
    """Production sources of the compilation database, largest first so that the last ones to finish are short."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    files = {pathlib.Path(entry["file"]) for entry in entries}
    wanted = [f for f in files if f.is_relative_to(ROOT / "src") or f.is_relative_to(ROOT / "tools")]
    return sorted((f for f in wanted if not f.name.endswith("_test.cc")), key=lambda f: -f.stat().st_size)


def tidy(path):
    """Findings in one file, and the seconds it took."""
    started = time.monotonic()
    command = ["clang-tidy", "-p", str(BUILD), "--quiet", "--extra-arg=-Wno-unknown-warning-option",
               "--extra-arg=-Wno-everything", str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    failed = result.returncode != 0 or FINDING.search(result.stdout)
    return path, time.monotonic() - started, (result.stdout + (result.stderr if not result.stdout else "")) if failed else ""


def main():
    if not (BUILD / "compile_commands.json").exists():
        print("tidy: build/release is not configured; run: make lint", file=sys.stderr)
        return 1
    files = [pathlib.Path(f).resolve() for f in sys.argv[1:]] or sources()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(tidy, files))
    for _, _, output in results:
        if output:
            print(output.strip())
    slowest = max(results, key=lambda r: r[1], default=None)
    if slowest:
        print(f"tidy: {len(results)} files, slowest {slowest[0].relative_to(ROOT)} with {slowest[1]:.0f} s")
    return 1 if any(output for _, _, output in results) else 0


if __name__ == "__main__":
    sys.exit(main())
