// The median as the analyses take it of unsorted values: one of them, of an even number the upper of the middle two.
//
// Pure. Reorders what it is given.
#ifndef RANKSCOPE_ANALYSIS_MEDIAN_H_
#define RANKSCOPE_ANALYSIS_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rankscope::analysis {

// `values` holds at least one.
template <typename T>
T UpperMedian(std::vector<T>* values) {
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_MEDIAN_H_
