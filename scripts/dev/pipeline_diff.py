#!/usr/bin/env python3
"""Random tokenizers (every normalizer, pre-tokenizer, post-processor, decoder and model option) through fathom and through
the Rust library: any difference in ids or decoded text is printed, with the tokenizer that showed it.

Needs the Python package tokenizers; not part of CI.
Usage: pipeline_diff.py --fathom build/dev/bin/fathom [--count 300] [--texts 60] [--seed 1] [--keep DIR]
"""
import argparse
import json
import pathlib
import random
import tempfile

from tokenizer_diff import WORDS, fathom, random_text, sendable
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
PATTERNS = [r"\s+", r"\d{1,3}", r"\p{L}+", r"[^\s\p{L}\p{N}]+", r"'(?i:s|t|re|ve|m|ll|d)", r"\s+(?!\S)", r"[一-龥]+", r"(?=[A-Z])", r"\b", "$",
            r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"]
STRINGS = [" ", "▁", "e", "l", "ll", "...", "\n", "a", "é", ""]


def pattern(rng):
    return {"Regex": rng.choice(PATTERNS)} if rng.random() < 0.5 else {"String": rng.choice(STRINGS[:-1])}


def normalizer(rng, depth=1):
    kind = rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Replace", "Replace", "Prepend", "Strip", "Sequence"])
    if kind == "Sequence":
        return {"type": kind, "normalizers": [normalizer(rng, 0) for _ in range(rng.randint(0, 3))]} if depth else {"type": "NFC"}
    fields = {"Replace": lambda: {"pattern": pattern(rng), "content": rng.choice(STRINGS)},
              "Prepend": lambda: {"prepend": rng.choice(["▁", "x ", "_"])},
              "Strip": lambda: {"strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.5}}
    return {"type": kind} | fields.get(kind, dict)()


def pre_tokenizer(rng, depth=1):
    kind = rng.choice(["Split", "Split", "Split", "ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "Metaspace", "Sequence"])
    if kind == "Sequence":
        if not depth:
            return {"type": "Whitespace"}
        return {"type": kind, "pretokenizers": [pre_tokenizer(rng, 0) for _ in range(rng.randint(1, 3))]}
    flag = lambda: rng.random() < 0.5
    fields = {"Split": lambda: {"pattern": pattern(rng), "behavior": rng.choice(BEHAVIORS), "invert": flag()},
              "ByteLevel": lambda: {"add_prefix_space": flag(), "trim_offsets": flag(), "use_regex": flag()},
              "Digits": lambda: {"individual_digits": flag()},
              "Punctuation": lambda: {"behavior": rng.choice(BEHAVIORS)},
              "Metaspace": lambda: {"replacement": "▁", "prepend_scheme": rng.choice(["always", "first", "never"]), "split": flag()}}
    return {"type": kind} | fields.get(kind, dict)()


def decoder(rng, depth=1):
    kind = rng.choice(["ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace", "Sequence", "Sequence"])
    if kind == "Sequence":
        return {"type": kind, "decoders": [decoder(rng, 0) for _ in range(rng.randint(1, 4))]} if depth else {"type": "Fuse"}
    fields = {"ByteLevel": lambda: {"add_prefix_space": True, "trim_offsets": True, "use_regex": True},
              "Replace": lambda: {"pattern": {"String": rng.choice(STRINGS[:-1])}, "content": rng.choice(STRINGS)},
              "Strip": lambda: {"content": rng.choice([" ", "▁", "a"]), "start": rng.randint(0, 2), "stop": rng.randint(0, 2)},
              "Metaspace": lambda: {"replacement": "▁", "prepend_scheme": rng.choice(["always", "first", "never"]), "split": True}}
    return {"type": kind} | fields.get(kind, dict)()


def added_tokens(rng, first):
    contents = rng.sample(["<s>", "</s>", "<|x|>", "the", " the", "ab", "é", "12", "▁the", "\n\n", "<unk>", "用户", "..."], rng.randint(0, 7))
    flag = lambda p=0.3: rng.random() < p
    return [{"id": first + i, "content": content, "single_word": flag(), "lstrip": flag(), "rstrip": flag(),
             "normalized": flag(0.5), "special": flag(0.4)} for i, content in enumerate(contents)]


def template(rng, tokens):
    names = [token["content"] for token in tokens]
    if not names:
        return None
    pieces = [{"Sequence": {"id": "A", "type_id": 0}}]
    for _ in range(rng.randint(1, 2)):
        pieces.insert(rng.randint(0, len(pieces)), {"SpecialToken": {"id": rng.choice(names), "type_id": 0}})
    ids = {token["content"]: token["id"] for token in tokens}
    used = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
    return {"type": "TemplateProcessing", "single": pieces, "pair": pieces + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in used}}


def trained(rng, corpus):
    """A small BPE model, byte-level or with byte fallback or with neither."""
    style = rng.choice(["bytes", "fallback", "plain"])
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if style == "bytes" else pre_tokenizers.Metaspace()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if style == "bytes" else []
    size = rng.choice([300, 500, 900])
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    vocab = model["vocab"]
    if style == "fallback":
        for byte in range(256):
            vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
    model["byte_fallback"] = style == "fallback"
    if rng.random() < 0.5:
        vocab.setdefault("<unk>", len(vocab))
        model["unk_token"] = "<unk>"
        model["fuse_unk"] = rng.random() < 0.5
    model["ignore_merges"] = rng.random() < 0.3
    if rng.random() < 0.5:
        model["merges"] = [" ".join(merge) if not any(" " in part for part in merge) else merge for merge in model["merges"]]
        if any(isinstance(merge, list) for merge in model["merges"]):
            model["merges"] = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
    return model


def random_tokenizer(rng, corpus):
    model = trained(rng, corpus)
    tokens = added_tokens(rng, len(model["vocab"]))
    following = len(model["vocab"])  # the library numbers them so whatever the file says
    for token in tokens:
        token["id"] = model["vocab"].get(token["content"], following)  # an added token may be a word of the model
        following += token["id"] == following
    offsets = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    processors = [part for part in (offsets, template(rng, tokens)) if part]
    post = rng.choice([None, *processors, {"type": "Sequence", "processors": processors}])
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": normalizer(rng) if rng.random() < 0.6 else None,
            "pre_tokenizer": pre_tokenizer(rng) if rng.random() < 0.9 else None,
            "post_processor": post, "decoder": decoder(rng) if rng.random() < 0.85 else None, "model": model}


def compare(program, folder, tokenizer, texts):
    """The first difference, or None."""
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for special in (False, True):
        want = [encoding.ids for encoding in library.encode_batch(texts, add_special_tokens=special)]
        have = fathom(program, folder, ["--add-special-tokens" if special else "--no-bos"], texts)
        for text, left, right in zip(texts, want, have):
            if left != right:
                return f"special {special}, text {text!r}\n  library {left}\n  fathom  {right}"
    for skip in (True, False):
        want_text = library.decode_batch(want, skip_special_tokens=skip)
        for ids, left, right in zip(want, want_text, fathom(program, folder, ["--decode"] + ([] if skip else ["--keep-special"]), want)):
            if left != right:
                return f"skip {skip}, ids {ids}\n  library {left!r}\n  fathom  {right!r}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fathom", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the tokenizers that differ")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    corpus = [sendable(" ".join(rng.choice(WORDS) for _ in range(12))) for _ in range(400)]
    differences = panics = 0
    for number in range(args.count):
        tokenizer = random_tokenizer(rng, corpus)
        texts = [random_text(rng, [token["content"] for token in tokenizer["added_tokens"]]) for _ in range(args.texts)] + ["", " "]
        with tempfile.TemporaryDirectory() as folder:
            try:
                said = compare(args.fathom, pathlib.Path(folder), tokenizer, texts)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # one of the two refuses the tokenizer
                said = f"{type(error).__name__}: {error}"
                if type(error).__name__ == "PanicException":  # a fault of the library's: nothing to compare with
                    panics, said = panics + 1, None
        if said:
            differences += 1
            parts = {key: tokenizer[key] for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens")}
            print(f"tokenizer {number}: {said}\n  {json.dumps(parts, ensure_ascii=False)}", flush=True)
            if args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / f"{args.seed}-{number}.json").write_text(json.dumps(tokenizer))
    print(f"{args.count} tokenizers, {args.count * (args.texts + 2)} texts, {differences} tokenizers with a difference, {panics} on which the library panics")


if __name__ == "__main__":
    main()
