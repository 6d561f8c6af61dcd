// NVTX's header as a tool sees it: a table of functions that the tool fills, and calls through it. For tests and
// benchmarks of what stands behind; the real header is met in tests/contract/nvtx_test.cc. One object is one library
// with a copy of the header; made on any thread, used on any. Must know nothing of our code but nvtx_abi.h.
#ifndef RANKSCOPE_TESTS_FAKES_FAKE_NVTX_H_
#define RANKSCOPE_TESTS_FAKES_FAKE_NVTX_H_

#include <cstdint>

#include "shim/nvtx_abi.h"

extern "C" int InitializeInjectionNvtx2(rankscope::shim::nvtx::GetExportTable);

namespace rankscope::testing {

namespace nvtx = shim::nvtx;

class FakeNvtx {
 public:
  using Initialize = int (*)(nvtx::GetExportTable);
  explicit FakeNvtx(Initialize initialize = InitializeInjectionNvtx2) {
    for (uint32_t i = 1; i < kCalls; ++i) core_table_[i] = &core_[i], core2_table_[i] = &core2_[i];
    current_ = this;
    attached_ = initialize(GetExportTable);
  }
  int attached() const { return attached_; }
  int filled() const {
    int count = 0;
    for (uint32_t i = 0; i < kCalls; ++i) count += (core_[i] != nullptr) + (core2_[i] != nullptr);
    return count;
  }

  template <typename Result, typename... Arguments>
  Result Core(uint32_t call, Arguments... arguments) const {
    return reinterpret_cast<Result (*)(Arguments...)>(core_[call])(arguments...);
  }
  template <typename Result, typename... Arguments>
  Result Core2(uint32_t call, Arguments... arguments) const {
    return reinterpret_cast<Result (*)(Arguments...)>(core2_[call])(arguments...);
  }
  int Push(const char* text) const { return Core<int>(nvtx::kCoreRangePushA, text); }
  int Pop() const { return Core<int>(nvtx::kCoreRangePop); }
  void* Domain(const char* name) const { return Core2<void*>(nvtx::kCore2DomainCreateA, name); }
  int PushIn(void* domain, const char* text, uint64_t value = 0) const {
    nvtx::EventAttributes event = {};
    event.size = sizeof(event);
    event.message_type = nvtx::kMessageAscii;
    event.message.ascii = text;
    event.payload_type = nvtx::kPayloadUint64;
    event.payload.u64 = value;
    return Core2<int>(nvtx::kCore2DomainRangePushEx, domain, static_cast<const nvtx::EventAttributes*>(&event));
  }
  int PopIn(void* domain) const { return Core2<int>(nvtx::kCore2DomainRangePop, domain); }

 private:
  static constexpr uint32_t kCalls = 16;
  static const void* GetExportTable(uint32_t id) {
    static constexpr nvtx::ExportTableCallbacks kCallbacks = {sizeof(kCallbacks), GetTable};
    return id == nvtx::kExportCallbacks ? &kCallbacks : nullptr;
  }
  static int GetTable(nvtx::Module module, nvtx::FunctionTable* table, unsigned int* entries) {
    if (module != nvtx::kModuleCore && module != nvtx::kModuleCore2) return 0;
    *table = module == nvtx::kModuleCore ? current_->core_table_ : current_->core2_table_;
    *entries = kCalls;
    return 1;
  }
  static inline thread_local FakeNvtx* current_ = nullptr;
  nvtx::FunctionPointer core_[kCalls] = {}, core2_[kCalls] = {};
  nvtx::FunctionPointer* core_table_[kCalls] = {};
  nvtx::FunctionPointer* core2_table_[kCalls] = {};
  int attached_ = 0;
};

}  // namespace rankscope::testing

#endif  // RANKSCOPE_TESTS_FAKES_FAKE_NVTX_H_
