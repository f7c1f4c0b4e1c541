"""fathom render through its command line: the prompts of rendered.jsonl, flags, errors and exit codes."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BIN = os.environ["FATHOM_BIN"]
SOURCE = pathlib.Path(os.environ.get("FATHOM_SOURCE_DIR", "."))
DATA = pathlib.Path(os.environ["FATHOM_TEST_DATA"]) / "tokenizers"
FOREIGN = os.environ.get("FATHOM_FOREIGN_TOKENIZERS")


def render(*flags, stdin=""):
    return subprocess.run([BIN, "render", *map(str, flags)], input=stdin.encode(), capture_output=True, check=False)


class Rendered(unittest.TestCase):
    def check(self, model, rendered):
        rows = [json.loads(line) for line in rendered.read_text().splitlines()]
        self.assertEqual(len(rows), 200)
        stdin = "".join(json.dumps(row["input"]) + "\n" for row in rows)
        run = render("--model", model, "--jsonl", "--date", "2026-01-02 03:04:05", stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        for row, line in zip(rows, run.stdout.decode().split("\n")[:-1], strict=True):
            out = json.loads(line)
            if "output" in row:
                self.assertEqual(out, row["output"])
            else:
                self.assertRegex(out["error"], r"^chat template, line \d+, column \d+: .")
        # One of them alone: exactly the prompt, nothing added.
        row = next(row for row in rows if "output" in row)
        run = render("--model", model, stdin=json.dumps(row["input"]))
        self.assertEqual(run.stdout.decode(), row["output"])

    def test_deepseek_v3(self):
        self.check(DATA / "deepseek-v3", DATA / "deepseek-v3" / "rendered.jsonl")

    def test_tiny(self):
        self.check(SOURCE / "models" / "tiny", DATA / "tiny" / "rendered.jsonl")

    @unittest.skipUnless(FOREIGN, "FATHOM_FOREIGN_TOKENIZERS is not set: qwen3's files are not shipped")
    def test_qwen3(self):
        qwen3 = pathlib.Path(FOREIGN) / "qwen3"
        self.check(qwen3, qwen3 / "rendered.jsonl")


class Flags(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def template(self, text):
        path = pathlib.Path(self.dir.name) / "t.jinja"
        path.write_text(text)
        return path

    def fails(self, run, code, *parts):
        self.assertEqual(run.returncode, code, run)
        lines = run.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("fathom: error: "), lines)
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertEqual(run.stdout, b"")

    def test_template_file(self):
        run = render("--template", self.template("{{ a }}é{{ bos_token }}\n\n"), stdin='{"a": "x"}')
        self.assertEqual(run.stdout.decode(), "xé\n")
        run = render("--template", self.template("\ufeff{{ a }}"), stdin='\ufeff{"a": "x"}')
        self.assertEqual(run.stdout, b"x")  # a byte-order mark is no part of either
        run = render("--chat-template", self.template("{{ bos_token }}"), "--model", SOURCE / "models" / "tiny", stdin="{}")
        self.assertEqual(run.stdout.decode(), "<｜begin▁of▁sentence｜>")

    def test_date(self):
        path = self.template("{{ strftime_now('%d %b %Y %H:%M %a') }}")
        run = render("--template", path, "--date", "2026-01-02 03:04:05", stdin="{}")
        self.assertEqual(run.stdout, b"02 Jan 2026 03:04 Fri")
        run = render("--template", path, "--date", "2024-02-29", stdin="{}")
        self.assertEqual(run.stdout, b"29 Feb 2024 00:00 Thu")
        self.fails(render("--template", path, "--date", "2023-02-29", stdin="{}"), 2, "--date", "2023-02-29")
        self.fails(render("--template", path, "--date", "today", stdin="{}"), 2, "--date")

    def test_order_of_keys_and_large_integers(self):
        run = render("--template", self.template("{{ t|tojson }}"), stdin='{"t": {"z": 1, "a": 18446744073709551616, "m": 1.0}}')
        self.assertEqual(run.stdout, b'{"z": 1, "a": 18446744073709551616, "m": 1.0}')

    def test_explain(self):
        run = render("--template", self.template("<s>{{ a }}</s>"), "--explain", stdin='{"a": "x"}')
        self.assertEqual(
            [json.loads(line) for line in run.stdout.splitlines()],
            [{"text": "<s>", "from": "template"}, {"text": "x", "from": "content"}, {"text": "</s>", "from": "template"}],
        )

    def test_explain_of_many(self):
        path = self.template("{{ a }}!")
        run = render("--template", path, "--explain", "--jsonl", stdin='{"a": "x"}\n{"a": 1}\n[]\n')
        first, second, third = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual(first, [{"text": "x", "from": "content"}, {"text": "!", "from": "template"}])
        self.assertEqual("".join(piece["text"] for piece in second), "1!")
        self.assertIn("error", third)

    def test_jsonl_reports_failures_in_place(self):
        path = self.template("{% if not a %}{{ raise_exception('a is needed') }}{% endif %}{{ a }}")
        run = render("--template", path, "--jsonl", stdin='{"a": "x"}\n{}\n\nnot json\n{"a": "y\\n"}\n')
        self.assertEqual(run.returncode, 0)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual(lines[0], "x")
        self.assertIn("a is needed", lines[1]["error"])
        self.assertIn("not valid JSON", lines[2]["error"])
        self.assertEqual(lines[3], "y\n")

    def test_errors(self):
        good = self.template("{{ a.b.c }}")
        self.fails(render(stdin="{}"), 2, "--model")
        self.fails(render("--template", good, stdin=""), 1, "empty")
        self.fails(render("--template", good, stdin="[]"), 1, "JSON object")
        self.fails(render("--template", good, stdin="{"), 1, "not valid JSON")
        self.fails(render("--template", good, stdin="{}"), 1, "line 1, column 5", "'a' is undefined")
        self.fails(render("--template", self.template("{% if %}"), stdin="{}"), 1, "line 1, column 7")
        self.fails(render("--template", pathlib.Path(self.dir.name) / "none", stdin="{}"), 1, "none")
        self.fails(render("--model", self.dir.name, stdin="{}"), 1, "has no chat template; pass --chat-template FILE")
        self.fails(render("--model", "/nowhere", stdin="{}"), 1, "/nowhere")
        self.fails(render("--nope", stdin="{}"), 2)


if __name__ == "__main__":
    unittest.main()
