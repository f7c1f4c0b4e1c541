"""Folders as broken downloads and the hub's cache leave them: every command says in one line what a file is and what
to do, and takes the model of a cache's folder."""
import json
import shutil
import unittest

from convert_test import Base
from fathom_cli import edit_json, run

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4302350824\n"
PAGE = b"\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"
PROJECTION = "model.layers.0.self_attn.o_proj."


class Downloads(Base):
    def setUp(self):
        super().setUp()
        self.model = self.synth("v2lite-short")
        index = json.loads((self.model / "model.safetensors.index.json").read_text())
        self.shard = self.model / index["weight_map"][PROJECTION + "weight"]

    def weights_commands(self, model):
        out = self.folder / "out"
        return [["chat", model], ["generate", "--ckpt-path", model, "--input-file",
                                                 self.file("prompts", "a"), "--max-new-tokens", 1],
                ["logits", "--model", model, "--ids", "1,2", "--out", self.folder / "l"], ["inspect", model], ["verify", model],
                ["convert", "--hf-ckpt-path", model, "--save-path", out],
                ["fp8-cast-bf16", "--input-fp8-hf-path", model, "--output-bf16-hf-path", out],
                ["quantize", "--in", model, "--out", out]]

    def told(self, needles, commands):
        for args in commands:
            with self.subTest(needles[0], command=args[0]):
                result = run(*args, stdin="hi\n")
                text = (result.stdout + result.stderr).decode()
                lines = [line for line in text.splitlines() if all(needle in line for needle in needles)]
                self.assertEqual(result.returncode, 1, text)
                self.assertTrue(lines, text)
                self.assertFalse((self.folder / "out").exists())

    def test_files_that_are_something_else(self):
        names = [self.shard.name, "model.safetensors.index.json", "config.json", "tokenizer.json",
                 "tokenizer_config.json"]
        kinds = [(POINTER, ["Git LFS pointer to 4302350824 bytes", "git lfs pull"]), (PAGE, ["web page", "download"]),
                 (b"GGUF\3\0\0\0" + bytes(64), ["GGUF file", "safetensors"])]
        for name in names:
            whole = (self.model / name).read_bytes()
            for content, needles in kinds:
                (self.model / name).write_bytes(content)
                self.told([*needles, name], self.weights_commands(self.model))
                if name == "tokenizer.json":
                    self.told([*needles, name], [["tokenize", "--model", self.model]])
                if name == "tokenizer_config.json":
                    self.told([*needles, name], [["render", "--model", self.model]])
            (self.model / name).write_bytes(whole)
        self.ok("verify", self.model)

    def test_answers_of_servers_zeros_and_nothing(self):
        for name in [self.shard.name, "model.safetensors.index.json", "config.json", "tokenizer.json"]:
            whole = (self.model / name).read_bytes()
            kinds = [(b"Entry not found", 'begins with "Entry not found"'), (b"", "is empty"),
                     (b"404: Not Found\n", 'begins with "404: Not Found"'), (bytes(5000), "begins with zeros")]
            if name == self.shard.name:
                kinds.append((b'{"error":"Repository not found"}', 'begins with "{"error"'))
            for content, needle in kinds:
                (self.model / name).write_bytes(content)
                self.told([name, needle, "download it again"], self.weights_commands(self.model))
            (self.model / name).unlink()
            (self.model / name).symlink_to("../../blobs/" + "0" * 64)
            self.told([name, "is a link to ../../blobs/0", "finish the download"], self.weights_commands(self.model))
            (self.model / name).unlink()
            (self.model / name).write_bytes(whole)
        (self.model / "notes.py").write_bytes(b"")
        self.ok("verify", self.model)

    def test_folders_without_safetensors(self):
        model = self.folder / "gguf"
        model.mkdir()
        (model / "model.gguf").write_bytes(b"GGUF\3\0\0\0")
        self.told(["model.gguf is not in a supported format"], self.weights_commands(model))

    def test_what_verify_compares_with(self):
        self.told(["Git LFS pointer"], [["verify", self.model, "--against", self.file("list", POINTER)]])
        cache = self.folder / "models--o--m"
        shutil.copytree(self.model, cache / "snapshots/abc")
        self.ok("verify", self.model, "--against", cache)

    def test_each_broken_file_is_one_fault(self):
        self.shard.write_bytes(POINTER)
        (self.model / "tokenizer.json").write_bytes(PAGE)
        self.assertEqual(len(json.loads(run("verify", self.model, "--json").stdout)["faults"]), 2)

    def test_leftovers_of_downloads(self):
        for end in [".aria2", ".part", ".incomplete", ".crdownload"]:
            left = self.model / (self.shard.name + end)
            left.write_bytes(b"x")
            self.told([left.name, "unfinished download"], self.weights_commands(self.model))
            left.unlink()

    def test_other_quantisation_layouts(self):
        edit_json(self.model / "config.json", quantization_config={"quant_method": "awq", "bits": 4})
        self.told(['"awq"', "get the model's FP8 or bf16 checkpoint"], self.weights_commands(self.model))
        edit_json(self.model / "config.json", quantization_config=None)
        index = self.model / "model.safetensors.index.json"
        name = PROJECTION
        for end, layout in [("qweight", "AWQ or GPTQ"), ("weight_packed", "compressed-tensors"),
                            ("weight.absmax", "bitsandbytes")]:
            whole, index_text = self.shard.read_bytes(), index.read_text()
            size = int.from_bytes(whole[:8], "little")
            header = whole[8:8 + size].replace((name + "weight").encode(), (name + end).encode())
            self.shard.write_bytes(len(header).to_bytes(8, "little") + header + whole[8 + size:])
            index.write_text(index_text.replace(name + "weight", name + end))
            self.told([layout, name + end], self.weights_commands(self.model))
            self.shard.write_bytes(whole)
            index.write_text(index_text)

    def test_a_file_is_named_for_a_folder(self):
        self.told(["GGUF file", "safetensors"], self.weights_commands(self.file("m.gguf", b"GGUF\3\0\0\0" + bytes(99))))

    def test_folders_of_the_hub_cache(self):
        cache = self.folder / "models--o--m"
        snapshots = cache / "snapshots"
        snapshots.mkdir(parents=True)
        shutil.move(self.model, snapshots / "abc")
        for folder in [cache, snapshots, snapshots / "abc"]:
            for args in self.weights_commands(folder)[2:6] + [["tokenize", "--model", folder]]:
                with self.subTest(folder.name, command=args[0]):
                    self.ok(*args)
            shutil.rmtree(self.folder / "out")
        (snapshots / "def").mkdir()
        self.told(["several snapshots", "abc, def"], self.weights_commands(cache))
        (cache / "refs").mkdir()
        (cache / "refs/main").write_text("abc")
        self.ok("logits", "--model", cache, "--ids", "1,2", "--out", self.folder / "l")
        self.ok("inspect", cache)


if __name__ == "__main__":
    unittest.main()
