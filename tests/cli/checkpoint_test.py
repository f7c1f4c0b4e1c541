"""synth and inspect through the command line: equal hashes with the published tables, and every kind of broken
checkpoint refused with one line on stderr and exit code 1."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

FATHOM = os.environ["FATHOM_BIN"]
SOURCE = Path(os.environ["FATHOM_SOURCE_DIR"])
GOLDEN = Path(os.environ["FATHOM_TEST_DATA"]) / "golden" / "golden"
INDEX = "model.safetensors.index.json"
TORCH = {"BF16": "bfloat16", "F32": "float32", "F8_E4M3": "float8_e4m3fn"}


def run(*arguments):
    return subprocess.run([FATHOM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)


def read_header(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_safetensors(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensors_of(path):
    """name -> [dtype, shape, sha256] of a safetensors file."""
    header, data = read_header(path)
    header.pop("__metadata__", None)
    table = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        table[name] = [TORCH[entry["dtype"]], entry["shape"], hashlib.sha256(data[begin:end]).hexdigest()]
    return table


class Scratch(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fathom-checkpoint-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def config(self, name):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(json.loads((GOLDEN / f"{name}.json").read_text())["config"]))
        return path

    def synth(self, config, *more):
        out = self.folder / "model"
        result = run("synth", "--config", config, "--out", out, *more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "")
        return out

    def assert_refused(self, result, *words, code=1):
        self.assertEqual(result.returncode, code, result.stderr)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("fathom: error: "), lines)
        for word in words:
            self.assertIn(word, lines[0])


class Synth(Scratch):
    def test_tensors_have_the_published_hashes(self):
        for name in ["v2lite-bf16", "v2lite-short", "v2-bf16", "v3-fp8", "v31-fp8-ue8m0"]:
            with self.subTest(name):
                shutil.rmtree(self.folder / "model", ignore_errors=True)
                out = self.synth(self.config(name), "--seed", 7, "--max-shard-size", "8MB")
                expected = json.loads((GOLDEN / f"{name}.json").read_text())["hf"]
                index = json.loads((out / INDEX).read_text())
                files = sorted(set(index["weight_map"].values()))
                self.assertGreater(len(files), 1)
                found = {}
                for file in files:
                    self.assertLess((out / file).stat().st_size, 8_200_000)
                    table = tensors_of(out / file)
                    self.assertTrue(all(index["weight_map"][tensor] == file for tensor in table))
                    found |= table
                self.assertEqual(found, expected)
                sizes = {"bfloat16": 2, "float32": 4, "float8_e4m3fn": 1}
                total = 0
                for dtype, shape, _ in found.values():
                    count = sizes[dtype]
                    for dim in shape:
                        count *= dim
                    total += count
                self.assertEqual(index["metadata"]["total_size"], total)
                self.assertFalse([p.name for p in out.iterdir() if "partial" in p.name])

    def test_sharded_files_have_the_converters_hashes(self):
        for name, ranks in [("v2lite-bf16", 2), ("v3-fp8", 1), ("v3-fp8", 4)]:
            with self.subTest(name, ranks=ranks):
                expected = json.loads((GOLDEN / f"{name}.json").read_text())["convert"][str(ranks)]
                shutil.rmtree(self.folder / "model", ignore_errors=True)
                out = self.synth(self.config(name), "--seed", 7, "--format", "sharded", "--model-parallel", ranks)
                for rank in range(ranks):
                    self.assertEqual(tensors_of(out / f"model{rank}-mp{ranks}.safetensors"), expected[rank])
                report = run("inspect", out, "--json")
                self.assertEqual(report.returncode, 0, report.stderr)
                self.assertEqual(json.loads(report.stdout)["shards"], ranks)

    def test_refusals(self):
        config = self.config("v3-fp8")
        self.synth(config)
        again = run("synth", "--config", config, "--out", self.folder / "model")
        self.assert_refused(again, "already holds a checkpoint")
        other = ["synth", "--out", self.folder / "other"]
        ranks = ["--format", "sharded", "--model-parallel"]
        self.assert_refused(run(*other, "--config", config, *ranks, 3), "divisible by world size (world_size=3)")
        self.assert_refused(run(*other, "--config", config, *ranks, 8), "inside a block of 128 (fp8_block128", "1, 2, 4")
        self.assert_refused(run(*other, "--config", self.folder / "none.json"), "does not exist")
        self.assert_refused(run(*other), "--config", code=2)
        self.assert_refused(run(*other, "--config", config, "--max-shard-size", "many"), "no size", code=2)
        self.assert_refused(run(*other, "--config", config, "--model-parallel", 2), "--format sharded", code=2)
        self.assertFalse((self.folder / "other").exists())

    def test_byte_tokenizer(self):
        out = self.synth(self.config("v2lite-short"), "--layers", 1)
        text = "Hé, \u4f60\n\U0001f600 \x00"
        ids = subprocess.run([FATHOM, "tokenize", "--model", str(out)], input=text, capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(ids.returncode, 0, ids.stderr)
        numbers = json.loads(ids.stdout)
        self.assertEqual(numbers[0], 0)  # BOS
        bytes_of = {}
        vocab = json.loads((out / "tokenizer.json").read_text())["model"]["vocab"]
        self.assertEqual(len(vocab), 256)
        for value, identity in enumerate(sorted(vocab.values())):
            bytes_of[identity] = value
        self.assertEqual(bytes(bytes_of[n] for n in numbers[1:]), text.encode())


class Inspect(Scratch):
    def test_parameters_of_the_four_configurations(self):
        figures = {"16B": (15.706, 2.451), "236B": (235.741, 20.851), "671B": (671.026, 36.625), "v3.1": (671.026, 36.625)}
        for name, (total, activated) in figures.items():
            result = run("inspect", "--config", SOURCE / "configs" / f"config_{name}.json", "--json", "--tp", 8)
            self.assertEqual(result.returncode, 0, result.stderr)
            report = json.loads(result.stdout)
            self.assertEqual(round(report["parameters"]["total"] / 1e9, 3), total)
            self.assertEqual(round(report["parameters"]["activated"] / 1e9, 3), activated)
        self.assertEqual(report["memory"]["cache_bytes_per_token"], 61 * 576 * 2)
        table = run("inspect", "--config", SOURCE / "configs/config_671B.json")
        self.assertIn("671.026 B total, 36.625 B activated", table.stdout)

    def test_memory_of_a_rank(self):
        config = SOURCE / "configs/config_671B.json"
        sizes = ["--max-batch-size", 2, "--max-seq-len", 1000]
        memory = json.loads(run("inspect", "--config", config, "--json", "--tp", 16, *sizes).stdout)["memory"]
        self.assertEqual(memory["cache_bytes_per_rank"], 2 * 1000 * 61 * 576 * 2)
        self.assertGreater(memory["weight_bytes_per_rank"], 671e9 / 16)
        refused = json.loads(run("inspect", "--config", config, "--json", "--tp", 32).stdout)["memory"]
        self.assertIn("inside a block of 128 (fp8_block128", refused["refused"])

    def test_embedded_model(self):
        result = run("inspect", SOURCE / "models/tiny", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report["mtp_layers"], 1)
        self.assertEqual(report["bytes"]["total"], 25876728)
        self.assertEqual([f["tensors"] for f in report["files"]], [375, 362])
        for key in ["missing", "mismatched", "stray_tensors", "stray_files"]:
            self.assertEqual(report[key], [], key)


class Broken(Scratch):
    """What happens to checkpoints in practice, and what a hostile file may hold."""

    def setUp(self):
        super().setUp()
        self.model = self.synth(self.config("v2lite-bf16"), "--layers", 2, "--max-shard-size", "6MB")
        self.files = sorted(self.model.glob("*.safetensors"))
        self.assertGreater(len(self.files), 1)

    def refused(self, *words):
        self.assert_refused(run("inspect", self.model), *words)

    def edit_config(self, **changes):
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        config.update(changes)
        path.write_text(json.dumps({k: v for k, v in config.items() if v != "absent"}))

    def merge_into_one_file(self, drop=()):
        header, data = {}, b""
        for file in self.files:
            entries, bytes_ = read_header(file)
            for name, entry in entries.items():
                if name == "__metadata__" or name in drop:
                    continue
                begin, end = entry["data_offsets"]
                header[name] = entry | {"data_offsets": [len(data), len(data) + end - begin]}
                data += bytes_[begin:end]
            file.unlink()
        (self.model / INDEX).unlink()
        write_safetensors(self.model / "model.safetensors", header, data)

    def test_missing_shard(self):
        self.files[1].unlink()
        self.refused("is incomplete", self.files[1].name)

    def test_truncated_shard(self):
        size = self.files[0].stat().st_size
        os.truncate(self.files[0], size - 100)
        self.refused(self.files[0].name, f"truncated: {size - 100} of {size} bytes")
        os.truncate(self.files[0], 5)
        self.refused("truncated: 5 bytes")
        os.truncate(self.files[0], 0)
        self.refused("is empty; download it again")

    def test_damaged_headers(self):
        good, data = read_header(self.files[0])
        names = [n for n in good if n != "__metadata__"]
        first, second = names[0], names[1]
        size = len(data)

        def with_entry(name, **changes):
            header = json.loads(json.dumps(good))
            header[name].update(changes)
            return json.dumps(header).encode()

        begin, end = good[second]["data_offsets"]
        text = json.dumps(good).encode()
        twice = text[:-1] + b"," + json.dumps({first: good[first]}).encode()[1:]
        cases = {
            "length field": b"\xff" * 8 + data,
            "length beyond the file": struct.pack("<Q", 50_000_000) + text,
            "not JSON": struct.pack("<Q", 16) + b"{" + b"x" * 15,
            "array": struct.pack("<Q", 2) + b"[]",
            "deep": struct.pack("<Q", 200_005) + b'{"a":' + b"[" * 100_000 + b"]" * 100_000,
            "duplicate": struct.pack("<Q", len(twice)) + twice + data,
            "out of range": with_entry(first, data_offsets=[size, size + 4096]),
            "overflow": with_entry(first, shape=[2**62, 2**62]),
            "negative": with_entry(first, shape=[-1, 4]),
            "fraction": with_entry(first, shape=[1.5]),
            "overlap": with_entry(second, data_offsets=[begin - 2, end - 2]),
            "swapped": with_entry(first, data_offsets=[8, 0]),
            "metadata": json.dumps(good | {"__metadata__": {"format": 1}}).encode(),
            "encoding": text.replace(first.encode(), b"\xff\xfe" + first.encode()[2:], 1),
            "extra bytes": text,
        }
        for kind, content in cases.items():
            with self.subTest(kind):
                if content[:1] == b"{":
                    content = struct.pack("<Q", len(content)) + content + data
                self.files[0].write_bytes(content + (b"1234" if kind == "extra bytes" else b""))
                self.refused(self.files[0].name)

    def test_damaged_index(self):
        index = json.loads((self.model / INDEX).read_text())
        for change in [{"weight_map": 3}, {"weight_map": {}}, {"weight_map": {"a": 1}},
                       {"weight_map": index["weight_map"] | {"model.norm.weight": "../../etc/x.safetensors"}},
                       {"weight_map": index["weight_map"] | {"model.layers.9.input_layernorm.weight": self.files[0].name}}]:
            (self.model / INDEX).write_text(json.dumps(change))
            self.refused(INDEX)
        (self.model / INDEX).write_text("{" * 100_000)
        self.refused("nested deeper")

    def test_stray_files_do_not_count(self):
        shutil.copy(self.files[0], self.model / "consolidated.safetensors")
        result = run("inspect", self.model, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["stray_files"], ["consolidated.safetensors"])
        (self.model / INDEX).unlink()
        self.refused("appears twice", "consolidated.safetensors")

    def test_foreign_models(self):
        self.edit_config(model_type="qwen2", architectures=["Qwen2ForCausalLM"])
        for file in self.files:
            file.unlink()
        self.refused("this is a qwen2 model; only deepseek_v2, deepseek_v3 and kimi_k2 are supported")

    def test_head(self):
        self.merge_into_one_file(drop=["lm_head.weight"])
        self.refused("lm_head.weight (tie_word_embeddings is false) is missing")
        self.edit_config(tie_word_embeddings=True)
        result = run("inspect", self.model)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_config_and_weights_disagree(self):
        self.edit_config(moe_intermediate_size=256)
        self.refused("[192, 256]", "[256, 256]")
        self.edit_config(moe_intermediate_size=192, quantization_config={
            "quant_method": "fp8", "weight_block_size": [128, 128]})
        # Each matrix is what it is stored as: bf16 beside FP8 is a normal model, and here there happens to be no FP8.
        result = run("inspect", self.model)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_impossible_configurations(self):
        for change in [{"hidden_size": 0}, {"hidden_size": -1}, {"hidden_size": "256"}, {"hidden_size": "absent"},
                       {"num_experts_per_tok": 17}, {"qk_rope_head_dim": 63}, {"moe_layer_freq": 2},
                       {"num_hidden_layers": 10**30}, {"quantization_config": {"quant_method": "gptq"}}]:
            with self.subTest(change):
                original = (self.model / "config.json").read_text()
                self.edit_config(**change)
                self.refused("config.json")
                (self.model / "config.json").write_text(original)
        (self.model / "config.json").write_text("[" * 1_000_000)
        self.refused("nested deeper")
        (self.model / "config.json").write_text('{"n_head": 4}')
        self.refused('"n_head"; the nearest known one is "n_heads"')
        (self.model / "config.json").unlink()
        self.refused("neither config.json nor args.json")

    def test_converted_directories(self):
        shutil.rmtree(self.model)
        self.synth(self.config("v2lite-bf16"), "--layers", 2, "--format", "sharded", "--model-parallel", 2)
        (self.model / "model1-mp2.safetensors").unlink()
        self.refused("model1-mp2.safetensors is missing")

    def test_no_checkpoint(self):
        empty = self.folder / "empty"
        empty.mkdir()
        shutil.copy(self.model / "config.json", empty)
        self.assert_refused(run("inspect", empty), "is no checkpoint", INDEX)
        (empty / "model.gguf").write_text("GGUF")
        self.assert_refused(run("inspect", empty), "model.gguf is not in a supported format")
        self.assert_refused(run("inspect", self.folder / "none"), "does not exist")
        self.assert_refused(run("inspect", self.model / "config.json"), "is a file")
        self.assert_refused(run("inspect"), "--config", code=2)
        self.assert_refused(run("inspect", "--no-such-flag"), code=2)


if __name__ == "__main__":
    unittest.main()
