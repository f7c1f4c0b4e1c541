"""Which tensors of a checkpoint are used: all commands ask the same verdict, and name tensors as the files do."""
import json
import unittest

from convert_test import Base, INDEX, read_file, write_file
from fathom_cli import TINY, edit_json, run

MODEL = "model.safetensors"
KV_A = "model.layers.0.self_attn.kv_a_proj_with_mqa"
LAYER = "model.layers.2."
SHARED = ("3.embed_tokens.weight", "3.shared_head.head.weight")  # which layers for prediction may take from the model
HIDDEN, EXPERT = 256, 128  # widths of the embedded model


def bf16(*shape):
    count = 1
    for size in shape:
        count *= size
    return ["BF16", list(shape), bytes(2 * count)]


def expert(number, layer=1):
    prefix = f"model.layers.{layer}.mlp.experts.{number}."
    return {prefix + "gate_proj.weight": bf16(EXPERT, HIDDEN), prefix + "up_proj.weight": bf16(EXPERT, HIDDEN),
            prefix + "down_proj.weight": bf16(HIDDEN, EXPERT)}


STRAYS = {
    "gates": {f"model.layers.{i}.self_attn.gate_proj.weight": bf16(512, HIDDEN) for i in range(3)},
    "an adapter": {"model.layers.0.self_attn.o_proj.lora_A.weight": bf16(8, 512)},
    "a bias": {"model.layers.1.self_attn.q_a_proj.bias": bf16(128)},
    "a norm of queries": {"model.layers.0.self_attn.q_norm.weight": bf16(192)},
    "an expert too many": expert(16),
    "a name of another family": {"visual.blocks.0.weight": bf16(2, 2)},
}


class SmallModel(Base):
    """A model of the embedded one's widths, and the commands that read it."""

    def config(self, **changes):
        config = {**json.loads((TINY / "config.json").read_text()), "num_nextn_predict_layers": 0, **changes}
        return self.file("config.json", json.dumps({k: v for k, v in config.items() if v is not None}))

    def small(self, name, **changes):
        """Three layers with the embedded model's widths, in one file; `changes` of its configuration."""
        out = self.folder / name
        self.ok("synth", "--config", self.config(**changes), "--layers", 3, "--out", out, "--seed", 1)
        (out / INDEX).unlink()
        next(out.glob("*.safetensors")).rename(out / MODEL)
        return out

    def bf16_model(self, name="model", **changes):
        return self.small(name, quantization_config=None, **changes)

    def edit(self, model, change):
        tensors = read_file(model / MODEL)
        write_file(model / MODEL, change(tensors) or tensors)

    def running(self, model):
        return {
            "chat": ["chat", model, "--max-new-tokens", 1],
            "generate": ["generate", "--ckpt-path", model, "--input-file", self.file("prompts", "a"),
                         "--max-new-tokens", 1],
            "logits": ["logits", "--model", model, "--ids", "1,2,3", "--out", self.folder / "logits.safetensors"],
        }

    def loading(self, model):
        return {
            **self.running(model),
            "convert": ["convert", "--hf-ckpt-path", model, "--save-path", self.folder / "converted", "--force"],
            "quantize": ["quantize", "--in", model, "--out", self.folder / "quantized", "--force"],
        }

    def looking(self, model):
        return {"inspect": ["inspect", model], "verify": ["verify", model]}

    def note_of(self, *args):
        result = run(*args, stdin="a\n")
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stderr.decode()

    def logits(self, model, *more):
        self.ok(*self.running(model)["logits"], *more)
        return (self.folder / "logits.safetensors").read_bytes()

    def refused_everywhere(self, model, needles):
        for name, command in self.loading(model).items():
            with self.subTest(name):
                self.refused(1, needles, *command, stdin="a\n")


class UnusedTensors(SmallModel):
    def test_what_the_model_does_not_have_is_named_by_all_and_can_be_ignored(self):
        plain = self.bf16_model()
        expected = self.logits(plain)
        for command in {**self.loading(plain), **self.looking(plain)}.values():
            self.ok(*command, stdin="a\n")
        good = read_file(plain / MODEL)
        for kind, tensors in STRAYS.items():
            with self.subTest(kind):
                write_file(plain / MODEL, {**good, **tensors})
                names = sorted(tensors)
                count = f"has {len(names)} tensor{'s' if len(names) > 1 else ''} that"
                for name, command in self.loading(plain).items():
                    with self.subTest(name):
                        self.refused(1, [count, "--ignore-unused", *names[:3]], *command, stdin="a\n")
                        self.ok(*command, "--ignore-unused", stdin="a\n")
                self.assertEqual(self.logits(plain, "--ignore-unused"), expected)
                self.refused(1, [count, *names[:3]], "inspect", plain)
                report = json.loads(run("inspect", plain, "--json").stdout)
                self.assertEqual(sorted(report["stray_tensors"]), names)
                self.assertNotIn("complete", run("inspect", plain).stdout.decode())
                verdict = run("verify", plain)
                self.assertEqual(verdict.returncode, 1)
                for name in names:
                    self.assertIn(f"tensor {name} does not belong to the model", verdict.stdout.decode() +
                                  verdict.stderr.decode())

    def test_what_the_index_does_not_name_is_told(self):
        model = self.bf16_model()
        self.edit(model, lambda tensors: {**tensors, **STRAYS["an adapter"]})
        norm = "model.norm.weight"
        names = [name for name in read_file(model / MODEL) if name not in STRAYS["an adapter"]]
        index = model / INDEX
        index.write_text(json.dumps({"weight_map": {name: MODEL for name in names}}))
        stray = f"{next(iter(STRAYS['an adapter']))} (not in the index)"
        self.refused_everywhere(model, ["has 1 tensor that", stray])
        for command in self.looking(model).values():
            result = run(*command)
            self.assertEqual(result.returncode, 1)
            self.assertIn(stray, result.stdout.decode() + result.stderr.decode())
        index.write_text(json.dumps({"weight_map": {name: MODEL for name in names if name != norm}}))
        self.refused_everywhere(model, [f"tensor {norm} (there is {norm} (not in the index)) is missing"])

    def test_convert_says_what_it_leaves_out(self):
        model = self.bf16_model()
        self.edit(model, lambda tensors: {**tensors, **expert(16)})
        note = self.note_of(*self.loading(model)["convert"], "--ignore-unused")
        self.assertIn("left out: 3 tensors that the model does not have, first model.layers.1.mlp.experts.16.", note)

    def test_layers_beyond_the_configurations_are_told_by_what_they_are(self):
        model = self.bf16_model()
        count = sum(name.startswith(LAYER) for name in read_file(model / MODEL))
        self.assertGreater(count, 50)
        for layers in [0, 1]:  # more layers for multi-token prediction than there are make none of these one
            edit_json(model / "config.json", num_hidden_layers=2, num_nextn_predict_layers=layers)
            self.refused_everywhere(model, [f"has {count} tensors that", LAYER, f"(and {count - 3} more)"])
            for command in self.looking(model).values():
                self.assertEqual(run(*command).returncode, 1)
        mtp = self.bf16_model("mtp", num_nextn_predict_layers=2)
        self.edit(mtp, lambda tensors: {n: t for n, t in tensors.items() if not n.endswith(SHARED)})
        beyond = sum(name.startswith(LAYER[:-2]) and int(name.split(".")[2]) > 1 for name in read_file(mtp / MODEL))
        edit_json(mtp / "config.json", num_hidden_layers=2)  # embedding and head, which those layers share, are used
        self.refused_everywhere(mtp, [f"has {beyond} tensors that", f"(and {beyond - 3} more)"])
        edit_json(mtp / "config.json", num_hidden_layers=3)
        for command in self.running(mtp).values():
            self.assertIn("MTP layers 3, 4 not used\n", self.note_of(*command))
        convert = self.loading(mtp)["convert"]
        self.assertIn("MTP layers 3, 4 not converted, as in the reference (--mtp keeps them)", self.note_of(*convert))
        for command in self.looking(mtp).values():
            self.ok(*command)
        self.ok(*convert, "--mtp")
        for command in self.looking(self.folder / "converted").values():
            self.ok(*command)
        self.assertIn("MTP layers 3, 4 not used\n", self.note_of(*self.running(self.folder / "converted")["logits"]))

    def test_an_incomplete_layer_for_prediction_is_no_stray(self):
        mtp = self.bf16_model(num_nextn_predict_layers=1)
        self.edit(mtp, lambda tensors: {n: t for n, t in tensors.items() if "eh_proj" not in n})
        self.note_of(*self.running(mtp)["logits"])
        self.refused(1, "tensor model.layers.3.eh_proj.weight is missing", "inspect", mtp)

    def test_frequencies_follow_from_the_configuration(self):
        model = self.bf16_model()
        expected = self.logits(model)
        name = "model.layers.{}.self_attn.rotary_emb.inv_freq"
        self.edit(model, lambda tensors: {**tensors, **{name.format(i): ["F32", [32], bytes(128)] for i in range(3)}})
        self.assertEqual(self.logits(model), expected)
        for command in self.loading(model).values():
            self.assertNotIn("inv_freq", self.note_of(*command))
        self.assertIn("3 tensors follow from the configuration and are not used, first " + name.format(0),
                      self.ok("verify", model))
        self.assertIn("complete", self.ok("inspect", model))
        self.assertEqual(json.loads(self.ok("inspect", model, "--json"))["derived_tensors"],
                         [name.format(i) for i in range(3)])

    def test_the_cast_looks_at_no_model(self):
        model = self.small("model")
        self.edit(model, lambda tensors: {**tensors, **STRAYS["a bias"]})
        self.ok(*self.cast(model))
        self.assertIn("model.layers.1.self_attn.q_a_proj.bias",
                      {n for path in (self.folder / "out").glob("*.safetensors") for n in read_file(path)})

    def test_files_of_ranks_are_judged_too(self):
        model = self.folder / "ranks"
        self.ok("synth", "--config", self.config(quantization_config=None), "--layers", 2, "--out", model,
                "--format", "sharded", "--model-parallel", 2)
        self.ok("inspect", model)
        path = model / "model1-mp2.safetensors"
        write_file(path, {**read_file(path), "layers.0.attn.q_norm.bias": bf16(4)})
        self.refused(1, ["has 1 tensor that", "model1-mp2.safetensors: layers.0.attn.q_norm.bias"], "inspect", model)

    def test_missing_and_misshapen_tensors_have_the_files_names(self):
        model = self.small("model")
        good = read_file(model / MODEL)
        scale = KV_A + ".weight_scale_inv"
        cases = {
            "scales of another name": ({n.replace(".weight_scale_inv", ".scale"): t for n, t in good.items()},
                                       [f"tensor {scale} (there is {KV_A}.scale) is missing"]),
            "one scale": ({n: t for n, t in good.items() if n != scale}, [f"tensor {scale} is missing"]),
            "the head": ({n: t for n, t in good.items() if n != "lm_head.weight"},
                         ["tensor lm_head.weight (tie_word_embeddings is false) is missing"]),
            "a shape": ({**good, scale: ["F32", [1, 2], bytes(8)]},
                        [f"tensor {scale} is f32 [1, 2], the configuration says f32 [5, 2]"]),
        }
        for kind, (tensors, needles) in cases.items():
            write_file(model / MODEL, tensors)
            for name, command in {**self.running(model), "inspect": ["inspect", model],
                                  "convert": self.loading(model)["convert"]}.items():
                with self.subTest(kind, command=name):
                    self.refused(1, needles, *command, stdin="a\n")


if __name__ == "__main__":
    unittest.main()
