// The hang report as text: one sentence for each operation that waits. See report_text.h.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/answers/format.h"
#include "analysis/answers/names.h"
#include "analysis/answers/report_text.h"
#include "analysis/answers/report_words.h"
#include "analysis/answers/text_style.h"

namespace rankscope::answers {

namespace {

// Sentences of a long hang are cut here; JSON has them all.
constexpr size_t kSentencesPerCommunicator = 8;

std::string NotReached(const HangReport& report, const Communicator& comm, const WaitingOperation& op) {
  const std::string detail = OperationDetail(op.key.func, op.bytes, op.dtype, op.algo, op.proto);
  // Below v5 NCCL reports launches alone: a call may have been made and be stuck before its launch.
  const char* verb = comm.api_version >= 5 ? " not called " : " not launched ";
  std::vector<std::string> subjects;
  size_t count = op.not_reached.size() + op.without_ring.size();
  if (!op.not_reached.empty()) subjects.push_back(MembersText(report.rank_names, comm, op.not_reached));
  if (!op.without_ring.empty())
    subjects.push_back(absl::StrCat(CommRanksText(op.without_ring), " (no recording here)"));
  if (op.not_reached.empty()) {
    return absl::StrCat(OperationLabel(op.key), " (", detail, ") on ", CommunicatorLabel(comm), ": ", subjects[0],
                        " ", IsOrAre(count), " not known to have reached it");
  }
  return absl::StrCat(absl::StrJoin(subjects, " and "), " ", HasOrHave(count), verb, OperationLabel(op.key), " (",
                      detail, ") on ", CommunicatorLabel(comm));
}

// "; ranks 0, 1 are in it, the longest for 12.3 s"
std::string InIt(const HangReport& report, const Communicator& comm, const WaitingOperation& op) {
  std::vector<uint32_t> unfinished, in_call, not_observable;
  bool all_alive = true;
  for (const WaitingPart& part : op.in_it) {
    if (part.progress == OperationProgress::kNotObservable) {
      not_observable.push_back(part.member);
    } else if (part.call_open) {
      in_call.push_back(part.member);
    } else {
      unfinished.push_back(part.member);
    }
    all_alive &= report.ranks[part.rank_index].state == RankState::kAlive;
  }
  std::vector<std::string> pieces;
  const auto add = [&](const std::vector<uint32_t>& members, const char* now, const char* then) {
    if (members.empty()) return;
    const char* verb = all_alive ? IsOrAre(members.size()) : (members.size() == 1 ? "was" : "were");
    pieces.push_back(absl::StrCat(MembersText(report.rank_names, comm, members), " ", verb, all_alive ? now : then));
  };
  add(in_call, " inside the call", " inside the call when the process ended");
  add(unfinished, " in it", " in it to the end");
  add(not_observable, " in it (its end is not observable)", " in it (its end is not observable)");
  std::string text = absl::StrJoin(pieces, ", ");
  if (all_alive && op.longest_age_ns > 0)
    absl::StrAppend(&text, ", the longest for ", FormatDuration(op.longest_age_ns));
  if (!op.finished.empty()) {
    absl::StrAppend(&text, "; it ended on ", MembersText(report.rank_names, comm, op.finished));
  }
  if (!op.passed.empty()) {
    absl::StrAppend(&text, "; ", MembersText(report.rank_names, comm, op.passed),
                    " launched it, its end there is not known");
  }
  if (!op.not_known.empty()) {
    absl::StrAppend(&text, "; not known of ", MembersText(report.rank_names, comm, op.not_known));
  }
  return text;
}

// "size: 67.1 MB on ranks 0-2, 33.6 MB on rank 3"
template <typename Value, typename Text>
std::string Disagreement(const HangReport& report, const Communicator& comm, const WaitingOperation& op,
                         const char* what, Value value_of, Text text_of) {
  std::map<decltype(value_of(op.in_it[0])), std::vector<uint32_t>> groups;
  for (const WaitingPart& part : op.in_it) groups[value_of(part)].push_back(part.member);
  std::vector<std::string> pieces;
  for (const auto& [value, members] : groups) {
    pieces.push_back(absl::StrCat(text_of(value), " on ", MembersText(report.rank_names, comm, members)));
  }
  return absl::StrCat("ranks disagree on its ", what, ": ", absl::StrJoin(pieces, ", "));
}

std::vector<std::string> Disagreements(const HangReport& report, const Communicator& comm,
                                       const WaitingOperation& op) {
  std::vector<std::string> lines;
  if ((op.mismatches & kMismatchBytes) != 0) {
    lines.push_back(Disagreement(
        report, comm, op, "size", [](const WaitingPart& p) { return p.bytes; },
        [](uint64_t bytes) { return absl::StrCat(FormatBytes(bytes), " (", bytes, " B)"); }));
  }
  if ((op.mismatches & kMismatchType) != 0) {
    lines.push_back(Disagreement(
        report, comm, op, "data type", [](const WaitingPart& p) { return p.dtype; },
        [](uint8_t dtype) { return std::string(DataTypeName(dtype)); }));
  }
  if ((op.mismatches & kMismatchRoot) != 0) {
    lines.push_back(Disagreement(
        report, comm, op, "root", [](const WaitingPart& p) { return p.root; },
        [](int32_t root) { return absl::StrCat(root); }));
  }
  return lines;
}

std::string HangHeadline(const HangReport& report) {
  switch (report.verdict) {
    case HangVerdict::kNothingWaits:
      return "Nothing hangs: no rank is in an operation that others have not reached.";
    case HangVerdict::kRanksMissing:
      return "Ranks wait for ranks that have not come:";
    case HangVerdict::kDisagreement:
      return "Ranks disagree on what they are doing:";
    case HangVerdict::kStuckTogether:
      return "Operations that all ranks have reached and that did not end:";
  }
  return "";
}

std::string KindSentence(const HangReport& report, const HangCommunicator& hang, const Communicator& comm,
                         const KindDisagreement& one) {
  std::string text = absl::StrCat("ranks disagree on the operation",
                                  one.position >= 0 ? absl::StrCat(" at position ", one.position) : "", " of ",
                                  CommunicatorLabel(comm), ": ");
  absl::StrAppend(&text, MembersText(report.rank_names, comm, one.members_a), " ", IsOrAre(one.members_a.size()),
                  " in ", OperationLabel(hang.operations[one.operation_a].key), ", ",
                  MembersText(report.rank_names, comm, one.members_b), " ", IsOrAre(one.members_b.size()), " in ",
                  OperationLabel(hang.operations[one.operation_b].key));
  return text;
}

void AddGoneRanks(const HangReport& report, TextStyle* style, std::string* text) {
  std::vector<uint32_t> gone, closed;
  for (const HangRank& rank : report.ranks) {
    if (rank.state == RankState::kGone) gone.push_back(rank.rank_index);
    if (rank.state == RankState::kSaidGoodbye) closed.push_back(rank.rank_index);
  }
  if (gone.empty() && closed.empty()) return;
  absl::StrAppend(text, "\n", style->Heading("Processes"), "\n");
  if (!gone.empty()) {
    absl::StrAppend(text, style->Wrap(absl::StrCat(report.rank_names.Many(gone), " ", IsOrAre(gone.size()),
                                                   " not there any more (ended or killed; the two look the same)"),
                                      2));
  }
  if (!closed.empty()) {
    absl::StrAppend(text,
                    style->Wrap(absl::StrCat(report.rank_names.Many(closed), " closed the recording orderly"), 2));
  }
  // Who went first is a hint to the cause.
  if (report.verdict == HangVerdict::kNothingWaits) return;
  std::vector<HangRank> by_time;
  for (const HangRank& rank : report.ranks) {
    if (rank.state == RankState::kGone && rank.last_event_ns != 0) by_time.push_back(rank);
  }
  if (by_time.size() < 2) return;
  const auto [first, last] =
      std::minmax_element(by_time.begin(), by_time.end(),
                          [](const HangRank& a, const HangRank& b) { return a.last_event_ns < b.last_event_ns; });
  constexpr int64_t kWorthSayingNs = 1'000'000;
  if (last->last_event_ns - first->last_event_ns < kWorthSayingNs) return;
  absl::StrAppend(text,
                  style->Wrap(absl::StrCat("the first to fall silent was ", report.rank_names.One(first->rank_index),
                                           " at ", FormatUtc(first->last_event_ns), ", ",
                                           FormatDuration(last->last_event_ns - first->last_event_ns), " before ",
                                           report.rank_names.One(last->rank_index)),
                              2));
}

// What the ranks that others wait for are doing is on their hosts, as long as they live.
void AddNext(const HangReport& report, const TextOptions& options, const TextStyle& style, std::string* text) {
  std::set<uint32_t> behind;
  for (const HangCommunicator& hang : report.communicators) {
    for (const WaitingOperation& op : hang.operations) {
      for (uint32_t m : op.not_reached) behind.insert(report.all_communicators[hang.comm].members[m].rank_index);
    }
  }
  absl::StrAppend(text, "\n", style.Heading("Next"), "\n");
  constexpr size_t kCommands = 3;
  size_t shown = 0;
  for (uint32_t r : behind) {
    if (report.ranks[r].state != RankState::kAlive) continue;
    if (shown++ == kCommands) break;
    absl::StrAppend(text, "  py-spy dump --pid ", report.ranks[r].pid, "    # on ", report.ranks[r].host, ": ",
                    report.rank_names.One(r), "\n");
  }
  if (shown == 0) {
    absl::StrAppend(text, "  rankscope report ", options.timeline.empty() ? "TIMELINE" : options.timeline, "\n");
  }
}

}  // namespace

std::string WaitingSentence(const HangReport& report, const WaitingOperation& op) {
  const Communicator& comm = report.all_communicators[op.key.comm];
  std::string text;
  if (!op.not_reached.empty() || !op.without_ring.empty()) {
    text = absl::StrCat(NotReached(report, comm, op), "; ");
  } else {
    text = absl::StrCat(OperationLabel(op.key), " (",
                        OperationDetail(op.key.func, op.bytes, op.dtype, op.algo, op.proto), ") on ",
                        CommunicatorLabel(comm), " did not end: ");
  }
  return text + InIt(report, comm, op);
}

std::string HangLines(const HangReport& report, TextStyle* style, int indent) {
  std::string text;
  for (const HangCommunicator& hang : report.communicators) {
    const Communicator& comm = report.all_communicators[hang.comm];
    for (const KindDisagreement& one : hang.disagreements) {
      absl::StrAppend(&text, style->Wrap(KindSentence(report, hang, comm, one), indent));
    }
    for (size_t i = 0; i < hang.operations.size() && i < kSentencesPerCommunicator; ++i) {
      const WaitingOperation& op = hang.operations[i];
      absl::StrAppend(&text, style->Wrap(WaitingSentence(report, op), indent));
      for (const std::string& line : Disagreements(report, comm, op)) {
        absl::StrAppend(&text, style->Wrap(line, indent + 2));
      }
    }
    const size_t shown = std::min(hang.operations.size(), kSentencesPerCommunicator);
    const uint64_t more = hang.operations.size() - shown + hang.operations_left_out;
    if (more > 0) {
      absl::StrAppend(&text,
                      style->Wrap(absl::StrCat(Plural(more, "later operation"), " on ", CommunicatorLabel(comm),
                                               more == 1 ? " waits" : " wait", " behind these"),
                                  indent));
    }
    for (const FunctionProgress& progress : hang.progress) {
      absl::StrAppend(
          &text,
          style->Wrap(absl::StrCat(FunctionName(progress.func), " count on ", CommunicatorLabel(comm), ": ",
                                   progress.most, " on the furthest, ", progress.least,
                                   " on the last; behind: ", MembersText(report.rank_names, comm, progress.behind)),
                      indent + 2));
    }
  }
  return text;
}

std::string RenderHangText(const HangReport& report, const TextOptions& options) {
  TextStyle style(options.width, options.color);
  std::string text = style.Verdict(HangHeadline(report), report.verdict != HangVerdict::kNothingWaits) + "\n";
  text += HangLines(report, &style, 2);
  AddGoneRanks(report, &style, &text);
  if (!report.notes.empty() || !report.warnings.empty()) absl::StrAppend(&text, "\n", style.Heading("Limits"), "\n");
  for (const std::string& note : report.notes) text += style.Wrap(note, 2);
  for (const std::string& warning : report.warnings) text += style.Wrap(warning, 2);
  if (report.verdict != HangVerdict::kNothingWaits) AddNext(report, options, style, &text);
  return text;
}

}  // namespace rankscope::answers
