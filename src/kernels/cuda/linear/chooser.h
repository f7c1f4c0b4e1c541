// The one place where the kernel of a product is chosen: a table of kernels, of which the cheapest that supports the
// case is taken.
#pragma once

#include <span>
#include <string>

#include "kernels/cuda/device.h"
#include "kernels/cuda/linear/product.h"

namespace fathom::cuda {

// In which form a kernel takes activations that are to be quantised.
enum class Codes : std::uint8_t {
  none,       // they are not
  in_kernel,  // it makes the codes itself
  by_row,     // codes, the scales of a row together
  by_column   // codes, the scales of each 128 columns together
};

// What is done for a product, and how it is divided.
struct ProductPlan {
  bool norm_first = false;  // a kernel of its own normalises the rows
  Codes codes = Codes::none;
  int outputs = 0, rows = 0;  // of a tile, those of the first matrix
  int splits = 1;             // of the inner dimension
  int at_once = 1;            // blocks that a multiprocessor holds; 0: as many as it can
  int stages = 0;             // of tiles in shared memory, where the device decides how many
};

struct ProductKernel {
  const char* name;
  bool (*supports)(const ProductShape& shape, const Device& device);
  double (*cost)(const ProductShape& shape);
  ProductPlan (*plan)(const ProductShape& shape, const Device& device);
  void (*run)(Stream& s, const Product& p, const ProductPlan& plan);
};
std::span<const ProductKernel> product_kernels();

struct Choice {
  const ProductKernel* kernel = nullptr;  // null: none supports the case
  ProductPlan plan;
};
Choice choose(const ProductShape& shape, const Device& device);
// "sm90_splitk  tile 128 x 64  splits 2  codes by column".
std::string describe(const Choice& choice);

// Bytes of scratch that the choice needs for such a product.
i64 scratch_bytes(const ProductShape& shape, const ProductPlan& plan);
void run(Stream& s, const Product& p, const Choice& choice, void* scratch);

}  // namespace fathom::cuda
