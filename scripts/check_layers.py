#!/usr/bin/env python3
"""Checks the rules of the house that a program can check, over src/ and tools/.

Includes: the table in ARCHITECTURE.md between the layers markers says who may include whom.
Sizes: files, functions, parameters. State: no mutable globals, statics or thread-locals, no environment reads below
tools/. Manners: no printing or exiting in library code, no feature switches, headers with a purpose line and a guard.

Usage: scripts/check_layers.py [ROOT]. Prints one line a finding, `warning:` ones do not fail.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cpp_scan  # noqa: E402

FILE_LINES_ERROR, FILE_LINES_WARNING = 600, 400
FUNCTION_LINES, KERNEL_LINES, PARAMETERS = 80, 150, 6
SUFFIXES = {".h", ".cc", ".inc", ".cu", ".cuh"}  # .inc: included several times, so without a guard
BANNED_NAMES = {"utils.h", "util.h", "common.h", "helpers.h", "misc.h", "types.h"}
ALLOWED_NAMES = {"src/ops/types.h"}
# Conditional compilation is for the compiler and the processor, never for a feature.
CONDITIONS = {"FATHOM_POISON_ARENA", "NDEBUG", "__x86_64__", "__aarch64__", "__clang__", "__GNUC__", "__cplusplus",
              "__SANITIZE_ADDRESS__", "__SANITIZE_THREAD__", "__has_feature", "__has_include", "__CUDACC__",
              "__CUDA_ARCH__", "__CUDA_ARCH_FEAT_SM90_ALL", "__linux__", "defined"}
MACROS = {"CHECK", "PCRE2_CODE_UNIT_WIDTH"}  # the second is asked for by the library's header
MACRO_FILES = {"src/ops/operations.h", "src/ops/backend.h", "src/ops/trace.h"}  # the list of operations and its uses
SYSTEM_HEADERS = {"unistd.h", "fcntl.h", "termios.h", "signal.h", "poll.h", "sched.h", "pthread.h", "dirent.h",
                  "errno.h", "arpa/inet.h", "netinet/in.h", "immintrin.h", "x86intrin.h", "cpuid.h", "dlfcn.h", "getopt.h",
                  "locale.h", "langinfo.h"}
PRINTS = re.compile(r"\bstd::(?:cout|cerr|clog)\b|\bfmt::print\b|(?<![\w:.>])(?:std::)?(?:f?printf|f?puts|_?exit)\s*\(|"
                    r"(?<!\w)(?:std)?::(?:abort|terminate|quick_exit)\s*\(")

STREAMS = re.compile(r"\bstd::(?:cout|cerr|clog)\b|\bfmt::print\b|\bstd::fflush\b|(?<![\w:.>])(?:std::)?(?:f?printf|f?puts)\s*\(")


class Table:
    """The include table: for each folder the folders and third-party headers that its files may include."""

    def __init__(self, text):
        self.folders, self.headers = {}, {}
        body = re.search(r"<!-- layers:begin -->\n(.*?)<!-- layers:end -->", text, re.S)
        if not body:
            raise SystemExit("check_layers: ARCHITECTURE.md has no table between the layers markers")
        for line in body.group(1).splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) < 4:
                raise SystemExit(f"check_layers: cannot read this row of the layers table: {line}")
            name = cells[1].strip("`")
            self.folders[name] = re.findall(r"`([^`]+)`", cells[2])
            self.headers[name] = re.findall(r"`([^`]+)`(?: \((\w+)\))?", cells[3])

    def folder_of(self, path):
        """The longest folder of the table that holds `path` (relative to src/); None when there is none."""
        parts = path.split("/")[:-1]
        for n in range(len(parts), 0, -1):
            if "/".join(parts[:n]) in self.folders:
                return "/".join(parts[:n])
        return None

    def allows_folder(self, folder, target, is_test):
        allowed = {folder, *self.folders[folder], *self.folders["every folder"]}
        if is_test:
            allowed.update(self.folders["tests"])
        return target in allowed

    def allows_header(self, folder, header, stem, is_test):
        rows = self.headers[folder] + self.headers["every folder"] + (self.headers["tests"] if is_test else [])
        return any((header == name or (name[-1] in "/*" and header.startswith(name.rstrip("*"))))
                   and (not only or re.match(rf"{only}(_|$)", stem)) for name, only in rows)


class Checker:
    def __init__(self, root):
        self.root = root
        self.table = Table((root / "ARCHITECTURE.md").read_text(encoding="utf-8"))
        self.errors, self.warnings = [], []

    def error(self, path, line, message):
        self.errors.append(f"{path}:{line}: {message}")

    def warn(self, path, line, message):
        self.warnings.append(f"{path}:{line}: warning: {message}")

    def check_all(self):
        for folder in self.table.folders:
            where = self.root / (folder if folder == "tools" else f"src/{folder}")
            if folder not in ("every folder", "tests") and not where.is_dir():
                self.error("ARCHITECTURE.md", 1, f"the layers table names a folder that does not exist: {folder}")
        for top in ("src", "tools"):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in SUFFIXES:
                    self.check_file(path.relative_to(self.root).as_posix(), path.read_text(encoding="utf-8"))

    def check_file(self, path, text):
        inside = path.removeprefix("src/")
        is_test = path.endswith("_test.cc")
        folder = self.table.folder_of(inside)
        if folder is None:
            self.error(path, 1, "this folder is not in the layers table of ARCHITECTURE.md")
            return
        code = cpp_scan.strip(text)
        self.check_size(path, text)
        self.check_includes(path, text, inside, folder, is_test)
        self.check_preprocessor(path, code)
        if path.endswith((".h", ".cuh")):
            self.check_header(path, text)
        self.check_functions(path, code, folder)
        self.check_state(path, code)
        if path.startswith("src/") and not is_test:
            self.check_manners(path, code)
        if path.startswith("tools/") and path != "tools/output.cc":
            for number, line in enumerate(code.splitlines(), 1):
                if STREAMS.search(line):
                    self.error(path, number, f"only tools/output.h writes, as it checks what became of it: {line.strip()}")

    def check_size(self, path, text):
        lines = text.count("\n")
        if re.match(r"// .*\b(generated|made) (by|from)\b", text, re.I):
            return  # a table that a program wrote
        if lines > FILE_LINES_ERROR:
            self.error(path, 1, f"{lines} lines; a file has at most {FILE_LINES_ERROR}: split it")
        elif lines > FILE_LINES_WARNING:
            self.warn(path, 1, f"{lines} lines; above {FILE_LINES_WARNING} a file needs a reason")

    def check_includes(self, path, text, inside, folder, is_test):
        stem = pathlib.PurePosixPath(path).stem
        first = None
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not match:
                continue
            quoted, target = match.group(1) == '"', match.group(2)
            first = first or (target if quoted else f"<{target}>")
            if quoted:
                self.check_own_include(path, number, folder, target, is_test)
            elif is_third_party(target) and not self.table.allows_header(folder, target, stem, is_test):
                self.error(path, number, f"<{target}> is not among the third-party headers of {folder}")
        own = inside.removesuffix(".cc") + ".h"
        if path.endswith(".cc") and not is_test and self.header_exists(own) and first != own:
            self.error(path, 1, f'the first include must be "{own}"')

    def header_exists(self, own):
        return (self.root / "src" / own).exists() or (self.root / own).exists()

    def check_own_include(self, path, number, folder, target, is_test):
        other = self.table.folder_of(target)
        if is_test and target.startswith("support/"):
            return
        if other is None:
            self.error(path, number, f'"{target}" is not a path below src/ in a folder of the layers table')
        elif not self.table.allows_folder(folder, other, is_test):
            self.error(path, number, f"{folder} may not include {other} ({target})")

    def check_header(self, path, text):
        lines = text.splitlines() or [""]
        if not re.match(r"// \S", lines[0]):
            self.error(path, 1, "the first line must be a comment that says what the header is for")
        if "#pragma once" not in lines:
            self.error(path, 1, "no #pragma once")
        name = pathlib.PurePosixPath(path).name
        if name in BANNED_NAMES and path not in ALLOWED_NAMES:
            self.error(path, 1, f"{name} says nothing: name a header for what it holds")

    def check_preprocessor(self, path, code):
        for number, line in enumerate(code.splitlines(), 1):
            match = re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b(.*)", line)
            if match and path.startswith("src/"):
                for name in set(re.findall(r"[A-Za-z_]\w*", match.group(2))) - CONDITIONS:
                    self.error(path, number, f"#{match.group(1)} on {name}: a feature is a file in or out, not a switch")
            match = re.match(r"\s*#\s*define\s+(\w+)", line)
            # What is done with each entry of a list may be a macro of that one place.
            if (match and match.group(1) not in MACROS and path not in MACRO_FILES
                    and not re.search(rf"#undef {match.group(1)}\b", code)):
                self.error(path, number, f"macro {match.group(1)}: use a constant, a function or a template")

    def check_functions(self, path, code, folder):
        limit = KERNEL_LINES if folder.startswith("kernels/") else FUNCTION_LINES
        for function in cpp_scan.functions(code):
            if function.lines > limit:
                report = self.warn if path.endswith("_test.cc") else self.error  # tests are often tables of values
                report(path, function.line, f"{function.name} has {function.lines} lines; at most {limit}")
            if function.parameters > PARAMETERS:
                self.warn(path, function.line,
                          f"{function.name} has {function.parameters} parameters; beyond {PARAMETERS} use a struct")

    def check_state(self, path, code):
        below_tools = path.startswith("src/") and not path.endswith("_test.cc")  # tests are told where their data is
        for number, line in enumerate(code.splitlines(), 1):
            if re.search(r"\bthread_local\b", line):
                self.error(path, number, "thread_local state: pass it down")
            if below_tools and re.search(r"\b(secure_getenv|getenv|setenv|putenv|environ)\b", line):
                self.error(path, number, "environment access below tools/: pass the value down")
        for number, statement in cpp_scan.mutable_variables(code):
            # A signal handler can reach nothing but a global; only a tool installs one.
            if path.startswith("tools/") and re.search(r"\b(sig_atomic_t|std::atomic)\b", statement):
                continue
            if "__shared__" not in statement:  # scratch of one block of a kernel, not state
                self.error(path, number, f"mutable static variable: {statement}")

    def check_manners(self, path, code):
        for number, line in enumerate(code.splitlines(), 1):
            if PRINTS.search(line):
                self.error(path, number, f"library code neither prints nor exits: {line.strip()}")
            if "shared_ptr" in line and not path.startswith(("src/comm/", "src/text/", "src/http/", "src/server/")):
                self.error(path, number, "shared_ptr: one owner, by value or unique_ptr")
            if re.search(r"\b(_Float16|__fp16|__half)\b", line):
                self.error(path, number, "fp16 arithmetic: activations of this family do not fit it")


def is_third_party(target):
    """Whether an <include> is neither C++'s nor the system's."""
    if target in SYSTEM_HEADERS or target.startswith(("sys/", "linux/", "bits/")):
        return False
    return "." in target or "/" in target


def run(root):
    """Checks the tree at `root`, prints the findings and returns the exit status."""
    checker = Checker(root)
    checker.check_all()
    for message in checker.warnings + checker.errors:
        print(message)
    print(f"check_layers: {len(checker.errors)} errors, {len(checker.warnings)} warnings")
    return 1 if checker.errors else 0


if __name__ == "__main__":
    sys.exit(run(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent))
