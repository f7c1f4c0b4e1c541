// Memory, the stream, and capture.
#include "backends/cuda/cuda_backend.h"

#include <cstring>
#include <utility>

#include "kernels/cuda/built_for.h"
#include "kernels/cuda/errors.h"

namespace fathom {
namespace {

constexpr std::size_t kStaging = 4u << 20;        // bytes of pinned memory for small uploads
constexpr std::size_t kSmallUpload = 256u << 10;  // larger ones are copied from where they are, downloads too

double gib(i64 bytes) { return static_cast<double>(bytes) / (1u << 30); }

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, index), "ask for a property of a GPU");
  return value;
}

// An executable graph.
class CudaGraph final : public Graph {
 public:
  CudaGraph(cudaGraphExec_t graph, cudaStream_t stream, i64 operations)
      : graph_(graph), stream_(stream), operations_(operations) {}
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }
  void replay() override { check_cuda(cudaGraphLaunch(graph_, stream_), "launch a graph"); }
  i64 operations() const override { return operations_; }

 private:
  cudaGraphExec_t graph_;
  cudaStream_t stream_;
  i64 operations_;
};

}  // namespace

int cuda_devices(std::string& why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  cudaGetLastError();  // it is reported here, not by the next call
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    why = driver == 0 ? "no NVIDIA driver is installed"
                      : fmt::format("the NVIDIA driver supports CUDA {}.{}, this build needs {}.{}", driver / 1000,
                                    driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  } else {
    why = error == cudaSuccess || error == cudaErrorNoDevice ? "there is no NVIDIA GPU" : cudaGetErrorString(error);
  }
  return 0;
}

std::string cuda_device_description(int index) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index), "read the properties of a GPU");
  return fmt::format("{}, {:.0f} GiB", properties.name, gib(static_cast<i64>(properties.totalGlobalMem)));
}

std::string cuda_obstacle(int index) {
  check_cuda(cudaSetDevice(index), fmt::format("use GPU {}", index));
  if (cuda::runs_here()) return {};
  return fmt::format("this program has no code for {}, which is sm_{}{}; it was built for {}",
                     cuda_device_description(index), attribute(cudaDevAttrComputeCapabilityMajor, index),
                     attribute(cudaDevAttrComputeCapabilityMinor, index), cuda::built_for());
}

CudaBackend::CudaBackend(int index, bool portable) : index_(index) {
  std::string why;
  const int count = cuda_devices(why);
  CHECK(count > 0, "cannot use --device cuda: {}; use --device cpu", why);
  CHECK(index >= 0 && index < count, "cannot use --device cuda:{}: there {} {} GPU{} here, numbered from 0", index,
        count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
  description_ = fmt::format("GPU {} ({})", index, cuda_device_description(index));
  const std::string obstacle = cuda_obstacle(index);
  CHECK(obstacle.empty(), "cannot use --device cuda:{}: {}; use --device cpu", index, obstacle);
  check_cuda(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking), "create a stream");
  check_cuda(cudaMallocHost(&staging_, kStaging + kSmallUpload), "allocate pinned memory");
  fetched_ = static_cast<std::byte*>(staging_) + kStaging;
  stream_.device = cuda::find_device(index, portable);
}

CudaBackend::~CudaBackend() {
  if (stream_.handle == nullptr) return;
  cudaSetDevice(index_);
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(staging_);
}

cuda::Stream& CudaBackend::stream() {
  check_cuda(cudaSetDevice(index_), "use the GPU");
  return stream_;
}

Storage CudaBackend::allocate(std::size_t bytes) {
  const cudaStream_t s = stream();
  CHECK(!capturing_, "memory cannot be allocated while a pass is being recorded");
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes > 0 ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    const DeviceMemory there = *memory();
    fail(
        "{} cannot give {:.2f} GiB more: {:.2f} of its {:.2f} GiB are free; a smaller cache (--cache-tokens), a "
        "smaller "
        "--max-seq-len or --max-batch-size, or FP8 weights (fathom quantize) need less",
        there.device, gib(static_cast<i64>(bytes)), gib(there.free), gib(there.total));
  }
  check_cuda(error, "allocate memory");
  check_cuda(cudaMemsetAsync(data, 0, bytes, s), "clear memory");
  return Storage(data, bytes, device(), [index = index_](void* p) {
    cudaSetDevice(index);
    cudaFree(p);
  });
}

void CudaBackend::upload(const Tensor& y, const void* host) {
  const auto bytes = static_cast<std::size_t>(y.bytes());
  if (bytes == 0) return;
  const cudaStream_t s = stream();
  if (bytes > kSmallUpload) {
    check_cuda(cudaMemcpyAsync(y.data(), host, bytes, cudaMemcpyHostToDevice, s), "upload");
    check_cuda(cudaStreamSynchronize(s), "upload");
    return;
  }
  if (staged_ + bytes > kStaging) {
    check_cuda(cudaStreamSynchronize(s), "upload");
    staged_ = 0;
  }
  auto* place = static_cast<std::byte*>(staging_) + staged_;
  std::memcpy(place, host, bytes);
  staged_ += (bytes + 15) / 16 * 16;
  check_cuda(cudaMemcpyAsync(y.data(), place, bytes, cudaMemcpyHostToDevice, s), "upload");
}

std::optional<DeviceMemory> CudaBackend::memory() const {
  check_cuda(cudaSetDevice(index_), "use the GPU");
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "ask for the free memory");
  return DeviceMemory{description_, static_cast<i64>(free), static_cast<i64>(total)};
}

void CudaBackend::download(void* host, const Tensor& x) {
  const cudaStream_t s = stream();
  const auto bytes = static_cast<std::size_t>(x.bytes());
  const bool small = bytes <= kSmallUpload;  // such as drawn tokens: through pinned memory
  if (bytes > 0)
    check_cuda(cudaMemcpyAsync(small ? fetched_ : host, x.data(), bytes, cudaMemcpyDeviceToHost, s), "download");
  check_cuda(cudaStreamSynchronize(s), "finish the work before a download");
  staged_ = 0;
  if (small && bytes > 0) std::memcpy(host, fetched_, bytes);
}

void CudaBackend::synchronize() { check_cuda(cudaStreamSynchronize(stream()), "finish the enqueued work"); }

std::unique_ptr<Graph> CudaBackend::capture(const std::function<void()>& pass) {
  const cudaStream_t s = stream();
  check_cuda(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "begin to record a pass");
  capturing_ = true;
  cudaGraph_t graph = nullptr;
  try {
    pass();
  } catch (...) {
    capturing_ = false;
    cudaStreamEndCapture(s, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  capturing_ = false;
  check_cuda(cudaStreamEndCapture(s, &graph), "record a pass");
  std::size_t nodes = 0;
  check_cuda(cudaGraphGetNodes(graph, nullptr, &nodes), "count the operations of a pass");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(error, "build a graph from a pass");
  check_cuda(cudaGraphUpload(executable, s), "upload a graph");
  return std::make_unique<CudaGraph>(executable, s, static_cast<i64>(nodes));
}

std::int32_t* CudaBackend::counter() {
  if (counter_.data() == nullptr) counter_ = allocate(sizeof(std::int32_t));
  return static_cast<std::int32_t*>(counter_.data());
}

void* CudaBackend::workspace(i64 bytes) {
  if (bytes == 0) return nullptr;
  if (lent_.defined()) {
    CHECK(bytes <= lent_.bytes(), "an operation takes {} bytes of scratch, {} were lent", bytes, lent_.bytes());
    return lent_.data();
  }
  const auto wanted = static_cast<std::size_t>(bytes);
  if (workspaces_.empty() || workspaces_.back().bytes() < wanted) {
    CHECK(!capturing_, "a pass that is being recorded needs {} bytes of scratch; it must have run once before", bytes);
    workspaces_.push_back(allocate(std::max<std::size_t>(wanted + wanted / 2, 1u << 20)));
  }
  return workspaces_.back().data();
}

}  // namespace fathom
