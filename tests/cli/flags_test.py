"""Flags of every command: a value that cannot be meant, or a flag that would do nothing, is told by name."""
import re
import unittest

from fathom_cli import TINY, CliTest, run

ARGS = TINY / "args.json"
# Arguments with which each command is complete. Nothing is run with them: what is tested is refused before.
COMPLETE = {
    "chat": [], "serve": [], "generate": ["--ckpt-path", TINY, "--input-file", "prompts"],
    "logits": ["--model", TINY, "--ids", "1", "--out", "x"], "tokenize": ["--model", TINY], "render": ["--model", TINY],
    "synth": ["--config", ARGS, "--out", "x"], "inspect": [TINY], "bench": ["--config", ARGS],
    "convert": ["--hf-ckpt-path", "x", "--save-path", "y"],
    "fp8-cast-bf16": ["--input-fp8-hf-path", "x", "--output-bf16-hf-path", "y"],
    "quantize": ["--in", "x", "--out", "y"], "verify": [TINY],
}
NO_NUMBER = ["", "x", "1.5", "1e3", "0x10", "+1", " 1", "99999999999999999999", "-99999999999999999999", "nan"]
NO_REAL = ["", "x", "nan", "inf", "-inf", "1e39", "1e-60 ", "1e400"]
SIGNED = {"--seed"}  # of chat and generate: any 64 bits
# Texts that may be empty.
EMPTY = {"--system", "--then"}

# Combinations in which one flag would do nothing.
CONFLICTS = [
    ["generate", "--ckpt-path", TINY, "--interactive", "--input-file", "x"],
    ["generate", "--ckpt-path", TINY, "--interactive", "--strict-reference"],
    ["chat", "--max-batch-size", "2"],
    ["tokenize", "--model", TINY, "--keep-special"],
    ["tokenize", "--model", TINY, "--decode", "--explain"],
    ["tokenize", "--model", TINY, "--decode", "--no-bos"],
    ["tokenize", "--model", TINY, "--decode", "--no-added-tokens"],
    ["render", "--template", "x", "--template-name", "y"],
    ["synth", "--config", ARGS, "--out", "x", "--model-parallel", "2"],
    ["synth", "--config", ARGS, "--out", "x", "--format", "sharded", "--max-shard-size", "1MB"],
    ["bench", "--config", ARGS, "--no-decode"],
    ["bench", "--config", ARGS, "--mmap"],
    ["bench", "--config", ARGS, "--no-decode", "--prefill", "8", "--batch", "2"],
    ["bench", "--config", ARGS, "--engine", "--prefill", "8"],
    ["bench", "--config", ARGS, "--explain-kernels", "--ctx", "8"],
    ["bench", "--load", TINY, "--batch", "2"],
    ["bench", "--load", TINY, "--layers", "2"],
]


def flags_of(command):
    """Flag -> the kind of its value ("" without one), from the help."""
    text = run(command, "--help").stdout.decode()
    return dict(re.findall(r"^  (--[\w-]+)(?:,--[\w-]+)*(?: ([A-Z]+(?: \[[^\]]*\])?))?", text, re.M))


class Flags(CliTest):
    def test_the_table_has_every_command(self):
        names = re.findall(r"^  ([\w-]+)  ", self.ok("--help").split("Subcommands:")[1], re.M)
        self.assertEqual(sorted(names), sorted(COMPLETE))

    def test_values_of_every_flag(self):
        seen = set()
        for command, complete in COMPLETE.items():
            for flag, kind in flags_of(command).items():
                kind = kind.split(" ")[0]
                seen.add(kind)
                bad = {"INT": NO_NUMBER, "UINT": NO_NUMBER + ["-1"], "FLOAT": NO_REAL, "TEXT": [""]}.get(kind, [])
                if kind == "INT" and flag not in SIGNED:
                    bad = bad + ["-1"]
                for value in bad:
                    if flag in EMPTY and value == "":
                        continue
                    with self.subTest(command=command, flag=flag, value=value):
                        at = complete.index(flag) if flag in complete else None
                        args = complete[:at] + complete[at + 2:] if at is not None else complete
                        self.refused(2, flag, command, *args, f"{flag}={value}" if value else flag, *([] if value else [""]))
        self.assertLessEqual({"INT", "UINT", "FLOAT", "TEXT"}, seen)

    def test_leading_zeros_do_not_mean_octal(self):
        prompts = self.file("prompts", "Copy this: irfhfncu\n")
        def answer(count):
            return self.ok("generate", "--ckpt-path", TINY, "--input-file", prompts, "--max-new-tokens", count,
                           "--temperature", "0")
        self.assertEqual(answer("04"), answer("4"))
        self.assertEqual(answer("010"), answer("10"))

    def test_counts_that_no_model_has(self):
        for flag in ("--batch", "--ctx", "--steps", "--prefill", "--layers"):
            for value in ("0", "-3", "2,0"):
                self.refused(2, flag, "bench", "--config", ARGS, flag, value)
        for args in (["bench", "--config", ARGS], ["synth", "--config", ARGS, "--out", self.folder / "x"]):
            self.refused(1, ["7 layers", "has 6"], *args, "--layers", "7")
        self.assertFalse((self.folder / "x").exists())

    def test_sizes(self):
        for size in ("many", "0", "-5GB", "1.5GB", "5gb", "99999999999GB", "GB", "5 GB"):
            self.refused(2, "is no size", "synth", "--config", ARGS, "--out", self.folder / "x", "--max-shard-size", size)

    def test_an_empty_model_is_not_the_embedded_one(self):
        self.refused(2, "model", "chat", "")
        self.refused(2, "model", "inspect", "")

    def test_flags_without_effect_are_refused(self):
        for args in CONFLICTS:
            with self.subTest(args=args):
                self.refused(2, "--", *args)

    def test_what_only_the_device_or_the_model_decides_is_a_warning(self):
        plain = self.file("args.json", ARGS.read_text().replace('"fp8"', '"bf16"'))
        for args, text in ((["chat", "--device", "cpu", "--no-graphs"], "--no-graphs has no effect"),
                           (["chat", "--max-seq-len", "100000"], "--max-seq-len 100000: the model was made for 16384"),
                           (["chat", f"synthetic:{plain}", "--gemm", "fp8"], "--gemm fp8 has no effect")):
            result = run(*args)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr.decode().count("fathom: warning: "), 1, result.stderr)
            self.assertIn(f"fathom: warning: {text}", result.stderr.decode())
        self.assertNotIn(b"warning", run("chat", "--max-seq-len", "16384").stderr)

    def test_ranks_of_a_launcher_are_not_taken_for_one_process(self):
        for args in (["chat"], ["generate", "--ckpt-path", TINY, "--input-file", self.file("p", "x")],
                     ["logits", "--model", TINY, "--ids", "1", "--out", self.folder / "x"], ["bench", "--config", ARGS]):
            self.refused(1, "WORLD_SIZE=2", *args, env={"WORLD_SIZE": "2"})
        self.assertEqual(self.ok("chat", env={"WORLD_SIZE": "1"}), "")

    def test_inspect_of_a_divided_checkpoint_knows_its_ranks(self):
        out = self.folder / "out"
        bf16 = self.file("args.json", ARGS.read_text().replace('"fp8"', '"bf16"'))
        self.ok("synth", "--config", bf16, "--out", out, "--layers", "2", "--format", "sharded", "--model-parallel", "2")
        self.assertIn("2 ranks", self.ok("inspect", out))
        self.refused(1, ["2 ranks", "--tp"], "inspect", out, "--tp", "4")


class Bench(CliTest):
    def bench(self, *args):
        return self.ok("bench", "--config", ARGS, "--layers", "2", "--steps", "2", "--threads", "2", *args)

    def test_figures_of_a_cpu_are_its_own(self):
        line = self.bench("--device", "cpu").splitlines()[-1]
        self.assertRegex(line, r"^decode .* ms/step +[\d.]+ tok/s$")  # no other device's floor, no kernels
        self.assertRegex(self.bench("--device", "cpu", "--bandwidth", "1e10"), r"floor +[\d.]+ ms  share +[\d.]+ %\n")

    def test_lengths_beyond_the_configuration(self):
        args = self.file("args.json", re.sub(r'"max_seq_len": *\d+', '"max_seq_len": 32', ARGS.read_text()))
        def bench(*more):
            return self.ok("bench", "--config", args, "--layers", "1", "--steps", "2", "--threads", "2", *more)
        self.assertIn("decode", bench("--ctx", "100"))
        self.assertIn("prefill", bench("--prefill", "100"))
        self.assertIn("engine", bench("--engine", "--ctx", "100", "--batch", "2"))


if __name__ == "__main__":
    unittest.main()
