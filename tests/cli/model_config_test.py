"""What a configuration says: keys that ask for other arithmetic, keys that nobody knows, models of other names, YaRN, and
rows in the order of halves ("rope_interleave": false)."""
import json
import unittest

from convert_test import read_file, write_file
from fathom_cli import CliTest, TINY, edit_json, run

ROTATED = 64  # rows of each head of queries, and of the key beside the latent
HEADS = {"q_b_proj.weight": 192, "kv_a_proj_with_mqa.weight": 576}


def in_halves(tensors):
    """The tensors of the embedded model with the rotated rows of each head by halves instead of by pairs."""
    for name, (dtype, shape, data) in tensors.items():
        head = next((rows for end, rows in HEADS.items() if name.endswith(end)), 0)
        if not head:
            continue
        size = len(data) // shape[0]
        rows = [data[i * size:(i + 1) * size] for i in range(shape[0])]
        for end in range(head, shape[0] + 1, head):
            part = rows[end - ROTATED:end]
            rows[end - ROTATED:end] = part[0::2] + part[1::2]
        tensors[name][2] = b"".join(rows)
    return tensors


class ModelConfig(CliTest):
    def model(self, name="model", **changes):
        """A copy of the embedded model that shares its files, with another configuration."""
        path = self.folder / name
        path.mkdir()
        for file in TINY.iterdir():
            (path / file.name).symlink_to(file)
        (path / "config.json").unlink()
        (path / "config.json").write_text(json.dumps({**json.loads((TINY / "config.json").read_text()), **changes}))
        return path

    def commands(self, model):
        """Every command that reads a configuration."""
        return {
            "chat": ["chat", model],
            "generate": ["generate", "--ckpt-path", model, "--interactive"],
            "logits": ["logits", "--model", model, "--ids", "1", "--out", self.folder / "out.safetensors"],
            "inspect": ["inspect", model],
            "verify": ["verify", model],
            "convert": ["convert", "--hf-ckpt-path", model, "--save-path", self.folder / "converted"],
            "synth": ["synth", "--config", model, "--layers", "2", "--out", self.folder / "synthetic"],
        }

    def logits(self, model):
        out = self.folder / "logits.safetensors"
        self.ok("logits", "--model", model, "--ids", "1,2,3,70,500,9", "--then", "7,8", "--out", out)
        return out.read_bytes()

    def test_other_arithmetic_is_refused_by_name_and_value_everywhere(self):
        model = self.model(gated_attention=True)
        for name, command in self.commands(model).items():
            with self.subTest(name):
                self.refused(1, "config.json: gated_attention is true: gates on the attention's output", *command)

    def test_other_models_are_refused_by_either_name(self):
        model = self.model(architectures=["InstellaMoEForCausalLM"], farskip=True)
        other = self.model("other", model_type="deepseek_v32", architectures=["DeepseekV32ForCausalLM"])
        for name, command in self.commands(model).items():
            with self.subTest(name):
                self.refused(1, "this is a InstellaMoEForCausalLM model", *command)
        self.refused(1, "this is a deepseek_v32 model (its attention goes to tokens that an indexer picks)", "chat",
                     other)

    def test_keys_that_nobody_knows_are_one_warning_of_every_command(self):
        model = self.model(made_up=1, other=[2], _name_or_path="x", sliding_window=None, use_mla=True)
        for name, command in self.commands(model).items():
            with self.subTest(name):
                result = run(*command)
                self.assertEqual(result.returncode, 0, result.stderr.decode())
                self.assertEqual([line for line in result.stderr.decode().splitlines() if "warning" in line],
                                 [f"fathom: warning: {model}/config.json says what nobody here knows, and it is passed "
                                  "over: made_up, other"])

    def test_kimi_k2_is_run_as_published(self):
        model = self.model(model_type="kimi_k2")
        self.assertEqual(self.logits(model), self.logits(TINY))
        for name, command in self.commands(model).items():
            with self.subTest(name):
                self.ok(*command)

    def test_yarn_is_told(self):
        args = json.loads((TINY / "args.json").read_text())
        short = self.file("short.json", json.dumps({**args, "max_seq_len": 4096}))
        for config, line in [(TINY / "config.json", "YaRN is on: factor 4, from a context of 4096 tokens"),
                             (short, "YaRN is off: max_seq_len (4096) is not above original_seq_len (4096)"),
                             (self.model(rope_scaling=None) / "config.json",
                              "YaRN is off: the configuration has no rope_scaling")]:
            for command in ("chat", "generate", "logits"):
                result = run(*self.commands(TINY)[command], "--config", config)
                self.assertEqual(result.stderr.decode().splitlines().count(line), 1, result.stderr.decode())


class RotatedHalves(CliTest):
    def setUp(self):
        super().setUp()
        self.pairs = self.copy_of_tiny()
        self.halves = self.folder / "halves"
        self.halves.mkdir()
        for file in self.pairs.iterdir():
            if file.suffix == ".safetensors":
                write_file(self.halves / file.name, in_halves(read_file(file)))
            else:
                (self.halves / file.name).write_bytes(file.read_bytes())
        edit_json(self.halves / "config.json", rope_interleave=False)

    def logits(self, model, *more):
        out = self.folder / "logits.safetensors"
        self.ok("logits", "--model", model, "--ids", "1,2,3,70,500,9", "--then", "7,8", "--out", out, *more)
        return out.read_bytes()

    def files(self, folder):
        return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}

    def test_logits_are_those_of_pairs(self):
        for more in ([], ["--gemm", "fp8"], ["--attn", "naive", "--compute", "f32"], ["--mmap"]):
            self.assertEqual(self.logits(self.halves, *more), self.logits(self.pairs, *more))
        edit_json(self.halves / "config.json", rope_interleave=True)
        self.assertNotEqual(self.logits(self.halves), self.logits(self.pairs))

    def test_conversions_hold_pairs_and_say_so(self):
        for model, out in ((self.pairs, "a"), (self.halves, "b")):
            self.ok("convert", "--hf-ckpt-path", model, "--save-path", self.folder / out)
        self.assertEqual(self.files(self.folder / "a"), self.files(self.folder / "b"))
        config = json.loads((self.folder / "b/config.json").read_text())
        self.assertIs(config["rope_interleave"], True)
        self.assertEqual(*((self.folder / out / "args.json").read_text() for out in "ab"))

    def test_the_cast_keeps_halves_and_quantize_makes_pairs(self):
        for model, out in ((self.pairs, "a"), (self.halves, "b")):
            self.ok("fp8-cast-bf16", "--input-fp8-hf-path", model, "--output-bf16-hf-path", self.folder / out)
            self.ok("quantize", "--in", self.folder / out, "--out", self.folder / f"{out}8")
        self.assertNotEqual(self.files(self.folder / "a"), self.files(self.folder / "b"))
        self.assertIs(json.loads((self.folder / "b/config.json").read_text())["rope_interleave"], False)
        self.assertEqual(self.logits(self.folder / "a"), self.logits(self.folder / "b"))
        for name in "ab":
            self.ok("convert", "--hf-ckpt-path", self.folder / name, "--save-path", self.folder / f"{name}2",
                    "--model-parallel", "2")
        self.assertEqual(self.files(self.folder / "a2"), self.files(self.folder / "b2"))
        self.assertEqual(self.files(self.folder / "a8"), self.files(self.folder / "b8"))
        self.assertIs(json.loads((self.folder / "b8/config.json").read_text())["rope_interleave"], True)


if __name__ == "__main__":
    unittest.main()
