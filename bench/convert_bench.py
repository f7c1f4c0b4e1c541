#!/usr/bin/env python3
"""Speed and memory of convert and fp8-cast-bf16 beside `cp -r` of as many bytes on the same disk, in the same run.

Usage: bench/convert_bench.py PROGRAM FOLDER [--layers N] [--ranks N] [--runs N]
A synthetic FP8 checkpoint (671B configuration with few experts, cut to N layers) is made in FOLDER unless it is there.
`cp -r` is followed by `sync` of what it wrote, as the commands sync theirs. The page cache holds the source if it fits.
"""
import argparse
import json
import os
import pathlib
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


def timed(command, out):
    """Seconds, and the largest resident memory in bytes, of one command that writes `out`."""
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run(["sync"], check=True)
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if command[0] == "cp":
        subprocess.run(["sync", "-f", str(out)], check=True)
    seconds = time.monotonic() - start
    if status != 0:
        raise SystemExit(f"failed: {command}")
    return seconds, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=9)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    model, out = args.folder / "model", args.folder / "out"
    if not (model / "config.json").exists():
        config = args.folder / "bench-config.json"
        config.write_text(json.dumps(CONFIG | {"num_hidden_layers": args.layers}))
        shutil.rmtree(model, ignore_errors=True)
        subprocess.run([args.program, "synth", "--config", config, "--out", model, "--max-shard-size", "1GB"], check=True)
    commands = {
        "cp": ["cp", "-r", str(model), str(out)],
        "convert": [args.program, "convert", "--hf-ckpt-path", str(model), "--save-path", str(out), "--model-parallel",
                    str(args.ranks)],
        "fp8-cast-bf16": [args.program, "fp8-cast-bf16", "--input-fp8-hf-path", str(model), "--output-bf16-hf-path",
                          str(out)],
    }
    rates, memory = {name: [] for name in commands}, {name: 0 for name in commands}
    print(f"source: {size_of(model) / 2**30:.2f} GiB, {args.ranks} ranks, {args.runs} runs in turns")
    for _ in range(args.runs):
        for name, command in commands.items():
            seconds, peak = timed(command, out)
            rates[name].append(size_of(out) / seconds / 1e9)
            memory[name] = max(memory[name], peak)
    base = statistics.median(rates["cp"])
    print("| command | GB/s written: median (least, most) | of cp | peak resident MiB |\n|---|---|---|---|")
    for name, values in rates.items():
        median = statistics.median(values)
        print(f"| {name} | {median:.3f} ({min(values):.3f}, {max(values):.3f}) | {median / base:.2f} | "
              f"{memory[name] / 2**20:.0f} |")
    shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
