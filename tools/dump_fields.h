// Everything that a recording says, as named fields in a fixed order: one description for `dump`'s text and its JSON
// lines.
//
// Pure. The shape is versioned and described in tools/README.md.
#ifndef RANKSCOPE_TOOLS_DUMP_FIELDS_H_
#define RANKSCOPE_TOOLS_DUMP_FIELDS_H_

#include <nlohmann/json.hpp>

#include "analysis/model.h"

namespace rankscope::tools {

using Fields = nlohmann::ordered_json;

inline constexpr int kDumpVersion = 1;

Fields RankFields(const analysis::RankInfo& rank);  // the process, its counters of records and of losses
Fields CommFields(const analysis::CommInfo& comm);
Fields InFlightFields(const analysis::InFlightInfo& slot);
Fields TotalFields(const analysis::TotalInfo& total);
// `names`: the rank's interned names, for the kinds that refer to one.
Fields EventFields(const analysis::Event& event, const std::vector<std::string>& names);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_DUMP_FIELDS_H_
