// Whether the numbers of a checkpoint can be those of a model.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fathom {

// Scales must be positive numbers: one fault for each tensor of them that holds another.
std::vector<std::string> check_scales(const SafetensorsFile& file);

struct NumbersReport {
  std::vector<std::string> faults;   // one a tensor, with the file and the first entry
  std::vector<std::string> skipped;  // tensors whose types are no floating-point numbers
  i64 bytes = 0;                     // of the tensors that were read
};

// Reads all floating-point tensors but scales: NaN, infinities, and matrices of nothing but zeros are faults.
// `threads`: 0 takes one a physical core.
NumbersReport check_numbers(const std::vector<std::unique_ptr<SafetensorsFile>>& files, int threads,
                            const std::function<void(i64 done, i64 total)>& progress);

}  // namespace fathom
