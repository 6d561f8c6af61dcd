// The plugin as NCCL meets it: every version, every event type, and what NCCL is known to do wrong.
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "tests/contract/contract_fixture.h"

namespace rankscope::testing {
namespace {

using analysis::Event;
using schema::EventKind;
using schema::LossReason;

std::string VersionName(const ::testing::TestParamInfo<int>& version) { return "v" + std::to_string(version.param); }

class EveryVersion : public ContractTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Api, EveryVersion, ::testing::Range(1, 8), VersionName);

TEST_P(EveryVersion, ACollectiveIsRecordedFieldByField) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  const EventFields fields = Coll(5);
  const uint64_t group = host.version() <= 4 ? host.Start(context, EventFields{.type = kNcclGroup}) : 0;
  EXPECT_EQ(group != 0, host.version() <= 4) << "a NULL group silences its children up to NCCL 2.27";
  const uint64_t handle = host.Start(context, fields);
  ASSERT_NE(handle, 0u);
  host.Stop(handle);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  const std::vector<Event> colls = Events(*recording, EventKind::kColl);
  ASSERT_EQ(colls.size(), 1u);
  const schema::CollPayload& coll = colls[0].payload.coll;
  EXPECT_EQ(coll.func, static_cast<uint8_t>(schema::Function::kAllReduce));
  EXPECT_EQ(coll.dtype, static_cast<uint8_t>(schema::DataType::kFloat32));
  EXPECT_EQ(coll.algo, static_cast<uint8_t>(schema::Algorithm::kRing));
  EXPECT_EQ(coll.proto, static_cast<uint8_t>(schema::Protocol::kSimple));
  EXPECT_EQ(coll.count, 1005u);
  EXPECT_EQ(coll.seq, 5u);
  EXPECT_EQ(colls[0].aux, 4 | 16 << 8);
  EXPECT_NE(colls[0].flags & schema::kFlagFirstOfComm, 0);
  const analysis::RankInfo& rank = recording->ranks()[0];
  EXPECT_EQ(rank.nccl_api_version, GetParam());
  ASSERT_EQ(rank.comms.size(), 1u);
  EXPECT_EQ(rank.comms[0].hash, 0xabcu) << "v1 to v3 learn it from the first operation";
  EXPECT_EQ(rank.comms[0].rank, 1);
  EXPECT_EQ(rank.comms[0].ranks, GetParam() >= 4 ? 4 : 0);
  EXPECT_EQ(rank.comms[0].name, "world");
}

TEST_P(EveryVersion, TheMaskAsksForWhatIsAffordable) {
  ProfilerHost host;
  OpenAndInit(&host, GetParam());
  // docs/design.md: Group (up to 2.27), Coll, P2p, ProxyOp; API events and KernelLaunch from v5; CeColl from v6.
  // Never steps, control, kernel channels.
  const int expected = GetParam() <= 4 ? 0xf : GetParam() == 5 ? 0xf0e : 0x1f0e;
  EXPECT_EQ(host.mask(), expected);
}

TEST_P(EveryVersion, ASendIsRecordedWithItsPeerAndOrdinal) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  for (int i = 0; i < 3; ++i) {
    EventFields f = Coll(0);
    f.type = kNcclP2p;
    f.func = i == 1 ? "Recv" : "Send";
    f.func_number = i == 1 ? 7 : 6;
    f.peer = 2;
    host.Stop(host.Start(context, f));
  }
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  const std::vector<Event> sends = Events(*recording, EventKind::kP2p);
  ASSERT_EQ(sends.size(), 3u);
  EXPECT_EQ(sends[0].payload.p2p.peer, 2);
  EXPECT_EQ(sends[0].payload.p2p.ordinal, 0u);
  EXPECT_EQ(sends[1].payload.p2p.ordinal, 0u) << "receives count apart";
  EXPECT_EQ(sends[2].payload.p2p.ordinal, 1u);
}

TEST_P(EveryVersion, TheLastProxyOperationCompletesItsOperation) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  const uint64_t coll = host.Start(context, Coll(0));
  host.Stop(coll);
  const uint64_t first = host.Start(context, ProxyOp(coll)), second = host.Start(context, ProxyOp(coll));
  std::thread proxy([&] { host.Stop(first); });
  proxy.join();
  EXPECT_TRUE(Events(*Read(), EventKind::kOpComplete).empty()) << "one is still open";
  EXPECT_EQ(Read()->ranks()[0].in_flight.size(), 2u) << "the operation and its open network event";
  host.Stop(second);
  const auto recording = Read();
  const std::vector<Event> done = Events(*recording, EventKind::kOpComplete);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].payload.completion.proxy_ops, 2u);
  EXPECT_EQ(done[0].payload.completion.source, static_cast<uint8_t>(schema::CompletionSource::kProxy));
  EXPECT_EQ(done[0].payload.completion.bytes, 4000u);
  EXPECT_TRUE(recording->ranks()[0].in_flight.empty());
  ASSERT_EQ(recording->ranks()[0].totals.size(), 1u);
  EXPECT_EQ(recording->ranks()[0].totals[0].completed, 1u);
}

TEST_P(EveryVersion, UnknownTypesStatesHandlesAndContextsAreHarmlessAndCounted) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  for (int bit = 0; bit < 64; ++bit) {
    EventFields f = Coll(0);
    f.type = uint64_t{1} << bit;
    f.parent = 0xdeadbeef;
    f.pid = getpid();
    host.Stop(host.Start(context, f));
  }
  for (const uint64_t handle :
       {uint64_t{1}, uint64_t{0xdddddddddddddddd}, ~uint64_t{0}, reinterpret_cast<uint64_t>(&host)}) {
    host.Stop(handle);
    for (int state = -2; state < 64; ++state) host.Record(handle, state, nullptr);
  }
  for (const uint64_t bad : {uint64_t{0}, uint64_t{0x1234}, ~uint64_t{0}, reinterpret_cast<uint64_t>(&host)}) {
    host.Stop(host.Start(reinterpret_cast<void*>(bad), Coll(1)));
    host.Finalize(reinterpret_cast<void*>(bad));
  }
  const auto recording = Read();
  EXPECT_GT(Lost(*recording, LossReason::kUnknownType), 0u);
  EXPECT_GT(Lost(*recording, LossReason::kForeignHandle), 0u);
  EXPECT_EQ(Lost(*recording, LossReason::kNullContext), 1u);
  EXPECT_EQ(Lost(*recording, LossReason::kBadContext), 3u);
}

TEST_P(EveryVersion, AForeignProxyOperationIsNeverFollowed) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  void* trap = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t handle = host.Start(trap, ProxyOp(reinterpret_cast<uint64_t>(trap), getpid() + 1));
  host.Record(handle, 19, nullptr);
  host.Stop(handle);
  // Even a parent that is a live handle of ours must not be taken for it: the pid says that it is another process's
  // number.
  const uint64_t coll = host.Start(context, Coll(0));
  host.Stop(coll);
  host.Stop(host.Start(context, ProxyOp(coll, getpid() + 1)));
  const auto recording = Read();
  EXPECT_EQ(Lost(*recording, LossReason::kForeignProxy), 2u);
  EXPECT_TRUE(Events(*recording, EventKind::kOpComplete).empty());
}

TEST_P(EveryVersion, AStopThatComesTwiceOrTooLateIsCountedNotBelieved) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  const uint64_t coll = host.Start(context, Coll(0));
  host.Stop(coll);
  host.Stop(coll);
  for (int i = 1; i < 2000; ++i) host.Stop(host.Start(context, Coll(static_cast<uint64_t>(i))));
  host.Stop(coll);
  const auto recording = Read();
  EXPECT_EQ(Lost(*recording, LossReason::kRepeatedStop), 1u);
  EXPECT_EQ(Lost(*recording, LossReason::kStaleHandle), 1u);
  EXPECT_EQ(recording->ranks()[0].comms[0].launched_by_func[static_cast<int>(schema::Function::kAllReduce)], 2000u);
}

TEST_P(EveryVersion, InitAfterFinalizeAndReopeningGoOnInTheSameRing) {
  ProfilerHost host;
  void* first = OpenAndInit(&host, GetParam());
  host.Stop(host.Start(first, Coll(0)));
  host.Finalize(first);
  host.Close();
  void* second = OpenAndInit(&host, GetParam(), 1, 0xdef);
  EXPECT_NE(first, second);
  EventFields coll = Coll(0);
  coll.comm_hash = 0xdef;
  host.Stop(host.Start(second, coll));
  const auto recording = Read();
  ASSERT_EQ(recording->ranks().size(), 1u) << "one ring";
  ASSERT_EQ(recording->ranks()[0].comms.size(), 2u);
  EXPECT_NE(recording->ranks()[0].comms[0].flags & schema::kCommFinalized, 0u);
  EXPECT_EQ(recording->ranks()[0].comms[1].flags & schema::kCommFinalized, 0u);
  EXPECT_EQ(Events(*recording, EventKind::kColl).size(), 2u);
}

TEST_P(EveryVersion, ADisabledRecorderStillGivesAContextAndNeverAnError) {
  setenv("RANKSCOPE_DISABLE", "1", 1);
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  EXPECT_EQ(host.mask(), 0) << "nothing is asked for";
  EXPECT_EQ(host.Start(context, Coll(0)), 0u);
  EXPECT_EQ(host.Finalize(context), 0);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/rings"));
}

TEST_P(EveryVersion, ManyThreadsMayInitAndRecordAtOnce) {
  ProfilerHost host;
  ASSERT_TRUE(host.Open(RANKSCOPE_LIBRARY_UNDER_TEST, GetParam()));
  constexpr int kThreads = 50, kEach = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      void* context = Init(&host, t, 0x1000 + static_cast<uint64_t>(t));
      for (int i = 0; i < kEach; ++i) host.Stop(host.Start(context, Coll(static_cast<uint64_t>(i))));
      host.Finalize(context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto recording = Read();
  ASSERT_EQ(recording->ranks()[0].comms.size(), static_cast<size_t>(kThreads));
  uint64_t launched = 0;
  for (const analysis::CommInfo& comm : recording->ranks()[0].comms)
    launched += comm.launched_by_func[static_cast<int>(schema::Function::kAllReduce)];
  EXPECT_EQ(launched, uint64_t{kThreads} * kEach);
  EXPECT_EQ(recording->ranks()[0].torn_records, 0u);
}

class ApiVersions : public ContractTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Api, ApiVersions, ::testing::Range(5, 8), VersionName);

TEST_P(ApiVersions, ALaunchJoinsItsCallAndOnlyTheFirstDoes) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  EventFields call = Coll(0);
  call.type = kNcclCollApi;
  call.stream = 0x7f0000001230;
  const uint64_t api = host.Start(context, call);
  host.Stop(api);
  host.Stop(host.Start(context, Coll(0, api)));
  host.Stop(host.Start(context, Coll(1, api)));  // a handle that NCCL did not clear
  const auto recording = Read();
  const std::vector<Event> calls = Events(*recording, EventKind::kCollApi),
                           colls = Events(*recording, EventKind::kColl);
  ASSERT_EQ(calls.size(), 1u);
  ASSERT_EQ(colls.size(), 2u);
  EXPECT_EQ(colls[0].op_id, calls[0].op_id);
  EXPECT_NE(colls[1].op_id, calls[0].op_id);
  EXPECT_EQ(calls[0].payload.api.count, 1000u);
}

TEST_P(ApiVersions, ReplaysOfACapturedCallAreOperationsOfTheirOwn) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  EventFields call = Coll(0);
  call.type = kNcclCollApi;
  call.captured = true;
  const uint64_t api = host.Start(context, call);
  host.Stop(api);
  for (int i = 0; i < 3; ++i) host.Stop(host.Start(context, Coll(0, api)));
  const auto recording = Read();
  const std::vector<Event> colls = Events(*recording, EventKind::kColl);
  ASSERT_EQ(colls.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_NE(colls[i].flags & schema::kFlagGraphReplay, 0);
    EXPECT_EQ(colls[i].payload.coll.ordinal, i);
  }
  EXPECT_NE(colls[0].op_id, colls[1].op_id);
}

TEST_P(ApiVersions, GroupAndKernelLaunchAreRecorded) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, GetParam());
  EventFields group;
  group.type = kNcclGroupApi;
  group.group_depth = 2;
  const uint64_t handle = host.Start(context, group);
  host.Record(handle, 23, nullptr);
  host.Record(handle, 24, reinterpret_cast<void*>(0x1));  // an adapter's pointer to garbage
  EventFields launch;
  launch.type = kNcclKernelLaunch;
  launch.stream = 0x4455;
  host.Stop(host.Start(context, launch));
  host.Stop(handle);
  const auto recording = Read();
  ASSERT_EQ(Events(*recording, EventKind::kGroupApi).size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kGroupApi)[0].payload.group.depth, 2);
  ASSERT_EQ(Events(*recording, EventKind::kKernelLaunch).size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kKernelLaunch)[0].payload.launch.stream, 0x4455u);
}

class OnRequest : public ContractTest {};

TEST_F(OnRequest, StepsControlKernelChannelsAndNetworkEventsOfV4) {
  setenv("NCCL_RANKSCOPE_NCCL_EVENTS", "all", 1);  // the name that launchers forward
  ProfilerHost host;
  void* context = OpenAndInit(&host, 4);
  EXPECT_EQ(host.mask(), 0xff);
  const uint64_t coll = host.Start(context, Coll(0));
  host.Stop(coll);
  const uint64_t op = host.Start(context, ProxyOp(coll));
  EventFields step;
  step.type = kNcclProxyStep;
  step.parent = op;
  step.step = 5;
  const uint64_t step_handle = host.Start(context, step);
  const uint64_t bytes = 777, stale = 999;
  host.Record(step_handle, 8, &stale);
  host.Record(step_handle, 20, &stale);
  host.Record(step_handle, 20, &stale);
  host.Record(step_handle, 9, &bytes);
  host.Stop(step_handle);
  EventFields channel;
  channel.type = kNcclKernelCh;
  channel.parent = coll;
  channel.channel = 3;
  channel.gpu_time = 1000;
  const uint64_t channel_handle = host.Start(context, channel);
  const uint64_t gpu_stop = 1500;
  host.Record(channel_handle, 22, &gpu_stop);
  host.Stop(channel_handle);
  channel.gpu_time = 2000;  // and one that ends before it begins
  const uint64_t reversed = host.Start(context, channel);
  host.Record(reversed, 22, &gpu_stop);
  host.Stop(reversed);
  EventFields control;
  control.type = kNcclProxyCtrl;
  const uint64_t control_handle = host.Start(context, control);
  const int appended = 6;
  host.Record(control_handle, 18, &appended);
  host.Stop(control_handle);
  // The socket plugin's event, laid out as it lays it out: type 0, fd 8, operation 12, length 16.
  alignas(8) uint8_t socket[24] = {};
  const int fd = 18;
  const uint64_t length = 4242;
  std::memcpy(socket + 8, &fd, 4);
  std::memcpy(socket + 16, &length, 8);
  EventFields net;
  net.type = kNcclNetPlugin;
  net.parent = step_handle;
  net.net_id = 2 << 16 | 1;
  net.net_data = socket;
  host.Stop(host.Start(context, net));
  host.Stop(op);

  const auto recording = Read();
  const std::vector<Event> steps = Events(*recording, EventKind::kProxyStep);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].payload.proxy_step.step, 5);
  EXPECT_EQ(steps[0].payload.proxy_step.bytes, 777u) << "the size of state 9, not the stale ones";
  EXPECT_EQ(steps[0].payload.proxy_step.states_seen, 1 << 0 | 1 << 1 | 1 << 7);
  EXPECT_EQ(steps[0].payload.proxy_step.is_send, 1);
  const std::vector<Event> channels = Events(*recording, EventKind::kKernelChannel);
  ASSERT_EQ(channels.size(), 2u);
  EXPECT_EQ(channels[0].payload.gpu_stamp.gpu_begin_ns, 1000u);
  EXPECT_EQ(channels[0].payload.gpu_stamp.gpu_end_ns, 1500u);
  EXPECT_EQ(channels[0].flags & schema::kFlagBadStamp, 0);
  EXPECT_NE(channels[1].flags & schema::kFlagBadStamp, 0);
  EXPECT_EQ(Lost(*recording, LossReason::kBadGpuStamp), 1u);
  ASSERT_EQ(Events(*recording, EventKind::kProxyCtrl).size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kProxyCtrl)[0].payload.proxy_ctrl.appended, 6);
  ASSERT_EQ(Events(*recording, EventKind::kNetPlugin).size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kNetPlugin)[0].payload.net.bytes, 4242u);
  EXPECT_EQ(Events(*recording, EventKind::kNetPlugin)[0].payload.net.queue, 18u);
  const std::vector<Event> ops = Events(*recording, EventKind::kProxyOp);
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].payload.proxy_op.peer, 3);
  EXPECT_EQ(ops[0].payload.proxy_op.chunk_bytes, 4096);
}

TEST_F(OnRequest, ProxyControlIsRefusedWhereItFloods) {
  setenv("RANKSCOPE_NCCL_EVENTS", "all", 1);
  ProfilerHost host;
  OpenAndInit(&host, 3);
  EXPECT_EQ(host.mask() & 0x20, 0);
  EXPECT_NE(Read()->ranks()[0].comms[0].flags & schema::kCommMaskRefused, 0u);
}

TEST_F(OnRequest, CopyEngineEventsOfV6AndKernelPhasesOfV7) {
  setenv("RANKSCOPE_NCCL_EVENTS", "all", 1);
  ProfilerHost host;
  void* context = OpenAndInit(&host, 7);
  EventFields ce = Coll(40, 0, "AllGather");
  ce.type = kNcclCeColl;
  const uint64_t handle = host.Start(context, ce);
  EventFields sync;
  sync.type = kNcclCeSync;
  sync.parent = handle;
  sync.ranks = 4;
  host.Stop(host.Start(context, sync));
  EventFields batch;
  batch.type = kNcclCeBatch;
  batch.parent = handle;
  batch.ops = 3;
  batch.total_bytes = 123456;
  host.Stop(host.Start(context, batch));
  host.Stop(handle);
  EventFields phase;
  phase.type = kNcclKernelPhase;
  phase.channel = 2;
  phase.phase = 1;
  phase.gpu_time = 50;
  const uint64_t phase_handle = host.Start(context, phase);
  const uint64_t stop = 80;
  host.Record(phase_handle, 31, &stop);
  host.Stop(phase_handle);
  const auto recording = Read();
  const std::vector<Event> colls = Events(*recording, EventKind::kCeColl);
  ASSERT_EQ(colls.size(), 1u);
  EXPECT_EQ(colls[0].payload.ce_coll.func, static_cast<uint8_t>(schema::Function::kAllGather));
  EXPECT_EQ(colls[0].payload.ce_coll.ce_seq, 40u);
  EXPECT_EQ(colls[0].payload.ce_coll.sync_strategy, 2) << "UC";
  ASSERT_EQ(Events(*recording, EventKind::kCeSync).size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kCeSync)[0].payload.ce_sync.ranks, 4);
  ASSERT_EQ(Events(*recording, EventKind::kCeBatch).size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kCeBatch)[0].payload.ce_batch.bytes, 123456u);
  EXPECT_EQ(Events(*recording, EventKind::kCeBatch)[0].payload.ce_batch.ops, 3);
  const std::vector<Event> phases = Events(*recording, EventKind::kKernelPhase);
  ASSERT_EQ(phases.size(), 1u);
  EXPECT_EQ(phases[0].payload.gpu_stamp.gpu_begin_ns, 50u);
  EXPECT_EQ(phases[0].payload.gpu_stamp.gpu_end_ns, 80u);
  EXPECT_EQ(phases[0].payload.gpu_stamp.phase, 1);
}

class Odd : public ContractTest {};

TEST_F(Odd, NamesThatEndAtAPageBorderOrAreMissingOrUnknown) {
  // Straight calls: the host's own copies would move the names.
  ProfilerHost host;
  void* context = OpenAndInit(&host, 4);
  auto* pages = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(pages + 4096, 4096, PROT_NONE);
  char* border = pages + 4096 - sizeof("AllReduce");
  std::memcpy(border, "AllReduce", sizeof("AllReduce"));
  EventFields fields = Coll(0);
  for (const char* func : {static_cast<const char*>(border), static_cast<const char*>(nullptr), "Nonsense",
                           "AllReduceButLongerThanSixteen"}) {
    alignas(16) uint8_t bytes[kDescriptorRoom] = {};
    fields.func = func;
    FillDescriptor(4, fields, bytes);
    host.Stop(host.StartBytes(context, bytes));
  }
  const std::vector<Event> colls = Events(*Read(), EventKind::kColl);
  ASSERT_EQ(colls.size(), 4u);
  EXPECT_EQ(colls[0].payload.coll.func, static_cast<uint8_t>(schema::Function::kAllReduce));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(colls[i].payload.coll.func, 0) << i;
}

TEST_F(Odd, ANameReplacedAtItsAddressIsSeen) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, 4);
  // The host reuses one buffer a thread for its strings: same address, other bytes.
  for (const char* func : {"AllReduce", "AllReduce", "AllGather", "AllReduce", "Reduce"})
    host.Stop(host.Start(context, Coll(0, 0, func)));
  const std::vector<Event> colls = Events(*Read(), EventKind::kColl);
  ASSERT_EQ(colls.size(), 5u);
  EXPECT_EQ(colls[1].payload.coll.func, static_cast<uint8_t>(schema::Function::kAllReduce));
  EXPECT_EQ(colls[2].payload.coll.func, static_cast<uint8_t>(schema::Function::kAllGather));
  EXPECT_EQ(colls[4].payload.coll.func, static_cast<uint8_t>(schema::Function::kReduce));
}

TEST_F(Odd, TheMaskIsMergedNotAssigned) {
  ProfilerHost host;
  ASSERT_TRUE(host.Open(RANKSCOPE_LIBRARY_UNDER_TEST, 5));
  host.set_mask(0x4000);
  Init(&host);
  EXPECT_EQ(host.mask(), 0x4000 | 0xf0e);
}

TEST_F(Odd, MoreUnfinishedOperationsThanSlotsAreEvictedWithARecord) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, 4);
  constexpr uint64_t kOperations = 20000;
  std::vector<uint64_t> proxies;
  for (uint64_t i = 0; i < kOperations; ++i) {
    const uint64_t coll = host.Start(context, Coll(i));
    host.Stop(coll);
    host.Start(context, ProxyOp(coll));  // never stops
  }
  const auto recording = Read();
  EXPECT_GT(Lost(*recording, LossReason::kEvicted), 0u);
  const std::vector<Event> evicted = Events(*recording, EventKind::kOpEvicted);
  ASSERT_FALSE(evicted.empty());
  EXPECT_EQ(recording->ranks()[0].comms[0].launched_by_func[static_cast<int>(schema::Function::kAllReduce)],
            kOperations);
}

TEST_F(Odd, AForkedChildStaysOutOfTheParentsRingAndMayHaveItsOwn) {
  ProfilerHost host;
  void* context = OpenAndInit(&host, 5);
  host.Stop(host.Start(context, Coll(0)));
  const pid_t child = fork();
  if (child == 0) {
    const bool ignored = host.Start(context, Coll(1)) == 0;
    ProfilerHost own;
    const bool opened = own.Open(RANKSCOPE_LIBRARY_UNDER_TEST, 5);
    void* mine = Init(&own, 3);
    own.Stop(own.Start(mine, Coll(9)));
    _exit(ignored && opened ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  host.Stop(host.Start(context, Coll(2)));
  const auto recording = Read();
  ASSERT_EQ(recording->ranks().size(), 2u);
  std::vector<std::vector<uint32_t>> seqs(2);
  for (const Event& event : Events(*recording, EventKind::kColl))
    seqs[event.rank_index].push_back(event.payload.coll.seq);
  EXPECT_EQ(seqs[0], (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(seqs[1], (std::vector<uint32_t>{9}));
}

TEST_F(Odd, ThreadsMayRecordWhileTheProcessExits) {
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      static ProfilerHost host;
      void* context = OpenAndInit(&host, 5);
      for (int t = 0; t < 4; ++t) {
        std::thread([context] {
          for (uint64_t n = 0;; ++n) host.Stop(host.Start(context, Coll(n)));
        }).detach();
      }
      usleep(2000);
      exit(0);  // static destructors run while the threads go on
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "round " << i << " status " << status;
  }
}

}  // namespace
}  // namespace rankscope::testing
