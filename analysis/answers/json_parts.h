// Pieces that several JSON shapes share. Fields: docs/json.md.
//
// Used by the JSON renderers only.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_JSON_PARTS_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_JSON_PARTS_H_

#include <nlohmann/json.hpp>

#include "analysis/answers/communicators.h"
#include "analysis/answers/hang.h"
#include "analysis/answers/operations.h"

namespace rankscope::answers {

nlohmann::json SchemaJson(const char* name, int version);  // {"schema": {...}}
nlohmann::json RankRefJson(int32_t rank, uint32_t rank_index);
nlohmann::json RankInfoJson(const analysis::RankInfo& rank, uint32_t rank_index);
nlohmann::json ClockJson(const analysis::HostClockInfo& clock);
nlohmann::json CommunicatorJson(const Communicator& comm);
nlohmann::json OperationJson(const OperationKey& key);
nlohmann::json HangBody(const HangReport& report);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_JSON_PARTS_H_
