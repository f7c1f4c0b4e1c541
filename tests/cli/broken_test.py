"""Broken checkpoints, made from a small good one: every command that reads them ends with one error line and exit
code 1 where the fault concerns it, and none crashes or takes a broken one for whole."""
import hashlib
import json
import os
import shutil
import struct
import unittest

from convert_test import Base, INDEX
from fathom_cli import edit_json, run

MODEL = "model.safetensors"
GATE = "model.layers.1.mlp.gate.weight"
WEIGHT = "model.layers.0.self_attn.o_proj.weight"
SCALE = WEIGHT + "_scale_inv"
NORM = "model.norm.weight"


def split(data):
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), data[8 + size:]


def join(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Kinds:
    """name -> function(folder) that breaks a good copy."""

    def __init__(self):
        self.kinds = {}
        self.raw_files()
        self.headers()
        self.tensors()
        self.indexes()
        self.configs()

    def file(self, name, change):
        def apply(folder):
            path = folder / MODEL
            path.write_bytes(change(path.read_bytes()))
        self.kinds[name] = apply

    def header(self, name, change):
        """`change(header)` returns the new header, or None when it edits it."""
        def edit(data):
            header, rest = split(data)
            header = change(header) or header
            return join(header, rest)
        self.file(name, edit)

    def raw_files(self):
        file = self.file
        file("empty file", lambda d: b"")
        file("seven bytes", lambda d: d[:7])
        file("length only", lambda d: d[:8])
        file("half a header", lambda d: d[:2000])
        file("half the data", lambda d: d[:len(d) // 2])
        file("last byte missing", lambda d: d[:-1])
        file("one byte more", lambda d: d + b"x")
        file("length zero", lambda d: struct.pack("<Q", 0) + d[8:])
        file("length of all ones", lambda d: b"\xff" * 8 + d[8:])
        file("length beyond the file", lambda d: struct.pack("<Q", len(d)) + d[8:])
        file("length one short", lambda d: struct.pack("<Q", struct.unpack("<Q", d[:8])[0] - 1) + d[8:])
        file("length one long", lambda d: struct.pack("<Q", struct.unpack("<Q", d[:8])[0] + 1) + d[8:])
        file("zeros", lambda d: bytes(len(d)))
        file("a pickle", lambda d: b"\x80\x04\x95" + d)
        file("a web page", lambda d: b"<!DOCTYPE html><html>404</html>")
        file("a git-lfs pointer", lambda d: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
        file("a gguf file", lambda d: b"GGUF\x03\0\0\0" + d)
        file("gzip", lambda d: b"\x1f\x8b\x08\0" + d[:500])
        self.kinds["a folder for a file"] = lambda f: ((f / MODEL).unlink(), (f / MODEL).mkdir())
        self.kinds["no file"] = lambda f: (f / MODEL).unlink()
        self.kinds["a dead link"] = lambda f: ((f / MODEL).unlink(), (f / MODEL).symlink_to("nowhere"))
        self.kinds["a copy beside it"] = lambda f: shutil.copy(f / MODEL, f / "copy.safetensors")
        self.kinds["an unfinished conversion"] = lambda f: (f / "manifest.json.partial").write_text("{}")

    def headers(self):
        file, header = self.file, self.header
        file("header not JSON", lambda d: join(b"{" + b"x" * 31, d[100:]))
        file("header an array", lambda d: join(b"[]", b""))
        file("header a number", lambda d: join(b"12", b""))
        file("header without tensors", lambda d: join(b"{}", b""))
        file("deep header", lambda d: join(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b""))
        file("header cut in a string", lambda d: join(d[8:300], d[300:]))
        file("name not UTF-8", lambda d: d.replace(NORM.encode(), b"\xff\xfe" + NORM.encode()[2:], 1))
        header("metadata not text", lambda h: h.update(__metadata__={"format": 1}))
        header("metadata a list", lambda h: h.update(__metadata__=[]))

        def twice(data):
            head, rest = split(data)
            text = json.dumps(head).encode()
            return join(text[:-1] + b"," + json.dumps({NORM: head[NORM]}).encode()[1:], rest)
        file("a tensor twice in the header", twice)

    def entry(self, name, **change):
        self.header(name, lambda h: h[NORM].update(change))

    def tensors(self):
        entry, header = self.entry, self.header
        entry("unknown dtype", dtype="F8_E9M9")
        entry("dtype a number", dtype=7)
        entry("wider dtype than bytes", dtype="F32")
        entry("shape of another product", shape=[511])
        entry("shape negative", shape=[-512])
        entry("shape a fraction", shape=[512.5])
        entry("shape a text", shape="512")
        entry("shape overflows", shape=[2**62, 2**62])
        entry("shape of nine dimensions", shape=[1] * 8 + [512])
        entry("shape beyond 64 bits", shape=[2**70])
        entry("offsets swapped", data_offsets=[1024, 0])
        entry("offsets far outside", data_offsets=[2**40, 2**40 + 1024])
        entry("offsets negative", data_offsets=[-1024, 0])
        entry("offsets of one number", data_offsets=[0])
        entry("offsets of texts", data_offsets=["0", "1024"])
        entry("offsets onto another tensor", data_offsets=[0, 1024])
        header("entry a number", lambda h: h.update({NORM: 5}))
        header("entry without dtype", lambda h: h[NORM].pop("dtype") and None)
        header("entry without shape", lambda h: h[NORM].pop("shape") and None)
        header("entry without offsets", lambda h: h[NORM].pop("data_offsets") and None)
        header("hole where a tensor was", lambda h: h.pop(NORM) and None)
        header("renamed tensor", lambda h: h.update({"model.norm.wait": h.pop(NORM)}))
        header("renamed gate", lambda h: h.update({GATE + "s": h.pop(GATE)}))
        header("expert of another number", lambda h: h.update(
            {"model.layers.1.mlp.experts.99.up_proj.weight": h.pop("model.layers.1.mlp.experts.3.up_proj.weight")}))
        header("scale without its name", lambda h: h.update({"model.scale": h.pop(SCALE)}))
        header("matrix turned", lambda h: h[GATE].update(shape=h[GATE]["shape"][::-1]) and None)
        header("matrix flattened", lambda h: h[GATE].update(shape=[h[GATE]["shape"][0] * h[GATE]["shape"][1]]))
        header("scale grid turned", lambda h: h[SCALE].update(shape=h[SCALE]["shape"][::-1] + [1]))
        header("codes called bytes", lambda h: h[WEIGHT].update(dtype="U8"))
        header("scale called integers", lambda h: h[SCALE].update(dtype="I32"))

    def index(self, name, content):
        def apply(folder):
            names = [n for n in split((folder / MODEL).read_bytes())[0] if n != "__metadata__"]
            value = content({n: MODEL for n in names})
            (folder / INDEX).write_text(value if isinstance(value, str) else json.dumps(value))
        self.kinds["index: " + name] = apply

    def indexes(self):
        index = self.index
        index("empty", lambda m: "")
        index("not JSON", lambda m: "{weight_map}")
        index("a list", lambda m: [])
        index("no weight_map", lambda m: {"metadata": {}})
        index("weight_map a list", lambda m: {"weight_map": []})
        index("weight_map empty", lambda m: {"weight_map": {}})
        index("file a number", lambda m: {"weight_map": m | {NORM: 1}})
        index("file outside", lambda m: {"weight_map": m | {NORM: "../../x.safetensors"}})
        index("absolute file", lambda m: {"weight_map": m | {NORM: "/etc/passwd"}})
        index("missing shard", lambda m: {"weight_map": m | {NORM: "model-00002-of-00002.safetensors"}})
        index("tensor not in the file", lambda m: {"weight_map": m | {"model.layers.9.input_layernorm.weight": MODEL}})
        index("tensor left out", lambda m: {"weight_map": {n: f for n, f in m.items() if n != NORM}})
        index("deep", lambda m: "[" * 100_000)
        index("a key twice", lambda m: '{"weight_map": {"a": "b.safetensors", "a": "b.safetensors"}}')

    def config(self, name, **changes):
        self.kinds["config: " + name] = lambda f: edit_json(f / "config.json", **changes)

    def configs(self):
        config = self.config
        self.kinds["config: missing"] = lambda f: (f / "config.json").unlink()
        self.kinds["config: empty"] = lambda f: (f / "config.json").write_text("")
        self.kinds["config: deep"] = lambda f: (f / "config.json").write_text("[" * 100_000)
        config("another family", model_type="qwen2", architectures=["Qwen2ForCausalLM"])
        config("wider", hidden_size=1024)
        config("hidden size zero", hidden_size=0)
        config("hidden size a text", hidden_size="512")
        config("more layers", num_hidden_layers=7)
        config("more experts", n_routed_experts=32)
        config("more experts a token than there are", num_experts_per_tok=17)
        config("another quantisation", quantization_config={"quant_method": "gptq"})
        config("another block", quantization_config={"quant_method": "fp8", "weight_block_size": [64, 64]})
        config("absurd number", num_hidden_layers=10**30)
        config("vocabulary grown", vocab_size=2048)


# Where the fault does not concern the command: the cast takes matrices as they are stored, whatever the model is.
CAST_ACCEPTS = {"renamed tensor", "renamed gate", "expert of another number", "matrix turned", "matrix flattened",
                "index: tensor left out", "config: wider", "config: more layers", "config: more experts",
                "config: vocabulary grown", "codes called bytes", "config: missing", "config: another family",
                "config: hidden size zero", "config: hidden size a text", "config: absurd number",
                "config: more experts a token than there are"}


class Broken(Base):
    def setUp(self):
        super().setUp()
        self.model = self.synth("v3-fp8", "--layers", 2, "--max-shard-size", "1GB",
                                change={"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2})
        (self.model / INDEX).unlink()
        next(self.model.glob("*.safetensors")).rename(self.model / MODEL)

    def check(self, kind, args, may_succeed=False):
        result = run(*args)
        errors = result.stderr.decode(errors="replace").splitlines()
        context = f"{kind}: {args[0]}: {result.returncode} {errors}"
        if may_succeed and result.returncode == 0:
            return
        self.assertEqual(result.returncode, 1, context)
        self.assertEqual(sum(line.startswith("fathom: error: ") for line in errors), 1, context)
        self.assertTrue(errors[-1].startswith("fathom: error: "), context)
        self.assertLess(len(errors[-1]), 1500, context)

    def commands(self, folder):
        out = self.folder / "out"
        yield ["convert", "--hf-ckpt-path", folder, "--save-path", out, "--model-parallel", 2]
        yield ["fp8-cast-bf16", "--input-fp8-hf-path", folder, "--output-bf16-hf-path", out]
        yield ["verify", folder]
        yield ["logits", "--model", folder, "--ids", "1,2", "--out", self.folder / "logits.safetensors"]
        yield ["generate", "--ckpt-path", folder, "--input-file", self.file("prompts", "a"), "--max-new-tokens", 1]

    def test_the_good_one_is_taken(self):
        for args in self.commands(self.model):
            self.ok(*args)
            shutil.rmtree(self.folder / "out", ignore_errors=True)

    def test_every_kind(self):
        kinds = Kinds().kinds
        self.assertGreaterEqual(len(kinds), 60)
        for kind, change in kinds.items():
            folder = self.folder / "broken"
            folder.mkdir()
            for path in self.model.iterdir():
                shutil.copy(path, folder)
            change(folder)
            for args in self.commands(folder):
                with self.subTest(kind, command=args[0]):
                    self.check(kind, args, args[0] == "fp8-cast-bf16" and kind in CAST_ACCEPTS)
                    left = list((self.folder / "out").glob("*")) if (self.folder / "out").exists() else []
                    self.assertFalse([p.name for p in left if ".partial-" in p.name])
                shutil.rmtree(self.folder / "out", ignore_errors=True)
            shutil.rmtree(folder)

    def test_data_faults_are_named_by_verify(self):
        header, data = split((self.model / MODEL).read_bytes())
        for kind, bits in [("nan", 0x7FC00000), ("inf", 0x7F800000), ("0", 0), ("-1", 0xBF800000)]:
            begin = header[SCALE]["data_offsets"][0]
            changed = data[:begin] + struct.pack("<I", bits) + data[begin + 4:]
            (self.model / MODEL).write_bytes(join(header, changed))
            self.refused(1, ["1 fault", SCALE, f"holds {kind}"], "verify", self.model)

    def test_verify_against_hashes(self):
        out = self.folder / "out"
        self.ok("convert", "--hf-ckpt-path", self.model, "--save-path", out, "--model-parallel", 2)
        self.assertIn("without fault", self.ok("verify", out))
        self.ok("verify", out, "--against", out / "manifest.json")
        path = out / "model1-mp2.safetensors"
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        report = self.refused(1, ["1 fault", "model1-mp2.safetensors has another SHA-256", "tensor layers."],
                              "verify", out)
        self.assertIn("layers.1.", report)
        path.write_bytes(whole[:-5])
        self.refused(1, ["2 faults", "truncated"], "verify", out)
        path.unlink()
        self.refused(1, "model1-mp2.safetensors", "verify", out)

    def test_verify_against_a_list_and_a_directory(self):
        twin = self.folder / "twin"
        shutil.copytree(self.model, twin)
        names = [p.name for p in self.model.iterdir()]
        sums = "".join(f"{hashlib.sha256((self.model / n).read_bytes()).hexdigest()}  {n}\n" for n in names)
        sums_file = self.file("SHA256SUMS", sums)
        self.ok("verify", self.model, "--against", sums_file)
        self.ok("verify", self.model, "--against", twin)
        data = (twin / MODEL).read_bytes()
        (twin / MODEL).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        self.refused(1, ["1 fault", "differs from that in"], "verify", self.model, "--against", twin)
        self.refused(1, [MODEL, "another SHA-256"], "verify", twin, "--against", sums_file)
        self.refused(1, "line 1", "verify", twin, "--against", self.file("bad", "no hash\n"))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
