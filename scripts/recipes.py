#!/usr/bin/env python3
"""Plays the recipes of CONTRIBUTING.md on a copy of the tree: adds a number format, a command, a checkpoint reader, a
backend and an operation, counts the files that had to be written and edited, compares them with the table, builds what
changed and runs its tests.

What a recipe writes lies in tests/recipes/NAME/, under its path. What it edits stands below, as lines that go before, after or
instead of a line that is already there. Usage: scripts/recipes.py [--count]   (--count: no build).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "recipes"
BUILD = COPY / "build" / "release"
SAMPLES = ROOT / "tests" / "recipes"

BEFORE, AFTER, INSTEAD = "before", "after", "instead"
IDLE_ROW = '''constexpr DeviceRow kIdleRow{"idle",
                             [](std::string& description) {
                               description = "does nothing";
                               return true;
                             },
                             [](int, int) -> std::unique_ptr<Backend> { return std::make_unique<IdleBackend>(); }};'''
ADD_BOTH = "void {}::run(const op::AddBoth& op) {{\n  run(op::Add{{op.x, op.y}});\n  run(op::Add{{op.x, op.z}});\n}}\n"

# Recipe (its row of the table) -> folder of what it writes, and (file, where, an existing line, new lines).
RECIPES = {
    "a number format of weights": ("format", [
        ("src/quant/format.cc", BEFORE, '#include "quant/fp8_block.h"', '#include "quant/byte_rows.h"'),
        ("src/quant/format.cc", INSTEAD,
         "  static constexpr std::array<const Format*, 4> kAll = {&f32, &bf16, &fp8, &fp8_ue8m0};",
         "  static constexpr std::array<const Format*, 5> kAll = {&f32, &bf16, &fp8, &fp8_ue8m0, &kByteRows};"),
    ]),
    "a command": ("command", [
        ("tools/commands.h", BEFORE, "void add_tokenize(CLI::App& app);", "void add_hello(CLI::App& app);"),
        ("tools/main.cc", BEFORE, "  fathom::add_tokenize(app);", "  fathom::add_hello(app);"),
        ("README.md", AFTER, "build/release/bin/fathom inspect models/tiny", "build/release/bin/fathom hello --name you"),
        ("tests/cli/readme_test.py", BEFORE, '    "inspect models/tiny": ("", r".*DeepSeek-V3.*", []),',
         '    "hello --name you": ("", "Hello, you!\\n", []),'),
        ("tests/cli/flags_test.py", BEFORE, '    "quantize": ["--in", "x", "--out", "y"], "verify": [TINY],',
         '    "hello": ["--name", "you"],'),
        ("tests/cli/streams_test.py", BEFORE, '            "verify": ([TINY, "--json"], b""),',
         '            "hello": (["--name", "you"], b""),'),
    ]),
    "a checkpoint format": ("reader", [
        ("src/checkpoint/checkpoint.cc", AFTER, '#include "checkpoint/file_checkpoint.h"', '#include "checkpoint/raw_files.h"'),
        ("src/checkpoint/checkpoint.cc", AFTER, "  if (fs::exists(path / kIndexFile)) return open_hf_directory(path);",
         "  if (is_raw_folder(path)) return open_raw_folder(path);"),
    ]),
    "a backend": ("backend", [
        ("ARCHITECTURE.md", AFTER, "| 4 | `backends/cpu` | `ops`, `quant`, `comm`, `tensor`, `kernels/cpu` | — | how it is computed |",
         "| 4 | `backends/idle` | `ops`, `quant`, `comm`, `tensor` | — | not at all |"),
        ("ARCHITECTURE.md", INSTEAD, '| 4 | `backends` | `backends/cpu`, `backends/cuda`, `ops`, `quant`, `comm`, `tensor` | — | the one table of backends |',
         '| 4 | `backends` | `backends/cpu`, `backends/idle`, `backends/cuda`, `ops`, `quant`, `comm`, `tensor` | — | the one table of backends |'),
        ("src/backends/CMakeLists.txt", AFTER, "add_subdirectory(cpu)", "add_subdirectory(idle)"),
        ("src/backends/CMakeLists.txt", AFTER, "target_include_directories(backends PUBLIC ${CMAKE_SOURCE_DIR}/src)",
         "target_link_libraries(backends PUBLIC backend_idle)"),
        ("src/backends/devices_cpu.cc", AFTER, '#include "backends/devices.h"', '#include "backends/idle/idle_backend.h"'),
        ("src/backends/devices_cpu.cc", BEFORE, "constexpr std::array kDevices = {kCpuRow};", IDLE_ROW),
        ("src/backends/devices_cpu.cc", INSTEAD, "constexpr std::array kDevices = {kCpuRow};",
         "constexpr std::array kDevices = {kCpuRow, kIdleRow};"),
    ]),
    "an operation": ("operation", [
        ("src/ops/rows.h", BEFORE, "// y [N, d] = norm of x [N, d]; both strided rows, act.",
         "// x += y + z; same shape, act.\nstruct AddBoth {\n  Tensor x, y, z;\n"
         '  static constexpr const char* kName = "add_both_";\n'
         "  void each(auto&& f) { f(x), f(y), f(z); }\n};\n"),
        ("src/ops/rows.h", AFTER, "void add_(Context& ctx, const Tensor& x, const Tensor& y);",
         "void add_both_(Context& ctx, const Tensor& x, const Tensor& y, const Tensor& z);"),
        ("src/ops/rows.cc", BEFORE, "Tensor apply(Context& ctx, const Normed& x) {",
         "void add_both_(Context& ctx, const Tensor& x, const Tensor& y, const Tensor& z) {\n"
         '  check_shape("add_both_", "y", y, x.shape());\n  check_shape("add_both_", "z", z, x.shape());\n'
         "  ctx.backend.run(op::AddBoth{x, y, z});\n}\n"),
        ("src/ops/operations.h", AFTER, re.compile(r"#define FATHOM_OPERATIONS\(X\) +\\"), "  X(AddBoth) \\"),
        ("src/backends/cpu/pointwise.cc", BEFORE, "void CpuBackend::run(const op::SiluMul& op) {", ADD_BOTH.format("CpuBackend")),
        ("src/backends/cuda/adapters.cc", BEFORE, "void CudaBackend::run(const op::SiluMul& op) {", ADD_BOTH.format("CudaBackend")),
    ]),
}


def die(message):
    print(f"recipes: {message}", file=sys.stderr)
    sys.exit(1)


def call(*command, **options):
    if subprocess.run(command, stdin=subprocess.DEVNULL, **options).returncode != 0:
        die(f"failed: {' '.join(map(str, command))}")


def copy_tree():
    """The tree as it is, not as it was committed."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True).stdout
    wanted = {name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()}
    for path in [p for p in COPY.rglob("*") if p.is_file() and BUILD.parent not in p.parents]:
        if path.relative_to(COPY).as_posix() not in wanted:
            path.unlink()
    for name in wanted:
        target = COPY / name
        if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
            os.utime(target)


def written(recipe):
    folder = SAMPLES / RECIPES[recipe][0]
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def edited(recipe):
    return {edit[0] for edit in RECIPES[recipe][1]}


def play(recipe):
    folder, edits = RECIPES[recipe]
    for name in written(recipe):
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLES / folder / name, COPY / name)
    for name, where, anchor, lines in edits:
        path = COPY / name
        old = path.read_text(encoding="utf-8").split("\n")
        matches = anchor.fullmatch if isinstance(anchor, re.Pattern) else anchor.__eq__
        places = [i for i, line in enumerate(old) if matches(line)]
        if len(places) != 1:
            die(f"{recipe}: {name} has {len(places)} lines '{getattr(anchor, 'pattern', anchor)}'; "
                "say in scripts/recipes.py where the new lines go")
        old[places[0] + (where == AFTER):places[0] + (where != BEFORE)] = lines.split("\n")
        path.write_text("\n".join(old), encoding="utf-8")


def table():
    """Recipe -> the two cells of its row in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {row[0]: row[1:] for row in re.findall(r"^\| (an? [^|]+) \| ([^|]*) \| ([^|]*) \|$", text, re.M)}


def check_count(recipe):
    """The table names what the recipe needs, and nothing else. Tests are not counted."""
    if recipe not in table():
        die(f"CONTRIBUTING.md has no row '{recipe}'")
    write, edit = table()[recipe]
    named = set(re.findall(r"`([^` ]+)`", edit))
    needed = {name.removeprefix("src/") for name in edited(recipe)}
    if named != needed:
        die(f"{recipe}: CONTRIBUTING.md says that {sorted(named)} are edited; it takes {sorted(needed)}")
    folders = [folder.rstrip("/") for folder in re.findall(r"`([^` ]+)`", write)]
    new = sorted(name for name in written(recipe) if not name.endswith("_test.cc"))
    for name in new:
        if not any(re.fullmatch(rf"(src/)?{re.escape(folder)}(/[^/]+)?/[^/]+", name) for folder in folders):
            die(f"{recipe}: CONTRIBUTING.md does not say that {name} is written")
    print(f"recipes: {recipe}: {len(new)} written, {len(needed)} edited")


def build(*targets):
    call("cmake", "--build", BUILD, "--target", *targets, stdout=subprocess.DEVNULL)


def run_test(name):
    call(BUILD / "bin" / name, stdout=subprocess.DEVNULL)


def main():
    for recipe in RECIPES:
        check_count(recipe)
    if "--count" in sys.argv:
        return
    os.environ["CCACHE_BASEDIR"] = str(COPY)  # objects of the tree itself serve this copy
    COPY.mkdir(parents=True, exist_ok=True)
    copy_tree()
    for recipe in ("a number format of weights", "a command", "a checkpoint format", "a backend"):
        play(recipe)
    call("scripts/configure.sh", "release", "ON", cwd=COPY, stdout=subprocess.DEVNULL)
    tests = ("byte_rows_test", "raw_files_test", "idle_backend_test")
    build("fathom", *tests)
    for test in tests:
        run_test(test)
    greeting = subprocess.run([BUILD / "bin" / "fathom", "hello", "--name", "you"], capture_output=True, text=True).stdout
    if greeting != "Hello, you!\n":
        die(f"the new command prints '{greeting}'")
    call(sys.executable, "tests/cli/readme_test.py", "--list", cwd=COPY)
    for test in ("flags_test", "streams_test"):
        call(sys.executable, f"tests/cli/{test}.py", "-k", "every_command", cwd=COPY, stderr=subprocess.DEVNULL,
             env={**os.environ, "FATHOM_BIN": str(BUILD / "bin" / "fathom"), "FATHOM_SOURCE_DIR": str(COPY)})
    play("an operation")
    build("add_both_test")
    run_test("add_both_test")
    call(sys.executable, "scripts/check_layers.py", cwd=COPY, stdout=subprocess.DEVNULL)
    print("recipes: all built and passed")


if __name__ == "__main__":
    main()
