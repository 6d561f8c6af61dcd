// See skew.h. The rule by which a rank stands out is explained in docs/analysis.md.
#include "analysis/answers/skew.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace rankscope::answers {

namespace {

using schema::Function;

// Blocks of consecutive operations: their number doubles to kMostBlocks, then pairs are merged.
constexpr size_t kMostBlocks = 32;
// Parts of operations that wait to be brought into the order of time: 16 bytes each.
constexpr size_t kMostQueuedParts = 1u << 20;

// Kullback-Leibler divergence of two coins, for Chernoff's bound.
double Divergence(double q, double p) {
  double sum = 0;
  if (q > 0) sum += q * std::log(q / p);
  if (q < 1) sum += (1 - q) * std::log((1 - q) / (1 - p));
  return sum;
}

}  // namespace

SkewCollector::SkewCollector(const std::vector<analysis::RankInfo>& ranks,
                             const std::vector<analysis::HostClockInfo>& clocks, const Communicators& communicators,
                             const SkewOptions& options)
    : communicators_(communicators),
      options_(options),
      queue_(kMostQueuedParts),
      busy_until_ns_(ranks.size(), 0),
      p2p_busy_until_ns_(ranks.size(), 0),
      cost_ns_(communicators.all().size()) {
  absl::flat_hash_map<std::string, uint32_t> hosts;
  result_.ranks.resize(ranks.size());
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    result_.ranks[r].rank_index = r;
    const std::string name = absl::StrCat(ranks[r].host, "\n", ranks[r].boot_id);
    const auto [place, is_new] = hosts.emplace(name, static_cast<uint32_t>(hosts.size()));
    if (is_new) {
      HostError error;
      for (const auto& clock : clocks) {
        if (clock.host == ranks[r].host && clock.boot_id == ranks[r].boot_id) error = {clock.group, clock.error_ns};
      }
      host_error_.push_back(error);
    }
    host_of_.push_back(place->second);
    const double residual_ns = ranks[r].clock_residual_ns;
    residual_ns_.push_back(residual_ns > 0 && residual_ns < 1e18 ? static_cast<int64_t>(residual_ns) : 0);
  }
}

int64_t SkewCollector::ClockError(uint32_t rank_a, uint32_t rank_b) const {
  const int64_t own_ns = residual_ns_[rank_a] + residual_ns_[rank_b];
  const uint32_t a = host_of_[rank_a], b = host_of_[rank_b];
  if (a == b) return own_ns;
  if (!Aligned(a, b)) return own_ns + options_.unbounded_clock_error_ns;
  return own_ns + host_error_[a].error_ns + host_error_[b].error_ns;
}

// Whether their clocks were aligned with each other, so that the error is known. Figures of a file are not trusted.
bool SkewCollector::Aligned(uint32_t host_a, uint32_t host_b) const {
  constexpr int64_t kLargest = int64_t{1} << 60;
  const HostError &a = host_error_[host_a], &b = host_error_[host_b];
  return a.group >= 0 && a.group == b.group && a.error_ns >= 0 && b.error_ns >= 0 && a.error_ns < kLargest &&
         b.error_ns < kLargest;
}

void SkewCollector::Add(const MatchedOperation& operation) {
  if (operation.transfer_ns < 0) ++result_.negative_transfers;
  if (operation.participants.size() < 2) {
    // A communicator of one rank has nobody to wait for.
    if (operation.expected > 1) ++result_.left_out_incomplete;
    return;
  }
  if (!operation.complete) {
    ++result_.left_out_incomplete;
    return;
  }
  if (operation.uncertain) {
    ++result_.left_out_uncertain;
    return;
  }
  if (operation.first_of_comm) {
    ++result_.left_out_first;
    if (operation.key.operation_class != OperationClass::kPointToPoint) Enqueue(operation, false);
    return;
  }
  if (operation.key.operation_class == OperationClass::kPointToPoint) {
    AddPointToPoint(operation);
  } else {
    AddCollective(operation);
  }
}

// A rank that waits for several operations at once, or whose earlier operation has not ended, loses its time once: a
// wait begins where the last one, or the last operation, ended.
void SkewCollector::Charge(const OperationWaits& waits) {
  RankSkew& causer = result_.ranks[waits.cause_rank_index];
  int64_t total_ns = 0;
  for (const OperationWaits::Part& part : waits.parts) {
    int64_t& busy_until_ns = busy_until_ns_[part.rank_index];
    const int64_t wait_ns = waits.cause_arrival_ns - std::max(part.arrival_ns, busy_until_ns);
    busy_until_ns = std::max(busy_until_ns, waits.end_ns);
    if (!part.waits) continue;
    busy_until_ns = std::max(busy_until_ns, waits.cause_arrival_ns);
    if (!waits.charged || wait_ns <= 0 || part.rank_index == waits.cause_rank_index) continue;
    if (wait_ns <= ClockError(part.rank_index, waits.cause_rank_index)) {
      ++result_.waits_below_clock;
      continue;
    }
    result_.ranks[part.rank_index].own_wait_ns += wait_ns;
    total_ns += wait_ns;
    causer.largest_caused_ns = std::max(causer.largest_caused_ns, wait_ns);
  }
  if (!waits.charged) return;
  const double mean_ns = static_cast<double>(total_ns) / static_cast<double>(waits.parts.size() - 1);
  causer.caused_wait_ns += total_ns;
  // What one other rank lost can't be more than the window: communicators are not added up.
  auto& costs = cost_ns_[waits.comm];
  costs.resize(communicators_[waits.comm].members.size(), 0);
  costs[waits.cause_member] += mean_ns;
  causer.caused_mean_ns = std::max(causer.caused_mean_ns, costs[waits.cause_member]);
  OpenBlock()[waits.cause_rank_index] += mean_ns;
  CountInBlock();
}

void SkewCollector::Enqueue(const MatchedOperation& operation, bool charged) {
  OperationWaits waits = WaitsOf(operation, communicators_[operation.key.comm]);
  waits.charged = charged;
  queue_.Push(std::move(waits));
  while (queue_.Pop(false, &waits)) Charge(waits);
}

void SkewCollector::AddCollective(const MatchedOperation& operation) {
  const auto& members = communicators_[operation.key.comm].members;
  if (result_.counted == 0) {
    result_.window_begin_ns = operation.first_arrival_ns;
    result_.window_end_ns = operation.last_arrival_ns;
  }
  ++result_.counted;
  result_.window_begin_ns = std::min(result_.window_begin_ns, operation.first_arrival_ns);
  result_.window_end_ns = std::max(result_.window_end_ns, operation.last_arrival_ns);
  result_.skew.Add(operation.skew_ns);
  for (const Participant& part : operation.participants) {
    RankSkew& rank = result_.ranks[members[part.member].rank_index];
    ++rank.operations;
    rank.lateness.Add(part.arrival_ns - operation.first_arrival_ns);
  }
  ++result_.ranks[members[operation.participants[operation.last].member].rank_index].times_last;
  Enqueue(operation, true);
  KeepIfLarge(operation);
}

// A receiver certainly waits for its sender; a sender may have put its data into buffers and gone.
void SkewCollector::AddPointToPoint(const MatchedOperation& operation) {
  const auto& members = communicators_[operation.key.comm].members;
  const Participant* sender = nullptr;
  const Participant* receiver = nullptr;
  for (const Participant& part : operation.participants) {
    (part.func == static_cast<uint8_t>(Function::kSend) ? sender : receiver) = &part;
  }
  if (sender == nullptr || receiver == nullptr) return;
  RankSkew& from = result_.ranks[members[sender->member].rank_index];
  RankSkew& to = result_.ranks[members[receiver->member].rank_index];
  ++from.p2p_operations;
  if (&from == &to) return;
  ++to.p2p_operations;
  // Transfers of a group wait at the same time: that time is lost once.
  int64_t& busy_until_ns = p2p_busy_until_ns_[to.rank_index];
  const int64_t wait_ns = sender->arrival_ns - std::max(receiver->arrival_ns, busy_until_ns);
  busy_until_ns = std::max(busy_until_ns, sender->arrival_ns);
  if (wait_ns <= 0) return;
  if (wait_ns <= ClockError(from.rank_index, to.rank_index)) {
    ++result_.waits_below_clock;
    return;
  }
  from.p2p_caused_wait_ns += wait_ns;
  to.p2p_own_wait_ns += wait_ns;
}

void SkewCollector::KeepIfLarge(const MatchedOperation& operation) {
  auto& largest = result_.largest;
  const auto by_skew = [](const SkewedOperation& a, const SkewedOperation& b) { return a.skew_ns > b.skew_ns; };
  if (options_.largest == 0) return;
  if (largest.size() == options_.largest && operation.skew_ns <= largest.front().skew_ns) return;
  const auto& members = communicators_[operation.key.comm].members;
  SkewedOperation kept;
  kept.key = operation.key;
  kept.bytes = operation.bytes;
  kept.first_arrival_ns = operation.first_arrival_ns;
  kept.skew_ns = operation.skew_ns;
  kept.last_rank_index = members[operation.participants[operation.last].member].rank_index;
  for (const Participant& part : operation.participants) {
    if (part.arrival_ns == operation.first_arrival_ns) kept.first_rank_index = members[part.member].rank_index;
  }
  kept.second_last_ns = operation.second_last_arrival_ns - operation.first_arrival_ns;
  const OperationWaits waits = WaitsOf(operation, communicators_[operation.key.comm]);
  for (const OperationWaits::Part& part : waits.parts) {
    const int64_t wait_ns = waits.cause_arrival_ns - part.arrival_ns;
    if (part.waits && wait_ns > 0) kept.caused_wait_ns += wait_ns;
  }
  kept.first_of_comm = operation.first_of_comm;
  // A heap whose front is the smallest of those kept.
  largest.push_back(kept);
  std::push_heap(largest.begin(), largest.end(), by_skew);
  if (largest.size() <= options_.largest) return;
  std::pop_heap(largest.begin(), largest.end(), by_skew);
  largest.pop_back();
}

std::vector<double>& SkewCollector::OpenBlock() {
  if (!block_open_) {
    blocks_.emplace_back(result_.ranks.size(), 0.0);
    block_open_ = true;
    in_block_ = 0;
  }
  return blocks_.back();
}

void SkewCollector::CountInBlock() {
  OpenBlock();
  if (++in_block_ < operations_per_block_) return;
  block_open_ = false;
  if (blocks_.size() < kMostBlocks) return;
  for (size_t i = 0; i < kMostBlocks / 2; ++i) {
    std::vector<double> merged = std::move(blocks_[2 * i]);
    for (size_t r = 0; r < merged.size(); ++r) merged[r] += blocks_[2 * i + 1][r];
    blocks_[i] = std::move(merged);
  }
  blocks_.resize(kMostBlocks / 2);
  operations_per_block_ *= 2;
}

// Which of the ranks that are still in question lead the blocks of operations; returns the blocks in which somebody
// waited for one of them.
uint64_t SkewCollector::CountLedBlocks(const std::vector<bool>& settled, std::vector<uint64_t>* led) const {
  led->assign(settled.size(), 0);
  uint64_t blocks = 0;
  for (const auto& block : blocks_) {
    size_t most = settled.size();
    for (size_t r = 0; r < settled.size(); ++r) {
      if (!settled[r] && block[r] > 0 && (most == settled.size() || block[r] > block[most])) most = r;
    }
    if (most == settled.size()) continue;  // nobody waited in it: it tells nothing of who is late
    ++(*led)[most];
    ++blocks;
  }
  return blocks;
}

bool SkewCollector::StandsOut(const RankSkew& rank, const std::vector<double>& sorted_costs, uint64_t led,
                              uint64_t blocks) const {
  const auto window_ns = static_cast<double>(result_.window_end_ns - result_.window_begin_ns);
  const double cost_ns = rank.caused_mean_ns;
  if (cost_ns < options_.least_share_of_window * window_ns) return false;
  // The median of the others. The rank itself is at `own`.
  const auto own =
      static_cast<size_t>(std::lower_bound(sorted_costs.begin(), sorted_costs.end(), cost_ns) - sorted_costs.begin());
  const size_t others = sorted_costs.size() - 1;
  const auto other = [&](size_t i) { return sorted_costs[i < own ? i : i + 1]; };
  const double median_ns = others % 2 == 1 ? other(others / 2) : (other(others / 2 - 1) + other(others / 2)) / 2;
  if (cost_ns < options_.times_the_median * median_ns) return false;
  // Chernoff's bound on a healthy rank leading so many blocks by chance, for all ranks together.
  const auto n = static_cast<double>(sorted_costs.size());
  const double share = static_cast<double>(led) / static_cast<double>(blocks);
  if (share <= 1 / n) return false;
  return static_cast<double>(blocks) * Divergence(share, 1 / n) >= std::log(n / options_.false_accusation);
}

void SkewCollector::FindStragglers() {
  const auto window_ns = static_cast<double>(result_.window_end_ns - result_.window_begin_ns);
  std::vector<bool> settled(result_.ranks.size());
  double all_ns = 0;
  for (const RankSkew& rank : result_.ranks) {
    settled[rank.rank_index] = rank.operations == 0;
    all_ns += static_cast<double>(rank.caused_wait_ns);
  }
  if (window_ns <= 0 || all_ns <= 0) return;
  // Who was found is set aside and the others are looked at again: of two slow ranks one may lead every block.
  for (bool first = true, found = true; found; first = false) {
    found = false;
    std::vector<double> costs;
    for (const RankSkew& rank : result_.ranks) {
      if (!settled[rank.rank_index]) costs.push_back(rank.caused_mean_ns);
    }
    if (costs.size() < 2) return;
    std::sort(costs.begin(), costs.end());
    std::vector<uint64_t> led;
    const uint64_t blocks = CountLedBlocks(settled, &led);
    if (first) result_.blocks = blocks;
    if (blocks == 0) return;
    std::vector<bool> settled_next = settled;
    for (RankSkew& rank : result_.ranks) {
      const uint32_t r = rank.rank_index;
      if (settled[r]) continue;
      if (first) rank.blocks_led = led[r];
      if (!StandsOut(rank, costs, led[r], blocks)) continue;
      rank.blocks_led = led[r];
      result_.stragglers.push_back(
          {r, rank.caused_mean_ns / window_ns, static_cast<double>(rank.caused_wait_ns) / all_ns});
      settled_next[r] = found = true;
    }
    settled = std::move(settled_next);
  }
}

void SkewCollector::FindSingleDelays() {
  const auto window_ns = static_cast<double>(result_.window_end_ns - result_.window_begin_ns);
  // What all operations but the largest few have; with few operations the median would be the delay itself.
  const auto usual_ns = static_cast<double>(result_.skew.Quantile(0.5));
  for (const SkewedOperation& op : result_.largest) {
    const bool costs =
        static_cast<double>(op.caused_wait_ns > 0 ? op.skew_ns : 0) >= options_.least_share_of_window * window_ns;
    const bool unusual = static_cast<double>(op.skew_ns) >= 10 * usual_ns;
    // One rank was late, rather than one early.
    const bool one_rank = op.skew_ns - op.second_last_ns >= op.skew_ns / 2;
    if (costs && unusual && one_rank) result_.single.push_back(op);
  }
}

Skew SkewCollector::Finish() {
  for (OperationWaits waits; queue_.Pop(true, &waits);) Charge(waits);
  std::sort(result_.largest.begin(), result_.largest.end(),
            [](const SkewedOperation& a, const SkewedOperation& b) { return a.skew_ns > b.skew_ns; });
  for (uint32_t a = 0; a < host_of_.size(); ++a) {
    result_.clock_error_ns = std::max(result_.clock_error_ns, ClockError(0, a));
    result_.clock_error_assumed |= host_of_[a] != host_of_[0] && !Aligned(host_of_[a], host_of_[0]);
  }
  FindStragglers();
  std::sort(result_.stragglers.begin(), result_.stragglers.end(),
            [](const Straggler& a, const Straggler& b) { return a.share_of_window > b.share_of_window; });
  FindSingleDelays();
  if (result_.counted == 0) {
    result_.verdict = SkewVerdict::kNothingToCompare;
  } else {
    result_.verdict = result_.stragglers.empty() ? SkewVerdict::kNobody : SkewVerdict::kStragglers;
  }
  return std::move(result_);
}

}  // namespace rankscope::answers
