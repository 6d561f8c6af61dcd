// A histogram of durations that answers quantiles: fixed memory, whatever the number of values.
//
// Values 0..31 have a bucket each; above that an octave has 32 buckets, so a quantile is at most 1/32 above the true
// one (and never below it, and never above the largest value). Count, sum, smallest and largest are exact.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_HISTOGRAM_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_HISTOGRAM_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace rankscope::answers {

class Histogram {
 public:
  // Negative values are taken as 0.
  void Add(int64_t value, uint64_t times = 1) {
    const auto v = static_cast<uint64_t>(std::max<int64_t>(value, 0));
    const size_t bucket = BucketOf(v);
    if (bucket >= buckets_.size()) buckets_.resize(bucket + 1, 0);
    buckets_[bucket] += times;
    min_ = count_ == 0 ? v : std::min(min_, v);
    max_ = std::max(max_, v);
    count_ += times;
    sum_ += static_cast<double>(v) * static_cast<double>(times);
  }
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  int64_t min() const { return static_cast<int64_t>(min_); }
  int64_t max() const { return static_cast<int64_t>(max_); }
  // The value below or at which a share of `quantile` of the values lies; 0 without values.
  int64_t Quantile(double quantile) const {
    if (count_ == 0) return 0;
    const double wanted = std::max(1.0, quantile * static_cast<double>(count_));
    double seen = 0;
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      seen += static_cast<double>(buckets_[bucket]);
      if (seen >= wanted) return static_cast<int64_t>(std::clamp(LastOf(bucket), min_, max_));
    }
    return static_cast<int64_t>(max_);
  }

 private:
  static constexpr int kSubBits = 5;
  static size_t BucketOf(uint64_t v) {
    if (v < (1u << kSubBits)) return static_cast<size_t>(v);
    const int shift = std::bit_width(v) - 1 - kSubBits;
    return static_cast<size_t>(((shift + 1) << kSubBits) + static_cast<int>((v >> shift) & ((1u << kSubBits) - 1)));
  }
  static uint64_t LastOf(size_t bucket) {
    if (bucket < (1u << kSubBits)) return bucket;
    const int shift = static_cast<int>(bucket >> kSubBits) - 1;
    const uint64_t first = ((uint64_t{1} << kSubBits) | (bucket & ((1u << kSubBits) - 1))) << shift;
    return first + ((uint64_t{1} << shift) - 1);
  }

  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0, min_ = 0, max_ = 0;
  double sum_ = 0;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_HISTOGRAM_H_
