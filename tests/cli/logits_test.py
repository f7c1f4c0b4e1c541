"""fathom logits: against values of the embedded model computed by other programs, and its errors."""
import json
import unittest

from fathom_cli import DATA, TINY, CliTest, edit_json, read_safetensors, relative_error

VOCAB, DIM, LAYERS = 4096, 256, 6
F32 = ("--compute", "f32", "--threads", "2")


class LogitsTest(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.ids = json.loads((DATA / "tiny/eval.json").read_text())["sequences"][0][:40]
        shape, values = read_safetensors(DATA / "tiny/golden.safetensors")["main.0"]
        cls.golden = [values[i * VOCAB:(i + 1) * VOCAB] for i in range(shape[0])]

    def logits(self, ids, *args, then=None):
        out = self.folder / "out.safetensors"
        extra = ("--then", ",".join(map(str, then))) if then else ()
        self.assertEqual(self.ok("logits", "--model", TINY, "--ids", ",".join(map(str, ids)), *extra, "--out", out, *args), "")
        tensors = read_safetensors(out)
        shape, values = tensors["logits"]
        self.assertEqual(shape, [1 + len(then or []), VOCAB])
        return [values[i * VOCAB:(i + 1) * VOCAB] for i in range(shape[0])], tensors

    def refuses(self, code, needles, *args, ids="1,2", model=TINY):
        return self.refused(code, needles, "logits", "--model", model, "--ids", ids, "--out", self.folder / "x", *args)

    def test_prompt_and_further_tokens_equal_the_golden_values(self):
        rows, tensors = self.logits(self.ids[:10], *F32, then=self.ids[10:14])
        self.assertEqual(list(tensors), ["logits"])
        for i, row in enumerate(rows):
            self.assertLess(relative_error(row, self.golden[9 + i]), 2e-5, i)

    def test_weights_in_place_give_the_same_bits(self):
        fp8 = self.folder / "fp8"
        config = json.loads((DATA / "golden/golden/v3-fp8.json").read_text())["config"]
        self.ok("synth", "--config", self.file("config.json", json.dumps(config)), "--layers", 2,
                "--max-shard-size", "3MB", "--out", fp8)
        for model in (TINY, fp8):
            results = []
            for flags in ((), ("--mmap",)):
                out = self.folder / "out.safetensors"
                self.ok("logits", "--model", model, "--ids", "5,6,7,8", "--then", "9", "--out", out, *F32, *flags)
                results.append(out.read_bytes())
            self.assertEqual(results[0], results[1], model)

    def test_chunks_and_attention_forms(self):
        for args in (("--chunk", "1"), ("--chunk", "7"), ("--chunk", "64"), ("--attn", "naive"),
                     ("--attn", "naive", "--chunk", "7"), ("--config", TINY / "args.json"), ("--max-seq-len", "8192")):
            rows, _ = self.logits(self.ids, *F32, *args)
            self.assertLess(relative_error(rows[0], self.golden[39]), 2e-5, args)

    def test_narrow_arithmetic_is_near(self):
        f32 = self.logits(self.ids, *F32)[0][0]
        for args in ((), ("--gemm", "fp8"), ("--compute", "f32", "--gemm", "fp8")):
            error = relative_error(self.logits(self.ids, *args)[0][0], f32)
            self.assertLess(error, 0.1, args)
            self.assertGreater(error, 1e-5, args)

    def test_hidden(self):
        _, tensors = self.logits(self.ids, *F32, "--hidden", then=[5])
        self.assertEqual(set(tensors), {"logits", *(f"hidden.{i}" for i in range(LAYERS))})
        _, chunked = self.logits(self.ids, *F32, "--hidden", "--chunk", "7")
        for i in range(LAYERS):
            self.assertEqual(tensors[f"hidden.{i}"][0], [len(self.ids), DIM])
            self.assertLess(relative_error(chunked[f"hidden.{i}"][1], tensors[f"hidden.{i}"][1]), 1e-5)

    def test_spaces_between_ids(self):
        self.assertEqual(self.logits(["0", " 5 "], *F32)[0], self.logits([0, 5], *F32)[0])

    def test_errors(self):
        self.refuses(1, ["--ids", "4096", "vocabulary of 4096"], ids="1,4096")
        self.refuses(1, ["--ids", "-1"], ids="-1,3")
        self.refuses(1, ["--then", "99999"], "--then", "99999")
        for ids in ("1,,2", "1;2", "a", "1.5", "1,99999999999999999999", " "):
            self.refuses(2, "--ids", ids=ids)
        self.refuses(2, "--ids", ids="")
        self.refuses(1, "max_seq_len=3", "--max-seq-len", "3", "--then", "4,5")
        self.refuses(1, "/no/such/model", model="/no/such/model")
        self.refuses(2, "--chunk", "--chunk", "-1")
        self.refused(2, "--out", "logits", "--model", TINY, "--ids", "1")
        self.refused(1, "/no/such/dir", "logits", "--model", TINY, "--ids", "1", "--out", "/no/such/dir/x")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_damaged_config(self):
        model = self.copy_of_tiny()
        edit_json(model / "config.json", kv_lora_rank=None)
        self.refuses(1, "kv_lora_rank", model=model)


if __name__ == "__main__":
    unittest.main()
