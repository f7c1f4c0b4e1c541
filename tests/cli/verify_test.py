"""What verify compares with, and what it and loading find among the numbers of a checkpoint."""
import hashlib
import json
import struct
import unittest

from convert_test import Base, INDEX, read_file, write_file
from fathom_cli import run

MODEL = "model.safetensors"
CODES = "model.layers.0.self_attn.o_proj.weight"
NORM = "model.norm.weight"
EMBEDDING = "model.embed_tokens.weight"


class Verify(Base):
    def setUp(self):
        super().setUp()
        self.model = self.synth("v3-fp8", "--layers", 2, "--max-shard-size", "1GB",
                                change={"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2})
        (self.model / INDEX).unlink()
        next(self.model.glob("*.safetensors")).rename(self.model / MODEL)
        self.tensors = read_file(self.model / MODEL)

    def write(self, name, place, content):
        """The model's file with these bytes at `place` of a tensor."""
        dtype, shape, data = self.tensors[name]
        changed = data[:place] + content + data[place + len(content):]
        write_file(self.model / MODEL, {**self.tensors, name: [dtype, shape, changed]})

    def running(self):
        yield ["chat", self.model, "--max-new-tokens", 1]
        yield ["generate", "--ckpt-path", self.model, "--input-file", self.file("prompts", "a"), "--max-new-tokens", 1]
        yield ["logits", "--model", self.model, "--ids", "1,2", "--out", self.folder / "logits.safetensors"]

    def test_an_unknown_type_makes_its_tensor_unusable_not_the_file(self):
        logits = list(self.running())[-1]
        self.ok(*logits)
        expected = (self.folder / "logits.safetensors").read_bytes()
        for dtype in ["F4", "F8_E5M2", "U64", "C64", "I64", "BOOL", "F16"]:
            with self.subTest(dtype):
                size = {"I64": 8, "BOOL": 1, "F16": 2}.get(dtype, 7)
                write_file(self.model / MODEL, {**self.tensors, "extra": [dtype, [3], bytes(3 * size)]})
                for args in self.running():
                    self.refused(1, "has 1 tensor that the model of its configuration does not have: extra", *args)
                self.ok(*logits, "--ignore-unused")
                self.assertEqual((self.folder / "logits.safetensors").read_bytes(), expected)
                for command in ["verify", "inspect"]:
                    self.assertIn("extra", run(command, self.model).stdout.decode())
                self.ok(*self.convert(self.model, "--ignore-unused", "--force"))
                if size == 7:
                    self.refused(1, f"tensor extra is of type {dtype}, which is not supported", *self.cast(self.model))
                else:
                    self.ok(*self.cast(self.model, "--force"))
        shape, data = self.tensors[NORM][1:]
        write_file(self.model / MODEL, {**self.tensors, NORM: ["F8_E5M2", shape, data]})
        for args in [*self.running(), self.convert(self.model, out="b"), ["verify", self.model]]:
            self.refused(1, f"tensor {NORM} is F8_E5M2 [512], the configuration says ", *args)
        self.assertIn(f"{NORM} is F8_E5M2", run("inspect", self.model).stdout.decode())

    def test_numbers_are_looked_at_when_asked(self):
        self.assertIn("numbers not looked at (--numbers)", self.ok("verify", self.model))
        self.assertRegex(self.ok("verify", self.model, "--numbers"), r"; numbers in [0-9.]+ MB looked at")
        self.assertGreater(json.loads(self.ok("verify", self.model, "--numbers", "--json"))["numbers_bytes"], 1_000_000)
        cases = [(EMBEDDING, 2, "<H", 0x7F81, "nan"), (EMBEDDING, 2, "<H", 0xFF80, "-inf"),
                 (EMBEDDING, 2, "<H", 0x7F80, "inf"), (NORM, 2, "<H", 0xFFC0, "nan"),
                 (CODES, 1, "B", 0x7F, "nan"), (CODES, 1, "B", 0xFF, "nan")]
        for name, size, form, bits, text in cases:
            last = len(self.tensors[name][2]) // size - 1
            for entry in [0, last // 2, last]:
                with self.subTest(name, bits=bits, entry=entry):
                    self.write(name, entry * size, struct.pack(form, bits))
                    self.ok("verify", self.model)
                    self.refused(1, ["1 fault", f"{MODEL}: tensor {name} holds {text} at entry {entry}"],
                                 "verify", self.model, "--numbers", "--threads", 2)
        far = struct.pack("<f", 1) * 599_999 + struct.pack("<I", 0x7F800000)  # more than what is read at once
        write_file(self.model / MODEL, {**self.tensors, "x": ["F32", [2, 300_000], far]})
        self.assertIn("tensor x holds inf at entry 599999\n", run("verify", self.model, "--numbers").stdout.decode())
        for dtype, bits, text in [("F32", 0xFF800000, "-inf"), ("F32", 0x7FC00000, "nan")]:
            shape, data = [4, 4], bytearray(struct.pack("<16f", *range(16)))
            data[20:24] = struct.pack("<I", bits)
            write_file(self.model / MODEL, {**self.tensors, "x": [dtype, shape, bytes(data)]})
            self.assertIn(f"tensor x holds {text} at entry 5\n", run("verify", self.model, "--numbers").stdout.decode())
        write_file(self.model / MODEL, {**self.tensors, "x": ["F16", [2], struct.pack("<HH", 0x7BFF, 0x7C00)]})
        self.assertIn("tensor x holds inf at entry 1\n", run("verify", self.model, "--numbers").stdout.decode())

    def test_a_matrix_of_zeros_is_a_fault_a_vector_is_none(self):
        for name, zero in [(CODES, 0), (CODES, 0x80), (EMBEDDING, 0)]:
            size = len(self.tensors[name][2])
            self.write(name, 0, bytes([zero]) * size)
            self.ok("verify", self.model)
            self.refused(1, ["1 fault", f"tensor {name} is a matrix of zeros"], "verify", self.model, "--numbers")
            self.write(name, 0, bytes(size - 1) + b"\1")
            self.ok("verify", self.model, "--numbers")
        self.write(NORM, 0, bytes(len(self.tensors[NORM][2])))
        self.ok("verify", self.model, "--numbers")
        matrix = 600 * 1000 * 2  # a stack of matrices that are read in pieces of other sizes
        for at in range(3):
            stack = b"".join(bytes(matrix) if i == at else b"\1" + bytes(matrix - 1) for i in range(3))
            write_file(self.model / MODEL, {**self.tensors, "stack": ["BF16", [3, 600, 1000], stack]})
            self.assertIn(f"tensor stack holds a matrix of zeros, {at + 1} of 3\n",
                          run("verify", self.model, "--numbers").stdout.decode())

    def hub_cache(self):
        """The model's files under the names that the hub's cache gives them; the folder with the links."""
        snapshot, blobs = (self.folder / "models--o--m" / name for name in ["snapshots/abc", "blobs"])
        snapshot.mkdir(parents=True)
        blobs.mkdir()
        for path in self.model.iterdir():
            data = path.read_bytes()
            weights = path.suffix == ".safetensors"
            name = (hashlib.sha256(data) if weights else hashlib.sha1(b"blob %d\0" % len(data) + data)).hexdigest()
            (blobs / name).write_bytes(data)
            (snapshot / path.name).symlink_to(f"../../blobs/{name}")
        return snapshot

    def test_a_hub_cache_names_files_by_their_hashes(self):
        snapshot = self.hub_cache()
        self.assertIn("compared with the hashes by which the hub's cache names its files", self.ok("verify", snapshot))
        report = json.loads(self.ok("verify", snapshot, "--json"))
        self.assertEqual(report["compared_bytes"], sum(path.stat().st_size for path in self.model.iterdir()))
        for name, kind in [(MODEL, "SHA-256"), ("tokenizer_config.json", "git SHA-1")]:
            blob = (snapshot / name).resolve()
            data = blob.read_bytes()
            blob.write_bytes(data[:-1] + bytes([data[-1] ^ 0x2A]) if name == MODEL else data + b" ")
            self.refused(1, ["1 fault", f"{name} has another {kind} than {blob.name[:12]}..."], "verify", snapshot)
            blob.write_bytes(data)
        self.ok("verify", snapshot)

    def test_codes_of_every_matrix_are_looked_at_while_loading(self):
        self.ok(*list(self.running())[-1])
        for name in [n for n, t in self.tensors.items() if t[0] == "F8_E4M3" and ".layers.0." in n]:
            self.write(name, 5, b"\xff")
            for more in [[], ["--attn", "naive"], ["--compute", "f32"]]:
                with self.subTest(name, more=more):
                    self.refused(1, f"tensor {name} holds NaN (FP8 code 0xff)", *list(self.running())[-1], *more)

    def test_codes_that_are_no_numbers_are_found_while_loading(self):
        last = len(self.tensors[CODES][2]) - 1
        for place, code in [(0, 0x7F), (70_001, 0xFF), (last, 0x7F)]:
            self.write(CODES, place, bytes([code]))
            for args in self.running():
                for more in [[], ["--mmap"]]:
                    self.refused(1, [f"tensor {CODES} holds NaN (FP8 code 0x{code:02x})"], *args, *more, stdin="a\n")


if __name__ == "__main__":
    unittest.main()
