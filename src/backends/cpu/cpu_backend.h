// CpuBackend: the operations on host memory, spread over a pool of threads. The specification for other backends.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/kernels.h"
#include "ops/backend.h"

namespace fathom {

struct AttendForm;
struct Rows;

class CpuBackend : public Backend {
 public:
  // 0 threads: one a physical core. Another instruction set than the best one serves the tests.
  explicit CpuBackend(int threads, Isa isa = best_isa());

  std::string name() const override { return "cpu"; }
  Device device() const override { return {}; }
  Storage allocate(std::size_t bytes) override;
  std::optional<DeviceMemory> memory() const override;
  void upload(const Tensor& y, const void* host) override;
  void download(void* host, const Tensor& x) override;
  void synchronize() override {}

  FATHOM_OVERRIDE_OPERATIONS
  void run(const op::Advance& op) override;
  std::optional<i64> scratch_bytes(const op::Advance&) const override { return 0; }

 private:
  using Body = std::function<void(i64 begin, i64 end, int worker)>;

  // Spreads [0, count) over the threads; `work` is about the nanoseconds of one item, so that small loops stay here.
  void parallel(i64 count, i64 work, const Body& body);
  // A float buffer of one worker (0 .. size of pool), or a shared one (worker -1); 64-byte aligned, kept between calls.
  float* scratch(int worker, i64 floats);

  // y [n] = x [n] in y's type.
  void copy_row(void* y, DType y_type, const void* x, DType x_type, i64 n) const;

  // Rows [first, first + rows) of a product that share a weight.
  struct Part {
    Weight weight;
    i64 first, rows;
  };
  // The rows of the parts, in ascending order without gaps, times their weights.
  void multiply(const Tensor& y, const Tensor& x, std::span<const Part> parts, GemmMode mode);
  // The same for few enough rows to be packed at once.
  void multiply_round(const Tensor& y, const Tensor& x, std::span<const Part> parts, bool quantised);
  // Rows [first, first + count) as padded float32 rows, quantised for the format if there is one.
  const float* pack_rows(const Rows& in, i64 first, i64 count, const Format* quantise_for);

  // The sum of all ranks' x, piece by piece in order: entries first .. first + n.
  void sum_over_ranks(const Tensor& x, Communicator& comm,
                      const std::function<void(i64 first, const float* sum, i64 n)>& take);

  // Attention of all tokens of a batch; `heads_together` heads share their keys.
  void attend(const Tensor& o, const Sequences& sequences, i64 heads_together, const AttendForm& form);

  ThreadPool pool_;
  const CpuKernels& kernels_;
  std::vector<Storage> scratch_;  // [1 + workers]
};

// The CPU as a Backend; 0 threads: one a physical core.
std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace fathom
