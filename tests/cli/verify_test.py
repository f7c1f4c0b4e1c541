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

    def test_codes_that_are_no_numbers_are_found_while_loading(self):
        last = len(self.tensors[CODES][2]) - 1
        for place, code in [(0, 0x7F), (70_001, 0xFF), (last, 0x7F)]:
            self.write(CODES, place, bytes([code]))
            for args in self.running():
                for more in [[], ["--mmap"]]:
                    self.refused(1, [f"tensor {CODES} holds NaN (FP8 code 0x{code:02x})"], *args, *more, stdin="a\n")


if __name__ == "__main__":
    unittest.main()
