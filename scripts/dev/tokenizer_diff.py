#!/usr/bin/env python3
"""Random texts through fathom and through the Rust library: any difference in ids or decoded text is printed.

Needs the Python package tokenizers; not part of CI.
Usage: tokenizer_diff.py --fathom build/dev/bin/fathom [--count 100000] [--seed 1] MODEL_DIR...
       tokenizer_diff.py --fathom build/dev/bin/fathom --classes    (character classes of regular expressions, all characters)
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

SCRIPTS = [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x590, 0x6FF), (0x900, 0x97F),
           (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2190, 0x2BFF), (0x3000, 0x30FF),
           (0x4E00, 0x9FFF), (0x9FA0, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFE00, 0xFFFF), (0x1F300, 0x1FAFF),
           (0x20000, 0x2A6DF), (0xE0000, 0xE01EF), (0x0, 0x1F), (0x7F, 0x9F), (0x10000, 0x10FFFF), (0x0, 0xFFFF)]
SPACES = list(" \t\n\r\v\f\u0085\u00a0\u1680\u180e\u2002\u2028\u2029\u202f\u205f\u3000\u200b\u200d\ufeff")
WORDS = ("the of and Hello world def return import self print function class int void std::vector i'm don't it'll we've "
         "用户 你好 世界 模型 我们 日本語 テスト 한국어 привет мир 12 3456 7890123 3.14159 0xFF http://a.b/c?d=e&f "
         "== != <= -> => ++ -- // /* */ # @ $x {} [] () ... ！？，。「」 🙂 👨‍👩‍👧 é e\u0301 ﬁ ½ ٣٤ Ⅷ \ud800 ſ K").split(" ")


def character(rng):
    low, high = rng.choice(SCRIPTS)
    return chr(rng.randint(low, high))


def sendable(text):
    """An invalid surrogate cannot be handed to the library; escaped as text it can."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def random_text(rng, added):
    kind = rng.random()
    if kind < 0.03:  # long runs
        return sendable("".join(rng.choice([character(rng), rng.choice(SPACES), "a", "="]) * rng.randint(1, 300) for _ in range(3)))
    parts = []
    for _ in range(rng.randint(1, 25)):
        k = rng.random()
        if k < 0.35:
            parts.append(rng.choice(WORDS))
        elif k < 0.5:
            parts.append(rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 7]))
        elif k < 0.6:
            parts.append(" ")
        elif k < 0.65 and added:
            parts.append(rng.choice(added))
        elif k < 0.75:
            low, high = rng.choice(SCRIPTS)
            parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 8))))
        elif k < 0.85:
            parts.append(rng.choice(WORDS).title())
        else:
            parts.append(character(rng))
    return sendable("".join(parts))


def fathom(program, model, flags, values):
    text = "".join(json.dumps(value) + "\n" for value in values)
    result = subprocess.run([program, "tokenize", "--model", str(model), "--jsonl", *flags], input=text.encode(),
                            capture_output=True)
    if result.returncode != 0:
        sys.exit(result.stderr.decode())
    return [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]


def compare(program, model, count, seed):
    rng = random.Random(seed)
    library = Tokenizer.from_file(str(model / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    added = [token["content"] for token in json.loads((model / "tokenizer.json").read_text())["added_tokens"]]
    differences = done = 0
    while done < count:
        texts = [random_text(rng, added) for _ in range(min(10000, count - done))]
        expected = [encoding.ids for encoding in library.encode_batch(texts, add_special_tokens=False)]
        got = fathom(program, model, ["--no-bos"], texts)
        decoded = fathom(program, model, ["--decode"], expected)
        for text, want, have, back, said in zip(texts, expected, got, library.decode_batch(expected), decoded):
            if want != have or back != said:
                differences += 1
                if differences <= 5:
                    print(f"{model}: {text!r}\n  library {want} {back!r}\n  fathom  {have} {said!r}")
        # Ids in any order: half characters and byte tokens next to anything.
        size = library.get_vocab_size()
        loose = [[rng.randrange(size) for _ in range(rng.randint(0, 12))] for _ in range(len(texts) // 10)]
        for ids, back, said in zip(loose, library.decode_batch(loose), fathom(program, model, ["--decode"], loose)):
            if back != said:
                differences += 1
                if differences <= 5:
                    print(f"{model}: ids {ids}\n  library {back!r}\n  fathom  {said!r}")
        done += len(texts)
    print(f"{model.name}: {done} texts, {differences} differences")
    return differences


CLASSES = r"""\p{L} \p{M} \p{N} \p{P} \p{S} \p{Z} \p{C} \p{Lu} \p{Ll} \p{Lt} \p{Lm} \p{Lo} \p{Nd} \p{Nl} \p{No} \p{Pc} \p{Sm} \p{Sc} \p{Han}
\p{Cn} \p{Cc} \p{Cf} \P{L} \P{N} \p{^P} \p{Letter} \p{Alphabetic} \p{alpha} \p{space} \p{word} \p{digit} \s \S \w \W \d \D \h \H
[^\s\p{L}\p{N}] [^\r\n\p{L}\p{N}] [\p{L}\p{M}] [^\S\n] [\W] [\D1] [[:alpha:]] [[:digit:]] [[:space:]] [[:upper:]] [[:lower:]] [[:word:]]
[^[:alpha:]] [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]] [a-z&&[^aeiou]] . (?m:.) (?i:s) (?i:k) (?i:ß) \p{Hiragana} \p{Latin} \p{Greek}
\p{Lowercase} \p{Uppercase} \p{White_Space} \p{Emoji} \b.\b""".split()


def compare_classes(program):
    differences = 0
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    texts = ["".join(points[i : i + 512]) for i in range(0, len(points), 512)]
    for pattern in CLASSES:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        tokenizer = json.loads(Tokenizer(models.BPE()).to_str())
        tokenizer["model"]["vocab"] = {"a": 0}
        tokenizer["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "tokenizer.json").write_text(json.dumps(tokenizer))
            got = fathom(program, folder, ["--explain"], texts)
        wrong = []
        for text, rows in zip(texts, got):
            want = [piece for piece, _ in split.pre_tokenize_str(text)]
            have = [row["piece"] for row in rows]
            if want != have:
                wrong += sorted(set(want) ^ set(have))[:4]
        differences += bool(wrong)
        if wrong:
            print(f"{pattern}: {[ascii(w[:5]) for w in wrong[:6]]}")
    print(f"{len(CLASSES)} classes over {len(points)} characters, {differences} different")
    return differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fathom", required=True)
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    differences = compare_classes(options.fathom) if options.classes else 0
    for model in options.models:
        differences += compare(options.fathom, model, options.count, options.seed)
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
