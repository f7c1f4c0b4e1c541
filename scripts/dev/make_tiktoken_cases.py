#!/usr/bin/env python3
"""Writes tests/data/tiktoken/: a small tiktoken vocabulary and what the Python package tiktoken makes of 400 texts.

Needs `pip install tiktoken`. The vocabulary is trained here on the sentences below, with tokens added that no merge of
the training leads to; the pattern is the one that models with a tiktoken.model carry.
"""
import base64
import collections
import json
import pathlib
import random

import tiktoken

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "tiktoken"
TEXT = """The quick brown fox jumps over the lazy dog. It's what they'll say, and we've said it: she'd 1234 apples in 2025!
Die Straße führt über den Fluß; größer, später, schöner. El niño comió piñas. Ça va, où êtes-vous? НЕТ, это не так.
今天天气很好，我们去公园玩。中文和English混在一起，数字123也在。日本語のテキストです。한국어 문장입니다.
def main(argc, argv):\n    for i in range(10):\n        print(f"{i}: {argv[i]}")\n    return {"a": [1, 2, 3]}\n\n
"""
EXTRA = ["aaa", "aaaa", "bab", "aba", "\u4e2d\u6587\u548c", " \u4e2d", "\n\n\n", "   ", "\U0001f642", "'LL", "xyz", "yz"]
PATTERN = "|".join([
    r"""[\p{Han}]+""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""", r""" ?[^\s\p{L}\p{N}]+[\r\n]*""", r"""\s*[\r\n]+""", r"""\s+(?!\S)""", r"""\s+"""])
NAMED = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 11: "<|tool_call_begin|>", 254: "[UNK]", 255: "[PAD]"}


def train(merges):
    """Byte-pair merges of the sentences, most frequent first; then the extra tokens."""
    words = [[bytes([b]) for b in word.encode()] for word in TEXT.replace(" ", "\0 ").split("\0")] * 2
    tokens = []
    for _ in range(merges):
        counts = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        (left, right), _ = max(counts.items(), key=lambda item: (item[1], item[0]))
        tokens.append(left + right)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == (left, right):
                    word[i:i + 2] = [left + right]
                i += 1
    return tokens


def texts(rng):
    yield from ["", " ", "\n", "aaaaaaaaaa", "aabaabab", "abababab", "xyzyz", "[BOS]Hello[EOS]", "a<|im_end|><|im_user|>b",
                "<|reserved_token_{}|>", "<|tool_call_begin|", "it's IT'S 'LL i\u017f", "\u3007\u2f00\u4e2d", "e\u0301\u0301 \u0301",
                "12345678", "\r\n\r\n  x", "   \t  y\u00a0\u2003z", "\U0001f642\U0001f468\u200d\U0001f469", "\u01c5\u02b0\u00aa"]
    alphabet = ["a", "b", "A", "xyz", " ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "1", "23", "中", "文和", "今天", "日本", "の", "ß",
                "ü", "e\u0301", "НЕТ", "한국", "🙂", ".", "...", "{", "[1, 2", "the ", " The", "\u2028", "\u00a0", "\0", "ǅ", "〇"]
    while True:
        yield "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 40)))


def main():
    rng = random.Random(5)
    bytes_first = list(range(256))
    rng.shuffle(bytes_first)
    tokens = [bytes([b]) for b in bytes_first] + train(220)
    more = [text.encode() for text in EXTRA if text.encode() not in tokens]
    for token in more:  # in between, so that ranks and lengths do not go together
        tokens.insert(rng.randrange(256, len(tokens)), token)
    ranks = {token: rank for rank, token in enumerate(tokens)}
    assert len(ranks) == len(tokens)
    special = {NAMED.get(i, f"<|reserved_token_{len(tokens) + i}|>"): len(tokens) + i for i in range(256)}
    encoding = tiktoken.Encoding("small", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)

    OUT.mkdir(exist_ok=True)
    lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
    (OUT / "tiktoken.model").write_text(lines)
    decoder = {str(len(tokens) + i): {"content": text, "special": not text.startswith("<|tool")}
               for i, text in NAMED.items()}
    config = {"added_tokens_decoder": decoder, "bos_token": "[BOS]", "eos_token": "[EOS]", "pad_token": "[PAD]",
              "unk_token": "[UNK]", "tokenizer_class": "TikTokenTokenizer"}
    (OUT / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    with open(OUT / "expected.jsonl", "w", encoding="utf-8") as out:
        for text, _ in zip(texts(rng), range(400)):
            text = text.replace("{}", str(len(tokens) + 5))
            ids = encoding.encode(text, allowed_special="all")
            plain = encoding.encode(text, disallowed_special=())
            out.write(json.dumps({"text": text, "ids": ids, "plain": plain}) + "\n")


if __name__ == "__main__":
    main()
