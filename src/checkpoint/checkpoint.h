// Checkpoint: weights by name, under the reference's names ("layers.3.attn.wq_a.weight", "...scale"), whatever the
// files call them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/format.h"
#include "tensor/tensor.h"

namespace fathom {

// What a checkpoint knows of a tensor without reading it.
struct TensorInfo {
  std::string name;
  DType dtype = DType::bf16;
  Shape shape;
  std::string other_type = {};  // what the file calls a type that is unknown here

  // Its type, for messages.
  std::string_view type() const { return other_type.empty() ? name_of(dtype) : other_type; }
  i64 bytes() const { return shape.numel() * size_of(dtype); }
};

// A rectangle of a tensor: `length` entries of dimension `dim` from `start`; dim < 0 is the whole tensor.
struct Slice {
  int dim = -1;
  i64 start = 0, length = 0;
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // What it is, for messages: the path or "synthetic:...".
  virtual std::string description() const = 0;
  // All tensors, in a fixed order.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // nullptr when there is no such tensor.
  virtual const TensorInfo* find(std::string_view name) const = 0;
  // What the files call the tensor of this name, or would call it: for messages.
  virtual std::string stored_name(const std::string& name) const { return name; }
  // Names in the files that are no tensors of the family, or that the index does not have, which is then said behind.
  virtual std::vector<std::string> untranslated() const { return {}; }
  // The format of a matrix ("layers.3.attn.wo"), told by its tensors. What they do not tell, such as how activations
  // are rounded beside them, is as in `configured`. nullptr when there is no such matrix, or its format is not known.
  virtual const Format* format(const std::string& matrix, const Format& configured) const;
  // Copies the (part of the) tensor to `out`, which has exactly its bytes, row-major. Safe from several threads.
  virtual void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const = 0;
  // The bytes of the tensor where its file is mapped, row-major and aligned for their type; nullptr when there are none
  // such. They live as long as the checkpoint; populate() brings them into memory.
  virtual const std::byte* map(const TensorInfo& /*info*/) const { return nullptr; }
  // Says that this will be read soon, so that a disk can begin.
  virtual void prefetch(const TensorInfo& /*info*/, const Slice& /*slice*/) const {}
  // 1: tensors are whole. N: this is one rank's share of a conversion for N ranks, already cut.
  virtual int shards() const { return 1; }
};

// Opens a path: a Hugging Face directory (index or single files) or a converted directory
// (model{rank}-mp{world_size}.safetensors). Throws Error naming what is missing.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path, int rank = 0, int world_size = 1);

// Reference name of a Hugging Face tensor name, and back: "model.layers.0.self_attn.q_a_proj.weight" <->
// "layers.0.attn.wq_a.weight"; "…weight_scale_inv" <-> "….scale". Nothing for names of neither kind.
std::optional<std::string> reference_name(std::string_view hf_name);
std::optional<std::string> hf_name(std::string_view reference_name);

}  // namespace fathom
