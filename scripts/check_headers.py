#!/usr/bin/env python3
"""Every header compiles alone. Those that some .cc file includes first do so in every build; the others are tried here."""
import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPILER = os.environ.get("CXX", "g++")
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Isrc", "-I.", "-x", "c++", "-"]
FIRST_INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.M)


def has_cuda():
    command = [COMPILER, "-E", "-x", "c++", "-"]
    return subprocess.run(command, input="#include <cuda_runtime_api.h>\n", capture_output=True, text=True).returncode == 0


def included_first():
    """Headers, as they are written in an #include, that are the first of a .cc file."""
    found = (FIRST_INCLUDE.search(path.read_text(encoding="utf-8")) for top in ("src", "tools") for path in (ROOT / top).rglob("*.cc"))
    return {match.group(1) for match in found if match}


def compile_alone(header):
    """The compiler's complaints about one header; empty when it compiles."""
    # Twice: the second time its guard must hold.
    text = f'#include "{header.removeprefix("src/")}"\n' * 2
    result = subprocess.run([COMPILER, *FLAGS], cwd=ROOT, input=text, capture_output=True, text=True)
    return "" if result.returncode == 0 else f"{header} does not compile alone:\n{result.stderr}"


def main():
    headers = sorted(str(p.relative_to(ROOT)) for top in ("src", "tools") for p in (ROOT / top).rglob("*.h"))
    first = included_first()
    alone = [h for h in headers if h.removeprefix("src/") not in first]
    if not has_cuda():
        print("check_headers: no CUDA toolkit here, headers in folders named cuda are skipped")
        alone = [h for h in alone if "/cuda/" not in h]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [message for message in pool.map(compile_alone, alone) if message]
    print("\n".join(failures), end="" if failures else
          f"check_headers: {len(alone)} headers compile alone, {len(headers) - len(alone)} are first in a source\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
