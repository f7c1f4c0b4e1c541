#!/usr/bin/env python3
"""Speed and memory of the checkpoint commands and of loading, beside cp and cat of the same files in the same run.

Usage: bench/convert_bench.py PROGRAM FOLDER [--layers N] [--ranks N] [--runs N] [--nice N] [--limit-mib N]
A synthetic FP8 checkpoint of 4 GiB (671B configuration with few experts, cut to N layers) is made in FOLDER unless it is
there; FOLDER needs 13 GB more. All commands run in turns, so that a change of the machine meets each of them.

Writing: `cp -r` is followed by `sync` of what it wrote, as the commands sync theirs before they end. The page cache holds
the source if it fits. The cast reads one byte for two that it writes, cp one for one: both ratios are printed.
Loading: from the files to their places in the host's memory, beside `cat FILES > /dev/null`; cold after the files were
dropped from the page cache (posix_fadvise), warm after they were read.
Memory: each command runs with RLIMIT_DATA, so that one which allocates more fails; the largest resident size is shown too.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import time

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "vocab_size": 16384, "hidden_size": 4096,
    "intermediate_size": 8192, "moe_intermediate_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 32,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_routed_experts": 16, "n_shared_experts": 1,
    "num_experts_per_tok": 4, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "n_group": 4, "topk_group": 2, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
    "norm_topk_prob": True, "routed_scaling_factor": 2.5, "max_position_embeddings": 4096, "rope_theta": 10000,
    "rope_scaling": None, "rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False,
    "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                            "weight_block_size": [128, 128]},
}


def size_of(folder):
    return sum(p.stat().st_size for p in folder.iterdir() if p.is_file())


def run(command, args, limited=True):
    """Seconds, and the largest resident memory in bytes, of one command."""
    def prepare():
        if limited:
            resource.setrlimit(resource.RLIMIT_DATA, (args.limit_mib << 20, args.limit_mib << 20))
    start = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=prepare)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {command}")
    return time.monotonic() - start, usage.ru_maxrss * 1024


def timed(command, out, args):
    """The same for a command that writes the folder `out`, until all is on the disk."""
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run(["sync"], check=True)
    seconds, peak = run(command, args)
    start = time.monotonic()
    if command[0] == "cp":
        subprocess.run(["sync", "-f", str(out)], check=True)
        seconds += time.monotonic() - start
    return seconds, peak


def forget(files):
    """Drops files from the page cache."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def rate(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f}, {max(values):.3f})"


def bench_writing(args, model, out):
    source = size_of(model)
    commands = {
        "cp -r": ["cp", "-r", model, out],
        f"convert, {args.ranks} ranks": [args.program, "convert", "--hf-ckpt-path", model, "--save-path", out,
                                         "--model-parallel", args.ranks],
        "convert, 1 rank": [args.program, "convert", "--hf-ckpt-path", model, "--save-path", out],
        "fp8-cast-bf16": [args.program, "fp8-cast-bf16", "--input-fp8-hf-path", model, "--output-bf16-hf-path", out],
    }
    written, moved, memory = ({name: [] for name in commands} for _ in range(3))
    for _ in range(args.runs):
        for name, command in commands.items():
            seconds, peak = timed(command, out, args)
            written[name].append(size_of(out) / seconds / 1e9)
            moved[name].append((size_of(out) + source) / seconds / 1e9)
            memory[name].append(peak)
    shutil.rmtree(out, ignore_errors=True)
    print("| command | GB/s written: median (least, most) | of cp | of cp, read + written | peak resident MiB |")
    print("|---|---|---|---|---|")
    for name in commands:
        ratios = [statistics.median(table[name]) / statistics.median(table["cp -r"]) for table in (written, moved)]
        print(f"| {name} | {rate(written[name])} | {ratios[0]:.2f} | {ratios[1]:.2f} | {max(memory[name]) / 2**20:.0f} |",
              flush=True)


def bench_loading(args, model):
    files = sorted(model.glob("*.safetensors"))
    total = sum(path.stat().st_size for path in files)
    commands = {"cat": ["cat", *files], "load": [args.program, "bench", "--device", "cpu", "--load", model],
                "load --mmap": [args.program, "bench", "--device", "cpu", "--mmap", "--load", model]}
    print("| cache | command | GB/s: median (least, most) | of cat |\n|---|---|---|---|")
    for cache in ["cold", "warm"]:
        rates = {name: [] for name in commands}
        for _ in range(args.runs):
            for name, command in commands.items():
                if cache == "cold":
                    forget(files)
                else:
                    run(commands["cat"], args, limited=False)
                rates[name].append(total / run(command, args, limited=False)[0] / 1e9)
        for name in commands:
            ratio = statistics.median(rates[name]) / statistics.median(rates["cat"])
            print(f"| {cache} | {name} | {rate(rates[name])} | {ratio:.2f} |", flush=True)


def load_text():
    return pathlib.Path("/proc/loadavg").read_text().split()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nice", type=int, default=0, help="for a busy machine: niceness of all commands, cp's too")
    parser.add_argument("--limit-mib", type=int, default=512, help="RLIMIT_DATA of the commands that write")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    os.nice(args.nice)
    model, out = args.folder / f"model-{args.layers}", args.folder / "out"
    if not (model / "config.json").exists():
        config = args.folder / "bench-config.json"
        config.write_text(json.dumps(CONFIG | {"num_hidden_layers": args.layers}))
        shutil.rmtree(model, ignore_errors=True)
        subprocess.run([args.program, "synth", "--config", config, "--out", model, "--max-shard-size", "1GB"], check=True)
    print(f"{size_of(model) / 2**30:.2f} GiB, {args.runs} runs in turns, {len(os.sched_getaffinity(0))} cores, load average "
          f"before {load_text()}, RLIMIT_DATA {args.limit_mib} MiB", flush=True)
    subprocess.run(["cat", *sorted(model.glob("*.safetensors"))], stdout=subprocess.DEVNULL, check=True)
    bench_writing(args, model, out)
    bench_loading(args, model)
    print(f"load average after {load_text()}")


if __name__ == "__main__":
    main()
