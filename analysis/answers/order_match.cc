// See order_match.h.
#include "analysis/answers/order_match.h"

#include <algorithm>
#include <iterator>

#include "schema/event_abi.h"

namespace rankscope::answers {

namespace {

using schema::Function;

bool Fits(const OrderedLaunch& launch, const OrderedKernel& kernel, int64_t tolerance_ns) {
  if (launch.earliest_ns > kernel.begin_ns + tolerance_ns) return false;
  return launch.func == kernel.func || launch.func == kAnyFunction || kernel.func == kAnyFunction;
}

// Puts each of `few` to one of `many`, in order. The first possible place of each and the last possible one bound
// what any assignment can be; where they are the same there is no choice. Empty where no assignment exists.
template <typename Pair>
std::vector<int32_t> OnlyPlaces(size_t few, size_t many, Pair fits) {
  std::vector<int32_t> first(few), last(few);
  size_t next = 0;
  for (size_t i = 0; i < few; ++i) {
    while (next < many && !fits(i, next)) ++next;
    if (next == many) return {};
    first[i] = static_cast<int32_t>(next++);
  }
  size_t end = many;
  for (size_t i = few; i-- > 0;) {
    while (end > 0 && !fits(i, end - 1)) --end;
    if (end == 0) return {};
    last[i] = static_cast<int32_t>(--end);
  }
  for (size_t i = 0; i < few; ++i) {
    if (first[i] != last[i]) first[i] = -1;
  }
  return first;
}

}  // namespace

OrderMatch MatchInOrder(const std::vector<OrderedLaunch>& launches, const std::vector<OrderedKernel>& kernels,
                        bool front_known, int64_t tolerance_ns) {
  OrderMatch match;
  const size_t n = launches.size(), m = kernels.size();
  match.launch_of.assign(m, -1);
  const auto fits = [&](size_t launch, size_t kernel) {
    return Fits(launches[launch], kernels[kernel], tolerance_ns);
  };
  if (n == m || !front_known) {
    match.step = front_known ? OrderStep::kInStep : OrderStep::kFromBack;
    const size_t both = std::min(n, m);
    bool all = true;
    for (size_t x = 0; x < both; ++x) all &= fits(n - 1 - x, m - 1 - x);
    // Something else is missing as well; which, nothing says.
    if (!all) return match;
    for (size_t x = 0; x < both; ++x) match.launch_of[m - 1 - x] = static_cast<int32_t>(n - 1 - x);
    return match;
  }
  match.step = OrderStep::kGaps;
  if (m < n) {
    std::vector<int32_t> places =
        OnlyPlaces(m, n, [&](size_t kernel, size_t launch) { return fits(launch, kernel); });
    if (!places.empty()) match.launch_of = std::move(places);
    return match;
  }
  const std::vector<int32_t> places = OnlyPlaces(n, m, fits);
  for (size_t launch = 0; launch < places.size(); ++launch) {
    if (places[launch] >= 0) match.launch_of[static_cast<size_t>(places[launch])] = static_cast<int32_t>(launch);
  }
  return match;
}

bool NcclKernelFunction(const std::string& name, uint8_t* func) {
  // cupti.md, 5.5: ncclKernel_ (2.8), ncclDevKernel_ (2.19), ncclSymDevKernel_ (2.27), ncclSymkDevKernel_ (2.28).
  static constexpr const char* kPrefixes[] = {"ncclKernel_", "ncclDevKernel_", "ncclSymDevKernel_",
                                              "ncclSymkDevKernel_"};
  struct Word {
    const char* word;
    Function func;
  };
  // What begins like another comes first.
  static constexpr Word kWords[] = {{"SendRecv", Function::kSendRecv},   {"ReduceScatter", Function::kReduceScatter},
                                    {"Reduce", Function::kReduce},       {"AllReduce", Function::kAllReduce},
                                    {"AllGather", Function::kAllGather}, {"Broadcast", Function::kBroadcast}};
  *func = kAnyFunction;
  for (const char* prefix : kPrefixes) {
    const size_t at = name.find(prefix);
    if (at == std::string::npos) continue;
    const std::string rest = name.substr(at + std::char_traits<char>::length(prefix));
    // An all-gather of several roots is what NCCL 2.29 makes of broadcasts.
    if (rest.rfind("AllGatherV", 0) == 0) return true;
    for (const Word& word : kWords) {
      if (rest.rfind(word.word, 0) != 0) continue;
      *func = static_cast<uint8_t>(word.func);
      break;
    }
    return true;
  }
  return false;
}

}  // namespace rankscope::answers
