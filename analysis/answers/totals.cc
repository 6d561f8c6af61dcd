// See totals.h.
#include "analysis/answers/totals.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/answers/names.h"

namespace rankscope::answers {

namespace {

uint8_t RowFunction(const MatchedOperation& operation) {
  if (operation.key.operation_class == OperationClass::kPointToPoint) {
    return static_cast<uint8_t>(schema::Function::kSend);
  }
  return operation.key.func;
}

// Buckets of ticks, each with its own rank's tick length, put together in nanoseconds.
struct DurationBuckets {
  std::map<int64_t, uint64_t> count_by_floor_ns;
  uint64_t total = 0;

  int64_t Quantile(double quantile) const {
    const double wanted = std::max(1.0, quantile * static_cast<double>(total));
    double seen = 0;
    for (const auto& [floor_ns, count] : count_by_floor_ns) {
      seen += static_cast<double>(count);
      if (seen >= wanted) return floor_ns;
    }
    return 0;
  }
};

}  // namespace

TotalsCollector::TotalsCollector(const std::vector<analysis::RankInfo>& ranks) {
  std::map<std::pair<uint8_t, uint8_t>, DurationBuckets> buckets;
  for (const auto& rank : ranks) {
    const double tick_ns = rank.ticks_per_second > 0 ? 1e9 / rank.ticks_per_second : 1;
    for (const analysis::TotalInfo& total : rank.totals) {
      TotalsRow& row = rows_[{total.func, total.size_class}];
      row.api_calls += total.api_calls;
      row.launched += total.launched;
      row.bytes += total.bytes;
      row.completed += total.completed;
      row.duration_ns += total.duration_ns;
      row.duration_max_ns = std::max(row.duration_max_ns, total.duration_max_ns);
      DurationBuckets& durations = buckets[{total.func, total.size_class}];
      for (size_t b = 0; b < total.histogram.size(); ++b) {
        if (total.histogram[b] == 0) continue;
        const double floor_ns = static_cast<double>(schema::DurationBucketFloorTicks(static_cast<int>(b))) * tick_ns;
        durations.count_by_floor_ns[std::llround(std::min(floor_ns, 9e18))] += total.histogram[b];
        durations.total += total.histogram[b];
      }
    }
  }
  for (auto& [key, row] : rows_) {
    row.func = key.first;
    row.size_class = key.second;
    row.duration_p50_ns = buckets[key].Quantile(0.5);
    row.duration_p99_ns = buckets[key].Quantile(0.99);
  }
}

void TotalsCollector::Add(const MatchedOperation& operation) {
  const uint8_t func = RowFunction(operation);
  const auto size_class = static_cast<uint8_t>(schema::SizeClass(operation.bytes));
  TotalsRow& row = rows_[{func, size_class}];
  row.func = func;
  row.size_class = size_class;
  if (!operation.complete) {
    ++row.incomplete;
    return;
  }
  if (row.matched == 0) row.bytes_min = operation.bytes;
  ++row.matched;
  row.bytes_min = std::min(row.bytes_min, operation.bytes);
  row.bytes_max = std::max(row.bytes_max, operation.bytes);
  if (operation.key.operation_class == OperationClass::kApiOnly) ++row.api_only;
  if (operation.first_of_comm) {
    ++row.first_of_comm;
    return;
  }
  if (operation.uncertain) return;
  row.skew_ns.Add(operation.skew_ns);
  if (operation.transfer_ns > 0) row.transfer_ns.Add(operation.transfer_ns);
  if (operation.bandwidth.algorithm > 0) {
    row.algorithm_bytes_per_second.Add(std::llround(std::min(operation.bandwidth.algorithm, 9e18)));
    row.bus_bytes_per_second.Add(std::llround(std::min(operation.bandwidth.bus, 9e18)));
  }
}

std::vector<TotalsRow> TotalsCollector::Finish() {
  std::vector<TotalsRow> rows;
  rows.reserve(rows_.size());
  for (auto& [key, row] : rows_) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const TotalsRow& a, const TotalsRow& b) {
    if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
    const uint64_t count_a = std::max(a.launched, a.api_calls), count_b = std::max(b.launched, b.api_calls);
    return count_a > count_b;
  });
  return rows;
}

}  // namespace rankscope::answers
