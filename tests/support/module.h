// A module of a small model by itself: made-up weights that a test can read in double precision, and what surrounds a
// pass.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "comm/communicator.h"
#include "model/args.h"
#include "model/params.h"
#include "support/host_tensor.h"

namespace fathom::test {

// Every tensor of a model: normal numbers rounded to the tensor's type. Gains lie round 1, and the gate's bias is large
// enough to change what is chosen.
class MadeWeights : public Checkpoint {
 public:
  explicit MadeWeights(const ModelArgs& args);

  std::string description() const override { return "made up"; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override;

  // The numbers of a tensor, last dimension fastest.
  std::vector<double> numbers(const std::string& name) const { return values(*data_.at(name)); }

 private:
  std::vector<TensorInfo> tensors_;
  std::map<std::string, HostTensor> data_;
};

// One CPU backend for each instruction set of this machine.
inline void for_each_backend(const std::function<void(Backend&)>& test) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (!has_isa(isa)) continue;
    SCOPED_TRACE(name_of(isa));
    CpuBackend backend(2, isa);
    test(backend);
  }
}

// One rank's surroundings. Modules are made from params(), then load() fills them.
class Surroundings {
 public:
  Surroundings(Backend& backend, const ModelArgs& args, const Checkpoint& weights, const ComputeOptions& options)
      : args_(args),
        options_(options),
        store_(weights, backend, 0, 1, false),
        arena_(host_storage(std::size_t{64} << 20)),
        context_{backend, arena_, comm_, options} {}

  Params params() { return Params(store_, args_, options_); }
  void load() { params().load(); }
  Context& context() { return context_; }

 private:
  ModelArgs args_;
  ComputeOptions options_;
  WeightStore store_;
  SingleCommunicator comm_;
  Arena arena_;
  Context context_;
};

// Matrix of numbers, and what the modules are made of in double precision.
using Matrix = std::vector<std::vector<double>>;
Matrix rows_of(const std::vector<double>& flat, i64 width);
// x w^T for w [out, in].
Matrix times(const Matrix& x, const std::vector<double>& w);
Matrix rms_norm(const Matrix& x, const std::vector<double>& gain, double eps);
double silu(double x);
// The largest difference of any number, relative to the root mean square of the expected ones.
double largest_error(const std::vector<double>& got, const Matrix& expected);

}  // namespace fathom::test
