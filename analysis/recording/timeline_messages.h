// RankInfo between the offline side's plain structs and the timeline's FlatBuffers tables.
// Called by the timeline's writer and reader. Must never: trust a table that the verifier has not passed.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_MESSAGES_H_
#define RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_MESSAGES_H_

#include "analysis/model.h"
#include "schema/timeline_generated.h"

namespace rankscope::analysis {

flatbuffers::Offset<timeline::RankInfo> PackRankInfo(flatbuffers::FlatBufferBuilder* builder, const RankInfo& rank);
RankInfo UnpackRankInfo(const timeline::RankInfo& table);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_MESSAGES_H_
