"""Standard input, output and error of every command: full, closed, or with nobody at the other end."""
import os
import re
import subprocess
import unittest

from fathom_cli import PROGRAM, TINY, CliTest, edit_json, run

REASONS = {"full disk": "No space left on device", "closed": "Bad file descriptor", "broken pipe": "Broken pipe"}


def finished(args, stdin=b"", stdout=subprocess.PIPE, stderr=subprocess.PIPE, close=None):
    """A run with these streams; `close` is a descriptor that is closed when the program starts."""
    return subprocess.run([PROGRAM, *map(str, args)], input=stdin, stdout=stdout, stderr=stderr, timeout=120, check=False,
                          preexec_fn=None if close is None else lambda: os.close(close))


class Streams(CliTest):
    def setUp(self):
        super().setUp()
        args = self.file("args.json", (TINY / "args.json").read_text())
        edit_json(args, n_layers=2)
        self.model = self.folder / "small"
        self.ok("synth", "--config", args, "--out", self.model)
        plans = self.folder / "plans"
        prompts = self.file("prompts.txt", "Hello\n")
        # command -> arguments that print something, standard input
        self.printing = {
            "chat": (["--max-new-tokens", 1], b"Hello\n"),
            "serve": (["--help"], b""),
            "generate": (["--ckpt-path", TINY, "--input-file", prompts, "--max-new-tokens", 1], b""),
            "logits": (["--help"], b""),
            "tokenize": (["--model", TINY], b"Hello"),
            "render": (["--model", TINY], b'{"messages": [{"role": "user", "content": "Hello"}]}'),
            "synth": (["--help"], b""),
            "inspect": ([TINY], b""),
            "bench": (["--config", args, "--layers", 1, "--steps", 1, "--threads", 1], b""),
            "convert": (["--hf-ckpt-path", self.model, "--save-path", plans, "--dry-run"], b""),
            "fp8-cast-bf16": (["--input-fp8-hf-path", self.model, "--output-bf16-hf-path", plans, "--dry-run", "--json"],
                              b""),
            "quantize": (["--help"], b""),
            "verify": ([TINY, "--json"], b""),
        }
        # Other ways in which a command writes.
        self.more = [(["--help"], b""), (["--version"], b""), (["tokenize", "--model", TINY, "--jsonl"], b'"a"\n' * 9),
                     (["tokenize", "--model", TINY, "--decode"], b"[74]"),
                     (["render", "--model", TINY, "--jsonl"], b'{"messages": []}\n'),
                     (["generate", "--ckpt-path", TINY, "--interactive", "--json", "--max-new-tokens", 1], b"Hello\n"),
                     (["generate", "--ckpt-path", TINY, "--input-file", prompts, "--max-new-tokens", 1, "--json"], b""),
                     (["bench", "--config", args, "--explain-kernels"], b""),
                     (["bench", "--load", self.model], b"")]

    def runs(self):
        yield from (([command, *args], stdin) for command, (args, stdin) in self.printing.items())
        yield from self.more

    def test_the_table_has_every_command(self):
        names = re.findall(r"^  ([\w-]+)  ", self.ok("--help").split("Subcommands:")[1], re.M)
        self.assertGreater(len(names), 11)
        self.assertEqual(sorted(names), sorted(self.printing))

    def test_output_that_cannot_be_written_is_one_line_and_status_1(self):
        for args, stdin in self.runs():
            for kind, reason in REASONS.items():
                with self.subTest(args=args, kind=kind):
                    end, out = os.pipe()
                    os.close(end)
                    if kind == "full disk":
                        os.close(out)
                        out = os.open("/dev/full", os.O_WRONLY)
                    result = finished(args, stdin, stdout=out, close=1 if kind == "closed" else None)
                    os.close(out)
                    errors = [line for line in result.stderr.decode().splitlines()
                              if not line.startswith(("ModelArgs(", "Options(", "YaRN is ", "MTP layer"))]
                    self.assertEqual(errors, [f"fathom: error: cannot write to standard output: {reason}"])
                    self.assertEqual(result.returncode, 1)

    def test_an_error_output_that_cannot_be_written_changes_nothing(self):
        bad = [(["chat", self.folder / "none"], b""), (["logits"], b""), (["no-such-command"], b"")]
        for args, stdin in [*self.runs(), *bad]:
            expected = finished(args, stdin)
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                for result in (finished(args, stdin, stderr=full), finished(args, stdin, stderr=None, close=2)):
                    self.assertEqual(result.returncode, expected.returncode)
                    if "bench" not in args:  # its figures differ
                        self.assertEqual(bool(result.stdout), bool(expected.stdout))

    def test_a_command_with_much_to_write_ends_when_its_reader_does(self):
        text = self.file("lines", b'"Hello"\n' * 200_000)
        with open(text, "rb") as stdin, subprocess.Popen(
                [PROGRAM, "tokenize", "--model", TINY, "--jsonl"], stdin=stdin, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.stdout.close()
            errors = process.stderr.read().decode().splitlines()
            self.assertEqual(errors, ["fathom: error: cannot write to standard output: Broken pipe"])
            self.assertEqual(process.wait(60), 1)

    def test_a_closed_input_is_an_empty_one(self):
        """Without a place holder the model's file would become descriptor 0, and be read as questions."""
        for args in (["chat"], ["generate", "--ckpt-path", TINY, "--interactive"]):
            result = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, timeout=60, check=False,
                                    preexec_fn=lambda: os.close(0))
            self.assertEqual((result.returncode, result.stdout), (0, run(*args).stdout))

    def test_what_was_printed_before_an_error_arrives(self):
        result = run("tokenize", "--model", TINY, "--jsonl", stdin='"a"\nno json\n')
        self.assertEqual((result.returncode, result.stdout.decode().count("\n")), (1, 1))


if __name__ == "__main__":
    unittest.main()
