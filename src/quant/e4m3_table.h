// Values of e4m3 codes, times a scale, as bf16: looked up many at once, what casting whole models spends its time on.
#pragma once

#include <array>

#include "base/check.h"
#include "base/numeric.h"

namespace fathom {

// Value of each e4m3 code; that of code | 0x80 is that of code with the sign turned.
using CodeTable = std::array<bf16_bits, 256>;

// y[i] = table[codes[i]] for i < n, by vector instructions where this processor has them.
void look_up(const e4m3_bits* codes, const CodeTable& table, i64 n, bf16_bits* y);

// Where the first of n codes that is no number (0x7f or 0xff) stands; -1 when there is none. As fast as memory.
i64 first_nan(const e4m3_bits* codes, i64 n);

}  // namespace fathom
