// The tensors of a Hugging Face directory as FileCheckpoint::stored() lists them, and two checkpoints made from them on
// the fly: FP8 matrices as bf16, and matrices as FP8 codes with their scales. All bear stored names.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "checkpoint/file_checkpoint.h"

namespace fathom {

// Stored names, types and bytes.
class StoredCheckpoint : public Checkpoint {
 public:
  explicit StoredCheckpoint(const FileCheckpoint& files);  // which must outlive this

  std::string description() const override { return files_.description(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override;
  void prefetch(const TensorInfo& info, const Slice& slice) const override;

  // The stored tensor that means this reference name; nullptr when there is none.
  const TensorInfo* of_reference(std::string_view reference_name) const;
  // The name of the file that holds a tensor of this checkpoint.
  std::string file_of(const TensorInfo& info) const;
  const FileCheckpoint& files() const { return files_; }

 private:
  const FileCheckpoint& files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;  // views of the names in tensors_
};

// FP8 matrices, and stacks of them [n, rows, columns], with scales (NAME_scale_inv or NAME_scale) as bf16; everything
// else as stored, scales left out.
class CastCheckpoint : public Checkpoint {
 public:
  // Throws Error naming the first FP8 matrix without a scale unless `allow_missing_scale`; those stay as they are.
  CastCheckpoint(const StoredCheckpoint& stored, bool allow_missing_scale);

  std::string description() const override { return stored_.description(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  // Of cast matrices: whole tensors or rows from a multiple of 128 on; of stacks: whole tensors or some matrices.
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override;
  void prefetch(const TensorInfo& info, const Slice& slice) const override { stored_.prefetch(info, slice); }

  // FP8 matrices without a scale.
  const std::vector<std::string>& unscaled() const { return unscaled_; }

 private:
  void add(const TensorInfo& info, bool allow_missing_scale);

  const StoredCheckpoint& stored_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  std::unordered_map<std::string, const TensorInfo*> scales_;  // of each cast matrix
  std::vector<std::string> unscaled_;
};

// Chosen bf16 or float32 matrices as FP8 codes with scales in blocks of 128 x 128; everything else as stored.
class QuantizedCheckpoint : public Checkpoint {
 public:
  // `matrices`: stored names to quantise, ending in ".weight".
  QuantizedCheckpoint(const StoredCheckpoint& stored, const std::unordered_set<std::string>& matrices,
                      bool power_of_two_scales);

  std::string description() const override { return stored_.description(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  // Of codes: whole tensors or rows from a multiple of 128 on; of scales: whole tensors or rows.
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override;

  // The matrix whose scales `info` are; nullptr for other tensors.
  const TensorInfo* matrix_of_scale(const TensorInfo& info) const;

 private:
  // Quantises rows [row, row + rows) of a matrix; codes may be nullptr.
  void quantize_rows(const TensorInfo& matrix, i64 row, i64 rows, e4m3_bits* codes, float* scales) const;

  const StoredCheckpoint& stored_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  std::unordered_map<std::string, const TensorInfo*> sources_;  // by the name of the codes and by that of the scales
  bool power_of_two_;
};

}  // namespace fathom
