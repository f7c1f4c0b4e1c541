#include "tools/explain_kernels.h"

#include "tools/output.h"

namespace fathom {
namespace {

struct NamedProduct {
  std::string name;
  ProductCase product;
};

std::vector<NamedProduct> products_of(const ModelArgs& args, GemmMode mode) {
  std::vector<NamedProduct> all;
  const auto add = [&](const char* name, i64 in, std::vector<i64> outs) -> ProductCase& {
    all.push_back({name, {.in = in, .outs = std::move(outs), .format = &args.format(), .mode = mode}});
    return all.back().product;
  };
  const i64 dim = args.dim, q_out = args.n_heads * args.qk_head_dim(), kv_a = args.kv_lora_rank + args.qk_rope_head_dim,
            shared = args.n_shared_experts * args.moe_inter_dim;
  const bool low_rank = args.q_lora_rank > 0;
  add(low_rank ? "wq_a, wkv_a" : "wq, wkv_a", dim, {low_rank ? args.q_lora_rank : q_out, kv_a}).norm = true;
  if (low_rank) add("wq_b", args.q_lora_rank, {q_out}).norm = true;
  add("wo", args.n_heads * args.v_head_dim, {dim}).add = true;
  add("w1, w3", dim, {args.inter_dim, args.inter_dim}).norm = true;
  add("w2", args.inter_dim, {dim}).add = true;
  add("gate", dim, {args.n_routed_experts}).format = &kBf16;
  add("experts w1, w3", dim, {args.moe_inter_dim, args.moe_inter_dim}).experts = args.n_routed_experts;
  add("experts w2", args.moe_inter_dim, {dim}).experts = args.n_routed_experts;
  add("shared w1, w3", dim, {shared, shared});
  add("shared w2", shared, {dim});
  ProductCase& head = add("head", dim, {args.vocab_size});
  head.norm = true, head.format = &kBf16;
  return all;
}

}  // namespace

void explain_kernels(const Backend& backend, const ModelArgs& args, GemmMode mode, std::span<const i64> tokens) {
  for (const i64 t : tokens)
    for (NamedProduct& p : products_of(args, mode)) {
      p.product.tokens = t;
      p.product.rows = p.product.experts > 0 ? t * args.n_activated_experts : t;
      const std::string choice = backend.explain(p.product);
      if (choice.empty()) return print_output("the device {} has one kernel for all products\n", backend.name());
      print_output("{:14}  rows {:6}  {}\n", p.name, p.product.rows, choice);
    }
}

}  // namespace fathom
