"""scripts/check_repository.py: a small repository that must pass and, with one fault each, must fail."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FATHOM_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))

GOOD = {
    "README.md": "See [notes](docs/notes.md), `base/file.h` and `config.json`.\n\n```sh\nmake test\n```\n",
    "docs/notes.md": "Built in `build/release/x.json`.\n",
    "src/base/file.h": "// Files below /workspace, or a/work/b.\n",
    "tests/cli/readme_test.py": "",
    "data.bin": b"\0/work/\0",
}

# name: (file, content, words of the finding). The words looked for are spelled apart here, as in the script.
FAULTS = {
    "unfinished": ("src/a.cc", "int x;  // TO" + "DO: more\n", "src/a.cc:1: unfinished work"),
    "machine path": ("src/a.cc", '// see "/wo' + 'rk/shared"\n', "src/a.cc:1: a path of one machine"),
    "home": ("notes.txt", "\n/ho" + "me/someone/x\n", "notes.txt:2: a path of one machine"),
    "missing file": ("docs/b.md", "`scripts/none.py` is gone\n", "docs/b.md:1: names a file that does not exist"),
    "missing link": ("README.md", "[here](none.md)\n", "README.md:1: names a file that does not exist: none.md"),
    "large file": ("big.bin", b"\0" * (21 << 20), "big.bin: 21.0 MiB"),
    "unknown command": ("tests/cli/readme_test.py", "print('no row'); raise SystemExit(1)\n", "no row"),
}


def run(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        for command in (["init", "-q"], ["add", "-A", "-f"]):
            subprocess.run(["git", "-C", folder, *command], check=True, capture_output=True)
        result = subprocess.run([sys.executable, SOURCE / "scripts" / "check_repository.py", folder],
                                capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class CheckRepository(unittest.TestCase):
    def test_good_repository_passes(self):
        code, output = run(GOOD)
        self.assertEqual(code, 0, output)
        self.assertIn("5 files", output)

    def test_each_fault_fails(self):
        for name, (path, content, words) in FAULTS.items():
            with self.subTest(name):
                code, output = run({**GOOD, path: content})
                self.assertEqual(code, 1, output)
                self.assertIn(words, output)
                self.assertIn("1 problems", output)

    def test_large_tree_fails(self):
        code, output = run({**GOOD, **{f"part{i}": b"\0" * (14 << 20) for i in range(3)}})
        self.assertEqual(code, 1, output)
        self.assertIn("the tracked tree has 42.0 MiB", output)


if __name__ == "__main__":
    unittest.main()
