"""scripts/check_layers.py: small trees that must pass and, each with one fault, must fail."""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FATHOM_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
SCRIPT = SOURCE / "scripts" / "check_layers.py"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SCRIPT.parent))
import check_layers  # noqa: E402

TABLE = """# Architecture
<!-- layers:begin -->
| level | folder | may include | third party | idea |
|---|---|---|---|---|
| 0 | `base` | — | `openssl/` (hash) | |
| 1 | `kernels/cpu` | — | — | |
| 1 | `kernels/cuda` | — | `cuda*` | |
| 1 | `tensor` | — | — | |
| 2 | `model` | `tensor` | `nlohmann/` (args) | |
| 3 | `tools` | `model`, `tensor` | `CLI/` | |
| — | every folder | `base` | `fmt/` | |
| — | tests | `kernels/cpu` | `gtest/` | |
<!-- layers:end -->
"""

GOOD = {
    "src/base/check.h": """// Errors.
#pragma once

#include <fmt/format.h>

#include <string>

#define CHECK(condition) (void)(condition)

namespace fathom {

using i64 = long;
extern template class std::basic_string<char>;
inline constexpr int kLimit = 3;
void check(int a, int b);

}  // namespace fathom
""",
    "src/base/hash.cc": "#include <openssl/evp.h>\n",
    "src/kernels/cpu/gemm.h": """// Products.
#pragma once
namespace fathom {
class Gemm {
 public:
  Gemm(int rows, int columns) : rows_{rows}, columns_{columns} {}
  int rows() const { return rows_; }

 private:
  static int count_rows(int n);
  int rows_{0};
  int columns_ = 0;
};
}  // namespace fathom
""",
    "src/kernels/cpu/gemm.cc": """#include "kernels/cpu/gemm.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <cstdlib>

#include "base/check.h"

namespace fathom {
namespace {
constexpr int kRows[] = {1, 2, 3};
constexpr std::size_t kChunk = std::size_t{64} << 10;
const char* const kText = "getenv TODO printf( static int x = 1;";  // std::cout << getenv("X")
int helper(int n) {
  static const int kTwo = 2;
  auto add = [&](int a) { return a + kTwo; };
  return add(n);
}
}  // namespace
int Gemm::count_rows(int n) { return helper(n) + kRows[0] + (kText != nullptr); }
#ifdef __x86_64__
#endif
}  // namespace fathom
""",
    "src/kernels/cuda/rows.cu": """#include <cuda_bf16.h>
__global__ void rows() { extern __shared__ float memory[]; }
""",
    "src/base/tables.inc": "// Made by scripts/tables.py; do not edit.\n" + "// x\n" * 700,
    "src/tensor/tensor.h": "// Views.\n#pragma once\n#include \"base/check.h\"\n",
    "src/tensor/tensor_test.cc": '#include <gtest/gtest.h>\n#include <cstdio>\n#include "kernels/cpu/gemm.h"\n'
                                 '#include "support/compare.h"\n#include "tensor/tensor.h"\n'
                                 'TEST(Tensor, Prints) { printf("%s", std::getenv("FATHOM_TEST_DATA")); }\n',
    "src/model/args.h": "// Facts.\n#pragma once\n#include <nlohmann/json_fwd.hpp>\n",
    "src/model/args_hf.cc": '#include <nlohmann/json.hpp>\n#include "model/args.h"\n',
    "tools/main.cc": '#include <CLI/CLI.hpp>\n#include <csignal>\n#include "model/args.h"\n'
                     'namespace { volatile std::sig_atomic_t stopped = 0; }\n'
                     'int main() { std::getenv("HOME"); return stopped; }\n',
}


def run(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"ARCHITECTURE.md": TABLE, **files}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = check_layers.run(pathlib.Path(folder))
        return code, output.getvalue()


def body(lines):
    return "namespace fathom {\nint f(int x) {\n" + "  x += 1;\n" * (lines - 3) + "  return x;\n}\n}\n"


# name: (file, its text or the text to add to the good one, words of the finding)
FAULTS = {
    "upward include": ("src/tensor/a.cc", '#include "model/args.h"\n', "tensor may not include model"),
    "test of another layer": ("src/base/a_test.cc", '#include "model/args.h"\n', "base may not include model"),
    "include without folder": ("src/tensor/a.cc", '#include "tensor.h"\n', "not a path below src/"),
    "third party not named": ("src/model/mla.cc", "#include <nlohmann/json.hpp>\n", "not among the third-party"),
    "library of tests": ("src/model/mla.cc", "#include <gtest/gtest.h>\n", "not among the third-party"),
    "CUDA elsewhere": ("src/model/f.cc", "#include <cuda_runtime_api.h>\n", "not among the third-party"),
    "global in a kernel file": ("src/kernels/cuda/f.cu", "__device__ int counter = 0;\n", "mutable static variable"),
    "unguarded CUDA header": ("src/kernels/cuda/f.cuh", "// F.\nint f();\n", "no #pragma once"),
    "long included file": ("src/base/f.inc", "// x\n" * 601, "601 lines"),
    "unknown folder": ("src/server/http.cc", "int x();\n", "not in the layers table"),
    "own header second": ("src/kernels/cpu/gemm.cc", '#include <vector>\n#include "kernels/cpu/gemm.h"\n',
                          "first include must be"),
    "long file": ("src/base/long.cc", "// x\n" * 601, "601 lines"),
    "long function": ("src/base/f.cc", body(81), "f has 81 lines"),
    "long kernel": ("src/kernels/cpu/f.cc", body(151), "f has 151 lines"),
    "long method": ("src/base/f.cc", "class A {\n A() : a_{1}, b_(2) {\n" + "a_ = 2;\n" * 90 + "}\n int a_; int b_;\n};\n",
                    "A has 92 lines"),
    "global": ("src/base/f.cc", "namespace fathom {\nint counter = 0;\n}\n", "mutable static variable: int counter"),
    "global without value": ("src/base/f.cc", "namespace {\nstd::vector<int> all;\n}\n", "mutable static variable"),
    "braced global": ("src/base/f.cc", "namespace {\nstd::map<int, int> all{{1, 2}};\n}\n", "mutable static variable"),
    "static in a function": ("src/base/f.cc", "int f() {\n  static int calls = 0;\n  return ++calls;\n}\n",
                             "f.cc:2: mutable static variable"),
    "static object in a function": ("src/base/f.cc", "int f() {\n  if (true) {\n    static Cache cache(3);\n  }\n}\n",
                                    "mutable static variable"),
    "static member": ("src/base/f.cc", "class A {\n  static int calls_;\n};\n", "mutable static variable"),
    "inline static member": ("src/base/f.cc", "struct A {\n  inline static int calls = 0;\n};\n",
                             "mutable static variable"),
    "extern variable": ("src/base/f.cc", "extern int counter;\n", "mutable static variable"),
    "global in a tool": ("tools/f.cc", "int counter = 0;\n", "mutable static variable"),
    "thread local": ("src/base/f.cc", "int f() {\n  thread_local int x = 0;\n  return ++x;\n}\n", "thread_local"),
    "environment": ("src/base/f.cc", 'int f() { return std::getenv("X") != nullptr; }\n', "environment access"),
    "feature switch": ("src/base/f.cc", "#ifdef FATHOM_WITH_CUDA\n#endif\n", "#ifdef on FATHOM_WITH_CUDA"),
    "feature switch by if": ("src/base/f.cc", "#if defined(__x86_64__) && FAST\n#endif\n", "#if on FAST"),
    "macro": ("src/base/f.cc", "#define TWICE(x) (2 * (x))\n", "macro TWICE"),
    "no guard": ("src/base/f.h", "// F.\nint f();\n", "no #pragma once"),
    "no purpose line": ("src/base/f.h", "#pragma once\nint f();\n", "first line must be a comment"),
    "nameless header": ("src/base/utils.h", "// All sorts.\n#pragma once\n", "utils.h says nothing"),
    "printing": ("src/base/f.cc", 'void f() { std::cerr << "x"; }\n', "neither prints nor exits"),
    "printing by printf": ("src/base/f.cc", 'void f() { fprintf(stderr, "x"); }\n', "neither prints nor exits"),
    "printing past the checks": ("tools/f.cc", 'void f() { std::cout << "x"; }\n', "only tools/output.h writes"),
    "exit": ("src/base/f.cc", "void f() { std::exit(1); }\n", "neither prints nor exits"),
    "abort": ("src/base/f.cc", "void f() { std::abort(); }\n", "neither prints nor exits"),
    "shared owner": ("src/model/f.cc", "std::shared_ptr<int> f();\n", "shared_ptr"),
    "fp16": ("src/kernels/cpu/f.cc", "float f(_Float16 x);\n", "fp16"),
}


class CheckLayers(unittest.TestCase):
    def test_good_tree_passes(self):
        code, output = run(GOOD)
        self.assertEqual(code, 0, output)
        self.assertIn("0 errors, 0 warnings", output)

    def test_each_fault_fails(self):
        for name, (path, text, words) in FAULTS.items():
            with self.subTest(name):
                code, output = run({**GOOD, path: text})
                self.assertEqual(code, 1, output)
                self.assertIn(words, output)
                self.assertIn("1 errors", output)

    def test_limits_are_inclusive(self):
        for path, text in (("src/base/f.cc", body(80)), ("src/kernels/cpu/f.cc", body(150)),
                           ("src/base/f.cc", "// x\n" * 600)):
            code, output = run({**GOOD, path: text})
            self.assertEqual(code, 0, output)

    def test_warnings_do_not_fail(self):
        for text, words in (("// x\n" * 401, "401 lines"),
                            ("int f(int a, int b, int c, int d, int e, std::map<int, int> g, int h) {\n}\n",
                             "f has 7 parameters")):
            code, output = run({**GOOD, "src/base/f.cc": text})
            self.assertEqual(code, 0, output)
            self.assertIn(words, output)

    def test_the_table_is_required_and_true(self):
        with self.assertRaisesRegex(SystemExit, "no table"):
            run({**GOOD, "ARCHITECTURE.md": "# nothing\n"})
        code, output = run({**GOOD, "ARCHITECTURE.md": TABLE.replace("`tensor` | — |", "`tensors` | — |", 1)})
        self.assertEqual(code, 1)
        self.assertIn("does not exist: tensors", output)

    def test_this_repository_passes(self):
        result = subprocess.run([sys.executable, SCRIPT, SOURCE], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout)


if __name__ == "__main__":
    unittest.main()
