"""fathom chat: with a pipe, and on a terminal made for the test."""
import os
import re
import select
import signal
import subprocess
import time
import unittest

try:
    import pty
except ImportError:
    pty = None

from fathom_cli import PROGRAM, TINY, CliTest, run

GREEDY = ("--temperature", "0", "--compute", "f32", "--threads", "2")
QUESTION, ANSWER = "What is 3 plus 2?", "3 + 2 = 5."


class Pipe(CliTest):
    def test_standard_output_holds_answers_alone(self):
        result = run("chat", *GREEDY, stdin=f"{QUESTION}\nCopy this: irfhfncu\n")
        self.assertEqual(result.stdout.decode(), f"{ANSWER}\nirfhfncu\n")
        self.assertEqual(result.stderr.decode(), "")
        self.assertEqual(result.returncode, 0)

    def test_last_line_needs_no_end_and_blank_lines_are_passed_over(self):
        self.assertEqual(self.ok("chat", *GREEDY, stdin=f"\r\n\n{QUESTION}"), f"{ANSWER}\n")
        self.assertEqual(self.ok("chat", *GREEDY, stdin=""), "")

    def test_history_and_clear(self):
        turns = "I live in London.\nIn which city do I live?\n"
        output = self.ok("chat", *GREEDY, stdin=turns + "/clear\nIn which city do I live?\n").splitlines()
        self.assertEqual(output[:2], ["I hope that you like London.", "You live in London."])
        self.assertNotIn("London", output[2])

    def test_exit_help_and_stats(self):
        result = run("chat", *GREEDY, stdin=f"/stats\n/help\n{QUESTION}\n{QUESTION}\n/stats\n/exit\n{QUESTION}\n")
        self.assertEqual(len(result.stdout.decode().splitlines()), 2)
        notes = result.stderr.decode()
        self.assertIn("no answer yet", notes)
        for command in ("/clear", "/stats", "/help", "/exit", "Ctrl-C"):
            self.assertIn(command, notes)
        self.assertRegex(notes, r"\d+ tokens at [\d.]+ tokens/s, first after [\d.]+ s")
        self.assertRegex(notes, r"context \d+ of 16384")

    def test_second_turn_is_computed_from_the_cache(self):
        result = run("chat", *GREEDY, stdin="Copy this: " + "Marco Amara Sofia 36 " * 8 + f"\n{QUESTION}\n/stats\n")
        found = re.search(r"prompt of (\d+) tokens, (\d+) from the cache", result.stderr.decode())
        self.assertGreater(int(found[2]), int(found[1]) * 0.6, result.stderr.decode())

    def test_model_system_and_sampling_flags(self):
        args = ("chat", TINY, *GREEDY, "--system", "Reply in Chinese.")
        self.assertEqual(self.ok(*args, stdin="What colour is a pumpkin?\n"), "橙色。\n")
        self.assertEqual(self.ok("chat", "--temperature", "3", "--top-k", "1", "--compute", "f32", "--stop", "2 =",
                                 stdin=QUESTION + "\n"), "3 + \n")
        self.assertEqual(self.ok("chat", *GREEDY, "--max-new-tokens", "0", stdin=QUESTION + "\n"), ANSWER + "\n")

    def test_full_context_is_said_and_survived(self):
        result = run("chat", *GREEDY, "--max-seq-len", "24", stdin="long " * 40 + f"\n{QUESTION}\n")
        self.assertEqual(result.stdout.decode(), f"{ANSWER}\n")
        self.assertIn("Prompt length exceeds model maximum sequence length (max_seq_len=24)", result.stderr.decode())
        self.assertIn("/clear", result.stderr.decode())
        self.assertEqual(result.returncode, 0)

    def test_errors(self):
        self.refused(1, "/no/such/model", "chat", "/no/such/model")
        self.refused(2, "--top-p", "chat", "--top-p", "7")
        self.refused(2, "--nonsense", "chat", "--nonsense")


@unittest.skipIf(pty is None, "no pty module: the terminal chat is not tested")
class Terminal(CliTest):
    def start(self, *args):
        try:
            self.master, slave = pty.openpty()
        except OSError as error:
            self.skipTest(f"no pseudo terminal here: {error}")
        self.process = subprocess.Popen([PROGRAM, "chat", *args], stdin=slave, stdout=slave, stderr=slave, close_fds=True,
                                        start_new_session=True, preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
                                        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        os.close(slave)
        self.addCleanup(os.close, self.master)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.seen = ""
        self.wait_for("> ")

    def wait_for(self, text, seconds=60):
        """Reads until the text has come; returns what came before its end and forgets it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f"{text!r} did not come; seen: {self.seen!r}")
            try:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            except OSError:
                self.fail(f"{text!r} did not come before the end; seen: {self.seen!r}")
        before, self.seen = self.seen.split(text, 1)
        return before

    def type(self, text):
        os.write(self.master, text.encode())

    def ends(self):
        end = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    os.read(self.master, 65536)
                except OSError:
                    pass
        self.assertEqual(self.process.poll(), 0)

    def test_conversation(self):
        self.start(*GREEDY)
        self.type(QUESTION + "\n")
        self.wait_for(ANSWER)
        self.wait_for("> ")
        self.type("/stats\n")
        self.wait_for("tokens/s")
        self.wait_for("> ")
        self.type("/help\n")
        self.wait_for("/clear")
        self.wait_for("> ")
        self.type("\x04")  # Ctrl-D
        self.ends()

    def test_editing_and_history(self):
        self.start(*GREEDY)
        self.type("What is 3 plux\x7fs 2?\n")  # a mistake taken back
        self.wait_for(ANSWER)
        self.wait_for("> ")
        self.type("\x1b[A\n")  # the line before
        self.wait_for("3 plus 2?")
        self.wait_for("5.")
        self.wait_for("> ")
        self.type("/exit\n")
        self.ends()

    def test_typed_text_may_be_any_unicode(self):
        answer = self.ok("chat", *GREEDY, stdin="Copy this: 十二月\n").strip()  # which no other question gives
        self.start(*GREEDY)
        self.type("Copy this: 十二é\x7f月\n")
        self.wait_for("\n")
        self.wait_for(answer)
        self.wait_for("> ")
        self.type("\x04")
        self.ends()

    def test_interrupt_stops_the_answer_only(self):
        self.start("--temperature", "50", "--max-new-tokens", "12000")
        self.type("Hello\n")
        self.wait_for("Hello")
        time.sleep(1)
        self.type("\x03")
        self.wait_for("[stopped]")
        self.wait_for("> ")
        self.type("half a line\x03")  # at the prompt: a new line
        self.wait_for("^C")
        self.wait_for("> ")
        self.type("\x03")
        self.wait_for("> ")
        self.assertIsNone(self.process.poll())
        self.type("/stats\n")
        self.wait_for("tokens/s")
        self.wait_for("> ")
        self.type("\x04")
        self.ends()

    def test_interrupt_while_loading_ends_the_program(self):
        process = subprocess.Popen([PROGRAM, "chat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
