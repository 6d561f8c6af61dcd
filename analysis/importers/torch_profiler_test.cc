// Traces written here, with the times that a report must give by plain sums.
#include "analysis/importers/torch_profiler.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"

namespace rankscope::analysis {
namespace {

using schema::EventKind;
using schema::LossReason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TorchProfilerTest : public ::testing::Test {
 protected:
  TorchProfilerTest() {
    char path[] = "/tmp/rankscope-torch-test-XXXXXX";
    dir_ = mkdtemp(path);
  }
  ~TorchProfilerTest() override { std::filesystem::remove_all(dir_); }

  std::string File(const std::string& name, const std::string& text) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  ImportedRank Import(const std::string& path) {
    auto rank = ImportTorchTrace(path, nullptr);
    EXPECT_TRUE(rank.ok()) << rank.status();
    return rank.ok() ? *std::move(rank) : ImportedRank();
  }
  static std::vector<Event> Of(const ImportedRank& rank, EventKind kind) {
    std::vector<Event> events;
    for (const Event& event : rank.events) {
      if (event.kind == static_cast<uint16_t>(kind)) events.push_back(event);
    }
    return events;
  }
  static uint64_t Lost(const ImportedRank& rank, LossReason reason) {
    for (const LossInfo& loss : rank.info.losses) {
      if (loss.reason == static_cast<uint32_t>(reason)) return loss.count;
    }
    return 0;
  }
  static std::string Trace(const std::vector<std::string>& events, const std::string& head = "",
                           const std::string& tail = "") {
    return absl::StrCat("{", head, head.empty() ? "" : ", ", "\"traceEvents\": [", absl::StrJoin(events, ",\n"), "]",
                        tail.empty() ? "" : ", ", tail, "}");
  }
  std::string dir_;
};

const char kKernel[] = R"({"ph": "X", "cat": "kernel", "name": "$0", "pid": 0, "tid": 7, "ts": $1, "dur": $2,
  "args": {"device": 0, "context": 1, "stream": 7, "correlation": $3, "External id": $4}})";

TEST_F(TorchProfilerTest, TheBaseIsAddedWhereverItStands) {
  const std::string kernel = absl::Substitute(kKernel, "k", "1000.250", "2.500", 1, 1);
  const int64_t expected_ns = 1711964646000000000 + 1000250;
  for (const std::string& text : {Trace({kernel}, "\"baseTimeNanoseconds\": 1711964646000000000"),
                                  Trace({kernel}, "", "\"baseTimeNanoseconds\": 1711964646000000000")}) {
    const ImportedRank rank = Import(File("a_rank5.json", text));
    const auto kernels = Of(rank, EventKind::kGpuKernel);
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(kernels[0].begin_ns, expected_ns);
    EXPECT_EQ(kernels[0].end_ns, expected_ns + 2500);
    EXPECT_EQ(rank.info.rank, 5);
  }
}

TEST_F(TorchProfilerTest, TheRankIsTheTracesThenTheNamesThenTheCollectives) {
  const std::string kernel = absl::Substitute(kKernel, "k", 1, 1, 1, 1);
  const std::string call =
      R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 1, "dur": 1,
    "args": {"Collective name": "allreduce", "Rank": 9}})";
  EXPECT_EQ(
      Import(File("rank7.json", Trace({kernel}, R"("distributedInfo": {"rank": 2, "world_size": 4})"))).info.rank, 2);
  EXPECT_EQ(Import(File("x_rank-07.json", Trace({kernel}))).info.rank, 7);
  EXPECT_EQ(Import(File("x_rank_8of16.json", Trace({kernel}))).info.rank, 8);
  EXPECT_EQ(Import(File("frankly.json", Trace({call}))).info.rank, 9);
  EXPECT_EQ(Import(File("frank.json", Trace({kernel}))).info.rank, -1);
}

TEST_F(TorchProfilerTest, CopiesSetsCallsAndWaits) {
  const ImportedRank rank = Import(File(
      "rank0.json",
      Trace({
          R"j({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 10,
          "dur": 4, "args": {"device": 2, "stream": 9, "correlation": 3, "bytes": 4000}})j",
          R"j({"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 20, "dur": 1,
          "args": {"device": 2, "bytes": 8}})j",
          R"j({"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 77, "tid": 123, "ts": 1, "dur": 5,
          "args": {"cbid": 41, "correlation": 3}})j",
          R"j({"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 77, "tid": 123, "ts": 6,
          "dur": 9, "args": {"cbid": 131, "correlation": 4}})j",
          R"j({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 77, "tid": 123, "ts": 0, "dur": 50})j",
          R"j({"ph": "M", "name": "thread_name", "pid": 77, "tid": 123, "args": {"name": "thread 123 (main)"}})j",
      })));
  const auto copies = Of(rank, EventKind::kGpuMemcpy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].payload.copy.copy_kind, 1);    // CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
  EXPECT_EQ(copies[0].payload.copy.source_kind, 1);  // ..._MEMORY_KIND_PAGEABLE
  EXPECT_EQ(copies[0].payload.copy.destination_kind, 3);
  EXPECT_EQ(copies[0].payload.copy.bytes, 4000u);
  EXPECT_EQ(copies[0].payload.copy.device, 2);
  EXPECT_EQ(Of(rank, EventKind::kGpuMemset).size(), 1u);
  const auto calls = Of(rank, EventKind::kCudaApi);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].payload.kernel.correlation, 3u);
  const auto waits = Of(rank, EventKind::kGpuSync);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].end_ns - waits[0].begin_ns, 9000);
  EXPECT_EQ(rank.info.pid, 77u);
  ASSERT_FALSE(rank.info.threads.empty());
  EXPECT_EQ(calls[0].lane, Of(rank, EventKind::kRange)[0].lane);
  EXPECT_EQ(rank.info.threads[calls[0].lane].name, "thread 123 (main)");
}

// A collective's call, the launch of its kernel, the kernel; only the launch has the call's external id, as
// before 2.4.
std::vector<std::string> Collective(const std::string& name, int id, int ts_us, const std::string& more) {
  return {absl::Substitute(
              R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 77, "tid": 1, "ts": $1, "dur": 10,
            "args": {"External id": $0, "Collective name": "$2", "dtype": "Half", "In msg nelems": 800, "Out msg nelems": 100,
            "Group size": 8, "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"$3}})",
              id, ts_us, name, more),
          absl::Substitute(
              R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 77, "tid": 1, "ts": $1,
            "dur": 2, "args": {"External id": $0, "correlation": $2}})",
              id, ts_us + 5, id + 1000),
          absl::Substitute(kKernel, "ncclDevKernel_X", ts_us + 20, 30, id + 1000, id + 5000)};
}

TEST_F(TorchProfilerTest, ACollectiveIsTiedToItsKernelAndHasNcclsCount) {
  std::vector<std::string> events;
  int id = 1;
  const std::pair<const char*, uint64_t> counts[] = {
      // Elements by design.md: a rank's part for AllGather and ReduceScatter, what goes to one peer for AlltoAll.
      {"allreduce", 800},
      {"_reduce_scatter_base", 100},
      {"_allgather_base", 800},
      {"all_to_allv", 100},
      {"broadcast", 800}};
  for (const auto& [name, count] : counts) {
    for (const std::string& event : Collective(name, id, id * 100, "")) events.push_back(event);
    ++id;
  }
  for (const std::string& event : Collective("wait", id, id * 100, "")) events.push_back(event);
  const ImportedRank rank = Import(File("rank3.json", Trace(events)));
  const auto colls = Of(rank, EventKind::kColl);
  const auto ends = Of(rank, EventKind::kOpComplete);
  ASSERT_EQ(colls.size(), 5u);
  ASSERT_EQ(ends.size(), 5u);
  ASSERT_EQ(rank.info.comms.size(), 1u);
  EXPECT_EQ(rank.info.comms[0].ranks, 8);
  EXPECT_EQ(rank.info.comms[0].rank, 3);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(colls[i].payload.coll.count, counts[i].second) << counts[i].first;
    EXPECT_EQ(colls[i].payload.coll.dtype, static_cast<uint8_t>(schema::DataType::kFloat16));
    EXPECT_EQ(ends[i].op_id, colls[i].op_id);
    EXPECT_EQ(ends[i].begin_ns - colls[i].begin_ns, 20000);
    EXPECT_EQ(ends[i].end_ns - ends[i].begin_ns, 30000);
    EXPECT_EQ(ends[i].payload.completion.source, static_cast<uint8_t>(schema::CompletionSource::kGpuKernel));
  }
  EXPECT_TRUE(rank.counted_comms.at(0));
}

TEST_F(TorchProfilerTest, SequenceNumbersAreTheTracesWhereThereAreAny) {
  const ImportedRank rank = Import(File("rank0.json", Trace(Collective("allreduce", 1, 100, ", \"Seq\": 412"))));
  ASSERT_EQ(Of(rank, EventKind::kColl).size(), 1u);
  EXPECT_EQ(Of(rank, EventKind::kColl)[0].payload.coll.seq, 412u);
  EXPECT_THAT(rank.counted_comms, IsEmpty());
}

TEST_F(TorchProfilerTest, ImpossibleTimesAreLeftOutAndCounted) {
  const ImportedRank rank =
      Import(File("rank0.json", Trace({absl::Substitute(kKernel, "good", 1, 1, 1, 1),
                                       absl::Substitute(kKernel, "negative", 1, -1, 1, 1),
                                       absl::Substitute(kKernel, "years", 1, "18446744073709551.615", 1, 1),
                                       absl::Substitute(kKernel, "none", "null", 1, 1, 1)})));
  EXPECT_EQ(Of(rank, EventKind::kGpuKernel).size(), 1u);
  EXPECT_EQ(Lost(rank, LossReason::kImportBadTime), 3u);
}

TEST_F(TorchProfilerTest, GzipIsReadAndACutOneGivesWhatItHas) {
  std::vector<std::string> events;
  for (int i = 0; i < 20000; ++i)
    events.push_back(absl::Substitute(kKernel, absl::StrCat("k", i * 7919 % 1000), i * 10, 5, i, i));
  const std::string path = dir_ + "/rank1.json.gz";
  gzFile out = gzopen(path.c_str(), "wb");
  const std::string text = Trace(events);
  ASSERT_EQ(gzwrite(out, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  gzclose(out);
  const ImportedRank whole = Import(path);
  EXPECT_EQ(whole.events.size(), 20000u);
  EXPECT_THAT(whole.warnings, IsEmpty());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const ImportedRank cut = Import(path);
  EXPECT_GT(cut.events.size(), 5000u);
  EXPECT_LT(cut.events.size(), 20000u);
  ASSERT_EQ(cut.warnings.size(), 1u);
  EXPECT_THAT(cut.warnings[0], HasSubstr("cut off"));
}

TEST_F(TorchProfilerTest, WhatIsNoTraceGetsASentence) {
  for (const auto& [text, words] : std::map<std::string, std::string>{{"", "is not a trace"},
                                                                      {"PK\x03\x04", "is not a trace"},
                                                                      {"{}", "is not a trace"},
                                                                      {"{\"a\": 1}", "has no trace events"}}) {
    const auto rank = ImportTorchTrace(File("x.json", text), nullptr);
    ASSERT_FALSE(rank.ok()) << text;
    EXPECT_THAT(std::string(rank.status().message()), HasSubstr(words));
  }
  EXPECT_THAT(std::string(ImportTorchTrace(dir_, nullptr).status().message()), HasSubstr("not a regular file"));
  EXPECT_THAT(std::string(ImportTorchTrace(dir_ + "/none", nullptr).status().message()), HasSubstr("cannot open"));
}

}  // namespace
}  // namespace rankscope::analysis
