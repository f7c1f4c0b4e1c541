"""One command at a time writes into a folder: the others refuse, and what the first one wrote stays."""
import fcntl
import json
import os
import subprocess
import unittest

from convert_test import Base, read_file, snapshot
from fathom_cli import PROGRAM

REFUSAL = "another command is writing into"


def together(commands):
    """[(status, last line of stderr)] of commands that run at the same time."""
    running = [subprocess.Popen([PROGRAM, *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
               for args in commands]
    results = []
    for process in running:
        errors = process.communicate(timeout=300)[1].decode().splitlines()
        results.append((process.returncode, errors[-1] if errors else ""))
    return results


class Lock(Base):
    def hold(self, folder):
        """Locks a folder as a running command does; the result lets go."""
        folder.mkdir(exist_ok=True)
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a lock that a failed case left is an error, not a wait
        return lambda: os.close(held)

    def writing(self, out, layers=2):
        return ["synth", "--config", self.file("c.json", json.dumps(self.config)), "--layers", layers, "--out", out,
                "--max-shard-size", "1MB"]

    def setUp(self):
        super().setUp()
        self.model = self.synth("v2lite-short")
        self.config = json.loads((self.model / "config.json").read_text())

    def test_a_folder_that_is_held_is_refused(self):
        out = self.folder / "out"
        for name, args in {"convert": self.convert(self.model), "synth": self.writing(out)}.items():
            with self.subTest(name):
                let_go = self.hold(out)
                self.refused(1, REFUSAL, *args)
                self.assertEqual(list(out.iterdir()), [])
                let_go()
                self.ok(*args)
                before = snapshot(out)
                let_go = self.hold(out)  # it is told before what the folder holds, which may be about to change
                self.refused(1, REFUSAL, *self.convert(self.model, ranks=4))
                self.refused(1, REFUSAL, *self.writing(out))
                self.assertEqual(snapshot(out), before)
                let_go()
                for path in out.iterdir():
                    path.unlink()

    def test_conversions_at_the_same_time(self):
        self.ok(*self.convert(self.model, out="alone"))
        expected = snapshot(self.folder / "alone")
        for turn in range(4):
            results = together([self.convert(self.model, out=f"out{turn}")] * 3)
            self.assertIn(0, [status for status, _ in results])
            for status, error in results:
                if status != 0:
                    self.assertIn(REFUSAL, error)
            self.assertEqual(snapshot(self.folder / f"out{turn}"), expected)

    def test_synthetic_checkpoints_at_the_same_time(self):
        self.ok(*self.writing(self.folder / "alone"))
        expected = snapshot(self.folder / "alone")
        for turn in range(4):
            out = self.folder / f"made{turn}"
            results = together([self.writing(out)] * 3)
            self.assertEqual(sorted(status for status, _ in results), [0, 1, 1])
            for status, error in results:
                if status != 0:
                    self.assertRegex(error, f"{REFUSAL}|already holds a checkpoint")
            self.assertEqual(snapshot(out), expected)
            self.assertTrue(all(read_file(path) for path in out.glob("*.safetensors")))


if __name__ == "__main__":
    unittest.main()
