"""Commands where the system gives no threads: fewer of them, or one line."""
import resource
import subprocess
import unittest

from fathom_cli import PROGRAM, TINY, CliTest


def without_threads(*args, stdin=b""):
    """A run in which no thread can be started: their stacks would be larger than the address space."""
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    return subprocess.run([PROGRAM, *map(str, args)], input=stdin, capture_output=True, timeout=120, check=False,
                          preexec_fn=limit)


@unittest.skipUnless(resource.getrlimit(resource.RLIMIT_STACK)[1] == resource.RLIM_INFINITY, "stacks are limited here")
class NoThreads(CliTest):
    def test_a_model_runs_on_the_thread_that_there_is(self):
        for extra in ([], ["--mmap"]):
            result = without_threads("chat", "--threads", "8", "--temperature", "0", "--compute", "f32", *extra,
                                     stdin=b"What is 3 plus 2?\n")
            self.assertEqual((result.returncode, result.stdout), (0, b"3 + 2 = 5.\n"), result.stderr)
        self.assertEqual(without_threads("verify", TINY, "--threads", "4").returncode, 0)

    def test_what_needs_a_second_thread_says_so(self):
        for i, args in enumerate((["convert", "--hf-ckpt-path", TINY, "--save-path"], ["synth", "--config", TINY, "--out"],
                                  ["fp8-cast-bf16", "--input-fp8-hf-path", TINY, "--output-bf16-hf-path"])):
            with self.subTest(args[0]):
                result = without_threads(*args, self.folder / str(i))
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr.decode().splitlines()[-1], r"^fathom: error: cannot start a thread \(.+\); ")
                self.ok(*args, self.folder / str(i))  # nothing is in the way
        result = without_threads("serve", "--port", "0")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr.decode().splitlines()[-1], r"^fathom: error: cannot start a thread \(.+\); ")


if __name__ == "__main__":
    unittest.main()
