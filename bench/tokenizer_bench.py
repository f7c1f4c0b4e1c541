#!/usr/bin/env python3
"""MB/s of the tokenizer beside the Python packages tokenizers and tiktoken, in the same run on the same texts.

Usage: bench/tokenizer_bench.py PROGRAM MODEL_DIR [RUNS]; PROGRAM is bin/tokenizer_bench, MODEL_DIR that of DeepSeek-V3.
Needs `pip install tokenizers tiktoken`. Prints a table in Markdown: the median of the runs, smallest and largest behind.
"""
import array
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tiktoken
import tokenizers

SOURCE = pathlib.Path(__file__).resolve().parents[1]
CHINESE = """今天的天气非常好，我们打算去公园散步，然后在湖边吃午饭。
这个模型由许多层组成，每一层都包含注意力机制和前馈网络。
在过去的几年里，人工智能技术得到了迅速的发展，改变了人们的生活方式。
请问您知道最近的地铁站在哪里吗？从这里走过去大概需要十五分钟。
研究人员发现，随着数据规模的扩大，系统的性能会不断提高，但成本也随之增加。
他打开窗户，看见远处的山上覆盖着白雪，心里感到无比宁静。
根据合同第三条的规定，双方应当在三十日内完成付款手续。
春天来了，花园里的樱花开得正盛，吸引了许多游客前来拍照。
为了提高计算效率，我们把矩阵分成若干小块，并在不同的处理器上同时运算。
老师告诉学生们，学习语言最重要的是坚持每天练习听说读写。
如果你忘记了密码，可以点击下面的链接重新设置，系统会发送一封邮件。
这座城市拥有两千多年的历史，保存着许多古代的寺庙和城墙。
经济学家认为，明年的通货膨胀率将会有所下降，失业率则保持稳定。
医生建议病人多喝水，按时吃药，并且注意休息，一周之后再来复查。
船慢慢驶离港口，海鸥在天空中盘旋，夕阳把水面染成了金色。
""".splitlines()
SIZE = 3_000_000  # bytes of each kind


def documents(rng, parts):
    """Texts of about 4 kB, put together from parts in random order, SIZE bytes in all."""
    texts, total = [], 0
    while total < SIZE:
        text = ""
        while len(text.encode()) < 4000:
            text += rng.choice(parts)
        texts.append(text)
        total += len(text.encode())
    return texts


def groups():
    rng = random.Random(1)
    licences = [path.read_text(errors="replace") for path in sorted(pathlib.Path("/usr/share/common-licenses").glob("*"))]
    english = [part + "\n\n" for text in licences for part in text.split("\n\n")]
    sources = [path.read_text() for path in sorted(SOURCE.glob("src/**/*.cc")) + sorted(SOURCE.glob("**/*.py"))]
    code = [text[i:i + 2000] for text in sources for i in range(0, len(text), 2000)]
    kinds = {"English": documents(rng, english), "Chinese": documents(rng, CHINESE), "code": documents(rng, code)}
    mixed = [text for texts in kinds.values() for text in texts]
    rng.shuffle(mixed)
    yield "mixed", mixed
    yield from kinds.items()
    yield "200,000 equal letters", ["a" * 200_000]
    yield "1 MB without a space", ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(1_000_000))]
    yield "1 MB of Chinese without a mark", ["".join(rng.choice("".join(CHINESE[:2])[:20]) for _ in range(333_333))]


def as_tiktoken(model):
    """The tokenizer with its patterns as one: alternatives in order stand for splits in turn."""
    data = json.loads((model / "tokenizer.json").read_text())
    chars = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    byte_of = {chr(b): b for b in chars}
    byte_of |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in chars)}
    ranks = {bytes(byte_of[c] for c in token): rank for token, rank in data["model"]["vocab"].items()
             if all(c in byte_of for c in token)}
    patterns = [step["pattern"]["Regex"] for step in data["pre_tokenizer"]["pretokenizers"] if step["type"] == "Split"]
    return tiktoken.Encoding("model", pat_str="|".join(patterns), mergeable_ranks=ranks, special_tokens={})


def timed(runs, work):
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}


def measure(runs, encode, texts, limit=60):
    """Runs until the time is up, at least once."""
    first = timed(1, lambda: [encode(text) for text in texts])
    return first if first["median"] > limit / runs else timed(runs, lambda: [encode(text) for text in texts])


def cell(time_of, megabytes):
    if time_of is None:
        return "-"
    if megabytes is None:
        return f"{time_of['median']:.3f} s ({time_of['min']:.3f} to {time_of['max']:.3f})"
    return (f"{megabytes / time_of['median']:.2f} MB/s ({megabytes / time_of['max']:.2f} to "
            f"{megabytes / time_of['min']:.2f})")


def main():
    program, model, runs = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 5
    texts = dict(groups())
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        lines = (json.dumps({"name": name, "texts": group}) + "\n" for name, group in texts.items())
        (scratch / "texts.jsonl").write_text("".join(lines))
        command = [program, model, scratch / "texts.jsonl", scratch / "ids.bin", str(runs)]
        ours = [json.loads(line) for line in subprocess.run(command, check=True, capture_output=True).stdout.splitlines()]
        ids = array.array("i", (scratch / "ids.bin").read_bytes())
    load = timed(runs, lambda: tokenizers.Tokenizer.from_file(str(model / "tokenizer.json")))
    rust, tik = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json")), as_tiktoken(model)
    encode_rust = lambda text: rust.encode(text, add_special_tokens=False).ids
    print(f"tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}, {runs} runs\n")
    print("| texts | Fathom, one thread | Fathom, all threads | tokenizers | tiktoken | ids equal |\n|---|---|---|---|---|---|")
    print(f"| load | {cell(ours[0]['one_thread'], None)} | - | {cell(load, None)} | - | - |", flush=True)
    at = 0
    for row in ours[1:]:
        group = texts[row["name"]]
        megabytes = sum(len(text.encode()) for text in group) / 1e6
        expected = array.array("i", [id for text in group for id in encode_rust(text)])
        equal = "yes" if ids[at:at + len(expected)] == expected else "NO"
        at += len(expected)
        print(f"| {row['name']}, {megabytes:.1f} MB | {cell(row['one_thread'], megabytes)} | "
              f"{cell(row.get('all_threads'), megabytes)} | {cell(measure(runs, encode_rust, group), megabytes)} | "
              f"{cell(measure(runs, tik.encode_ordinary, group), megabytes)} | {equal} |", flush=True)


if __name__ == "__main__":
    main()
