#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

namespace fathom {

struct Scheduler::Sequence {
  Request request;
  std::vector<TokenId> tokens;       // prompt, then drawn tokens
  std::vector<std::int32_t> blocks;  // in order
  i64 computed = 0;                  // leading tokens that are in the cache
  i64 published = 0;                 // leading blocks that are findable
  i64 serial = BlockPool::kRoot;     // of the published prefix
  i64 planned = 0;                   // tokens in the pass being planned
  i64 row = -1;                      // of its logits in that pass
  i64 blocked_at = -1;               // blocks that were available when they were too few to start; -1: never
  bool started = false;              // has been admitted before
  bool ended = false;                // its last event is out
  Usage usage;

  i64 length() const { return static_cast<i64>(tokens.size()); }
  i64 remaining() const { return length() - computed; }
};

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), limits_(options_.limits), pool_(limits_.blocks, limits_.block_size) {
  if (options_.chunk == 0) options_.chunk = limits_.max_tokens;
  CHECK(limits_.max_sequences > 0, "max_sequences is {}; it must be 1 or more", limits_.max_sequences);
  CHECK(limits_.max_tokens >= limits_.max_sequences,
        "max_tokens is {}; a pass must have room for one token of each of {} sequences", limits_.max_tokens,
        limits_.max_sequences);
  CHECK(limits_.max_seq_len > 0, "max_seq_len is {}; it must be 1 or more", limits_.max_seq_len);
  CHECK(options_.chunk > 0, "chunk is {}; it must be 1 or more", options_.chunk);
  CHECK(limits_.max_steps > 0, "max_steps is {}; it must be 1 or more", limits_.max_steps);
}

Scheduler::~Scheduler() = default;

std::optional<std::string> Scheduler::refusal(const Request& request) const {
  const auto length = static_cast<i64>(request.prompt.size());
  if (length == 0) return "the prompt has no tokens";
  if (length > limits_.max_seq_len)
    return fmt::format(
        "Prompt length exceeds model maximum sequence length (max_seq_len={}): the prompt has {} tokens; shorten it or "
        "raise max_seq_len",
        limits_.max_seq_len, length);
  for (const TokenId id : request.prompt)
    if (id < 0 || id >= options_.vocab_size)
      return fmt::format("token id {} is outside the vocabulary of {}", id, options_.vocab_size);
  if (request.max_new_tokens < 0)
    return fmt::format("max_new_tokens is {}; it must be 0 or more", request.max_new_tokens);
  if (request.n_logprobs < -1 || request.n_logprobs > options_.vocab_size)
    return fmt::format("n_logprobs is {}; it must be -1 (none) to {}, the size of the vocabulary", request.n_logprobs,
                       options_.vocab_size);
  if (static_cast<i64>(request.stop_ids.size()) > kMostStopIds)
    return fmt::format("there are {} stop_ids; at most {} are possible", request.stop_ids.size(), kMostStopIds);
  if (auto reason = sampling_refusal(request.sampling); !reason.empty()) return reason;
  const i64 total = std::min(limits_.max_seq_len, length + std::min(request.max_new_tokens, limits_.max_seq_len));
  const i64 capacity = pool_.blocks() * limits_.block_size;
  if (total > capacity)
    return fmt::format("the request needs a cache of {} tokens ({} of prompt), and the cache holds {}", total, length,
                       capacity);
  return std::nullopt;
}

void Scheduler::add(Request request) {
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = request.prompt;
  sequence->usage.prompt_tokens = static_cast<i64>(request.prompt.size());
  sequence->request = std::move(request);
  waiting_.push_back(std::move(sequence));
}

bool Scheduler::has(i64 id) const {
  const auto has_id = [id](const Owner& sequence) { return sequence->request.id == id; };
  return std::any_of(running_.begin(), running_.end(), has_id) || std::any_of(waiting_.begin(), waiting_.end(), has_id);
}

bool Scheduler::cancel(i64 id) {
  const auto has_id = [id](const Owner& sequence) { return sequence->request.id == id; };
  if (const auto at = std::find_if(running_.begin(), running_.end(), has_id); at != running_.end()) {
    release_blocks(**at);
    running_.erase(at);
    return true;
  }
  return std::erase_if(waiting_, has_id) > 0;
}

StepPlan Scheduler::plan() {
  share_out_tokens();
  if (secure_blocks()) admit();
  steps_ = steps_together();
  std::vector<Sequence*> order;
  for (const Owner& sequence : running_) {
    sequence->row = -1;
    if (sequence->planned > 0) order.push_back(sequence.get());
  }
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->planned < b->planned; });
  StepPlan plan;
  plan.steps = steps_;
  for (Sequence* sequence : order) {
    const i64 start = sequence->computed, end = start + sequence->planned, longest = end + steps_ - 1;
    grow(*sequence, longest);
    const std::span tokens(sequence->tokens), blocks(sequence->blocks);
    plan.add_sequence(tokens.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(sequence->planned)),
                      start, blocks.first(static_cast<std::size_t>(limits_.blocks_of(longest))), limits_.block_size);
    if (end < sequence->length()) continue;
    sequence->row = plan.rows();
    plan.add_row({sequence->request.sampling, sequence->usage.completion_tokens}, sequence->request.n_logprobs, tokens);
  }
  rows_ = plan.rows();
  return plan;
}

// Sequences that draw a token each pass come first, then prompts in order of arrival. A pass has room for one token of
// every sequence, so a prompt moves on however many others are drawing.
void Scheduler::share_out_tokens() {
  tokens_left_ = limits_.max_tokens;
  for (const Owner& sequence : running_) {
    sequence->planned = sequence->remaining() == 1 ? 1 : 0;
    tokens_left_ -= sequence->planned;
  }
  for (const Owner& sequence : running_) {
    if (sequence->planned > 0) continue;
    sequence->planned = std::min({sequence->remaining(), options_.chunk, tokens_left_});
    tokens_left_ -= sequence->planned;
  }
}

// Gives each running sequence the blocks of its planned tokens, oldest first; false when some had to stop for it.
bool Scheduler::secure_blocks() {
  bool undisturbed = true;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    while (i < running_.size() && !grow(*running_[i], running_[i]->computed + running_[i]->planned)) {
      preempt_last();
      undisturbed = false;
    }
  }
  return undisturbed;
}

// Gives a sequence the blocks of its first `tokens` tokens; false when there are too few.
bool Scheduler::grow(Sequence& sequence, i64 tokens) {
  const i64 wanted = limits_.blocks_of(tokens);
  while (static_cast<i64>(sequence.blocks.size()) < wanted) {
    const auto block = pool_.allocate();
    if (!block) return false;
    sequence.blocks.push_back(*block);
  }
  return true;
}

// Starts waiting sequences while there is room for all their tokens so far: later on they grow only by drawn tokens.
void Scheduler::admit() {
  while (!waiting_.empty() && running() < limits_.max_sequences && tokens_left_ > 0) {
    Sequence& sequence = *waiting_.front();
    if (pool_.available() <= sequence.blocked_at) return;  // as little as when it was tried
    if (options_.prefix_reuse) {                           // the last token is always computed: its logits are wanted
      auto found = pool_.match(sequence.tokens, (sequence.length() - 1) / limits_.block_size);
      sequence.published = static_cast<i64>(found.blocks.size());
      sequence.blocks = std::move(found.blocks);
      sequence.serial = found.serial;
      sequence.computed = sequence.published * limits_.block_size;
    }
    if (limits_.blocks_of(sequence.length()) - sequence.published > pool_.available()) {
      release_blocks(sequence);
      sequence.blocked_at = pool_.available();
      return;
    }
    sequence.blocked_at = -1;
    if (!sequence.started) sequence.usage.cached_tokens = sequence.computed;
    sequence.started = true;
    grow(sequence, sequence.length());
    sequence.planned = std::min({sequence.remaining(), options_.chunk, tokens_left_});
    tokens_left_ -= sequence.planned;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// How many passes the plan holds: more than one when every sequence decodes, no token must be looked at before the next
// is drawn (set of seen tokens, reported numbers), none can end for its length on the way, and there are blocks for
// all. Many sequences make a pass long, and others wait for its end: they get fewer.
i64 Scheduler::steps_together() const {
  i64 steps = std::min(limits_.max_steps, std::max<i64>(1, 8 * limits_.max_steps / std::max<i64>(running(), 8)));
  for (const Owner& s : running_) {
    const Request& request = s->request;
    if (s->planned != 1 || s->remaining() != 1 || request.n_logprobs >= 0 ||
        request.sampling.repetition_penalty != 1.0f)
      return 1;
    steps = std::min({steps, request.max_new_tokens - s->usage.completion_tokens, limits_.max_seq_len - s->length()});
  }
  i64 more = 0;
  for (const Owner& s : running_)
    more += std::max<i64>(0, limits_.blocks_of(s->computed + steps) - static_cast<i64>(s->blocks.size()));
  return more <= pool_.available() ? std::max<i64>(steps, 1) : 1;
}

void Scheduler::preempt_last() {
  release_blocks(*running_.back());
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  ++preemptions_;
}

// Last block first: the beginning of a prefix is worth the most and is given up last.
void Scheduler::release_blocks(Sequence& sequence) {
  for (auto block = sequence.blocks.rbegin(); block != sequence.blocks.rend(); ++block) pool_.release(*block);
  sequence.blocks.clear();
  sequence.computed = sequence.published = sequence.planned = 0;
  sequence.serial = BlockPool::kRoot;
}

// Called once a row of logits of the sequence is known to be finite. That row has read all the sequence's keys in every
// layer, and one that is not finite would have made it so: a weight of 0 times NaN or infinity is NaN too. So all that
// it has computed is sound, and the check costs nothing. Chunks of a prompt have no such row and wait for the last.
void Scheduler::publish_blocks(Sequence& sequence) {
  const i64 size = limits_.block_size;
  for (; (sequence.published + 1) * size <= sequence.computed; ++sequence.published) {
    const auto ids = std::span(sequence.tokens)
                         .subspan(static_cast<std::size_t>(sequence.published * size), static_cast<std::size_t>(size));
    std::int32_t& block = sequence.blocks[static_cast<std::size_t>(sequence.published)];
    const BlockPool::Published known = pool_.publish(block, sequence.serial, ids);
    block = known.block;
    sequence.serial = known.serial;
  }
}

// A row that is not finite: whichever of its blocks is to blame, none is to be found by others.
void Scheduler::unpublish_blocks(Sequence& sequence) {
  for (i64 i = 0; i < sequence.published; ++i) pool_.forget(sequence.blocks[static_cast<std::size_t>(i)]);
}

void Scheduler::commit(const StepResult& result, std::vector<Event>& events) {
  CHECK(rows_ * steps_ == static_cast<i64>(result.rows.size()), "a pass gave {} tokens where {} were wanted",
        result.rows.size(), rows_ * steps_);
  for (const Owner& sequence : running_) {
    sequence->computed += sequence->planned;
    if (sequence->row >= 0)
      sequence->ended =
          accept_all(*sequence, std::span(result.rows).subspan(static_cast<std::size_t>(sequence->row)), rows_, events);
    sequence->planned = 0;
    sequence->row = -1;
  }
  remove_ended();
}

void Scheduler::remove_ended() {
  std::erase_if(running_, [&](const Owner& sequence) {
    if (sequence->ended) release_blocks(*sequence);
    return sequence->ended;
  });
}

// The tokens that the plan's passes drew for a sequence, every `stride`-th of `rows`; those after its end are dropped.
bool Scheduler::accept_all(Sequence& sequence, std::span<const Drawn> rows, i64 stride, std::vector<Event>& events) {
  for (i64 step = 0; step < steps_; ++step) {
    if (step > 0) ++sequence.computed;
    if (accept(sequence, rows[static_cast<std::size_t>(step * stride)], events)) return true;
  }
  return false;
}

// Appends a drawn token and reports it; true when the sequence is finished by it.
bool Scheduler::accept(Sequence& sequence, const Drawn& drawn, std::vector<Event>& events) {
  const Request& request = sequence.request;
  if (!drawn.finite) {
    unpublish_blocks(sequence);
    end_with(sequence, fmt::format("the model gave logits that are not finite at position {}", sequence.length() - 1),
             events);
    return true;
  }
  Event event{.request = request.id};
  publish_blocks(sequence);
  sequence.tokens.push_back(drawn.token);
  ++sequence.usage.completion_tokens;
  event.token = drawn.token;
  event.logprob = drawn.logprob;
  event.top_logprobs = drawn.top_logprobs;
  if (std::find(request.stop_ids.begin(), request.stop_ids.end(), drawn.token) != request.stop_ids.end()) {
    event.finish = FinishReason::stop;
  } else if (sequence.usage.completion_tokens >= request.max_new_tokens || sequence.length() >= limits_.max_seq_len) {
    event.finish = FinishReason::length;
  }
  event.usage = sequence.usage;
  events.push_back(std::move(event));
  return events.back().finish != FinishReason::none;
}

void Scheduler::end_with(Sequence& sequence, const std::string& reason, std::vector<Event>& events) {
  if (sequence.ended) return;
  events.push_back(
      {.request = sequence.request.id, .finish = FinishReason::error, .error = reason, .usage = sequence.usage});
  sequence.ended = true;
}

void Scheduler::fail(const std::string& reason, std::vector<Event>& events) {
  for (const Owner& sequence : running_)
    if (sequence->planned > 0) end_with(*sequence, reason, events);
  remove_ended();
}

void Scheduler::fail_all(const std::string& reason, std::vector<Event>& events) {
  for (const Owner& sequence : running_) end_with(*sequence, reason, events);
  for (const Owner& sequence : waiting_) end_with(*sequence, reason, events);
  remove_ended();
  waiting_.clear();
}

}  // namespace fathom
