// A small reader of trusted safetensors files for tests: flat "dtype", "shape" and "data_offsets" by name, no checks of
// hostile input.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "support/data.h"
#include "tensor/tensor.h"

namespace fathom::test {

class Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& path);

  // A view of the tensor `name`; lives as long as this object.
  Tensor operator[](const std::string& name) const;

 private:
  std::vector<i64> numbers(std::size_t place) const;

  std::string bytes_, header_;
};

}  // namespace fathom::test
