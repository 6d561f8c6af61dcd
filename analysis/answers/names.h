// The words for what the schema has as numbers: functions, data types, algorithms, loss reasons.
//
// Called by whoever prints. Numbers come from untrusted files: an unknown one gets a word, never a crash.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_NAMES_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace rankscope::answers {

absl::string_view FunctionName(uint8_t func);   // "AllReduce"; "unknown"
absl::string_view DataTypeName(uint8_t dtype);  // "float32"; "uint8 or unknown"
absl::string_view AlgorithmName(uint8_t algo);  // "RING"; "" where unknown
absl::string_view ProtocolName(uint8_t proto);  // "LL"; "" where unknown
absl::string_view CompletionSourceName(uint8_t source);
absl::string_view EventKindName(uint16_t kind);     // "CollApi"
absl::string_view RankSourceName(uint32_t source);  // "torch"
// The key of a loss reason in JSON ("no_lane"), and what it means in a sentence's words.
absl::string_view LossReasonKey(uint32_t reason);
absl::string_view LossReasonText(uint32_t reason);
std::string NcclVersionText(int32_t nccl_version);  // 22809 -> "2.28.9"; "unknown"

// Send, Recv: matched by peer and not by sequence number.
bool IsPointToPoint(uint8_t func);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_NAMES_H_
