"""--device: what is taken, and one clear line where it cannot be. For builds with and without CUDA, on machines with and
without a GPU."""
import re
import unittest

from fathom_cli import TINY, CliTest, run

CUDA_BUILD = "cuda" in run("chat", "--help").stdout.decode()
QUESTION, ANSWER = "What is 3 plus 2?", "3 + 2 = 5.\n"
GREEDY = ("--temperature", "0", "--compute", "f32", "--threads", "2")
# What a command says when it could have taken a GPU: the device that it took, or why it did not.
AUTO = r"device: (cuda \(.+ GiB\)|not cuda \((no NVIDIA driver is installed|there is no NVIDIA GPU|.+)\); cpu \(the processor\))\n"


def gpu():
    return CUDA_BUILD and b"device: cuda (" in run("chat", "--device", "auto").stderr


class DeviceTest(CliTest):
    def test_cpu(self):
        result = run("chat", "--device", "cpu", *GREEDY, stdin=QUESTION)
        self.assertEqual((result.returncode, result.stdout.decode()), (0, ANSWER))
        self.assertNotIn("device", result.stderr.decode())

    def test_cache_and_chunk_of_any_size_give_the_same_answer(self):
        for flags in (("--chunk", "3"), ("--cache-tokens", "300", "--max-seq-len", "250"), ("--no-graphs",), ("--mmap",)):
            self.assertEqual(self.ok("chat", *GREEDY, *flags, stdin=QUESTION), ANSWER, flags)
        for flags in (("--cache-tokens", "0"), ("--chunk", "0"), ("--chunk", "x")):
            self.refused(2, flags[0], "chat", *GREEDY, *flags)
        # Too small a cache for prompt and answer is told, not crashed into.
        result = run("chat", *GREEDY, "--cache-tokens", "4", stdin=QUESTION)
        self.assertIn("fathom: error: the request needs a cache of", result.stderr.decode())

    def test_kernels_of_products_are_explained(self):
        command = ("bench", "--config", TINY / "config.json", "--explain-kernels", "--batch", "1,300")
        lines = self.ok(*command, "--device", "cpu").splitlines()
        self.assertEqual(lines[1:], ["the device cpu has one kernel for all products"])
        if gpu():
            lines = self.ok(*command, "--device", "cuda-portable").splitlines()
            self.assertRegex(lines[1], r"^wq\S*, wkv_a +rows +1  gemv +tile +16 x +8  splits 1$")
            self.assertEqual(len(lines) % 2, 1)  # both batches have the same products

    def test_unknown_devices_are_refused_with_the_known_ones(self):
        known = "auto, cuda, cpu, cuda-portable" if CUDA_BUILD else "auto, cpu"
        for name in ("tpu", "CUDA") + (() if CUDA_BUILD else ("cuda", "cuda:0", "cuda-portable")):
            self.refused(1, [f"unknown device '{name}'", known], "chat", "--device", name)
        self.refused(1, "cpu:1", "chat", "--device", "cpu:1")
        for name in ("cpu:", "cpu:x", "cpu:-1", "cpu:0x0"):
            self.refused(1, "after the colon stands the number of the device", "chat", "--device", name)

    def test_help_names_what_this_program_has(self):
        text = " ".join(run("chat", "--help").stdout.decode().split())
        self.assertIn("cuda:N" if CUDA_BUILD else "cpu, or auto", text)

    @unittest.skipUnless(CUDA_BUILD, "this program is built without CUDA")
    def test_auto_says_what_it_took_and_why(self):
        result = run("chat", *GREEDY, stdin=QUESTION)
        self.assertEqual((result.returncode, result.stdout.decode()), (0, ANSWER))
        self.assertRegex(result.stderr.decode(), "^" + AUTO)

    @unittest.skipUnless(CUDA_BUILD, "this program is built without CUDA")
    def test_a_gpu_that_is_not_there(self):
        if gpu():
            self.refused(1, ["cuda:99", "numbered from 0"], "chat", "--device", "cuda:99")
            return
        line = r"cannot use --device cuda: .+; use --device cpu$"
        for name in ("cuda", "cuda:3", "cuda-portable"):
            for command in (("chat",), ("logits", "--model", TINY, "--ids", "1", "--out", self.folder / "x"),
                            ("generate", "--ckpt-path", TINY, "--interactive"),
                            ("bench", "--config", TINY / "config.json")):
                self.assertTrue(re.search(line, self.refused(1, "cuda", *command, "--device", name)), name)


if __name__ == "__main__":
    unittest.main()
