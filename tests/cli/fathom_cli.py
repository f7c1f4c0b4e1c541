"""What the tests of the command line share: running the program, its error line, the embedded model, safetensors."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FATHOM_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
PROGRAM = os.environ.get("FATHOM_BIN", str(SOURCE / "build/dev/bin/fathom"))
DATA = pathlib.Path(os.environ.get("FATHOM_TEST_DATA", SOURCE / "build/dev/data"))
TINY = SOURCE / "models/tiny"


def run(*args, stdin="", env=None):
    """The finished program; output as text."""
    return subprocess.run([PROGRAM, *map(str, args)], input=stdin.encode(), capture_output=True, timeout=300,
                          env={**os.environ, **(env or {})}, check=False)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fathom-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def file(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def copy_of_tiny(self):
        path = self.folder / "model"
        shutil.copytree(TINY, path)
        return path

    def ok(self, *args, stdin="", env=None):
        """Standard output of a run that succeeds."""
        result = run(*args, stdin=stdin, env=env)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout.decode()

    def refused(self, code, needles, *args, stdin="", env=None):
        """The run must end with this code and one error line that holds all the texts."""
        result = run(*args, stdin=stdin, env=env)
        lines = result.stderr.decode().splitlines()
        errors = [line for line in lines if line.startswith("fathom: error: ")]
        self.assertEqual(result.returncode, code, result.stderr.decode())
        self.assertEqual(len(errors), 1, lines)
        self.assertEqual(lines[-1], errors[0])
        for line in lines[:-1]:
            self.assertRegex(line, r"^((ModelArgs|Options)\(|YaRN is |MTP layer|listening on |fathom: warning: )")
        for needle in [needles] if isinstance(needles, str) else needles:
            self.assertIn(needle, errors[0])
        return errors[0]


def edit_json(path, **changes):
    """Sets fields of a JSON file; a value of None removes the field."""
    fields = json.loads(path.read_text())
    for key, value in changes.items():
        fields[key] = value
        if value is None:
            del fields[key]
    path.write_text(json.dumps(fields))


def read_safetensors(path):
    """{name: (shape, list of floats)} of a file with float32 tensors."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", entry
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["shape"], list(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])))
    return tensors


def relative_error(x, y):
    return (sum((a - b) ** 2 for a, b in zip(x, y)) / sum(b * b for b in y)) ** 0.5
