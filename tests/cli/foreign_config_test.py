"""Commands that rewrite models without a configuration of their own, and the cast of what is no model of the family."""
import json
import struct
import unittest

from fathom_cli import TINY, CliTest


def read_header(path):
    """Name -> entry of a safetensors file."""
    data = path.read_bytes()
    header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
    header.pop("__metadata__", None)
    return header


def write_safetensors(path, tensors):
    """Writes {name: (type, shape, bytes)}."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4302350824\n"
PAGE = "<!DOCTYPE html>\n<html><title>Sign in</title></html>\n"


class WithoutConfig(CliTest):
    def test_a_configuration_may_be_named(self):
        model, config = self.copy_of_tiny(), TINY / "config.json"
        (model / "config.json").unlink()
        (model / "args.json").unlink(missing_ok=True)
        convert = ["convert", "--hf-ckpt-path", model, "--save-path", self.folder / "converted"]
        self.refused(1, "name a configuration with --config", *convert)
        self.ok(*convert, "--config", config)
        self.ok("verify", self.folder / "converted")
        self.ok("verify", model, "--config", config)
        cast = self.folder / "cast"
        self.ok("fp8-cast-bf16", "--input-fp8-hf-path", model, "--output-bf16-hf-path", cast)
        self.assertFalse((cast / "config.json").exists())  # there was none, as with the reference's script
        self.ok("fp8-cast-bf16", "--input-fp8-hf-path", model, "--output-bf16-hf-path", self.folder / "cast2", "--config",
                config)
        self.assertNotIn("quantization_config", json.loads((self.folder / "cast2/config.json").read_text()))
        plain = json.loads(config.read_text())
        del plain["quantization_config"]
        named = self.file("plain.json", json.dumps(plain))
        self.ok("quantize", "--in", cast, "--out", self.folder / "fp8", "--config", named)
        self.ok("verify", self.folder / "fp8")
        self.ok("logits", "--model", self.folder / "fp8", "--ids", "1", "--out", self.folder / "logits")

    def test_the_cast_looks_at_no_architecture(self):
        model = self.folder / "model"
        model.mkdir()
        codes = bytes([0x38] * (130 * 128))  # 1.0
        scales = struct.pack("<2f", 2.0, 0.5)
        tensors = {"model.layers.0.self_attn.indexer.wq_b.weight": ("F8_E4M3", [130, 128], codes),
                   "model.layers.0.self_attn.indexer.wq_b.weight_scale_inv": ("F32", [2, 1], scales),
                   "some.norm": ("BF16", [2], struct.pack("<2H", 0x3f80, 0x4000))}
        write_safetensors(model / "model.safetensors", tensors)
        (model / "config.json").write_text(json.dumps({"model_type": "deepseek_v32", "quantization_config": {
            "quant_method": "fp8", "weight_block_size": [128, 128]}}))
        self.ok("fp8-cast-bf16", "--input-fp8-hf-path", model, "--output-bf16-hf-path", self.folder / "out")
        header = read_header(self.folder / "out/model.safetensors")
        self.assertEqual(sorted(header), ["model.layers.0.self_attn.indexer.wq_b.weight", "some.norm"])
        data = (self.folder / "out/model.safetensors").read_bytes()
        begin, _ = header["model.layers.0.self_attn.indexer.wq_b.weight"]["data_offsets"]
        start = 8 + struct.unpack("<Q", data[:8])[0] + begin
        values = struct.unpack(f"<{130 * 128}H", data[start:start + 2 * 130 * 128])
        self.assertEqual(set(values[:128 * 128]), {0x4000})  # 2.0
        self.assertEqual(set(values[128 * 128:]), {0x3f00})  # 0.5
        self.assertNotIn("quantization_config", json.loads((self.folder / "out/config.json").read_text()))


if __name__ == "__main__":
    unittest.main()
