#!/usr/bin/env python3
"""cuBLASLt through PyTorch on the shapes of cuda_bench: bf16, and e4m3 with one scale a tensor.

Run it in the same session as `cuda_bench speed_gemm`. Usage: bench/cuda_peer.py [ROWS]
"""
import sys

import torch

SHAPES = ((2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))


def milliseconds(work):
    """The median of five times of four calls each."""
    for _ in range(3):
        work()
    times = []
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(4):
            work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 4)
    return sorted(times)[2]


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    torch.manual_seed(0)
    one = torch.ones((), device="cuda")
    for out, inner in SHAPES:
        x = torch.randn(rows, inner, device="cuda", dtype=torch.bfloat16) * 0.02
        w = torch.randn(out, inner, device="cuda", dtype=torch.bfloat16) * 0.02
        x8, w8 = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
        cases = {
            "bf16": lambda: x @ w.t(),
            "e4m3, a scale a tensor": lambda: torch._scaled_mm(
                x8, w8.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True),
        }
        for name, work in cases.items():
            ms = milliseconds(work)
            print(f"cublas {name:22} {rows:5} rows {out:5} out {inner:5} in {ms * 1e3:8.1f} us "
                  f"{2e-9 * rows * out * inner / ms:7.1f} TFLOP/s", flush=True)


if __name__ == "__main__":
    main()
