#!/usr/bin/env python3
"""Every header compiles alone: a translation unit that includes nothing else must build.

Objects go through ccache where it is installed, so only headers that changed cost anything.
"""
import os
import pathlib
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "headers"
FLAGS = ["-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Isrc", "-I."]


def has_cuda():
    command = [os.environ.get("CXX", "g++"), "-E", "-x", "c++", "-"]
    return subprocess.run(command, input="#include <cuda_runtime_api.h>\n", capture_output=True, text=True).returncode == 0


def compile_alone(header):
    """The compiler's complaints about one header; empty when it compiles."""
    include = header.removeprefix("src/")
    stem = header.replace("/", "_")
    unit = OUT / (stem + ".cc")
    # Twice: the second time its guard must hold.
    text = f'#include "{include}"\n#include "{include}"\n'
    if not unit.exists() or unit.read_text() != text:
        unit.write_text(text)
    compiler = [os.environ.get("CXX", "g++")]
    if shutil.which("ccache"):
        compiler.insert(0, "ccache")
    command = compiler + FLAGS + ["-c", str(unit.relative_to(ROOT)), "-o", str(OUT / (stem + ".o"))]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return "" if result.returncode == 0 else f"{header} does not compile alone:\n{result.stderr}"


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    headers = sorted(str(p.relative_to(ROOT)) for top in ("src", "tools") for p in (ROOT / top).rglob("*.h"))
    if not has_cuda():
        print("check_headers: no CUDA toolkit here, headers in folders named cuda are skipped")
        headers = [h for h in headers if "/cuda/" not in h]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [message for message in pool.map(compile_alone, headers) if message]
    print("\n".join(failures), end="" if failures else f"check_headers: {len(headers)} headers compile alone\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
