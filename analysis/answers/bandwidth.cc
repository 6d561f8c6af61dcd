// See bandwidth.h.
#include "analysis/answers/bandwidth.h"

#include "schema/event_abi.h"

namespace rankscope::answers {

using schema::Function;

bool BytesArePerRank(uint8_t func) {
  switch (static_cast<Function>(func)) {
    case Function::kAllGather:
    case Function::kReduceScatter:
    case Function::kAlltoAll:
    case Function::kGather:
    case Function::kScatter:
      return true;
    default:
      return false;
  }
}

double BandwidthBytes(uint8_t func, uint64_t bytes, uint32_t ranks) {
  const auto size = static_cast<double>(bytes);
  return BytesArePerRank(func) ? size * ranks : size;
}

double BusFactor(uint8_t func, uint32_t ranks) {
  const double n = ranks > 0 ? ranks : 1;
  if (func == static_cast<uint8_t>(Function::kAllReduce)) return 2 * (n - 1) / n;
  if (BytesArePerRank(func)) return (n - 1) / n;
  return 1;
}

Bandwidth BandwidthOf(uint8_t func, uint64_t bytes, uint32_t ranks, int64_t transfer_ns) {
  switch (static_cast<Function>(func)) {
    case Function::kUnknown:
    case Function::kPutSignal:
    case Function::kSignal:
    case Function::kWaitSignal:
    case Function::kAllGatherV:  // every rank's part may differ: no formula
      return {};
    default:
      break;
  }
  if (transfer_ns <= 0 || func >= schema::kFunctionLimit) return {};
  const double algorithm = BandwidthBytes(func, bytes, ranks) / (static_cast<double>(transfer_ns) * 1e-9);
  return {algorithm, algorithm * BusFactor(func, ranks)};
}

}  // namespace rankscope::answers
