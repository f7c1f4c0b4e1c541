#include "support/reference.h"

#include <algorithm>
#include <cmath>

namespace fathom::test {

std::vector<Expected> matmul(const std::vector<double>& x, const std::vector<double>& w, i64 t, i64 out, i64 in) {
  std::vector<Expected> y(at(t * out));
  for (i64 r = 0; r < t; ++r)
    for (i64 o = 0; o < out; ++o)
      for (i64 i = 0; i < in; ++i) {
        const double product = x[at(r * in + i)] * w[at(o * in + i)];
        y[at(r * out + o)].value += product;
        y[at(r * out + o)].magnitude += std::fabs(product);
      }
  return y;
}

std::vector<double> dequantized(const std::vector<double>& codes, const std::vector<double>& scales, i64 out, i64 in,
                                i64 block) {
  std::vector<double> w(codes);
  for (i64 o = 0; o < out; ++o)
    for (i64 i = 0; i < in; ++i) w[at(o * in + i)] *= scales[at(o / block * ((in + block - 1) / block) + i / block)];
  return w;
}

std::vector<Expected> attend(const double* q, const double* k, const double* v, i64 n, i64 dk, i64 dv, i64 k_step,
                             i64 v_step, double scale) {
  std::vector<double> p(at(n));
  for (i64 j = 0; j < n; ++j)
    for (i64 i = 0; i < dk; ++i) p[at(j)] += scale * q[i] * k[j * k_step + i];
  const double top = n > 0 ? *std::max_element(p.begin(), p.end()) : 0;
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value - top);
  std::vector<Expected> o(at(dv));
  for (i64 j = 0; j < n; ++j)
    for (i64 i = 0; i < dv; ++i) {
      o[at(i)].value += p[at(j)] / sum * v[j * v_step + i];
      o[at(i)].magnitude += std::fabs(p[at(j)] / sum * v[j * v_step + i]);
    }
  return o;
}

}  // namespace fathom::test
