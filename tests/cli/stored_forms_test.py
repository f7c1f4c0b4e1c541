"""Forms in which the same weights are stored: fused experts, float32, and FP8 with some modules left in bf16. Each tensor
is what its file says, and the logits are those of the plain form."""
import array
import json
import re
import unittest

from convert_test import INDEX, read_file, write_file
from fathom_cli import edit_json, run
from unused_tensors_test import EXPERT, HIDDEN, MODEL, SmallModel

EXPERTS = 16


def fuse(tensors):
    """The experts of each layer as transformers 5 saves them."""
    fused = {}
    for name, (dtype, shape, data) in tensors.items():
        match = re.fullmatch(r"(.*\.mlp\.experts)\.0\.gate_proj\.weight(_scale_inv)?", name)
        if not match:
            if ".mlp.experts." not in name:
                fused[name] = [dtype, shape, data]
            continue
        prefix, kind = match.group(1), match.group(2) or ""
        part = lambda j, matrix: tensors[f"{prefix}.{j}.{matrix}.weight{kind}"]
        down = part(0, "down_proj")
        fused[f"{prefix}.gate_up_proj{kind}"] = [dtype, [EXPERTS, 2 * shape[0], shape[1]], b"".join(
            part(j, "gate_proj")[2] + part(j, "up_proj")[2] for j in range(EXPERTS))]
        fused[f"{prefix}.down_proj{kind}"] = [down[0], [EXPERTS, *down[1]], b"".join(
            part(j, "down_proj")[2] for j in range(EXPERTS))]
    return fused


def widen(tensor):
    """A bf16 tensor in float32."""
    dtype, shape, data = tensor
    if dtype != "BF16":
        return tensor
    wide = array.array("I", (bits << 16 for bits in array.array("H", data)))
    return ["F32", shape, wide.tobytes()]


def files_of(folder):
    return {name: tensor for path in folder.glob("*.safetensors") for name, tensor in read_file(path).items()}


class StoredForms(SmallModel):
    def sound_everywhere(self, model, expected, quantized=True):
        self.assertEqual(self.logits(model), expected)
        for name, command in {**self.loading(model), **self.looking(model)}.items():
            if name != "quantize" or quantized:
                with self.subTest(name):
                    self.ok(*command, stdin="a\n")
        self.assertEqual(self.logits(self.folder / "converted"), expected)

    def test_fused_experts_are_the_experts(self):
        model = self.bf16_model()
        plain = read_file(model / MODEL)
        expected = self.logits(model)
        answer = self.ok(*self.running(model)["chat"], "--temperature", 0, stdin="a\n")
        for command in (self.loading(model)["convert"], self.loading(model)["quantize"]):
            self.ok(*command)
        converted, quantized = files_of(self.folder / "converted"), files_of(self.folder / "quantized")
        write_file(model / MODEL, fuse(plain))
        self.assertEqual(sum("gate_up_proj" in name for name in read_file(model / MODEL)), 2)
        self.sound_everywhere(model, expected)
        self.assertEqual(self.ok(*self.running(model)["chat"], "--temperature", 0, stdin="a\n"), answer)
        self.assertEqual(files_of(self.folder / "converted"), converted)
        self.assertEqual(files_of(self.folder / "quantized"), quantized)
        self.ok("verify", model, "--against", model)
        self.ok(*self.convert(model, ranks=4, out="ranks"))
        self.ok("verify", self.folder / "ranks")
        write_file(model / MODEL, {name: widen(tensor) for name, tensor in fuse(plain).items()})
        self.sound_everywhere(model, expected)
        edit_json(model / "config.json", rope_interleave=False)  # rows of the rotated parts in another order
        halves = self.logits(model)
        write_file(model / MODEL, plain)
        self.assertEqual(self.logits(model), halves)

    def test_fused_experts_in_an_indexed_directory(self):
        model = self.bf16_model()
        expected = self.logits(model)
        fused = fuse(read_file(model / MODEL))
        write_file(model / MODEL, fused)
        (model / INDEX).write_text(json.dumps({"weight_map": {name: MODEL for name in fused}}))
        self.sound_everywhere(model, expected)

    def test_fused_experts_in_fp8(self):
        model = self.small("model")
        expected = self.logits(model)
        write_file(model / MODEL, fuse(read_file(model / MODEL)))
        self.sound_everywhere(model, expected, quantized=False)

    def test_the_cast_of_fused_experts_in_fp8_is_that_of_each(self):
        model = self.small("model")
        self.ok(*self.cast(model, out="plain"))
        write_file(model / MODEL, fuse(read_file(model / MODEL)))
        self.ok(*self.cast(model))
        self.assertEqual(files_of(self.folder / "out"), fuse(files_of(self.folder / "plain")))

    def test_the_cast_copies_fused_experts_as_they_are(self):
        model = self.small("model")
        self.ok(*self.cast(model, out="plain"))
        fused = {n: t for n, t in fuse(files_of(self.folder / "plain")).items() if ".mlp.experts." in n}
        write_file(model / MODEL, {**{n: t for n, t in read_file(model / MODEL).items() if ".mlp.experts." not in n},
                                   **fused})
        self.ok(*self.cast(model))
        self.assertEqual(files_of(self.folder / "out"), fuse(files_of(self.folder / "plain")))

    def test_fused_experts_that_do_not_fit_are_named(self):
        model = self.bf16_model()
        plain = fuse(read_file(model / MODEL))
        name = "model.layers.1.mlp.experts.gate_up_proj"
        data = plain[name][2]
        cases = {
            "two dimensions": (["BF16", [EXPERTS * 2 * EXPERT, HIDDEN], data], [f"fused experts {name} have shape"]),
            "odd rows": (["BF16", [EXPERTS * 2 * EXPERT, 1, HIDDEN], data], [f"fused experts {name} have shape"]),
            "columns first": (["BF16", [EXPERTS, 2 * HIDDEN, EXPERT], data],
                              ["model.layers.1.mlp.experts.0.gate_proj.weight", f"(in {name})",
                               f"bf16 [{HIDDEN}, {EXPERT}], the configuration says bf16 [{EXPERT}, {HIDDEN}]"]),
            "an expert less": (["BF16", [EXPERTS - 1, 2 * EXPERT, HIDDEN], data[:len(data) // EXPERTS * (EXPERTS - 1)]],
                               ["model.layers.1.mlp.experts.15.gate_proj.weight is missing"]),
            "an expert more": (["BF16", [EXPERTS + 1, 2 * EXPERT, HIDDEN], data + data[:len(data) // EXPERTS]],
                               ["has 2 tensors that", f"model.layers.1.mlp.experts.16.gate_proj.weight (in {name})"]),
            "shared blocks": (["F8_E4M3", [EXPERTS, 2 * EXPERT + 2, 1], bytes(EXPERTS * (2 * EXPERT + 2))],
                              [f"fused experts {name} in FP8 have {EXPERT + 1} rows of gate and of up"]),
        }
        for kind, (tensor, needles) in cases.items():
            write_file(model / MODEL, {**plain, name: tensor})
            with self.subTest(kind):
                self.refused_everywhere(model, needles)
                verdict = run("verify", model)
                self.assertEqual(verdict.returncode, 1)
                self.assertIn(needles[0].removeprefix("has 2 tensors that"), verdict.stdout.decode())

    def test_types_are_the_tensors_whatever_the_configuration_says(self):
        model = self.bf16_model()
        plain = read_file(model / MODEL)
        expected = self.logits(model)
        forms = {"all": lambda i: True, "every fifth": lambda i: i % 5 == 0}
        for kind, wide in forms.items():
            write_file(model / MODEL, {n: widen(t) if wide(i) else t for i, (n, t) in enumerate(plain.items())})
            for dtype in ["float32", "bfloat16", None]:
                edit_json(model / "config.json", torch_dtype=dtype)
                with self.subTest(kind, torch_dtype=dtype):
                    self.sound_everywhere(model, expected)
                edit_json(model / "config.json", torch_dtype="bfloat16")

    def test_modules_left_in_bf16_beside_fp8(self):
        model = self.small("model")
        fp8 = read_file(model / MODEL)
        self.ok(*self.cast(model))
        cast = files_of(self.folder / "out")
        left = re.compile(r".*(o_proj|shared_experts\.down_proj|layers\.2\.mlp\.experts\.\d+\.up_proj)\.weight")
        in_bf16 = [name for name in cast if left.fullmatch(name)]
        mixed = {n: cast[n] if n in in_bf16 else t for n, t in fp8.items()
                 if n.removesuffix("_scale_inv") not in in_bf16 or n in in_bf16}
        self.assertGreater(len(fp8), len(mixed))
        write_file(model / MODEL, mixed)
        expected = self.logits(model)
        for key in ["modules_to_not_convert", "ignored_layers"]:
            config = json.loads((model / "config.json").read_text())["quantization_config"]
            edit_json(model / "config.json", quantization_config={**config, key: [n[:-7] for n in in_bf16]})
            self.sound_everywhere(model, expected, quantized=False)
        self.ok(*self.cast(model, out="cast"))
        self.assertEqual(files_of(self.folder / "cast"), cast)
        write_file(model / MODEL, {n: widen(t) for n, t in mixed.items()})
        self.assertEqual(self.logits(model), expected)
        scale = next(n for n in mixed if n.endswith("q_a_proj.weight_scale_inv"))
        write_file(model / MODEL, {n: t for n, t in mixed.items() if n != scale})
        for command in [*self.running(model).values(), self.loading(model)["convert"], ["inspect", model]]:
            self.refused(1, f"tensor {scale} is missing", *command, stdin="a\n")
        verdict = run("verify", model)
        self.assertEqual(verdict.returncode, 1)
        self.assertIn(f"tensor {scale} is missing", verdict.stdout.decode() + verdict.stderr.decode())


if __name__ == "__main__":
    unittest.main()
