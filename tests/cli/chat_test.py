"""fathom chat: with a pipe, and on a terminal made for the test; what is typed there."""
import json
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
        self.assertEqual(result.stderr.decode(), "YaRN is on: factor 4, from a context of 4096 tokens\n"
                         "MTP layer 6 not used\n")
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
        self.assertEqual(result.returncode, 1)  # a question was not answered

    def test_byte_order_mark_is_no_part_of_the_first_question(self):
        self.assertEqual(self.ok("chat", *GREEDY, stdin=f"\ufeff{QUESTION}\n"), f"{ANSWER}\n")

    def test_input_that_cannot_be_read(self):
        folder = os.open(TINY, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        result = subprocess.run([PROGRAM, "chat"], stdin=folder, capture_output=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertEqual(result.stderr.splitlines()[2:],
                         [b"fathom: error: cannot read standard input: Is a directory"])

    def test_errors(self):
        self.refused(1, "/no/such/model", "chat", "/no/such/model")
        self.refused(2, "--top-p", "chat", "--top-p", "7")
        self.refused(2, "--nonsense", "chat", "--nonsense")


@unittest.skipIf(pty is None, "no pty module: terminals are not tested")
class TerminalTest(CliTest):
    def start(self, *args, command=("chat",), prompt="> "):
        try:
            self.master, slave = pty.openpty()
        except OSError as error:
            self.skipTest(f"no pseudo terminal here: {error}")
        self.process = subprocess.Popen([PROGRAM, *command, *args], stdin=slave, stdout=slave, stderr=slave, close_fds=True,
                                        start_new_session=True, preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
                                        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        os.close(slave)
        self.addCleanup(os.close, self.master)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.seen = ""
        self.wait_for(prompt)

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


class Typed(TerminalTest):
    """What is typed or pasted, as generate --json gives it back."""

    def setUp(self):
        super().setUp()
        self.start(command=("generate", "--ckpt-path", TINY, "--interactive", "--json", "--temperature", "0",
                            "--max-new-tokens", "1", "--threads", "1"), prompt=">>> ")

    def prompt_of(self, typed):
        self.type(typed)
        self.wait_for('{"prompt":')
        text = self.wait_for("}\r\n")
        self.wait_for(">>> ")
        return json.loads('{"prompt":' + text + "}")["prompt"]

    def test_tabs_and_keys_without_a_meaning_are_text(self):
        for text in ("if x:\treturn\ty", "\t", "a\x0f\x11\x13\x1d\x1e\x1fb", "no\u00a0break\u00adé\u0085\u2028\ufeff"):
            self.assertEqual(self.prompt_of(text + "\n"), text)

    def test_bytes_that_are_no_character_show(self):
        os.write(self.master, b"a\xe9b\xff")
        self.assertEqual(self.prompt_of("\n"), "a\ufffdb\ufffd")

    def test_pasted_text_is_one_message(self):
        self.assertEqual(self.prompt_of("\x1b[200~def f(x):\n    return x\n\x1b[201~\n"), "def f(x):\n    return x")
        self.assertEqual(self.prompt_of("see: \x1b[200~a\r\n\tb\rc\x1b[201~ d\n"), "see: a\n\tb\nc d")
        self.assertEqual(self.prompt_of("\x1b[A\n"), "see: a\n\tb\nc d")  # the history has it whole
        long = "\n".join("line %d of a long text" % i for i in range(300))
        self.assertEqual(self.prompt_of(f"\x1b[200~{long}\x1b[201~\n"), long)

    def test_quotes_hold_several_lines(self):
        self.assertEqual(self.prompt_of('"""\na\n\n /exit\n"""\n'), "a\n\n /exit")
        self.assertEqual(self.prompt_of('"""one\ntwo"""\n'), "one\ntwo")
        self.assertEqual(self.prompt_of('"""alone"""\n'), "alone")
        self.assertEqual(self.prompt_of('"""left open\n\x04'), "left open")
        self.type('"""thrown\naway\x03')  # Ctrl-C ends the conversation here
        self.wait_for("^C")
        self.ends()


class Terminal(TerminalTest):
    def test_pastes_are_marked_while_a_line_is_read(self):
        self.start(*GREEDY, prompt="\x1b[?2004h")
        self.wait_for("> ")
        self.type(QUESTION + "\n")
        self.wait_for("\x1b[?2004l")
        self.wait_for(ANSWER)
        self.wait_for("\x1b[?2004h")
        self.type("/help\n")
        self.wait_for('"""')
        self.wait_for("> ")
        self.type("\x04")
        self.ends()

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
