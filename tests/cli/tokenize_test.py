#!/usr/bin/env python3
"""fathom tokenize from the outside: every line of expected.jsonl both ways, plain text, flags, and errors."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

FATHOM = os.environ["FATHOM_BIN"]
DATA = pathlib.Path(os.environ["FATHOM_TEST_DATA"]) / "tokenizers"
TINY = pathlib.Path(os.environ["FATHOM_SOURCE_DIR"]) / "models" / "tiny"


def run(*arguments, text=""):
    data = text if isinstance(text, bytes) else text.encode()
    return subprocess.run([FATHOM, "tokenize", *map(str, arguments)], input=data, capture_output=True, timeout=120)


def lines(data):
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


class Expected(unittest.TestCase):
    def check(self, model, expected):
        cases = [json.loads(line) for line in open(expected, encoding="utf-8")]
        self.assertEqual(len(cases), 1500)
        texts = "".join(json.dumps(case["text"]) + "\n" for case in cases)
        result = run("--model", model, "--jsonl", "--no-bos", text=texts)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(lines(result.stdout), [case["ids"] for case in cases])
        ids = "".join(json.dumps(case["ids"]) + "\n" for case in cases)
        result = run("--model", model, "--jsonl", "--decode", text=ids)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(lines(result.stdout), [case["decoded"] for case in cases])

    def test_deepseek_v3(self):
        self.check(DATA / "deepseek-v3", DATA / "deepseek-v3" / "expected.jsonl")

    def test_tiny(self):
        self.check(TINY, DATA / "tiny" / "expected.jsonl")

    def test_foreign(self):
        folder = os.environ.get("FATHOM_FOREIGN_TOKENIZERS")
        if not folder:
            self.skipTest("FATHOM_FOREIGN_TOKENIZERS does not name a folder with qwen3 and llama2")
        for name in ("qwen3", "llama2"):
            with self.subTest(name):
                self.check(pathlib.Path(folder) / name, pathlib.Path(folder) / name / "expected.jsonl")


class Tiktoken(unittest.TestCase):
    def test_tiktoken_model(self):
        folder = pathlib.Path(os.environ["FATHOM_SOURCE_DIR"]) / "tests" / "data" / "tiktoken"
        cases = lines((folder / "expected.jsonl").read_bytes())
        texts = "".join(json.dumps(case["text"]) + "\n" for case in cases)
        for field, flags in (("ids", []), ("plain", ["--no-added-tokens"])):
            result = run("--model", folder, "--jsonl", *flags, text=texts)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(lines(result.stdout), [case[field] for case in cases])


class Plain(unittest.TestCase):
    def ids(self, text, *flags):
        result = run("--model", TINY, *flags, text=text)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return json.loads(result.stdout)

    def test_one_bos_by_default(self):
        bare = self.ids("Hello\n", "--no-bos")
        self.assertEqual(self.ids("Hello\n"), [0] + bare)
        self.assertEqual(self.ids("<｜begin▁of▁sentence｜>Hello\n"), [0] + bare)
        self.assertEqual(self.ids(""), [0])
        self.assertEqual(self.ids("", "--no-bos"), [])

    def test_there_and_back(self):
        text = "Zeilen\r\n\twith 中文, 🙂 and spaces   \n"
        result = run("--model", TINY, "--decode", text=json.dumps(self.ids(text)))
        self.assertEqual((result.returncode, result.stdout.decode()), (0, text))

    def test_added_tokens(self):
        text = "<｜User｜>"
        self.assertEqual(len(self.ids(text, "--no-bos")), 1)
        self.assertGreater(len(self.ids(text, "--no-bos", "--no-added-tokens")), 1)
        self.assertEqual(self.ids(text, "--no-added-tokens")[0], 0)

    def test_special_tokens_in_decoding(self):
        result = run("--model", TINY, "--decode", "--keep-special", text="[0]")
        self.assertEqual(result.stdout.decode(), "<｜begin▁of▁sentence｜>")
        result = run("--model", TINY, "--decode", text="[0, 129279]")
        self.assertEqual((result.returncode, result.stdout), (0, b""))

    def test_invalid_bytes(self):
        self.assertEqual(self.ids(b"a\xff"), self.ids("a\ufffd"))

    def test_explain(self):
        rows = self.ids("Hi 12<｜User｜>中é", "--explain")
        self.assertEqual([row["piece"] for row in rows], ["", "Hi", " ", "12", "<｜User｜>", "中", "é"])
        self.assertEqual([id for row in rows for id in row["ids"]], self.ids("Hi 12<｜User｜>中é"))
        self.assertEqual([row["added"] for row in rows], [True, False, False, False, True, False, False])
        for row in rows[1:4] + rows[5:]:
            self.assertEqual(bytes(sum(row["bytes"], [])).decode(), row["piece"])
            self.assertEqual(len(row["tokens"]), len(row["ids"]))
        rules = [row["rule"] for row in rows]
        self.assertEqual((rules[0], rules[4]), ("BOS of the model", "added token"))
        self.assertTrue(rules[1].startswith("pre-tokenizer 3: Split "), rules)  # the letters
        self.assertTrue(rules[3].startswith("pre-tokenizer 1: Split "), rules)  # the digits
        self.assertTrue(rules[5].startswith("pre-tokenizer 2: Split "), rules)  # the Chinese character
        self.assertEqual(self.ids("", "--explain", "--no-bos"), [])
        self.assertEqual([row["rule"] for row in self.ids("<｜User｜>", "--explain", "--no-bos")], ["added token"])

    def test_explain_of_many_texts(self):
        texts = ["Hi", "a b\n", ""]
        result = run("--model", TINY, "--jsonl", "--explain", "--no-bos", text="".join(json.dumps(t) + "\n" for t in texts))
        rows = lines(result.stdout)
        self.assertEqual(["".join(row["piece"] for row in one) for one in rows], texts)

    def test_explain_counts_one_bos(self):
        rows = self.ids("<｜begin▁of▁sentence｜>Hi", "--explain")
        self.assertEqual([id for row in rows for id in row["ids"]], self.ids("Hi"))


class Special(unittest.TestCase):
    def test_template_of_the_file(self):
        around = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "</s>", "type_id": 0}}]
        special = {name: {"id": name, "ids": [id], "tokens": [name]} for name, id in (("<s>", 1), ("</s>", 2))}
        post = {"type": "TemplateProcessing", "single": around, "pair": around, "special_tokens": special}
        model = {"type": "BPE", "vocab": {"a": 0, "<s>": 1, "</s>": 2}, "merges": []}
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "tokenizer.json").write_text(json.dumps({"model": model, "post_processor": post}))
            for flags, ids in (([], [1, 0]), (["--no-bos"], [0]), (["--add-special-tokens"], [1, 0, 2])):
                result = run("--model", folder, *flags, text="a")
                self.assertEqual((result.returncode, json.loads(result.stdout)), (0, ids), flags)


class Errors(unittest.TestCase):
    def check(self, code, message, *arguments, text=""):
        result = run(*arguments, text=text)
        error = result.stderr.decode()
        self.assertEqual(result.returncode, code, error)
        self.assertTrue(error.startswith("fathom: error: "), error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertIn(message, error)

    def test_input(self):
        self.check(1, "line 2 of the input is not valid JSON", "--model", TINY, "--jsonl", text='"a"\nb\n')
        self.check(1, "line 1 of the input must be a JSON string, not array", "--model", TINY, "--jsonl", text="[]\n")
        self.check(1, "must be a JSON array of ids, not string", "--model", TINY, "--decode", text='"a"')
        self.check(1, "the input has -1 where an id should be", "--model", TINY, "--decode", text="[-1]")
        self.check(1, "the input has 1.5 where an id should be", "--model", TINY, "--decode", text="[1.5]")
        self.check(1, "the input is not valid JSON", "--model", TINY, "--decode", text="")

    def test_model(self):
        self.check(1, "model /no/such/folder does not exist", "--model", "/no/such/folder")

    def test_usage(self):
        self.check(2, "--model is required")
        for other in ("--no-bos", "--no-added-tokens", "--decode", "--explain"):
            self.check(2, other, "--model", TINY, other, "--add-special-tokens")
        self.check(2, "--frobnicate", "--model", TINY, "--frobnicate")


if __name__ == "__main__":
    unittest.main()
