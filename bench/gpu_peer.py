#!/usr/bin/env python3
"""The products of bench/gpu_kernel_bench.cc beside cuBLAS (through torch) and, if its file is given, the Triton
fp8_gemm of the reference (its tiles of 16 rows): one table, all measured in this run on this GPU.

usage: gpu_peer.py GPU_KERNEL_BENCH [REFERENCE/inference/kernel.py]
"""
import importlib.util
import re
import subprocess
import sys

import torch

ROTATED = 400 << 20
TRITON = {(3072, 2048), (7168, 16384)}  # its tuning of each shape takes long
LINE = re.compile(r"product (\S+) gemm (\S+) M (\d+) N (\d+) K (\d+) +([\d.]+) us")


def seconds(launches, run):
    run(0)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(launches):
            run(i)
    best = 1e9
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) * 1e-3)
    return best / launches


def copies_of(size):
    return max(2, min(64, ROTATED // size))


def cublas(m, n, k):
    ws = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(copies_of(2 * n * k))]
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return seconds(len(ws), lambda i: torch.matmul(x, ws[i].t(), out=y))


def triton(kernel, m, n, k):
    ws = [torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn) for _ in range(min(16, copies_of(n * k)))]
    scale = torch.rand((n + 127) // 128, (k + 127) // 128, device="cuda")
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)

    def run(i):
        codes, scales = kernel.act_quant(x)
        kernel.fp8_gemm(codes, scales, ws[i], scale)

    return seconds(len(ws), run)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kernel = None
    if len(sys.argv) > 2:
        spec = importlib.util.spec_from_file_location("kernel", sys.argv[2])
        kernel = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(kernel)
        torch.set_default_dtype(torch.bfloat16)
        tuner = kernel.fp8_gemm_kernel
        tuner.configs = [c for c in tuner.configs if c.num_stages == 4 and c.kwargs["BLOCK_SIZE_M"] == 16]
    ours = subprocess.run([sys.argv[1], "products"], check=True, capture_output=True, text=True).stdout
    shapes = {}
    for weights, mode, m, n, k, us in LINE.findall(ours):
        shapes.setdefault((int(m), int(n), int(k)), {})[f"{weights}/{mode}"] = float(us)
    columns = ["bf16/bf16", "fp8/bf16", "fp8/fp8"]
    print(f"{'microseconds (share of 4.3 TB/s)':34}" + "".join(f"{'ours ' + c:>20}" for c in columns) +
          f"{'cuBLAS bf16':>20}{'reference fp8':>20}")
    for (m, n, k), row in shapes.items():
        cells = [(row.get(c), (2 if c.startswith("bf16") else 1)) for c in columns]
        cells.append((cublas(m, n, k) * 1e6, 2))
        cells.append((triton(kernel, m, n, k) * 1e6 if kernel and m in (1, 64) and (n, k) in TRITON else None, 1))
        text = "".join(f"{'':>20}" if us is None else f"{us:12.2f} ({width * n * k / us * 1e6 / 4.3e12 * 100:4.0f} %)"
                       for us, width in cells)
        print(f"M {m:<4} N {n:<7} K {k:<14}{text}", flush=True)
        torch.cuda.empty_cache()


main()
