// Events of a rank that come before the launch they belong to: the API call, and now and then the completion (a
// launch is recorded when its host call returns, and a short operation may be over by then). Bounded: the oldest are
// given up.
//
// Used by the matcher, one object of each a rank.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_EARLY_EVENTS_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_EARLY_EVENTS_H_

#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "analysis/model.h"

namespace rankscope::answers {

struct WaitingCall {
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t count = 0, op_id = 0;
  uint32_t ordinal = 0;
  int32_t root = -1;
  uint16_t comm_slot = 0, flags = 0;
  uint8_t func = 0, dtype = 0;
};

class WaitingCalls {
 public:
  void Add(const analysis::Event& event) {
    const schema::ApiPayload& api = event.payload.api;
    const WaitingCall call{event.begin_ns, event.end_ns, api.count,   event.op_id, api.ordinal,
                           api.root,       event.comm,   event.flags, api.func,    api.dtype};
    if (by_op_.emplace(event.op_id, call).second) order_.push_back(event.op_id);
  }
  // The begin of the call of this operation, which waits no longer; `otherwise_ns` if there is none.
  int64_t Take(uint64_t op_id, int64_t otherwise_ns) {
    const auto found = by_op_.find(op_id);
    if (found == by_op_.end()) return otherwise_ns;
    const int64_t begin_ns = found->second.begin_ns;
    by_op_.erase(found);
    // Usually the newest is its own; another's place in the order goes when its turn comes.
    if (!order_.empty() && order_.back() == op_id) order_.pop_back();
    return begin_ns;
  }
  size_t size() const { return order_.size(); }
  // Takes the oldest off. False if it had been taken before.
  bool PopOldest(WaitingCall* call) {
    const auto found = by_op_.find(order_.front());
    order_.pop_front();
    if (found == by_op_.end()) return false;
    *call = found->second;
    by_op_.erase(found);
    return true;
  }

 private:
  absl::flat_hash_map<uint64_t, WaitingCall> by_op_;
  std::deque<uint64_t> order_;
};

struct EarlyCompletion {
  int64_t end_ns = 0;
  schema::CompletionSource source = schema::CompletionSource::kNone;
};

class EarlyCompletions {
 public:
  // Returns how many were given up for it.
  uint64_t Add(const analysis::Event& event, size_t limit) {
    by_op_[event.op_id] = {event.end_ns, static_cast<schema::CompletionSource>(event.payload.completion.source)};
    order_.push_back(event.op_id);
    uint64_t given_up = 0;
    while (order_.size() > limit) {
      given_up += by_op_.erase(order_.front());
      order_.pop_front();
    }
    return given_up;
  }
  bool Take(uint64_t op_id, EarlyCompletion* completion) {
    if (by_op_.empty()) return false;
    const auto found = by_op_.find(op_id);
    if (found == by_op_.end()) return false;
    *completion = found->second;
    by_op_.erase(found);
    return true;
  }
  size_t size() const { return by_op_.size(); }

 private:
  absl::flat_hash_map<uint64_t, EarlyCompletion> by_op_;
  std::deque<uint64_t> order_;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_EARLY_EVENTS_H_
