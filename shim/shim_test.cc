// Ranges linked into the test, so that the sanitizers see their insides: stacks, domains, repair, names, threads,
// fork. What the ring must hold follows from the calls made here. Each test runs in a process of its own (ctest).
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "recorder/session.h"
#include "shim/range_names.h"
#include "shim/ranges.h"

extern "C" int rankscope_hook_v1(int operation, const char* name, unsigned long long value);

namespace rankscope::shim {
namespace {

using recorder::g_session;
using recorder::LoadAcquire;
using schema::EventKind;
using schema::EventRecord;
using schema::LossReason;

std::string NameOf(uint32_t id) {
  if (id == 0) return "";
  const schema::NameEntry& entry = g_session.names[id - 1];
  return {g_session.name_bytes + entry.offset, entry.bytes};
}
uint64_t Lost(LossReason reason) { return recorder::LoadRelaxed(g_session.losses[static_cast<int>(reason)]); }

class RangesTest : public ::testing::Test {
 protected:
  RangesTest() {
    char path[] = "/tmp/rankscope-shim-test-XXXXXX";
    dir_ = mkdtemp(path);
    setenv("RANKSCOPE_DIR", dir_.c_str(), 1);
    setenv("RANKSCOPE_RING_BYTES", "8M", 1);
  }
  ~RangesTest() override { std::filesystem::remove_all(dir_); }

  static RangeText Text(const char* name, Handle* domain = nullptr) {
    RangeText text;
    text.ascii = name;
    text.domain = domain;
    return text;
  }
  // All ranges and marks, lane by lane, in the order of their ends.
  static std::vector<EventRecord> Records() {
    std::vector<EventRecord> found;
    for (uint32_t l = 0; l < g_session.lane_count; ++l) {
      const schema::LaneHeader& lane = g_session.lane_headers[l];
      const uint64_t head = LoadAcquire(lane.head);
      for (uint64_t i = head > lane.record_count ? head - lane.record_count : 0; i < head; ++i) {
        const EventRecord& record = g_session.records[lane.first_record + i % lane.record_count];
        if (LoadAcquire(record.commit) == i + 1) found.push_back(record);
      }
    }
    return found;
  }
  static std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const EventRecord& record : Records()) names.push_back(NameOf(record.payload.range.name));
    return names;
  }
  std::string dir_;
};

TEST_F(RangesTest, NestedRangesEndInsideOut) {
  ASSERT_TRUE(Recording(schema::kDoorNvtx));
  EXPECT_EQ(PushRange(Text("outer")), 0);
  EXPECT_EQ(PushRange(Text("inner")), 1);
  EXPECT_EQ(PopRange(nullptr), 1);
  EXPECT_EQ(PopRange(nullptr), 0);
  const std::vector<EventRecord> records = Records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(Names(), (std::vector<std::string>{"inner", "outer"}));
  EXPECT_EQ(records[0].payload.range.depth, 1);
  EXPECT_EQ(records[1].payload.range.depth, 0);
  EXPECT_LE(records[1].begin_ticks, records[0].begin_ticks);
  EXPECT_LE(records[0].end_ticks, records[1].end_ticks);
  EXPECT_EQ(g_session.header->doors, schema::kDoorNvtx);
}

TEST_F(RangesTest, DomainsAreStacksOfTheirOwn) {
  ASSERT_TRUE(Recording(schema::kDoorNvtx));
  Handle* a = NewDomain("A");
  Handle* b = NewDomain("B");
  PushRange(Text("a1", a));
  PushRange(Text("b1", b));
  PushRange(Text("a2", a));
  PopRange(b);
  PopRange(a);
  PopRange(a);
  EXPECT_EQ(Names(), (std::vector<std::string>{"b1", "a2", "a1"}));
  EXPECT_EQ(NameOf(Records()[0].payload.range.domain), "B");
  EXPECT_EQ(PopRange(b), -1) << "nothing is open there";
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 1u);
}

TEST_F(RangesTest, WhatAnExceptionLeftOpenIsClosedAtTheNextForward) {
  ASSERT_TRUE(Recording(schema::kDoorNvtx));
  Handle* domain = NewDomain("DeepSpeed");
  PushRange(Text("user's epoch"));
  PushRange(Text("DeepSpeedEngine.forward", domain));
  PushRange(Text("fetch_sub_module", domain));  // throws: neither is popped
  PushRange(Text("DeepSpeedEngine.forward", domain));
  PopRange(domain);
  PopRange(nullptr);
  const std::vector<EventRecord> records = Records();
  EXPECT_EQ(Names(), (std::vector<std::string>{"fetch_sub_module", "DeepSpeedEngine.forward",
                                               "DeepSpeedEngine.forward", "user's epoch"}));
  EXPECT_EQ(records[0].flags, schema::kFlagStopMissing);
  EXPECT_EQ(records[1].flags, schema::kFlagStopMissing);
  EXPECT_EQ(records[2].flags, 0);
  EXPECT_EQ(records[2].payload.range.depth, 1);
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 2u);
}

TEST_F(RangesTest, DeeperThanIsKeptStaysBalanced) {
  ASSERT_TRUE(Recording(schema::kDoorNvtx));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(PushRange(Text("level")), i);
  for (int i = 99; i >= 0; --i) EXPECT_EQ(PopRange(nullptr), i);
  EXPECT_EQ(PopRange(nullptr), -1);
  EXPECT_EQ(Records().size(), 64u);
  EXPECT_EQ(Lost(LossReason::kRangeTooDeep), 36u);
}

TEST_F(RangesTest, StartedRangesEndAnywhereAndOnce) {
  ASSERT_TRUE(Recording(schema::kDoorNvtx));
  const uint64_t first = StartRange(Text("first"));
  const uint64_t second = StartRange(Text("second"));
  ASSERT_NE(first, 0u);
  ASSERT_NE(first, second);
  std::thread([&] { EndRange(first); }).join();
  EndRange(first);
  EndRange(12345);
  EndRange(0);
  EndRange(second);
  const std::vector<std::string> names = Names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "first"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "second"), 1);
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 2u) << "the second end, and the id that never was";
  std::vector<uint64_t> many;
  for (int i = 0; i < 1200; ++i) many.push_back(StartRange(Text("many")));
  EXPECT_EQ(std::count(many.begin(), many.end(), 0u), 1200 - 1024);
  EXPECT_EQ(Lost(LossReason::kRangeTableFull), 1200u - 1024u);
}

TEST_F(RangesTest, NamesOfAllForms) {
  ASSERT_TRUE(Recording(schema::kDoorNvtx));
  RangeText text;
  text.wide = L"\u00fcber \u4e16 \U0001f600";
  Mark(text);
  text = {};
  text.registered = NewString("registered");
  Mark(text);
  Mark(Text("ProfilerStep#123"));
  Mark(Text("#7"));
  Mark(Text("no#number"));
  Mark(Text("42"));
  Mark(Text(""));
  Mark({});
  char changing[32] = "one";
  Mark(Text(changing));
  std::snprintf(changing, sizeof(changing), "two");
  Mark(Text(changing));
  EXPECT_EQ(Names(), (std::vector<std::string>{"\u00fcber \u4e16 \U0001f600", "registered", "ProfilerStep#", "#",
                                               "no#number", "42", "", "", "one", "two"}));
  EXPECT_EQ(Records()[2].payload.range.value, 123u);
  EXPECT_EQ(Records()[3].payload.range.value, 7u);
  EXPECT_FALSE(IsDomain(&changing));
  EXPECT_FALSE(IsString(reinterpret_cast<char*>(text.registered) + 8)) << "inside a handle, not one";
}

TEST_F(RangesTest, TheHooksMarksCarryTheirPhase) {
  errno = 5;
  EXPECT_EQ(rankscope_hook_v1(1, "data_loading", 0), 0);
  EXPECT_EQ(rankscope_hook_v1(2, nullptr, 0), 0);
  EXPECT_EQ(rankscope_hook_v1(1, "optimizer", 3), 0);
  EXPECT_EQ(rankscope_hook_v1(2, "", 0), 0);
  EXPECT_EQ(rankscope_hook_v1(4, "tensor parallel", 8), 0);
  EXPECT_EQ(rankscope_hook_v1(2, nullptr, 0), 1) << "nothing is open";
  EXPECT_EQ(rankscope_hook_v1(9, "x", 0), 2);
  EXPECT_EQ(rankscope_hook_v1(1, nullptr, 0), 2);
  EXPECT_EQ(errno, 5);
  const std::vector<EventRecord> records = Records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].payload.range.phase, static_cast<uint8_t>(schema::Phase::kDataLoading));
  EXPECT_EQ(records[0].payload.range.phase_source, static_cast<uint8_t>(schema::PhaseSource::kHook));
  EXPECT_EQ(records[0].aux, static_cast<uint16_t>(schema::RangeForm::kHook));
  EXPECT_EQ(records[1].payload.range.phase, static_cast<uint8_t>(schema::Phase::kOptimizer));
  EXPECT_EQ(records[1].payload.range.value, 3u);
  EXPECT_EQ(NameOf(records[2].payload.range.domain), "rankscope.group");
  EXPECT_EQ(g_session.header->doors, schema::kDoorHook);
}

TEST_F(RangesTest, ManyThreadsAtOnceLoseNothing) {
  constexpr int kThreads = 8, kRounds = 400;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      const std::string own = "thread " + std::to_string(t);
      for (int i = 0; i < kRounds; ++i) {
        ASSERT_TRUE(Recording(schema::kDoorNvtx));
        PushRange(Text(own.c_str()));
        const uint64_t id = StartRange(Text("shared"));
        PushRange(Text("inner"));
        PopRange(nullptr);
        EndRange(id);
        PopRange(nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t committed = 0;
  for (uint32_t l = 0; l < g_session.lane_count; ++l)
    committed += g_session.lane_headers[l].committed_by_kind[static_cast<int>(EventKind::kRange)];
  EXPECT_EQ(committed, uint64_t{kThreads} * kRounds * 3);
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 0u);
}

TEST_F(RangesTest, AForkedChildMakesNoRingForARange) {
  const pid_t child = fork();
  if (child == 0) {
    const bool quiet = !Recording(schema::kDoorNvtx) && !Recording(schema::kDoorHook) &&
                       rankscope_hook_v1(1, "gc", 0) == 1 && !recorder::Active();
    _exit(quiet ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(RangesTest, AForkedChildThatNcclStartsBeginsAnew) {
  ASSERT_TRUE(Recording(schema::kDoorNvtx));
  PushRange(Text("parent's"));
  Handle* domain = NewDomain("shared domain");
  const pid_t child = fork();
  if (child == 0) {
    bool good = recorder::Start() && Recording(schema::kDoorNvtx);  // as the plugin does
    good = good && PopRange(nullptr) == -1;                         // what was open is the parent's
    PushRange(Text("child's", domain));
    good = good && PopRange(domain) == 0 && Names() == std::vector<std::string>{"child's"} &&
           NameOf(Records()[0].payload.range.domain) == "shared domain" &&
           g_session.header->doors == schema::kDoorNvtx;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(PopRange(nullptr), 0);
  EXPECT_EQ(Names(), std::vector<std::string>{"parent's"});
}

}  // namespace
}  // namespace rankscope::shim
