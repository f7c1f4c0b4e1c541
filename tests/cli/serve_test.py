"""fathom serve: OpenAI's dialect over HTTP, what is refused and how, clients that leave, the end of the server."""
import concurrent.futures
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
import unittest

from fathom_cli import DATA, PROGRAM, SOURCE, TINY, CliTest, run

ROMANIA = [{"role": "user", "content": "What is the capital of Romania?"}]
BUCHAREST = "The capital of Romania is Bucharest."
LONG = {"messages": [{"role": "user", "content": "Tell me a long story."}], "temperature": 1.5, "ignore_eos": True,
        "max_tokens": 12000}


class Server:
    """A running server; use as a context."""

    def __init__(self, *flags):
        self.process = subprocess.Popen([PROGRAM, "serve", str(TINY), "--port", "0", "--compute", "f32", "--device",
                                         "cpu", *flags], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.port = int(re.search(r"listening on https?://[\d.]+:(\d+)", self.line())[1])
        while not self.line().startswith("ready"):
            pass

    def line(self):
        line = self.process.stderr.readline()
        assert line, self.lines
        self.lines.append(line)
        return line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=60)

    def ask(self, method, path, body=None, **headers):
        """(status, headers, body) of one request; the body as JSON where it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, data, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers.get_content_type() == "application/json" and method != "HEAD"
            return answer.status, answer.headers, json.loads(text) if is_json else text
        finally:
            connection.close()

    def post(self, path, **body):
        status, _, answer = self.ask("POST", path, body)
        assert status == 200, answer
        return answer

    def stream(self, path, **body):
        """The chunks of a stream; asserts its frame."""
        status, headers, text = self.ask("POST", path, {**body, "stream": True})
        assert status == 200, text
        assert headers.get_content_type() == "text/event-stream"
        events = text.split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""], events[-3:]
        return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]

    def raw(self, data, shut=False):
        """All that the server sends for these bytes until it closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(data)
            if shut:
                connection.shutdown(socket.SHUT_WR)
            received = b""
            while part := connection.recv(65536):
                received += part
            return received.decode()

    def metric(self, name):
        return float(re.search(rf"^fathom_{name} (.*)$", self.ask("GET", "/metrics")[2], re.M)[1])

    def wait_for(self, name, value):
        deadline = time.monotonic() + 30
        while self.metric(name) != value:
            assert time.monotonic() < deadline, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.02)


class Dialect(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def refused(self, status, needle, path, body, param=None):
        got, _, answer = self.server.ask("POST", path, body)
        self.assertEqual(got, status, answer)
        self.assertEqual(set(answer), {"error"})
        self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
        self.assertIn(needle, answer["error"]["message"])
        if param:
            self.assertEqual(answer["error"]["param"], param)

    def test_chat(self):
        answer = self.server.post("/v1/chat/completions", messages=ROMANIA, temperature=0, model="tiny")
        choice = answer["choices"][0]
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(choice["message"], {"role": "assistant", "content": BUCHAREST, "refusal": None})
        self.assertEqual(choice["finish_reason"], "stop")
        usage = answer["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        ids = self.server.post("/tokenize", messages=ROMANIA)["tokens"]
        self.assertEqual(usage["prompt_tokens"], len(ids))

    def test_stream_is_the_answer_in_pieces(self):
        chunks = self.server.stream("/v1/chat/completions", messages=ROMANIA, temperature=0,
                                    stream_options={"include_usage": True})
        self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": None})
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"],
                         self.server.post("/v1/chat/completions", messages=ROMANIA,
                                          temperature=0)["usage"]["completion_tokens"])
        middle = [chunk["choices"][0] for chunk in chunks[1:-1]]
        self.assertEqual("".join(choice["delta"].get("content", "") for choice in middle), BUCHAREST)
        self.assertNotIn(True, ["role" in choice["delta"] for choice in middle])
        self.assertEqual([choice["finish_reason"] for choice in middle], [None] * (len(middle) - 1) + ["stop"])
        self.assertEqual(middle[-1]["delta"], {})
        always = self.server.stream("/v1/chat/completions", messages=ROMANIA, temperature=0,
                                    stream_options={"continuous_usage_stats": True})
        self.assertTrue(all(chunk["usage"]["prompt_tokens"] for chunk in always[1:]))

    def test_parts_and_roles(self):
        parts = [{"role": "developer", "content": "Answer."},
                 {"role": "user", "content": [{"type": "text", "text": "What is the capital"},
                                              {"type": "text", "text": "of Romania?"}]}]
        plain = [{"role": "system", "content": "Answer."},
                 {"role": "user", "content": "What is the capital\nof Romania?"}]
        self.assertEqual(self.server.post("/apply-template", messages=parts),
                         self.server.post("/apply-template", messages=plain))

    def test_choices_and_seeds(self):
        def texts(**more):
            answer = self.server.post("/v1/chat/completions", messages=LONG["messages"], temperature=1.2, n=3,
                                      max_tokens=12, ignore_eos=True, **more)
            self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2])
            self.assertEqual(answer["usage"]["completion_tokens"], 36)
            return [choice["message"]["content"] for choice in answer["choices"]]
        first = texts(seed=7)
        self.assertEqual(len(set(first)), 3)
        self.assertEqual(texts(seed=7), first)
        self.assertNotEqual(texts(), texts())
        chunks = self.server.stream("/v1/chat/completions", messages=LONG["messages"], temperature=1.2, n=3,
                                    max_tokens=12, ignore_eos=True, seed=7)
        joined = ["", "", ""]
        finishes = []
        for chunk in chunks:
            for choice in chunk["choices"]:
                joined[choice["index"]] += choice["delta"].get("content") or ""
                finishes += [choice["index"]] if choice["finish_reason"] else []
        self.assertEqual(joined, first)
        self.assertEqual(sorted(finishes), [0, 1, 2])

    def test_completions(self):
        ids = self.server.post("/tokenize", prompt="What's the capital of Croatia?")["tokens"]
        self.assertEqual(ids, [0, 320, 598, 264, 356, 297, 3371, 33])
        one = self.server.post("/v1/completions", prompt="What's the capital of Croatia?", temperature=0)
        cut = self.server.post("/v1/completions", prompt="What's the capital of Croatia?", temperature=0, ignore_eos=True)
        self.assertEqual(cut["usage"]["completion_tokens"], 16)  # where a request says nothing
        self.assertEqual(cut["choices"][0]["finish_reason"], "length")
        text = one["choices"][0]["text"]
        for prompt in (ids, [ids], ["What's the capital of Croatia?"]):
            same = self.server.post("/v1/completions", prompt=prompt, temperature=0)["choices"]
            self.assertEqual([choice["text"] for choice in same], [text])
        both = self.server.post("/v1/completions", prompt=["Hello", ids], temperature=0, echo=True)["choices"]
        self.assertEqual(len(both), 2)
        self.assertTrue(both[1]["text"].endswith("What's the capital of Croatia?" + text))
        stop = text[5:9]
        cut = self.server.post("/v1/completions", prompt=ids, temperature=0, stop=stop)["choices"][0]
        self.assertEqual((cut["text"], cut["finish_reason"]), (text[:text.index(stop)], "stop"))
        joined = "".join(chunk["choices"][0]["text"]
                         for chunk in self.server.stream("/v1/completions", prompt=ids, temperature=0))
        self.assertEqual(joined, text)
        self.assertEqual(self.server.post("/detokenize", tokens=ids[1:])["prompt"], "What's the capital of Croatia?")

    def test_logprobs(self):
        chat = {"messages": ROMANIA, "temperature": 0, "logprobs": True, "top_logprobs": 3}
        entries = self.server.post("/v1/chat/completions", **chat)["choices"][0]["logprobs"]["content"]
        shown = [entry for entry in entries if entry["token"] in BUCHAREST]
        self.assertEqual(bytes(byte for entry in shown for byte in entry["bytes"]).decode(), BUCHAREST)
        for entry in entries:
            self.assertEqual(len(entry["top_logprobs"]), 3)
            self.assertEqual(entry["top_logprobs"][0]["token"], entry["token"])
            self.assertLessEqual(entry["logprob"], 0)
        streamed = [entry for chunk in self.server.stream("/v1/chat/completions", **chat)
                    for choice in chunk["choices"] for entry in (choice["logprobs"] or {"content": []})["content"]]
        self.assertEqual([entry["token"] for entry in streamed], [entry["token"] for entry in entries])
        lists = self.server.post("/v1/completions", prompt="Hello", temperature=0, logprobs=2, ignore_eos=True,
                                 max_tokens=9)["choices"][0]["logprobs"]
        self.assertEqual({len(one) for one in lists.values()}, {9})

    def test_second_turn_finds_the_first(self):
        history = [{"role": "user", "content": "Tell me about the sea. " * 40}]
        first = self.server.post("/v1/chat/completions", messages=history, temperature=0, max_tokens=20)
        history += [first["choices"][0]["message"], {"role": "user", "content": "And the sky?"}]
        second = self.server.post("/v1/chat/completions", messages=history, temperature=0, max_tokens=20)["usage"]
        self.assertGreater(second["prompt_tokens_details"]["cached_tokens"], first["usage"]["prompt_tokens"] - 64)

    def test_many_at_once_answer_as_alone(self):
        prompts = [f"What is the capital of {name}?" for name in
                   ("Romania", "France", "Spain", "Italy", "Croatia", "Norway", "Japan", "Egypt")] * 3
        def answer(text):
            body = self.server.post("/v1/chat/completions", messages=[{"role": "user", "content": text}], temperature=0,
                                    max_tokens=30)
            return body["choices"][0]["message"]["content"]
        alone = {text: answer(text) for text in set(prompts)}
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            self.assertEqual(list(pool.map(answer, prompts)), [alone[text] for text in prompts])

    def test_refusals_of_bodies(self):
        chat, completions = "/v1/chat/completions", "/v1/completions"
        self.refused(400, "not valid JSON", chat, b'{"messages": ')
        self.refused(400, "must be a JSON object", chat, b'[1, 2]')
        self.refused(400, "more than 64 deep", chat, b'{"messages": ' + b"[" * 200 + b"]" * 200 + b"}")
        self.refused(400, "'messages' is missing", chat, {}, "messages")
        self.refused(400, "at least one", chat, {"messages": []}, "messages")
        self.refused(400, "must be a list", chat, {"messages": "hello"}, "messages")
        self.refused(400, "'messages[0].role'", chat, {"messages": [{"content": "x"}]}, "messages[0].role")
        self.refused(400, "not \"wizard\"", chat, {"messages": [{"role": "wizard", "content": "x"}]})
        self.refused(400, "image_url", chat, {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]}]}, "messages[0].content[0].type")
        for field, value in (("temperature", "hot"), ("temperature", 3), ("temperature", -1), ("top_p", 0), ("top_p", 2),
                             ("max_tokens", 0), ("max_tokens", 1.5), ("max_tokens", 10 ** 30), ("n", 0), ("n", 1000),
                             ("seed", "x"), ("stop", 5), ("stop", ["a"] * 17), ("stream", "yes"), ("top_logprobs", 21),
                             ("logprobs", 3), ("min_p", 7), ("logit_bias", {"5": 1}), ("presence_penalty", 1),
                             ("response_format", {"type": "json_object"}), ("tools", [{"type": "function"}]),
                             ("tool_choice", "required"), ("stop_token_ids", [-1])):
            body = {"messages": ROMANIA, field: value}
            if field == "tool_choice":
                body["tools"] = [{"type": "function", "function": {"name": "f"}}]
            status, _, answer = self.server.ask("POST", chat, body)
            self.assertEqual(status, 400, (field, value, answer))
            self.assertIn(field, answer["error"]["message"])
        self.refused(400, "stream_options", chat, {"messages": ROMANIA, "stream_options": {}}, "stream_options")
        self.refused(400, "maximum context length is 16384", chat, {"messages": ROMANIA, "max_tokens": 99999})
        self.refused(400, "maximum context length is 16384", completions, {"prompt": [5] * 16384})
        self.refused(400, "below", completions, {"prompt": [5, 10 ** 9]}, "prompt")
        self.refused(400, "suffix", completions, {"prompt": "x", "suffix": "y"}, "suffix")
        self.refused(400, "logprobs", completions, {"prompt": "x", "logprobs": 21}, "logprobs")
        self.refused(404, "'gpt-9' does not exist", chat, {"messages": ROMANIA, "model": "gpt-9"}, "model")
        self.refused(501, "no embeddings", "/v1/embeddings", {"input": "x"})
        self.assertEqual(self.server.ask("POST", chat, {"messages": ROMANIA, "unknown": 1, "user": "me",
                                                        "max_tokens": 1})[0], 200)

    def test_routes(self):
        self.assertEqual(self.server.ask("GET", "/nowhere")[0], 404)
        status, headers, _ = self.server.ask("GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        for path in ("/health", "/ready", "/version", "/metrics", "/v1/models", "/v1/models/tiny", "/tokenizer_info"):
            self.assertEqual(self.server.ask("GET", path)[0], 200, path)
            status, headers, body = self.server.ask("HEAD", path)
            self.assertEqual((status, body), (200, ""))
            self.assertGreater(int(headers["Content-Length"]), 0)
        self.assertEqual(self.server.ask("GET", "/v1/models/other")[0], 404)
        self.assertEqual(self.server.ask("GET", "/health", x_request_id="mine-7")[1]["X-Request-Id"], "mine-7")
        self.assertNotEqual(self.server.ask("GET", "/health", x_request_id="a b")[1]["X-Request-Id"], "a b")


class Transport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-body", "1")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def head(self, data):
        return self.server.raw(data).split("\r\n")[0]

    def test_what_is_no_request(self):
        self.assertEqual(self.head(b"hello world, this is no HTTP\r\n\r\n"), "HTTP/1.1 400 Bad Request")
        self.assertEqual(self.head(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), "HTTP/1.1 400 Bad Request")
        self.assertEqual(self.head(b"GET / HTTP/1.1\r\nX: " + b"y" * 70000 + b"\r\n\r\n"),
                         "HTTP/1.1 431 Request Header Fields Too Large")
        self.assertEqual(self.head(b"POST /tokenize HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n"),
                         "HTTP/1.1 413 Content Too Large")
        self.assertEqual(self.head(b"POST /tokenize HTTP/1.1\r\nContent-Length: -5\r\n\r\n"), "HTTP/1.1 400 Bad Request")
        self.assertEqual(self.server.raw(b"POST /tokenize HTTP/1.1\r\nContent-Length: 50\r\n\r\n{", shut=True), "")
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)

    def test_requests_in_a_row(self):
        one = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        last = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        self.assertEqual(self.server.raw(one * 20 + last).count('{"status":"ok"}'), 21)

    def test_bodies(self):
        chunked = (b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                   b'a\r\n{"prompt":\r\n5\r\n"Hi"}\r\n0\r\n\r\n')
        self.assertIn('"tokens":[0,', self.server.raw(chunked))
        body = b'{"prompt":"Hi"}'
        expect = (b"POST /tokenize HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body))
        self.assertTrue(self.server.raw(expect + body).startswith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"))

    def test_old_clients_get_streams_without_chunks(self):
        body = json.dumps({"messages": ROMANIA, "temperature": 0, "stream": True}).encode()
        answer = self.server.raw(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head, stream = answer.split("\r\n\r\n", 1)
        self.assertNotIn("chunked", head)
        self.assertTrue(stream.endswith("data: [DONE]\n\n"))
        self.assertEqual(stream.count("data: "), stream.count("\n\n"))

    def test_a_client_that_leaves_is_forgotten(self):
        for stream in (True, False):
            before = self.server.metric("requests_cancelled_total")
            body = json.dumps({**LONG, "stream": stream}).encode()
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as connection:
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                if stream:
                    self.assertIn(b"200 OK", connection.recv(65536))
                self.server.wait_for("requests_running", 1)
            self.server.wait_for("requests_running", 0)
            self.assertEqual(self.server.metric("requests_cancelled_total"), before + 1)
        self.assertEqual(self.server.metric("cache_usage_ratio"), 0)


class Operation(CliTest):
    def test_keys(self):
        keys = self.file("keys", "# two\nfirst-key\n\nsecond-key\n")
        with Server("--api-key", "zero-key", "--api-key-file", str(keys)) as server:
            for headers in ({}, {"Authorization": "Bearer nothing"}, {"Authorization": "zero-key"}, {"X-Api-Key": "first"}):
                status, answered, body = server.ask("GET", "/v1/models", **headers)
                self.assertEqual((status, body["error"]["type"]), (401, "authentication_error"))
                self.assertEqual(answered["WWW-Authenticate"], "Bearer")
            for headers in ({"Authorization": "Bearer zero-key"}, {"authorization": "bearer first-key"},
                            {"X-Api-Key": "second-key"}):
                self.assertEqual(server.ask("GET", "/v1/models", **headers)[0], 200)
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            self.assertEqual(server.ask("GET", "/ready")[0], 200)
            self.assertEqual(server.ask("GET", "/metrics")[0], 401)

    def test_cors(self):
        with Server("--cors-origin", "http://here.example") as server:
            status, headers, _ = server.ask("OPTIONS", "/v1/chat/completions", Origin="http://here.example",
                                            Access_Control_Request_Headers="authorization")
            self.assertEqual(status, 204)
            self.assertEqual(headers["Access-Control-Allow-Origin"], "http://here.example")
            self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization")
            self.assertNotIn("Access-Control-Allow-Origin",
                             server.ask("GET", "/v1/models", Origin="http://there.example")[1])

    def test_tls(self):
        folder = SOURCE / "tests/data/tls"
        with Server("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")) as server:
            context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
            connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=60)
            connection.request("POST", "/v1/chat/completions", json.dumps({"messages": ROMANIA, "temperature": 0,
                                                                           "stream": True}))
            self.assertIn('"content":" Romania"', connection.getresponse().read().decode())
            connection.close()
        self.refused(1, "is not a certificate", "serve", str(TINY), "--port", "0", "--tls-cert", str(TINY / "config.json"),
                     "--tls-key", str(folder / "key.pem"))
        self.refused(2, ["--tls-key", "--tls-cert"], "serve", str(TINY), "--tls-key", str(folder / "key.pem"))

    def test_end(self):
        with Server() as server:
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                body = json.dumps({**LONG, "max_tokens": 300, "stream": True}).encode()
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                                   % len(body) + body)
                received = connection.recv(65536)
                server.process.send_signal(signal.SIGTERM)
                self.assertIn("ending", server.line())
                self.assertEqual(server.ask("POST", "/v1/completions", {"prompt": "x"})[0], 503)
                self.assertEqual(server.ask("GET", "/health")[0], 503)
                while part := connection.recv(65536):
                    received += part
                self.assertTrue(received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), received[-200:])
            self.assertEqual(server.process.wait(60), 0)

    def test_end_at_once(self):
        with Server("--grace", "3600") as server:
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                body = json.dumps({**LONG, "stream": True}).encode()
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                connection.recv(65536)
                server.process.send_signal(signal.SIGTERM)
                self.assertIn("ending", server.line())
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(60), 1)

    def test_refusals(self):
        with Server() as server:
            self.refused(1, ["cannot listen", "port"], "serve", str(TINY), "--port", str(server.port))
        self.refused(1, "cannot listen", "serve", str(TINY), "--host", "no.such.host.invalid", "--port", "0")
        self.refused(1, "cannot read", "serve", str(TINY), "--port", "0", "--api-key-file", str(self.folder / "absent"))
        self.refused(2, "--port", "serve", str(TINY), "--port", "70000")
        result = run("serve", str(self.folder / "absent"), "--port", "0")
        self.assertEqual(result.returncode, 1)
        self.assertIn("fathom: error: ", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
