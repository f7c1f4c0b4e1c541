// Checkpoint view for models that rotate halves ("rope_interleave": false): what a head rotates, entries i and i + d/2
// together, is read as neighbours, which is how this program rotates. Queries and keys are reordered alike, so their
// products stay.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"
#include "model/args.h"

namespace fathom {

// Rows of the rotated parts of queries and keys in the order of pairs; all else as it is. Names may be the reference's
// or Hugging Face's.
class PairedRopeCheckpoint : public Checkpoint {
 public:
  // `source` must outlive this. Throws Error naming a matrix in FP8 where the two rows of a pair have other scales.
  PairedRopeCheckpoint(const Checkpoint& source, const ModelArgs& args);
  PairedRopeCheckpoint(std::unique_ptr<Checkpoint> source, const ModelArgs& args);

  std::string description() const override { return source_.description(); }
  const std::vector<TensorInfo>& tensors() const override { return source_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return source_.find(name); }
  const Format* format(const std::string& matrix, const Format& configured) const override {
    return source_.format(matrix, configured);
  }
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override;
  const std::byte* map(const TensorInfo& info) const override;
  void prefetch(const TensorInfo& info, const Slice& slice) const override { source_.prefetch(info, slice); }
  int shards() const override { return source_.shards(); }
  std::string stored_name(const std::string& name) const override { return source_.stored_name(name); }
  std::vector<std::string> untranslated() const override { return source_.untranslated(); }

 private:
  // Of every `head` rows the last `rotated` are reordered; head 0: none are.
  struct Order {
    i64 head = 0, rotated = 0;
  };
  Order order_of(const TensorInfo& info) const;
  void check_scales() const;

  std::unique_ptr<Checkpoint> owned_;  // may be null
  const Checkpoint& source_;
  i64 query_, key_, rotated_;  // rows of a head of queries, of the latent with the key, and of what is rotated of each
};

}  // namespace fathom
