"""Runs the commands of README.md as they stand there.

Each line of a ```sh block must be known here: either how it is run and what it must print, or where else it is proved.
Commands run in order in a scratch folder that looks like the repository. `--list` only checks that all are known.
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FATHOM_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BIN = "build/release/bin/fathom"
ROMANIA = "What's the capital of Romania?\n"
BUCHAREST = r"The capital of Romania is Bucharest\."

# Proved on an empty machine by scripts/fresh_machine.sh; inside a test they would build and test recursively.
ELSEWHERE = {"sudo apt-get install -y git make", "make chat", "make test",
             "make cuda"}  # a step of .ci/run

# The command without the program's path -> (standard input, pattern of its whole standard output, files it must write).
RUN = {
    "chat": (ROMANIA, r"\S.*\n", []),
    'chat models/tiny --system "Answer in one word." --temperature 0': (ROMANIA, r"\S.*\n", []),
    'echo "What\'s the capital of Romania?" | chat --temperature 0': ("", BUCHAREST + r"\n", []),
    "generate --ckpt-path models/tiny --config models/tiny/args.json --interactive":
        (ROMANIA + "/clear\n/exit\n", r"(>>> )?\S.*", []),
    'echo "What\'s the capital of Romania?" > prompts.txt': ("", "", ["prompts.txt"]),
    "generate --ckpt-path models/tiny --input-file prompts.txt --temperature 0":
        ("", r"(ModelArgs.*\n)?Prompt: What's the capital of Romania\?\nCompletion: " + BUCHAREST + r"\n\n", []),
    "generate --ckpt-path models/tiny --input-file prompts.txt --temperature 0 --json": ("", r"\{.*Bucharest.*\}\s*", []),
    'logits --model models/tiny --ids "0,4079,320,598" --then "264,356" --out logits.safetensors':
        ("", r".*", ["logits.safetensors"]),
    'printf "What\'s the capital of Croatia?" | tokenize --model models/tiny':
        ("", r"\[0, ?320, ?598, ?264, ?356, ?297, ?3371, ?33\]\n", []),
    'echo "[320, 598, 264, 356, 297, 3371, 33]" | tokenize --model models/tiny --decode':
        ("", r"\"?What's the capital of Croatia\?\"?\n?", []),
    'echo \'{"messages": [{"role": "user", "content": "Hello"}], "add_generation_prompt": true}\' '
    "| render --model models/tiny": ("", r".*User.*Hello.*Assistant.*", []),
    'printf "In 2025: 中文<｜User｜>" | tokenize --model models/tiny --explain':
        ("", r'\[\{"piece":"","rule":"BOS of the model","ids":\[0\].*"piece":"<｜User｜>","rule":"added token".*\]\n', []),
    'echo \'{"messages": [{"role": "user", "content": "Hello"}]}\' | render --model models/tiny --explain':
        ("", r'.*\{"from":"content","text":"Hello"\}\n.*', []),
    'echo "Say <｜User｜>" | chat --temperature 0 --max-new-tokens 8': ("", r".*\n", []),
    'echo "Say <｜User｜>" | chat --temperature 0 --max-new-tokens 8 --allow-special-in-content': ("", r".*\n", []),
    "synth --config models/tiny/config.json --out synthetic --seed 1": ("", r".*", ["synthetic/config.json"]),
    "synth --config models/tiny/args.json --layers 2 --format sharded --out sharded":
        ("", r".*", ["sharded/model0-mp1.safetensors"]),
    "inspect models/tiny": ("", r".*DeepSeek-V3.*", []),
    "inspect synthetic --json": ("", r"\{.*\}\s*", []),
    "convert --hf-ckpt-path bf16 --save-path converted --model-parallel 2 --dry-run":
        ("", r".*model1-mp2\.safetensors.*", []),
    "convert --hf-ckpt-path bf16 --save-path converted --n-experts 16 --model-parallel 2":
        ("", r"", ["converted/model1-mp2.safetensors", "converted/manifest.json"]),
    "fp8-cast-bf16 --input-fp8-hf-path synthetic --output-bf16-hf-path bf16": ("", r"", ["bf16/config.json"]),
    "quantize --in bf16 --out fp8": ("", r"", ["fp8/model.safetensors.index.json"]),
    "verify converted": ("", r".*without fault.*", []),
    "verify synthetic --against synthetic": ("", r".*without fault.*", []),
    "inspect --config configs/config_671B.json --tp 8 --max-batch-size 8 --max-seq-len 32768": ("", r".*\d.*", []),
}


# A server, and what clients say to it while it runs (the whole line -> pattern of its standard output).
SERVER = "serve --port 8000"
CLIENTS = {
    """curl -s localhost:8000/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hello"}]}'""":
        r'\{"id":"chatcmpl-.*"finish_reason":"(stop|length)".*\}',
}


def readme_commands():
    """The lines of all ```sh blocks, continued lines joined."""
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def key_of(command):
    return command.replace(BIN + " ", "")


def unknown_commands():
    return [c for c in readme_commands()
            if c not in ELSEWHERE and c not in CLIENTS and key_of(c) not in RUN and key_of(c) != SERVER]


def stale_rows():
    present = readme_commands()
    return sorted((ELSEWHERE | set(RUN) | set(CLIENTS) | {SERVER}) - set(present) - {key_of(c) for c in present})


class Readme(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for name in ("models", "configs"):
            (self.folder / name).symlink_to(SOURCE / name)
        program = self.folder / BIN
        program.parent.mkdir(parents=True)
        program.symlink_to(os.environ.get("FATHOM_BIN", SOURCE / BIN))

    def test_every_command_is_known(self):
        self.assertEqual(unknown_commands(), [], "README commands without a row in readme_test.py")
        self.assertEqual(stale_rows(), [], "rows of readme_test.py that README.md does not have")

    def test_every_command_runs(self):
        for command in readme_commands():
            if command in ELSEWHERE or key_of(command) not in RUN:
                continue
            with self.subTest(command):
                self.run_command(command, *RUN[key_of(command)])

    def test_server_commands(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [str(self.folder / BIN), *SERVER.replace("8000", port).split()]
        with subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True) as server:
            self.addCleanup(server.kill)
            while not (line := server.stderr.readline()).startswith("ready"):
                self.assertTrue(line, "the server ended")
            for client, pattern in CLIENTS.items():
                self.run_command(client.replace("localhost:8000", "localhost:" + port), "", pattern, [])
            server.terminate()
            self.assertEqual(server.wait(60), 0)

    def run_command(self, command, stdin, pattern, files):
        result = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder, input=stdin,
                                capture_output=True, text=True, timeout=600)
        self.assertEqual(result.returncode, 0, result.stderr[-2000:])
        self.assertRegex(result.stdout, re.compile(rf"\A{pattern}\Z", re.S))
        for name in files:
            self.assertTrue((self.folder / name).is_file(), f"{name} was not written")


if __name__ == "__main__":
    if "--list" in sys.argv:
        problems = [f"README.md: no row in readme_test.py for: {c}" for c in unknown_commands()]
        problems += [f"readme_test.py: not in README.md: {c}" for c in stale_rows()]
        print("\n".join(problems))
        sys.exit(1 if problems else 0)
    unittest.main()
