// `rankscope dump`: everything that a recording says, line by line; for looking inside and for other programs.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analysis/answers/format.h"
#include "analysis/answers/json_parts.h"
#include "analysis/answers/names.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/dump_fields.h"
#include "tools/output.h"

namespace rankscope::tools {
namespace {

struct DumpOptions {
  std::vector<std::string> paths;
  bool json = false;
  bool header_only = false;
  std::vector<int32_t> ranks;
  std::vector<std::string> kinds;
  uint64_t limit = 0;  // 0 = none
};

// The kinds by name; kAllKinds where none is named. False: an unknown one, in `unknown`.
bool ParseKinds(const std::vector<std::string>& words, analysis::KindMask* mask, std::string* unknown) {
  if (words.empty()) return *mask = analysis::kAllKinds, true;
  *mask = 0;
  for (const std::string& word : words) {
    bool found = false;
    for (uint16_t kind = 1; kind < schema::kEventKindLimit; ++kind) {
      if (absl::AsciiStrToLower(answers::EventKindName(kind)) != absl::AsciiStrToLower(word)) continue;
      *mask |= analysis::MaskOf(static_cast<schema::EventKind>(kind));
      found = true;
    }
    if (!found) return *unknown = word, false;
  }
  return true;
}

std::string ValueText(const Fields& value) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (value.is_null()) return "-";
  if (value.is_array()) {
    return absl::StrJoin(value, ",",
                         [](std::string* out, const Fields& one) { absl::StrAppend(out, ValueText(one)); });
  }
  return value.dump(-1, ' ', false, Fields::error_handler_t::replace);
}

// "a=1 b=x": empty texts and empty lists are left out.
std::string FieldsText(const Fields& fields) {
  std::string text;
  for (const auto& [key, value] : fields.items()) {
    const std::string shown = ValueText(value);
    if (!shown.empty()) absl::StrAppend(&text, text.empty() ? "" : " ", key, "=", shown);
  }
  return text;
}

class Dumper {
 public:
  Dumper(const analysis::Recording& recording, const DumpOptions& options)
      : recording_(recording), options_(options), wanted_(recording.ranks().size(), options.ranks.empty()) {
    for (const analysis::RankInfo& rank : recording.ranks()) {
      for (const int32_t chosen : options.ranks) {
        if (rank.rank == chosen) wanted_[rank.rank_index] = true;
      }
    }
  }

  bool any_rank() const {
    for (const bool wanted : wanted_) {
      if (wanted) return true;
    }
    return false;
  }

  absl::Status Dump(analysis::KindMask kinds) {
    if (options_.json) {
      Line({{"type", "header"}, {"schema", {{"name", "rankscope.dump"}, {"version", kDumpVersion}}}});
    }
    for (const std::string& warning : recording_.warnings()) Line({{"type", "warning"}, {"text", warning}});
    for (const analysis::HostClockInfo& clock : recording_.clocks()) {
      Fields line = {{"type", "clock"}};
      const nlohmann::json said = answers::ClockJson(clock);
      for (const auto& [name, value] : said.items()) line[name] = value;
      Line(line);
    }
    for (const analysis::RankInfo& rank : recording_.ranks()) {
      if (wanted_[rank.rank_index]) DumpRank(rank);
    }
    return options_.header_only ? absl::OkStatus() : DumpEvents(kinds);
  }

  int Finish() { return output_.Finish("dump"); }

 private:
  void Line(const Fields& fields) {
    if (options_.json) {
      output_.Write(absl::StrCat(fields.dump(-1, ' ', false, Fields::error_handler_t::replace), "\n"));
    } else {
      Fields rest = fields;
      const std::string type = rest["type"].get<std::string>();
      rest.erase("type");
      output_.Write(absl::StrCat(type, " ", FieldsText(rest), "\n"));
    }
  }

  // `fields` with the line's type and the process it belongs to in front.
  void RankLine(const char* type, const analysis::RankInfo& rank, const Fields& fields) {
    Fields line = {{"type", type}, {"rank", rank.rank}, {"rank_index", rank.rank_index}};
    for (const auto& [key, value] : fields.items()) line[key] = value;
    Line(line);
  }

  void DumpRank(const analysis::RankInfo& rank) {
    RankLine("rank", rank, RankFields(rank));
    for (const analysis::CommInfo& comm : rank.comms) RankLine("communicator", rank, CommFields(comm));
    for (const analysis::InFlightInfo& slot : rank.in_flight) RankLine("in_flight", rank, InFlightFields(slot));
    for (const analysis::TotalInfo& total : rank.totals) RankLine("total", rank, TotalFields(total));
  }

  absl::Status DumpEvents(analysis::KindMask kinds) {
    const std::unique_ptr<analysis::EventStream> stream = recording_.Events(kinds);
    std::vector<analysis::Event> block(1024);
    uint64_t shown = 0;
    int64_t first_ns = 0;
    while (output_.open()) {
      const size_t got = stream->Read(absl::MakeSpan(block));
      if (got == 0) return stream->status();
      for (size_t i = 0; i < got; ++i) {
        const analysis::Event& event = block[i];
        if (event.rank_index >= wanted_.size() || !wanted_[event.rank_index]) continue;
        if (options_.limit != 0 && shown == options_.limit) return absl::OkStatus();
        if (shown++ == 0) first_ns = event.begin_ns;
        DumpEvent(event, first_ns);
      }
    }
    return absl::OkStatus();
  }

  void DumpEvent(const analysis::Event& event, int64_t first_ns) {
    const analysis::RankInfo& rank = recording_.ranks()[event.rank_index];
    Fields fields = EventFields(event, rank.names);
    if (options_.json) return RankLine("event", rank, fields);
    for (const char* key : {"kind", "begin_ns", "end_ns", "lane"}) fields.erase(key);
    output_.Write(absl::StrFormat("%+.9f s rank %d %s %s %s\n", static_cast<double>(event.begin_ns - first_ns) / 1e9,
                                  rank.rank, std::string(answers::EventKindName(event.kind)),
                                  answers::FormatDuration(event.end_ns - event.begin_ns), FieldsText(fields)));
  }

  const analysis::Recording& recording_;
  const DumpOptions& options_;
  std::vector<bool> wanted_;  // by rank_index
  Output output_;
};

int Dump(const DumpOptions& options) {
  analysis::KindMask kinds = 0;
  std::string unknown, opened;
  if (!ParseKinds(options.kinds, &kinds, &unknown)) {
    PrintError("dump", absl::StrCat("--kind ", unknown, " is no kind of event"),
               "for example Coll, P2p, ProxyOp, OpComplete");
    return kExitUsage;
  }
  const auto recording = OpenNamed(options.paths, &opened);
  if (!recording.ok()) return FailWith("dump", recording.status());
  Dumper dumper(**recording, options);
  if (!dumper.any_rank()) {
    PrintError("dump", absl::StrCat("no recording of rank ", absl::StrJoin(options.ranks, ", "), " in ", opened));
    return kExitBadInput;
  }
  const absl::Status status = dumper.Dump(kinds);
  const int written = dumper.Finish();
  return status.ok() ? written : FailWith("dump", status);
}

}  // namespace

void AddDump(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* sub = app.add_subcommand("dump", "everything that a recording says, line by line");
  sub->add_option(
      "PATH", options->paths,
      "a timeline (.rsc), rings, folders of rings, or the name of a job on this node; without any: the only job");
  sub->add_flag("--json", options->json, "JSON Lines; tools/README.md has the shape");
  sub->add_flag("--header-only", options->header_only, "no events");
  sub->add_option("--rank", options->ranks, "only this rank; may be repeated")->allow_extra_args(false);
  sub->add_option("--kind", options->kinds, "only events of this kind, for example Coll; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--limit", options->limit, "at most so many events");
  sub->footer(
      "Example:\n"
      "  rankscope dump --rank 2 --kind Coll --limit 20 job.rsc\n"
      "  rankscope dump --json job.rsc | grep '\"type\":\"in_flight\"'");
  sub->callback([options, invocation] { invocation->action = [options] { return Dump(*options); }; });
}

}  // namespace rankscope::tools
