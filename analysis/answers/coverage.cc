// See coverage.h.
//
// Sources: the sections of NCCL's profiler interface as read from its source (docs/nccl-rules.md names them the same
// way) and what real NCCL releases were seen to do; each row names its own.
#include "analysis/answers/coverage.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "analysis/answers/format.h"
#include "analysis/answers/names.h"

namespace rankscope::answers {

namespace {

using analysis::RankInfo;

// NCCL's event bits (profiler interface, 1.5).
constexpr uint32_t kMaskProxyOp = 0x8;
constexpr uint32_t kMaskKernelCh = 0x40;
constexpr int32_t kNewest = 999999;
constexpr int kAnyApi = 99;

enum class List { kNotReported, kNotTrusted };

struct Rule {
  List list;
  const char* id;
  int32_t nccl_first, nccl_last;  // releases that it holds for, as ncclGetVersion gives them
  int api_first, api_last;        // tables that it holds for
  uint32_t needs_mask;            // only if one of these events was asked for; 0 = always
  const char* text;
};

constexpr Rule kRules[] = {
    // --- operations that give less than one expects
    // 3.4, row 1; seen in the emptygroup runs.
    {List::kNotReported, "zero_count", 0, kNewest, 0, kAnyApi, 0, "calls with a count of 0: NCCL drops them unseen"},
    // 3.4, row 2; observed 6.
    {List::kNotReported, "one_rank", 0, kNewest, 0, kAnyApi, 0,
     "collectives on a communicator of one rank: NCCL makes a copy of them and reports nothing"},
    // 3.4: RMA, GIN, device-side interface.
    {List::kNotReported, "device_initiated", 0, kNewest, 0, kAnyApi, 0,
     "put/signal/wait, and communication that GPU code starts itself (NVSHMEM, DeepEP, NCCL's device API)"},
    // 1.5: the API events are of v5; 1.7: a table older than that does not get them from a newer NCCL either.
    {List::kNotReported, "no_api_events", 0, kNewest, 0, 4, 0,
     "calls as the user made them (from NCCL 2.28 with profiler table v5 on): a call that never led to a launch is "
     "not seen"},
    // 3.4, row Broadcast (NCCL_ALLGATHERV_ENABLE, default 1); observed 23.
    {List::kNotReported, "broadcast_api_only", 22900, kNewest, 5, kAnyApi, 0,
     "Broadcast from NCCL 2.29 on: only the call is reported, no launch, sequence number or end "
     "(NCCL_ALLGATHERV_ENABLE=0 brings them back)"},
    {List::kNotReported, "broadcast_unseen", 22900, kNewest, 0, 4, 0,
     "Broadcast from NCCL 2.29 on: with a profiler table older than v5 it is not reported at all"},
    // 3.4, row AlltoAll.
    {List::kNotReported, "alltoall_as_p2p", 22800, kNewest, 0, kAnyApi, 0,
     "AlltoAll, Gather and Scatter: they show as one Send and Recv a peer, not by their names"},
    // 3.4, row symmetric-memory kernels.
    {List::kNotReported, "symmetric_unseen", 22700, 22799, 0, kAnyApi, 0,
     "collectives on symmetric memory (registered windows): NCCL 2.27 reports nothing of them"},
    {List::kNotReported, "symmetric_api_only", 22800, 23099, 5, kAnyApi, 0,
     "collectives on symmetric memory (registered windows): NCCL 2.28 to 2.30 reports the call alone"},
    // 3.4, row copy engine; 3.13.
    {List::kNotReported, "copy_engine_unseen", 22800, 22899, 0, kAnyApi, 0,
     "copy-engine collectives: NCCL 2.28 reports nothing of them, not even the call"},
    {List::kNotReported, "copy_engine_no_end", 22900, kNewest, 6, kAnyApi, 0,
     "the end of copy-engine collectives: all that NCCL reports of them is the host's enqueue"},
    // 3.9; issue 1805 of NVIDIA/nccl.
    {List::kNotReported, "graph_replays", 0, kNewest, 0, kAnyApi, 0,
     "replays of a CUDA graph whose operations need no network: NCCL reports them at capture only"},
    // 3.6; issues 1623 and 1765 of NVIDIA/nccl.
    {List::kNotReported, "end_inside_a_node", 0, kNewest, 0, kAnyApi, kMaskProxyOp,
     "the end of an operation that no network proxy takes part in (NVLink, shared memory inside a node): it is shown "
     "as "
     "not observable, and neither its transfer time nor its bandwidth is given"},

    // --- figures
    // 3.2, observed 1.
    {List::kNotTrusted, "enqueue_is_not_the_end", 0, kNewest, 0, kAnyApi, 0,
     "the stop of NCCL's Coll and P2p events is the end of the host's enqueue; no duration here is made of it"},
    // 3.8.
    {List::kNotTrusted, "end_from_proxy", 0, kNewest, 0, kAnyApi, kMaskProxyOp,
     "ends come from NCCL's network proxy: the GPU may still copy or reduce for a moment after it"},
    // 1.2: init of v1 to v3 has no size; 1.7.
    {List::kNotTrusted, "size_inferred", 0, kNewest, 0, 3, 0,
     "sizes of communicators: profiler tables v1 to v3 do not tell them; they are inferred from the ranks that were "
     "seen"},
    // 1.7, second table, row v1-v3.
    {List::kNotTrusted, "identity_missing", 22700, kNewest, 0, 3, 0,
     "which communicator is which: NCCL 2.27 and newer gives no identity through tables v1 to v3; it is assumed from "
     "the order "
     "of creation"},
    // 3.11, row 2.23-2.25.
    {List::kNotTrusted, "sequence_while_profiling", 22300, 22599, 0, kAnyApi, 0,
     "sequence numbers of NCCL 2.23 to 2.25 count only while a profiler is active: if ranks began to record at "
     "different "
     "times, operations are matched wrongly"},
    // 3.9, 3.11.
    {List::kNotTrusted, "sequence_in_graphs", 22600, kNewest, 0, kAnyApi, 0,
     "sequence numbers of CUDA-graph replays may repeat; repeats are told apart by their order on each rank"},
    // observed 22; issue 1658 of NVIDIA/nccl.
    {List::kNotTrusted, "receive_steps", 22400, 22699, 0, kAnyApi, 0x10,
     "receive steps of NCCL 2.24 to 2.26: many are never stopped"},
    // 3.4: CollNet.
    {List::kNotTrusted, "collnet_channels", 0, 23099, 0, kAnyApi, 0,
     "channel counts of CollNet collectives before NCCL 2.31: they read 0"},
    // 3.7: v3 has no GPU times.
    {List::kNotTrusted, "kernel_poll_times", 22600, 22699, 3, kAnyApi, kMaskKernelCh,
     "kernel-channel times of NCCL 2.26: they say when the proxy looked, not when the GPU was there"},
    // 3.4 last paragraph; pull requests 2368, 2369 of NVIDIA/nccl; observed 23.
    {List::kNotTrusted, "kernel_after_broadcast", 22900, 23099, 3, kAnyApi, kMaskKernelCh,
     "kernel-channel times of NCCL 2.29 and 2.30 after a Broadcast: they are those of other operations"},
    // issue 2355 of NVIDIA/nccl.
    {List::kNotTrusted, "kernel_cost", 23100, kNewest, 3, kAnyApi, kMaskKernelCh,
     "times of operations of 128 KB to 4 MB while kernel-channel events are on: in NCCL 2.31 the events make them 4 "
     "to 13 % "
     "slower"},
    // 1.8: ncclUint8 comes out as "Unknown"; pull request 2054 of NVIDIA/nccl.
    {List::kNotTrusted, "uint8_unknown", 0, 23199, 2, kAnyApi, 0,
     "the data type uint8: NCCL names it \"Unknown\"; an unknown type is taken as one byte an element"},
    // 3.12.
    {List::kNotTrusted, "allgather_in_bytes", 0, kNewest, 0, kAnyApi, 0,
     "counts and types of launched AllGather and Broadcast: NCCL converts them to bytes (int8)"},
};

// The oldest release of a profiler table, where NCCL's version could not be asked (1.1).
int32_t OldestReleaseOf(int32_t api_version) {
  static constexpr int32_t kReleases[] = {0, 22304, 22403, 22602, 22703, 22803, 22902, 23102};
  return api_version >= 1 && api_version <= 7 ? kReleases[api_version] : 0;
}

struct Variant {  // what differs between ranks and decides which rules hold
  int32_t nccl_version = 0, api_version = 0;
  uint32_t event_mask = 0;
  uint64_t record_kinds = 0;
  bool operator<(const Variant& o) const {
    return std::tie(nccl_version, api_version, event_mask, record_kinds) <
           std::tie(o.nccl_version, o.api_version, o.event_mask, o.record_kinds);
  }
};

bool Holds(const Rule& rule, const Variant& variant) {
  const int32_t nccl = variant.nccl_version > 0 ? variant.nccl_version : OldestReleaseOf(variant.api_version);
  if (nccl < rule.nccl_first || nccl > rule.nccl_last) return false;
  if (variant.api_version < rule.api_first || variant.api_version > rule.api_last) return false;
  return rule.needs_mask == 0 || (variant.event_mask & rule.needs_mask) != 0;
}

bool Records(const Variant& variant, schema::EventKind kind) {
  return (variant.record_kinds >> static_cast<int>(kind) & 1) != 0;
}

void AddRules(const std::set<Variant>& variants, Coverage* coverage) {
  for (const Rule& rule : kRules) {
    const bool holds =
        std::any_of(variants.begin(), variants.end(), [&](const Variant& v) { return Holds(rule, v); });
    if (!holds) continue;
    auto& list = rule.list == List::kNotReported ? coverage->not_reported : coverage->not_trusted;
    list.push_back({rule.id, rule.text});
  }
}

// What this recording left out by its settings.
void AddSettings(const std::set<Variant>& variants, Coverage* coverage) {
  bool no_launches = false, no_ends = false, unknown_version = false;
  std::set<int32_t> versions;
  for (const Variant& variant : variants) {
    no_launches |= !Records(variant, schema::EventKind::kColl) || !Records(variant, schema::EventKind::kP2p);
    no_ends |= (variant.event_mask & (kMaskProxyOp | kMaskKernelCh)) == 0;
    unknown_version |= variant.nccl_version <= 0;
    if (variant.nccl_version > 0) versions.insert(variant.nccl_version);
  }
  if (no_launches) {
    coverage->not_reported.push_back(
        {"launches_not_recorded",
         "launches: RANKSCOPE_NCCL_EVENTS left coll or p2p out; only calls are known there"});
  }
  if (no_ends) {
    coverage->not_reported.push_back(
        {"ends_not_recorded",
         "ends of operations: neither network nor kernel events were asked for; nothing is known to be finished"});
  }
  if (unknown_version && !variants.empty()) {
    coverage->not_trusted.push_back(
        {"version_unknown",
         "NCCL's version: it could not be asked; it is taken from the profiler table that NCCL "
         "chose"});
  }
  if (versions.size() > 1) {
    std::string list;
    for (int32_t version : versions) absl::StrAppend(&list, list.empty() ? "" : ", ", NcclVersionText(version));
    coverage->not_trusted.push_back(
        {"versions_differ",
         absl::StrCat("sequence numbers and coverage: the ranks run different NCCL versions (", list, ")")});
  }
}

void AddLosses(const std::vector<RankInfo>& ranks, Coverage* coverage) {
  std::map<uint32_t, LossTotal> losses;
  std::map<uint16_t, OverwrittenKind> kinds;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    coverage->torn_records += ranks[r].torn_records;
    for (const auto& loss : ranks[r].losses) {
      if (loss.count == 0) continue;
      LossTotal& total = losses[loss.reason];
      total.reason = loss.reason;
      total.count += loss.count;
      total.rank_indices.push_back(r);
    }
    for (const auto& kind : ranks[r].kinds) {
      if (kind.committed == 0 && kind.dropped == 0) continue;
      OverwrittenKind& total = kinds[kind.kind];
      total.kind = kind.kind;
      total.committed += kind.committed;
      total.read += kind.read;
      total.overwritten += kind.overwritten;
      total.dropped += kind.dropped;
      if (kind.overwritten != 0 || kind.dropped != 0) total.rank_indices.push_back(r);
    }
  }
  for (auto& [reason, total] : losses) coverage->losses.push_back(std::move(total));
  std::stable_sort(coverage->losses.begin(), coverage->losses.end(),
                   [](const LossTotal& a, const LossTotal& b) { return a.count > b.count; });
  for (auto& [kind, total] : kinds) {
    coverage->records_overwritten |= total.overwritten != 0;
    coverage->kinds.push_back(std::move(total));
  }
}

void AddCommunicators(const std::vector<RankInfo>& ranks, const Communicators& communicators, Coverage* coverage) {
  uint64_t missing_members = 0, incomplete = 0;
  for (const Communicator& comm : communicators.all()) {
    if (comm.missing_comm_ranks.empty()) continue;
    ++incomplete;
    missing_members += comm.missing_comm_ranks.size();
  }
  if (incomplete > 0) {
    coverage->not_trusted.push_back(
        {"members_missing",
         absl::StrCat(
             "who was last in ", Plural(incomplete, "communicator"), ": ", Plural(missing_members, "member"),
             " of them left no recording here, and may have been later than all that did; no bandwidth is given")});
  }
  for (const RankInfo& rank : ranks) {
    const bool refused = std::any_of(rank.comms.begin(), rank.comms.end(), [](const analysis::CommInfo& comm) {
      return (comm.flags & schema::kCommMaskRefused) != 0;
    });
    if (!refused) continue;
    coverage->not_reported.push_back(
        {"events_refused",
         "proxy-control events: before NCCL 2.27 they come millions of times a second, so they were not "
         "asked for"});
    return;
  }
}

// Operations of processes without a plugin: NCCL's NVTX ranges tell its calls (docs/design.md, "Ranges").
void AddRanges(const std::vector<RankInfo>& ranks, const MatcherStats& matcher, Coverage* coverage) {
  uint64_t processes = 0;
  for (const RankInfo& rank : ranks) {
    processes += (rank.doors & (schema::kDoorNcclRanges | schema::kDoorPlugin)) == schema::kDoorNcclRanges ? 1 : 0;
  }
  if (processes == 0) return;
  coverage->not_reported.push_back(
      {"calls_from_ranges",
       absl::StrCat("launches, ends, algorithms and peers in ", processes, processes == 1 ? " process" : " processes",
                    ": no profiler plugin was loaded there (NCCL before 2.23 has none); what is known is NCCL's own "
                    "NVTX ranges, the calls alone")});
  if (matcher.unknown_communicator > 0) {
    coverage->not_reported.push_back(
        {"ranges_without_communicator",
         "which communicator a call is for, where a process has several: NCCL before 2.25 does not say so in its "
         "ranges"});
  }
}

void AddMatching(const MatcherStats& matcher, Coverage* coverage) {
  const auto add = [&](uint64_t count, const char* id, const char* noun, const char* text) {
    if (count > 0) coverage->not_trusted.push_back({id, absl::StrCat(Plural(count, noun), " ", text)});
  };
  add(matcher.api_only_p2p, "p2p_calls_without_launch", "Send/Recv call",
      "without a launch: NCCL does not name the peer in a call, so they cannot be matched");
  add(matcher.unknown_communicator, "unknown_communicator", "event",
      "that name no known communicator: they are in no answer");
  add(matcher.unmatchable, "unmatchable", "Send or Recv", "without a peer or an ordinal: counted, not matched");
  add(matcher.closed_early, "closed_early", "operation",
      "given up while ranks were still missing in them, to bound memory");
  add(matcher.late_parts, "late_parts", "event", "that came after their operation had been given up");
}

}  // namespace

Coverage DescribeCoverage(const std::vector<RankInfo>& ranks, const Communicators& communicators,
                          const MatcherStats& matcher) {
  Coverage coverage;
  std::set<Variant> variants;
  bool foreign = false;
  for (const RankInfo& rank : ranks) {
    // A process without an NCCL communicator has no NCCL events to cover.
    if (rank.nccl_api_version > 0) {
      variants.insert({rank.nccl_version, rank.nccl_api_version, rank.event_mask, rank.record_kinds});
    }
    for (const auto& loss : rank.losses) {
      foreign |= loss.reason == static_cast<uint32_t>(schema::LossReason::kForeignProxy) && loss.count > 0;
    }
  }
  AddRules(variants, &coverage);
  AddSettings(variants, &coverage);
  AddCommunicators(ranks, communicators, &coverage);
  if (foreign) {
    // 3.6 PXN; observed 19.
    coverage.not_trusted.push_back({"pxn",
                                    "ends on ranks whose data left through another process (PXN): their own part of "
                                    "the network may end earlier"});
  }
  AddRanges(ranks, matcher, &coverage);
  AddMatching(matcher, &coverage);
  AddLosses(ranks, &coverage);
  return coverage;
}

}  // namespace rankscope::answers
