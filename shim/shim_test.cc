// The ranges' insides, linked into the test so that the sanitizers see them: stacks, tables, names, payloads, and
// threads that push at once. NVTX is played by a function table of the test's own; what reaches the ring is read from
// the ring.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "recorder/session.h"
#include "shim/hook_entry.h"
#include "shim/nvtx_abi.h"
#include "shim/nvtx_payload.h"
#include "shim/range_names.h"
#include "shim/range_stack.h"
#include "tests/fakes/fake_nvtx.h"

extern "C" int InitializeInjectionNvtxExtension(rankscope::shim::nvtx::ExtensionModule*);

namespace rankscope::shim {
namespace {

using recorder::g_session;
using schema::EventKind;
using schema::LossReason;
using testing::FakeNvtx;

std::string NameText(uint32_t id) {
  if (id == 0) return "";
  const schema::NameEntry& entry = g_session.names[id - 1];
  return std::string(g_session.name_bytes + entry.offset, entry.bytes);
}

// A record of the ring, its payload taken as a range's.
struct Written {
  uint16_t kind, flags, aux;
  uint64_t begin_ticks, end_ticks;
  schema::RangePayload range;
};

class ShimTest : public ::testing::Test {
 protected:
  ShimTest() {
    static const std::string dir = [] {
      char path[] = "/tmp/rankscope-shim-test-XXXXXX";
      std::string made = mkdtemp(path);
      setenv("RANKSCOPE_DIR", made.c_str(), 1);
      setenv("RANKSCOPE_RING_BYTES", "8M", 1);
      return made;
    }();
    dir_ = dir;
    recorder::Start();
    for (int i = 0; i < schema::kLossReasonLimit; ++i) losses_before_.push_back(g_session.losses[i]);
    for (uint32_t i = 0; i < g_session.lane_count; ++i) heads_before_.push_back(g_session.lane_headers[i].head);
  }
  ~ShimTest() override { std::filesystem::remove_all(dir_); }

  // What this test brought, lane by lane.
  std::vector<Written> Records() const {
    std::vector<Written> all;
    for (uint32_t i = 0; i < g_session.lane_count; ++i) {
      const schema::LaneHeader& lane = g_session.lane_headers[i];
      for (uint64_t r = heads_before_[i]; r < lane.head; ++r) {
        const schema::EventRecord& record = g_session.records[lane.first_record + (r & (lane.record_count - 1))];
        Written written = {record.kind, record.flags, record.aux, record.begin_ticks, record.end_ticks, {}};
        memcpy(&written.range, &record.payload, sizeof(written.range));
        all.push_back(written);
      }
    }
    return all;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Written& record : Records()) names.push_back(NameText(record.range.name));
    return names;
  }
  uint64_t Lost(LossReason reason) const {
    return g_session.losses[static_cast<int>(reason)] - losses_before_[static_cast<size_t>(reason)];
  }

  std::string dir_;
  std::vector<uint64_t> losses_before_, heads_before_;
};

using ::testing::ElementsAre;

TEST_F(ShimTest, EveryCallerIsAttachedAndUnknownThingsAreLeftAlone) {
  FakeNvtx first, second;
  EXPECT_EQ(first.attached(), 1);
  EXPECT_EQ(second.attached(), 1);
  EXPECT_EQ(first.filled(), 11 + 10) << "the calls of ranges, marks, domains and strings";
  EXPECT_EQ(second.filled(), first.filled());
  EXPECT_EQ(InitializeInjectionNvtx2(nullptr), 1);
  EXPECT_EQ(InitializeInjectionNvtxExtension(nullptr), 1);
}

TEST_F(ShimTest, NestedRangesAreWrittenAtTheirEndWithTheirDepth) {
  const FakeNvtx nvtx;
  EXPECT_EQ(nvtx.Push("outer"), 0);
  EXPECT_EQ(nvtx.Push("inner"), 1);
  EXPECT_EQ(nvtx.Pop(), 1);
  EXPECT_EQ(nvtx.Pop(), 0);
  const std::vector<Written> records = Records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_THAT(Names(), ElementsAre("inner", "outer"));
  EXPECT_EQ(records[0].kind, static_cast<uint16_t>(EventKind::kRange));
  EXPECT_EQ(records[0].range.depth, 1);
  EXPECT_EQ(records[1].range.depth, 0);
  EXPECT_LE(records[1].begin_ticks, records[0].begin_ticks);
  EXPECT_LE(records[0].begin_ticks, records[0].end_ticks);
  EXPECT_LE(records[0].end_ticks, records[1].end_ticks);
  EXPECT_EQ(records[0].range.domain, 0u);
  EXPECT_EQ(g_session.header->doors & schema::kDoorNvtx, schema::kDoorNvtx);
  EXPECT_EQ(g_session.header->record_kinds_hi, 3u << (48 - 32)) << "kRange and kMark";
}

TEST_F(ShimTest, AnAddressThatIsUsedAgainNamesWhatIsThereNow) {
  const FakeNvtx nvtx;
  char text[64] = "first";
  nvtx.Push(text), nvtx.Pop();
  snprintf(text, sizeof(text), "second, which is longer");
  nvtx.Push(text), nvtx.Pop();
  snprintf(text, sizeof(text), "first");
  nvtx.Push(text), nvtx.Pop();
  EXPECT_THAT(Names(), ElementsAre("first", "second, which is longer", "first"));
  const auto records = Records();
  EXPECT_EQ(records[0].range.name, records[2].range.name);
}

TEST_F(ShimTest, MoreNamesThanAThreadRemembersStayApart) {
  const FakeNvtx nvtx;
  std::vector<std::string> names;
  for (int i = 0; i < 3 * kTextEntries; ++i) {
    // Long ones, too, which aren't remembered.
    names.push_back("name " + std::to_string(i) + std::string(i % 7 == 0 ? kTextBytes : 0, 'x'));
  }
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) nvtx.Push(name.c_str()), nvtx.Pop();
  }
  const std::vector<std::string> found = Names();
  ASSERT_EQ(found.size(), 2 * names.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], names[i % names.size()]);
}

TEST_F(ShimTest, PopsBeyondTheStackAreCountedAndHarmless) {
  const FakeNvtx nvtx;
  nvtx.Push("warm"), nvtx.Pop();
  EXPECT_LT(nvtx.Pop(), 0);
  EXPECT_LT(nvtx.PopIn(nvtx.Domain("never pushed")), 0);
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 2u);
  nvtx.Push("after"), nvtx.Pop();
  EXPECT_THAT(Names(), ElementsAre("warm", "after"));
}

TEST_F(ShimTest, DeeperThanKeptIsCountedAndStaysBalanced) {
  const FakeNvtx nvtx;
  constexpr int kMore = 10;
  for (int i = 0; i < static_cast<int>(kStackDepth) + kMore; ++i) EXPECT_EQ(nvtx.Push("level"), i);
  for (int i = static_cast<int>(kStackDepth) + kMore; i-- > 0;) EXPECT_EQ(nvtx.Pop(), i);
  EXPECT_EQ(Lost(LossReason::kRangeTooDeep), static_cast<uint64_t>(kMore));
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 0u);
  const auto records = Records();
  ASSERT_EQ(records.size(), kStackDepth);
  for (uint32_t i = 0; i < kStackDepth; ++i) EXPECT_EQ(records[i].range.depth, kStackDepth - 1 - i);
}

TEST_F(ShimTest, DomainsOfAThreadHaveStacksOfTheirOwn) {
  const FakeNvtx nvtx;
  void* a = nvtx.Domain("a");
  void* b = nvtx.Domain("b");
  EXPECT_NE(a, b);
  EXPECT_EQ(a, nvtx.Domain("a")) << "two libraries that create one domain share it";
  nvtx.PushIn(a, "a1", 11);
  nvtx.PushIn(b, "b1", 22);
  EXPECT_EQ(nvtx.PopIn(a), 0) << "not the newest range of the thread";
  EXPECT_EQ(nvtx.PopIn(b), 0);
  const auto records = Records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(NameText(records[0].range.name), "a1");
  EXPECT_EQ(NameText(records[0].range.domain), "a");
  EXPECT_EQ(records[0].range.value, 11u);
  EXPECT_EQ(NameText(records[1].range.name), "b1");
  EXPECT_EQ(NameText(records[1].range.domain), "b");
  EXPECT_EQ(records[1].range.value, 22u);
}

TEST_F(ShimTest, ForwardClosesWhatAnExceptionLeftOpen) {
  const FakeNvtx nvtx;
  void* mine = nvtx.Domain("mine");
  nvtx.Push("DeepSpeedTrainer.step");  // the user's own, around it
  nvtx.PushIn(mine, "mine");
  nvtx.Push("DeepSpeedEngine.forward");
  nvtx.Push("PartitionedParameterCoordinator.fetch_sub_module");
  nvtx.Push("DeepSpeedEngine.forward");  // no pop came: an exception passed
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 2u);
  nvtx.Pop();
  nvtx.PopIn(mine);
  EXPECT_EQ(nvtx.Pop(), 0);
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 2u) << "everything pops as it should again";
  EXPECT_THAT(Names(), ElementsAre("PartitionedParameterCoordinator.fetch_sub_module", "DeepSpeedEngine.forward",
                                   "DeepSpeedEngine.forward", "mine", "DeepSpeedTrainer.step"));
  const auto records = Records();
  EXPECT_EQ(records[0].flags, schema::kFlagStopMissing);
  EXPECT_EQ(records[1].flags, schema::kFlagStopMissing);
  EXPECT_EQ(records[2].flags, 0);
  EXPECT_EQ(records[2].range.depth, 2) << "within the user's two ranges";
  EXPECT_EQ(records[4].flags, 0);
}

TEST_F(ShimTest, ForwardClosesABackwardThatWasLeftOpenToo) {
  const FakeNvtx nvtx;
  nvtx.Push("DeepSpeedEngine.backward");
  nvtx.Push("DeepSpeedEngine.forward");
  nvtx.Pop();
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 1u);
  EXPECT_THAT(Names(), ElementsAre("DeepSpeedEngine.backward", "DeepSpeedEngine.forward"));
  EXPECT_LT(nvtx.Pop(), 0);
}

TEST_F(ShimTest, StartedRangesEndInAnyOrderAndOnAnyThread) {
  const FakeNvtx nvtx;
  const auto first = nvtx.Core<uint64_t>(nvtx::kCoreRangeStartA, static_cast<const char*>("first"));
  const auto second = nvtx.Core<uint64_t>(nvtx::kCoreRangeStartA, static_cast<const char*>("second"));
  EXPECT_NE(first, second);
  nvtx.Core<void>(nvtx::kCoreRangeEnd, first);
  std::thread([&] { nvtx.Core<void>(nvtx::kCoreRangeEnd, second); }).join();
  for (const uint64_t wrong : {first, second, uint64_t{1}, ~uint64_t{0}, uint64_t{12345}}) {
    nvtx.Core<void>(nvtx::kCoreRangeEnd, wrong);
  }
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 5u);
  EXPECT_THAT(Names(), ::testing::UnorderedElementsAre("first", "second"));
  for (const Written& record : Records()) {
    EXPECT_EQ(record.aux, static_cast<uint16_t>(schema::RangeForm::kStartEnd));
  }
}

TEST_F(ShimTest, AFullTableOfStartedRangesIsCountedAndRecovers) {
  const FakeNvtx nvtx;
  std::vector<uint64_t> ids;
  for (uint32_t i = 0; i < kStartedLimit + 5; ++i) {
    ids.push_back(nvtx.Core<uint64_t>(nvtx::kCoreRangeStartA, static_cast<const char*>("started")));
  }
  EXPECT_EQ(Lost(LossReason::kRangeTableFull), 5u);
  for (const uint64_t id : ids) nvtx.Core<void>(nvtx::kCoreRangeEnd, id);
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 0u) << "the end of one that was not kept is no fault of the user's";
  EXPECT_EQ(Records().size(), kStartedLimit);
  EXPECT_NE(nvtx.Core<uint64_t>(nvtx::kCoreRangeStartA, static_cast<const char*>("again")), 0u);
}

TEST_F(ShimTest, WideAndRegisteredTexts) {
  const FakeNvtx nvtx;
  nvtx.Core<void>(nvtx::kCoreMarkW, static_cast<const wchar_t*>(L"\u00fcber \u20ac \U0001f600 \xd800"));
  void* handle = nvtx.Core2<void*>(nvtx::kCore2DomainRegisterStringA, static_cast<void*>(nullptr),
                                   static_cast<const char*>("registered"));
  nvtx::EventAttributes event = {};
  event.size = sizeof(event);
  event.message_type = nvtx::kMessageRegistered;
  event.message.registered = handle;
  event.payload_type = nvtx::kPayloadInt32;
  event.payload.i32 = -2;
  nvtx.Core<void>(nvtx::kCoreMarkEx, static_cast<const nvtx::EventAttributes*>(&event));
  event.message.registered = &event;  // nobody's
  nvtx.Core<void>(nvtx::kCoreMarkEx, static_cast<const nvtx::EventAttributes*>(&event));
  EXPECT_THAT(Names(), ElementsAre("\xc3\xbc"
                                   "ber \xe2\x82\xac \xf0\x9f\x98\x80 \xef\xbf\xbd",
                                   "registered", ""));
  const auto records = Records();
  EXPECT_EQ(records[1].kind, static_cast<uint16_t>(EventKind::kMark));
  EXPECT_EQ(records[1].begin_ticks, records[1].end_ticks);
  EXPECT_EQ(records[1].range.value, ~uint64_t{1});
}

TEST_F(ShimTest, NcclsPayloadGivesBytesAndCommunicator) {
  FakeNvtx nvtx;
  void* nccl = nvtx.Domain("NCCL");
  intptr_t slots[8] = {};
  nvtx::ExtensionSegment segment = {0, 8, slots};
  nvtx::ExtensionModule module = {3, sizeof(module), nvtx::kExtensionPayload, 0x0103, 1, &segment, nullptr, nullptr};
  ASSERT_EQ(InitializeInjectionNvtxExtension(&module), 1);
  struct Payload {
    uint64_t comm;
    int root;  // between them, so that the second offset is not the sum of the sizes
    size_t bytes;
  };
  // Offsets as in the header's own schemas: some given, some left to the alignment.
  const nvtx::SchemaEntry entries[] = {
      {0, nvtx::kEntryUint64, "NCCL communicator ID", nullptr, 0, 0, nullptr, nullptr},
      {0, nvtx::kEntryInt, "Root", nullptr, 0, offsetof(Payload, root), nullptr, nullptr},
      {0, nvtx::kEntrySize, "Message size [bytes]", nullptr, 0, 0, nullptr, nullptr},
  };
  constexpr uint64_t kId = (1 << 24) + 6;
  nvtx::SchemaAttributes schema = {};
  schema.field_mask = nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount | nvtx::kSchemaHasId;
  schema.entries = entries;
  schema.entry_count = 3;
  schema.schema_id = kId;
  using Register = uint64_t (*)(void*, const nvtx::SchemaAttributes*);
  EXPECT_EQ(reinterpret_cast<Register>(slots[nvtx::kPayloadSchemaRegister])(nccl, &schema), kId);

  const Payload payload = {0xabcdef0012345678, 3, 4096};
  nvtx::PayloadData data = {kId, sizeof(payload), &payload};
  nvtx::EventAttributes event = {};
  event.size = sizeof(event);
  event.message_type = nvtx::kMessageAscii;
  event.message.ascii = "ncclBroadcast";
  event.payload_type = nvtx::kPayloadExtended;
  event.payload_count = 1;
  event.payload.u64 = reinterpret_cast<uint64_t>(&data);
  const auto* attributes = &event;
  nvtx.Core2<int>(nvtx::kCore2DomainRangePushEx, nccl, attributes);
  nvtx.PopIn(nccl);
  // At the pop, as NCCL 2.25 does where the values are known late.
  nvtx.PushIn(nccl, "ncclCommInitRank");
  using Pop = int (*)(void*, const nvtx::PayloadData*, size_t);
  EXPECT_EQ(reinterpret_cast<Pop>(slots[nvtx::kPayloadRangePop])(nccl, &data, 1), 0);
  data.bytes = 12;  // cut short: the bytes lie beyond it
  nvtx.Core2<int>(nvtx::kCore2DomainRangePushEx, nccl, attributes);
  nvtx.PopIn(nccl);
  data = {kId + 1, sizeof(payload), &payload};  // never registered
  nvtx.Core2<int>(nvtx::kCore2DomainRangePushEx, nccl, attributes);
  nvtx.PopIn(nccl);

  const auto records = Records();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(NameText(records[0].range.domain), "NCCL");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(records[i].range.value, 4096u);
    EXPECT_EQ(records[i].range.detail, 0x12345678u);
  }
  EXPECT_EQ(records[2].range.value, 0u);
  EXPECT_EQ(records[2].range.detail, 0x12345678u);
  EXPECT_EQ(records[3].range.value, 0u);
  EXPECT_EQ(records[3].range.detail, 0u);
}

TEST_F(ShimTest, TheHooksNamesArePhases) {
  EXPECT_EQ(rankscope_hook_v1(kHookPush, "data_loading", 7), kHookRecorded);
  EXPECT_EQ(rankscope_hook_v1(kHookPop, nullptr, 0), kHookRecorded);
  EXPECT_EQ(rankscope_hook_v1(kHookMark, "something else", 1), kHookRecorded);
  EXPECT_EQ(rankscope_hook_v1(kHookGroup, "optimizer", 4), kHookRecorded) << "a group may be called so";
  EXPECT_EQ(rankscope_hook_v1(kHookPush, "checkpoint_save", 1), kHookRecorded);
  EXPECT_EQ(rankscope_hook_v1(kHookPop, nullptr, 1 << 20), kHookRecorded);
  EXPECT_EQ(rankscope_hook_v1(kHookPop, nullptr, 0), kHookUnbalanced);
  EXPECT_EQ(rankscope_hook_v1(0, "x", 0), kHookUnknownOperation);
  EXPECT_EQ(rankscope_hook_v1(5, "x", 0), kHookUnknownOperation);
  EXPECT_EQ(rankscope_hook_v1(kHookPush, nullptr, 0), kHookNoName);
  EXPECT_EQ(rankscope_hook_v1(kHookMark, "", 0), kHookNoName);
  const auto records = Records();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].range.phase, static_cast<uint8_t>(schema::Phase::kDataLoading));
  EXPECT_EQ(records[0].range.phase_source, static_cast<uint8_t>(schema::PhaseSource::kHook));
  EXPECT_EQ(records[0].range.value, 7u);
  EXPECT_EQ(records[0].aux, static_cast<uint16_t>(schema::RangeForm::kHook));
  EXPECT_EQ(NameText(records[0].range.domain), "rankscope");
  EXPECT_EQ(records[1].range.phase, static_cast<uint8_t>(schema::Phase::kUnknown));
  EXPECT_EQ(records[1].range.phase_source, static_cast<uint8_t>(schema::PhaseSource::kNone));
  EXPECT_EQ(NameText(records[2].range.domain), "rankscope.group");
  EXPECT_EQ(NameText(records[2].range.name), "optimizer");
  EXPECT_EQ(records[2].range.value, 4u);
  EXPECT_EQ(records[2].range.phase, static_cast<uint8_t>(schema::Phase::kUnknown));
  EXPECT_EQ(records[3].range.phase, static_cast<uint8_t>(schema::Phase::kCheckpoint));
  EXPECT_EQ(records[3].range.value, 1u << 20) << "what was known at the end";
  EXPECT_EQ(g_session.header->doors & schema::kDoorHook, schema::kDoorHook);
}

TEST_F(ShimTest, TheUsersErrnoIsLeftAlone) {
  const FakeNvtx nvtx;
  std::thread([&] {
    errno = 77;
    nvtx.Push("first of its thread");
    nvtx.Pop();
    nvtx.Pop();
    rankscope_hook_v1(kHookGroup, "group", 0);
    EXPECT_EQ(errno, 77);
  }).join();
}

TEST_F(ShimTest, AThreadThatEndsWithOpenRangesIsCountedAndItsStackGoesOn) {
  const FakeNvtx nvtx;
  for (uint32_t i = 0; i < 2 * kThreadLimit; ++i) {
    std::thread([&] {
      EXPECT_EQ(nvtx.Push("left open"), 0);
      EXPECT_EQ(nvtx.Push("closed"), 1);
      EXPECT_EQ(nvtx.Pop(), 1);
    }).join();
  }
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 2 * kThreadLimit);
  EXPECT_EQ(Lost(LossReason::kNoLane), 0u);
}

TEST_F(ShimTest, AForkedChildStartsNothingAndRecordsOnceSomethingElseDoes) {
  const FakeNvtx nvtx;
  nvtx.Push("open across the fork");
  const pid_t child = fork();
  if (child == 0) {
    nvtx.Pop();
    nvtx.Push("in the child");
    nvtx.Pop();
    if (recorder::Active() || rankscope_hook_v1(kHookMark, "x", 0) != kHookOff) _exit(1);
    if (!recorder::Start()) _exit(2);  // as NCCL's plugin would: a ring of the child's own
    if (nvtx.Pop() >= 0) _exit(3);     // the parent's range isn't the child's
    if (nvtx.Push("recorded") != 0 || nvtx.Pop() != 0) _exit(4);
    uint64_t records = 0;
    for (uint32_t i = 0; i < g_session.lane_count; ++i) records += g_session.lane_headers[i].head;
    _exit(records == 1 && g_session.losses[static_cast<int>(LossReason::kRangeUnbalanced)] == 1 ? 0 : 5);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(nvtx.Pop(), 0);
  EXPECT_THAT(Names(), ElementsAre("open across the fork"));
}

// Under ThreadSanitizer this is where the atomics are judged: attaching, domains, strings, stacks, started ranges
// that one thread begins and another ends.
TEST_F(ShimTest, ThreadsRecordAtOnce) {
  constexpr int kThreads = 4, kRounds = 2000;
  std::atomic<uint64_t> handed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const FakeNvtx nvtx;
      void* shared = nvtx.Domain("shared by threads");
      for (int i = 0; i < kRounds; ++i) {
        const std::string name = "step " + std::to_string(i % 20);
        nvtx.Push(name.c_str());
        nvtx.PushIn(shared, "inner", static_cast<uint64_t>(t));
        const auto id = nvtx.Core<uint64_t>(nvtx::kCoreRangeStartA, static_cast<const char*>("handed on"));
        if (const uint64_t other = handed.exchange(id)) nvtx.Core<void>(nvtx::kCoreRangeEnd, other);
        nvtx.Core2<void*>(nvtx::kCore2DomainRegisterStringA, shared, name.c_str());
        nvtx.PopIn(shared);
        nvtx.Pop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Lost(LossReason::kRangeUnbalanced), 0u);
  EXPECT_EQ(Lost(LossReason::kRangeTableFull), 0u);
  uint64_t written = 0;
  for (uint32_t i = 0; i < g_session.lane_count; ++i) written += g_session.lane_headers[i].head - heads_before_[i];
  EXPECT_EQ(written, static_cast<uint64_t>(3 * kThreads * kRounds - 1)) << "the last one handed on was never ended";
}

// The last one: it uses up the process's domains.
TEST_F(ShimTest, MoreDomainsThanKeptShareOne) {
  const FakeNvtx nvtx;
  for (uint32_t i = 0; i < 2 * kDomainLimit; ++i) {
    void* domain = nvtx.Domain(("domain " + std::to_string(i)).c_str());
    ASSERT_NE(domain, nullptr);
    nvtx.PushIn(domain, "x");
    EXPECT_EQ(nvtx.PopIn(domain), 0);
  }
  EXPECT_EQ(NameText(Records().back().range.domain), "(more domains)");
  EXPECT_GT(Lost(LossReason::kNameTableFull), 0u);
}

}  // namespace
}  // namespace rankscope::shim
