#!/usr/bin/env python3
"""Writes src/kernels/cuda/sm90/wgmma.cuh: the tensor-core instructions of a warpgroup, one struct a width.

An instruction names each of its up to 128 sums, and neither templates nor loops can make such a list.

Usage: scripts/dev/make_wgmma.py | clang-format > src/kernels/cuda/sm90/wgmma.cuh
"""
WIDTHS = (32, 64, 96, 128, 160, 192, 224, 256)
HEAD = """// Tensor-core instructions of a warpgroup (wgmma), 64 rows x N columns; made by scripts/dev/make_wgmma.py.
//
// d[4 j + 2 h + e] of lane 4 g + c of warp w is row 16 w + 8 h + g, column 8 j + 2 c + e. `a` and `b` are descriptors of
// shared memory, or `a` is four registers of row pairs as in mma.m16n8k16. `add` false: d is overwritten.
#pragma once

#include <cstdint>

namespace fathom::cuda {

template <int N>
struct Mma;
"""


def function(n, name, types, k, a_regs, transposed):
    sums = n // 2
    a = [f"%{sums + i}" for i in range(4 if a_regs else 1)]
    b, p = sums + len(a), sums + len(a) + 1
    flags = "".join(f", %{p + 1 + i}" for i in range(len(transposed)))
    template = f"template <{', '.join('int ' + t for t in transposed)}>\n" if transposed else ""
    argument = "const std::uint32_t (&a)[4]" if a_regs else "std::uint64_t a"
    place = "{" + ",".join(a) + "}" if a_regs else a[0]
    inputs = ", ".join([f'"r"(a[{i}])' for i in range(4)] if a_regs else ['"l"(a)'])
    inputs += ', "l"(b), "r"(static_cast<int>(add))' + "".join(f', "n"({t})' for t in transposed)
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(sums))
    lines = [f"%{i}" + ("," if i + 1 < sums else "") for i in range(sums)]
    text = '"{.reg .pred p; setp.ne.b32 p, %' + f"{p}, 0;\\n\"\n"
    text += f'"wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{types} {{"\n'
    for i in range(0, sums, 16):
        text += '"' + "".join(lines[i:i + 16]) + '"\n'
    text += f'"}}, {place}, %{b}, p, 1, 1{flags};}}\\n"'
    return (f"{template}static __device__ __forceinline__ void {name}(float (&d)[{sums}], {argument}, "
            f"std::uint64_t b, bool add) {{\nasm volatile(\n{text}\n: {outs}\n: {inputs});\n}}\n")


print(HEAD)
for width in WIDTHS:
    print(f"template <>\nstruct Mma<{width}> {{")
    print(function(width, "bf16", "bf16.bf16", 16, False, ("kTransposedA", "kTransposedB")))
    print(function(width, "bf16_registers", "bf16.bf16", 16, True, ("kTransposedB",)))
    print(function(width, "e4m3", "e4m3.e4m3", 32, False, ()))
    print("};\n")
print("}  // namespace fathom::cuda")
