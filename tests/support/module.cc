#include "support/module.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/slice.h"
#include "model/manifest.h"

namespace fathom::test {

MadeWeights::MadeWeights(const ModelArgs& args) {
  Random random(11);
  for (const ManifestEntry& entry : manifest(args)) {
    const TensorInfo& info = entry.full;
    tensors_.push_back(info);
    HostTensor data(info.shape, info.dtype);
    if (info.name.find("norm") != std::string::npos) {
      std::normal_distribution<double> gain(1, 0.2);
      data.fill([&](i64) { return gain(random); });
    } else {
      data.normal(random, info.shape.rank() == 1 ? 0.3 : 1.5 / std::sqrt(static_cast<double>(info.shape[1])));
    }
    data_.emplace(info.name, std::move(data));
  }
}

const TensorInfo* MadeWeights::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

void MadeWeights::read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const {
  const std::span whole(static_cast<const std::byte*>(data_.at(info.name)->data()),
                        static_cast<std::size_t>(info.bytes()));
  if (slice.dim >= 0) return copy_slice(info, slice, whole, out);
  std::copy(whole.begin(), whole.end(), out.begin());
}

Matrix rows_of(const std::vector<double>& flat, i64 width) {
  Matrix rows;
  for (auto from = flat.begin(); from != flat.end(); from += width) rows.emplace_back(from, from + width);
  return rows;
}

Matrix times(const Matrix& x, const std::vector<double>& w) {
  Matrix y;
  for (const std::vector<double>& row : x) {
    y.emplace_back();
    for (auto from = w.begin(); from != w.end(); from += static_cast<i64>(row.size())) {
      double sum = 0;
      for (std::size_t i = 0; i < row.size(); ++i) sum += row[i] * from[static_cast<i64>(i)];
      y.back().push_back(sum);
    }
  }
  return y;
}

Matrix rms_norm(const Matrix& x, const std::vector<double>& gain, double eps) {
  Matrix y = x;
  for (std::vector<double>& row : y) {
    double squares = 0;
    for (const double value : row) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + eps);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] *= scale * gain[i];
  }
  return y;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

double largest_error(const std::vector<double>& got, const Matrix& expected) {
  double largest = 0, squares = 0;
  std::size_t i = 0;
  for (const std::vector<double>& row : expected)
    for (const double value : row) {
      const double difference = std::fabs(got.at(i++) - value);
      largest = difference <= largest ? largest : difference;  // keeps what is no number
      squares += value * value;
    }
  return largest / std::sqrt(squares / static_cast<double>(i));
}

}  // namespace fathom::test
