"""convert, fp8-cast-bf16 and quantize through the command line: equal hashes with the reference's tables, what goes
along, refusals, and conversions that are killed and resumed."""
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

from fathom_cli import CliTest, DATA, PROGRAM, edit_json

GOLDEN = DATA / "golden/golden"
INDEX = "model.safetensors.index.json"
TORCH = {"BF16": "bfloat16", "F32": "float32", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu"}
CONFIGS = ["v2lite-bf16", "v2lite-short", "v2-bf16", "v3-fp8", "v31-fp8-ue8m0"]
MIB = 1 << 20


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def read_file(path):
    """({name: [dtype, shape, bytes]}, length of the header) of a safetensors file."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = [entry["dtype"], entry["shape"], data[begin:end]]
    return tensors


def write_file(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def hashes(paths):
    """name -> [dtype, shape, sha256] of all tensors of the files, as the golden tables have them."""
    table = {}
    for path in paths:
        for name, (dtype, shape, content) in read_file(path).items():
            table[name] = [TORCH[dtype], shape, hashlib.sha256(content).hexdigest()]
    return table


def snapshot(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


class Base(CliTest):
    def synth(self, name, *more, change=None):
        config = golden(name)["config"]
        config.update(change or {})
        path = self.file("synth-config.json", json.dumps({k: v for k, v in config.items() if v is not None}))
        out = self.folder / "hf"
        shutil.rmtree(out, ignore_errors=True)
        if "--max-shard-size" not in more:
            more = ("--max-shard-size", "8MB", *more)
        self.ok("synth", "--config", path, "--out", out, "--seed", 7, *more)
        return out

    def convert(self, model, *more, out="out", ranks=2):
        return ["convert", "--hf-ckpt-path", model, "--save-path", self.folder / out, "--model-parallel", ranks, *more]

    def cast(self, model, *more, out="out"):
        return ["fp8-cast-bf16", "--input-fp8-hf-path", model, "--output-bf16-hf-path", self.folder / out, *more]

    def check_manifest(self, folder):
        """Each file and each tensor is as manifest.json says, and nothing else is there."""
        files = json.loads((folder / "manifest.json").read_text())["files"]
        self.assertEqual(set(files) | {"manifest.json"}, {path.name for path in folder.iterdir()})
        for name, entry in files.items():
            data = (folder / name).read_bytes()
            self.assertEqual(entry["bytes"], len(data))
            self.assertEqual(entry["sha256"], hashlib.sha256(data).hexdigest())
            if name.endswith(".safetensors"):
                found = {k: hashlib.sha256(v[2]).hexdigest() for k, v in read_file(folder / name).items()}
                self.assertEqual(found, {k: v["sha256"] for k, v in entry["tensors"].items()})


class Convert(Base):
    def test_tensors_have_the_converters_hashes(self):
        for name in CONFIGS:
            model = self.synth(name)
            for ranks, expected in golden(name)["convert"].items():
                with self.subTest(name, ranks=ranks):
                    args = self.convert(model, "--n-experts", 16, out=f"{name}-{ranks}", ranks=ranks)
                    if isinstance(expected, str):
                        self.refused(1, "sizes that work", *args)
                        continue
                    self.ok(*args)
                    folder = self.folder / f"{name}-{ranks}"
                    for rank, table in enumerate(expected):
                        self.assertEqual(hashes([folder / f"model{rank}-mp{ranks}.safetensors"]), table)
                    self.check_manifest(folder)
                    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"]:
                        self.assertEqual((folder / file).read_bytes(), (model / file).read_bytes())

    def test_companions_and_logits(self):
        model = self.synth("v3-fp8")
        for name in ["generation_config.json", "chat_template.jinja", "my_token_list.txt"]:
            (model / name).write_text('{"eos_token_id": 1}')
        (model / "README.md").write_text("not copied")
        self.ok(*self.convert(model, ranks=1))
        out = self.folder / "out"
        self.assertEqual({p.name for p in out.iterdir()},
                         {"model0-mp1.safetensors", "args.json", "config.json", "manifest.json", "tokenizer.json",
                          "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
                          "my_token_list.txt"})
        logits = []
        for folder in [model, out]:
            self.ok("logits", "--model", folder, "--ids", "0,5,9", "--out", self.folder / "logits.safetensors")
            logits.append((self.folder / "logits.safetensors").read_bytes())
        self.assertEqual(*logits)

    def test_mtp_layers_at_another_depth(self):
        model = self.synth("v3-fp8", change={"num_nextn_predict_layers": 1})
        self.assertIn("MTP layer 4 not converted", self.stderr_of(*self.convert(model)))
        self.assertEqual(hashes([self.folder / "out/model1-mp2.safetensors"]), golden("v3-fp8")["convert"]["2"][1])
        self.assertNotIn("MTP", self.stderr_of(*self.convert(model, "--mtp", out="mtp")))
        kept = read_file(self.folder / "mtp/model1-mp2.safetensors")
        self.assertEqual(kept["layers.4.eh_proj.weight"][1][1], 1024)
        self.assertIn("layers.4.shared_head.norm.weight", kept)
        self.assertEqual(json.loads((self.folder / "mtp/args.json").read_text())["n_mtp_layers"], 1)
        self.ok("inspect", self.folder / "mtp")

    def stderr_of(self, *args):
        result = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, check=True)
        return result.stderr

    def test_refusals(self):
        model = self.synth("v3-fp8")
        self.refused(1, ["--n-experts 8", "16 routed experts"], *self.convert(model, "--n-experts", 8))
        self.refused(1, "divisible by world size (world_size=3)", *self.convert(model, ranks=3))
        self.refused(1, ["128", "1, 2, 4"], *self.convert(model, ranks=8))
        self.refused(1, "same folder", "convert", "--hf-ckpt-path", model, "--save-path", model)
        self.refused(2, "--model-parallel", *self.convert(model, ranks=0))
        self.assertFalse((self.folder / "out").exists())
        self.ok(*self.convert(model))
        self.refused(1, "is converted already", *self.convert(self.folder / "out", out="again"))
        edit_json(model / "config.json", model_type="qwen2", architectures=["Qwen2ForCausalLM"])
        self.refused(1, "this is a qwen2 model", *self.convert(model, out="qwen"))

    def test_target_of_another_conversion(self):
        model = self.synth("v2lite-short")
        self.ok(*self.convert(model))
        before = snapshot(self.folder / "out")
        self.refused(1, ["another conversion", "--force"], *self.convert(model, ranks=4))
        self.assertEqual(snapshot(self.folder / "out"), before)
        self.assertEqual(json.loads(self.ok(*self.convert(model, "--json")))["files_kept"], 2)
        self.assertEqual(json.loads(self.ok(*self.convert(model, "--json", "--restart")))["files_kept"], 0)
        self.assertEqual(snapshot(self.folder / "out"), before)
        self.ok(*self.convert(model, "--force", ranks=4))
        self.check_manifest(self.folder / "out")
        (self.folder / "foreign").mkdir()
        (self.folder / "foreign/model.safetensors").write_text("x")
        self.refused(1, "already holds a checkpoint", *self.convert(model, out="foreign"))

    def test_dry_run(self):
        model = self.synth("v2lite-short")
        plan = json.loads(self.ok(*self.convert(model, "--dry-run", "--json")))
        self.assertFalse((self.folder / "out").exists())
        self.ok(*self.convert(model))
        for entry in plan["files"]:
            size = (self.folder / "out" / entry["name"]).stat().st_size
            self.assertLess(abs(size - entry["bytes"]), 200_000)
            self.assertGreaterEqual(size, entry["bytes"])
        self.assertIn("model1-mp2.safetensors", self.ok(*self.convert(model, "--dry-run")))

    @unittest.skipIf(os.environ.get("FATHOM_TEST_SANITIZED"), "a sanitizer's own memory passes any limit")
    def test_bounded_memory(self):
        model = self.synth("v3-fp8")
        limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (256 * MIB, 256 * MIB))
        for args in [self.convert(model), self.cast(model, out="cast")]:
            result = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, preexec_fn=limit, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)


class Cast(Base):
    def test_tensors_have_the_references_hashes(self):
        for name in ["v3-fp8", "v31-fp8-ue8m0"]:
            with self.subTest(name):
                model = self.synth(name)
                (model / "extra.txt").write_text("goes along")
                self.ok(*self.cast(model, out=name))
                out = self.folder / name
                self.assertEqual(hashes(out.glob("*.safetensors")), golden(name)["cast"])
                self.check_manifest(out)
                index = json.loads((out / INDEX).read_text())
                self.assertEqual(set(index["weight_map"]), set(golden(name)["cast"]))
                total = sum(len(t[2]) for p in out.glob("*.safetensors") for t in read_file(p).values())
                self.assertEqual(index["metadata"]["total_size"], total)
                config = json.loads((model / "config.json").read_text())
                del config["quantization_config"]
                self.assertEqual(json.loads((out / "config.json").read_text()), config)
                self.assertEqual((out / "extra.txt").read_text(), "goes along")
                self.ok("inspect", out)

    def test_scales_of_other_types_and_names(self):
        model = self.synth("v31-fp8-ue8m0")
        plain = {}
        for path in model.glob("*.safetensors"):
            read = read_file(path)
            for name in [n for n in read if n.endswith("_scale_inv")]:
                _, shape, data = read.pop(name)
                values = struct.unpack(f"<{len(data) // 4}I", data)
                read[name.replace("_scale_inv", "_scale")] = ["F8_E8M0", shape, bytes(v >> 23 for v in values)]
            plain |= read
            path.unlink()
        (model / INDEX).unlink()
        write_file(model / "model.safetensors", plain)
        self.ok(*self.cast(model))
        self.assertEqual(hashes([self.folder / "out/model.safetensors"]), golden("v31-fp8-ue8m0")["cast"])
        self.ok(*self.convert(model, out="converted", ranks=1))  # scales keep their type
        converted = read_file(self.folder / "converted/model0-mp1.safetensors")
        self.assertEqual(converted["layers.0.attn.wo.scale"][0], "F8_E8M0")

    def test_missing_scale(self):
        model = self.synth("v3-fp8")
        (model / INDEX).unlink()
        victim = "model.layers.1.self_attn.o_proj.weight"
        for path in model.glob("*.safetensors"):
            tensors = read_file(path)
            if tensors.pop(victim + "_scale_inv", None):
                write_file(path, tensors)
        self.refused(1, [victim, "--allow-missing-scale"], *self.cast(model))
        result = subprocess.run([PROGRAM, *map(str, self.cast(model, "--allow-missing-scale"))], capture_output=True,
                                text=True, check=True)
        self.assertIn(f"Warning: Missing scale_inv tensor for {victim}, skipping conversion", result.stderr)
        found = hashes((self.folder / "out").glob("*.safetensors"))
        self.assertEqual(found[victim], golden("v3-fp8")["hf"][victim])


class Quantize(Base):
    def test_gives_the_published_fp8_weights(self):
        for name, form in [("v3-fp8", "fp8"), ("v31-fp8-ue8m0", "fp8-ue8m0")]:
            with self.subTest(name):
                model = self.synth(name, change={"quantization_config": None})
                out = self.folder / name
                self.ok("quantize", "--format", form, "--in", model, "--out", out)
                self.assertEqual(hashes(out.glob("*.safetensors")), golden(name)["hf"])
                self.check_manifest(out)
                self.ok("inspect", out)
                self.refused(1, "quantised already", "quantize", "--in", out, "--out", self.folder / "twice")

    def test_round_trip(self):
        model = self.synth("v2lite-bf16")
        self.ok("quantize", "--in", model, "--out", self.folder / "q1")
        self.ok(*self.cast(self.folder / "q1", out="b1"))
        self.assertEqual(json.loads((self.folder / "b1/config.json").read_text()),
                         json.loads((model / "config.json").read_text()))
        original, back = ({n: t for p in f.glob("*.safetensors") for n, t in read_file(p).items()}
                          for f in [model, self.folder / "b1"])
        self.assertEqual({n: t[:2] for n, t in original.items()}, {n: t[:2] for n, t in back.items()})
        name = "model.layers.1.mlp.experts.3.down_proj.weight"
        numbers = [[struct.unpack("<f", b"\0\0" + t[name][2][i:i + 2])[0] for i in range(0, len(t[name][2]), 2)]
                   for t in [original, back]]
        largest = max(map(abs, numbers[0]))
        for a, b in zip(*numbers):  # three digits of mantissa, or the smallest step of the block
            self.assertLessEqual(abs(a - b), abs(a) / 16 * 1.02 + largest / 448 / 512)


class Killed(Base):
    """kill -9 at random moments; the same command again until it ends."""
    KILLS = int(os.environ.get("FATHOM_KILLS", "5"))

    def kill_and_resume(self, args, folder):
        self.ok(*args)
        expected = snapshot(folder)
        start = time.monotonic()
        self.ok(*args, "--restart")
        whole = time.monotonic() - start
        shutil.rmtree(folder)
        dice, killed = random.Random(4), 0
        for _ in range(self.KILLS):
            threads = ["--threads", str(dice.randint(1, 3))]  # files written at once
            process = subprocess.Popen([PROGRAM, *map(str, args), *threads], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
            time.sleep(dice.uniform(0, whole))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += process.returncode == -signal.SIGKILL
            complete = (folder / "manifest.json").exists() and not (folder / "manifest.json.partial").exists()
            if complete:  # begin again
                self.assertEqual(snapshot(folder), expected)
                shutil.rmtree(folder)
        self.ok(*args)
        self.assertEqual(snapshot(folder), expected)
        self.assertGreater(killed, 0)

    def test_convert(self):
        self.kill_and_resume(self.convert(self.synth("v3-fp8"), ranks=4), self.folder / "out")

    def test_cast(self):
        self.kill_and_resume(self.cast(self.synth("v3-fp8")), self.folder / "out")

    def test_file_that_may_not_grow(self):
        """What a full disk does, without one: one error line, and what is finished stays for the next run."""
        model = self.synth("v3-fp8")
        for args in [self.convert(model), self.cast(model)]:
            folder = self.folder / "out"
            self.ok(*args)
            expected = snapshot(folder)
            sizes = sorted(path.stat().st_size for path in folder.glob("*.safetensors"))
            shutil.rmtree(folder)
            limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[-1] // 2, resource.RLIM_INFINITY))
            result = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, preexec_fn=limit,
                                    check=False)
            self.assertEqual(result.returncode, 1, result.stderr)
            errors = [line for line in result.stderr.splitlines() if line.startswith("fathom: error: ")]
            self.assertEqual(len(errors), 1, result.stderr)
            self.assertIn("File too large", errors[0])
            self.assertFalse((folder / "manifest.json").exists())
            self.ok(*args)
            self.assertEqual(snapshot(folder), expected)
            shutil.rmtree(folder)

    def test_unfinished_is_said_and_finished_files_are_kept(self):
        model = self.synth("v2lite-short")
        self.ok(*self.convert(model))
        out = self.folder / "out"
        expected = snapshot(out)
        state = json.loads((out / "manifest.json").read_text())
        del state["files"]["model1-mp2.safetensors"]
        (out / "manifest.json").unlink()
        (out / "manifest.json.partial").write_text(json.dumps(state))
        (out / "model1-mp2.safetensors").unlink()
        (out / "model1-mp2.safetensors.partial-1").write_bytes(b"half")
        self.refused(1, "unfinished conversion", "inspect", out)
        self.assertEqual(json.loads(self.ok(*self.convert(model, "--json")))["files_kept"], 1)
        self.assertEqual(snapshot(out), expected)

    def test_finished_file_of_another_size_is_written_again(self):
        model = self.synth("v2lite-short")
        self.ok(*self.convert(model))
        out = self.folder / "out"
        expected = snapshot(out)
        for name in ["manifest.json", "manifest.json.partial"]:  # a complete conversion, then an unfinished one
            with self.subTest(name):
                if not (out / name).exists():
                    (out / "manifest.json").rename(out / name)
                victim = out / "model1-mp2.safetensors"
                os.truncate(victim, victim.stat().st_size - 1)
                self.assertEqual(json.loads(self.ok(*self.convert(model, "--json")))["files_kept"], 1)
                self.assertEqual(snapshot(out), expected)

    def test_source_that_was_changed_is_another_one(self):
        model = self.synth("v2lite-short")
        self.ok(*self.convert(model))
        victim = min(model.glob("*.safetensors"))
        data = bytearray(victim.read_bytes())
        data[-1] ^= 1  # the same size
        when = victim.stat().st_mtime_ns
        victim.write_bytes(data)
        os.utime(victim, ns=(when, when + 1_000_000))  # whatever the clock of this file system can tell apart
        self.refused(1, ["another conversion", "another source"], *self.convert(model))


if __name__ == "__main__":
    unittest.main()
