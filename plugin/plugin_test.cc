// The plugin linked into the test, so that the sanitizers see its insides: names, masks, and threads that record at
// once while a reader looks.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "plugin/event_mask.h"
#include "plugin/nccl_names.h"
#include "plugin/nccl_profiler_abi.h"
#include "recorder/config.h"
#include "recorder/session.h"

extern "C" const rankscope::plugin::abi::TableOf<6> ncclProfiler_v6;

namespace rankscope::plugin {
namespace {

TEST(NamesTest, EveryNameOfNcclIsKnownAndNothingElse) {
  EXPECT_EQ(FunctionFromName("ReduceScatter"), static_cast<uint8_t>(schema::Function::kReduceScatter));
  EXPECT_EQ(FunctionFromName("Reduce"), static_cast<uint8_t>(schema::Function::kReduce));
  EXPECT_EQ(FunctionFromName("AlltoAll"), static_cast<uint8_t>(schema::Function::kAlltoAll));
  EXPECT_EQ(DataTypeFromName("ncclFloat8e4m3"), static_cast<uint8_t>(schema::DataType::kFloat8e4m3));
  EXPECT_EQ(DataTypeFromName("Unknown"), 0) << "NCCL's word for uint8";
  EXPECT_EQ(AlgorithmFromName("COLLNET_DIRECT"), static_cast<uint8_t>(schema::Algorithm::kCollnetDirect));
  EXPECT_EQ(AlgorithmFromName("NVLS_TREE"), static_cast<uint8_t>(schema::Algorithm::kNvlsTree));
  EXPECT_EQ(ProtocolFromName("LL128"), static_cast<uint8_t>(schema::Protocol::kLl128));
  for (const char* wrong : {"", "R", "Reduc", "ReduceScatterX", "reduce", "AllReduce "})
    EXPECT_EQ(FunctionFromName(wrong), 0) << wrong;
}

TEST(NamesTest, TheNumbersOfV1) {
  EXPECT_EQ(FunctionFromNumber(4), static_cast<uint8_t>(schema::Function::kAllReduce));
  EXPECT_EQ(FunctionFromNumber(7), static_cast<uint8_t>(schema::Function::kRecv));
  EXPECT_EQ(FunctionFromNumber(8), 0);
  EXPECT_EQ(DataTypeFromNumber(9), static_cast<uint8_t>(schema::DataType::kBfloat16));
  EXPECT_EQ(AlgorithmFromNumber(1), static_cast<uint8_t>(schema::Algorithm::kRing));
  EXPECT_EQ(ProtocolFromNumber(2), static_cast<uint8_t>(schema::Protocol::kSimple));
  EXPECT_EQ(ProtocolFromNumber(255), 0);
}

TEST(EventMaskTest, StepsBringTheirOperationAndDetailsTheirCollective) {
  EXPECT_EQ(ChooseEvents(4, recorder::kEventsProxyStep).mask, abi::kProxyStep | abi::kProxyOp);
  EXPECT_EQ(ChooseEvents(6, recorder::kEventsCeDetail).mask, abi::kCeSync | abi::kCeBatch | abi::kCeColl);
  EXPECT_EQ(ChooseEvents(2, recorder::kEventsKernelCh).mask, 0u) << "v2 has no such event";
  EXPECT_TRUE(ChooseEvents(2, recorder::kEventsProxyCtrl).refused);
  EXPECT_FALSE(ChooseEvents(4, recorder::kEventsProxyCtrl).refused);
  EXPECT_EQ(ChooseEvents(5, 0).mask, 0u);
}

// Under ThreadSanitizer this is where the recorder's atomics are judged.
TEST(ThreadsTest, LaunchingAndProxyThreadsShareOperations) {
  char path[] = "/tmp/rankscope-plugin-test-XXXXXX";
  const std::string dir = mkdtemp(path);
  setenv("RANKSCOPE_DIR", dir.c_str(), 1);
  setenv("RANKSCOPE_RING_BYTES", "4M", 1);
  int mask = 0;
  constexpr int kPairs = 3;
  constexpr uint64_t kOperations = 4000;
  std::vector<std::thread> threads;
  std::vector<std::atomic<void*>> handed(kPairs);
  for (int p = 0; p < kPairs; ++p) {
    threads.emplace_back([&, p] {
      void* context = nullptr;
      ncclProfiler_v6.init(&context, 100 + static_cast<uint64_t>(p), &mask, "pair", 1, 2, 0, nullptr);
      for (uint64_t i = 0; i < kOperations; ++i) {
        abi::DescriptorV6 d{};
        d.type = abi::kCollApi;
        d.coll_api = {"AllReduce", 10, "ncclFloat32", 0, nullptr, false};
        void *api = nullptr, *coll = nullptr;
        ncclProfiler_v6.start_event(context, &api, &d);
        ncclProfiler_v6.stop_event(api);
        d = {};
        d.type = abi::kColl;
        d.parent_obj = api;
        d.coll = {i, "AllReduce", nullptr, nullptr, 10, 0, "ncclFloat32", 2, 8, "RING", "LL", nullptr};
        ncclProfiler_v6.start_event(context, &coll, &d);
        ncclProfiler_v6.stop_event(coll);
        handed[static_cast<size_t>(p)].store(coll);
      }
    });
    threads.emplace_back([&, p] {
      // NCCL has no event before its communicator's init.
      while (handed[static_cast<size_t>(p)].load() == nullptr) std::this_thread::yield();
      for (uint64_t i = 0; i < kOperations; ++i) {
        abi::DescriptorV6 d{};
        d.type = abi::kProxyOp;
        d.parent_obj = handed[static_cast<size_t>(p)].load();
        d.proxy_op = {getpid(), 0, 1, 4, 4096, 1};
        void* op = nullptr;
        ncclProfiler_v6.start_event(nullptr, &op, &d);
        ncclProfiler_v6.record_event_state(op, abi::kProxyOpInProgress, nullptr);
        ncclProfiler_v6.stop_event(op);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t launched = 0;
  for (uint32_t slot = 0; slot < recorder::g_session.comm_capacity; ++slot) {
    launched += recorder::g_session.comms[slot].launched_by_func[static_cast<int>(schema::Function::kAllReduce)];
  }
  EXPECT_EQ(launched, kPairs * kOperations);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace rankscope::plugin
