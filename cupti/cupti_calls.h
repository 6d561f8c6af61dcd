// Which libcupti this process uses, and its entry points. Nothing is linked: every name is looked up, a missing one
// is a missing feature. Called by the thread that arms CUPTI, before anything else here runs; the table is read by
// every thread afterwards. Must never: load a second libcupti beside one that is mapped, or load any where the CUDA
// driver isn't in the process.
#ifndef RANKSCOPE_CUPTI_CUPTI_CALLS_H_
#define RANKSCOPE_CUPTI_CUPTI_CALLS_H_

#include "cupti/cupti_abi.h"

namespace rankscope::cupti {

// The entry points, in the order of the bits of CuptiInfo::missing_calls. Those before kFirstOptional are needed.
enum Call : int {
  kGetVersion,
  kSubscribe,
  kUnsubscribe,
  kActivityRegisterCallbacks,
  kActivityEnable,
  kActivityDisable,
  kActivityFlushAll,
  kActivityGetNextRecord,
  kFirstOptional,
  kActivityGetNumDroppedRecords = kFirstOptional,
  kActivityGetAttribute,
  kActivitySetAttribute,
  kActivityRegisterTimestampCallback,  // 11.6
  kActivityEnableAllSyncRecords,       // 13.0
  kGetTimestamp,
  kGetStreamIdEx,
  kGetResultString,
  kSubscribeV2,  // 13.0: names the holder
  kCallCount,
};
const char* CallName(Call call);

struct Calls {
  Result (*get_version)(uint32_t* version) = nullptr;
  Result (*subscribe)(void** subscriber, SubscriberCallback callback, void* user) = nullptr;
  Result (*unsubscribe)(void* subscriber) = nullptr;
  Result (*register_callbacks)(RequestCallback request, CompleteCallback complete) = nullptr;
  Result (*enable)(uint32_t kind) = nullptr;
  Result (*disable)(uint32_t kind) = nullptr;
  Result (*flush_all)(uint32_t flags) = nullptr;
  Result (*get_next_record)(uint8_t* buffer, size_t valid_bytes, uint8_t** record) = nullptr;
  Result (*get_dropped)(void* context, uint32_t stream, size_t* dropped) = nullptr;
  Result (*get_attribute)(uint32_t attribute, size_t* bytes, void* value) = nullptr;
  Result (*set_attribute)(uint32_t attribute, size_t* bytes, void* value) = nullptr;
  Result (*register_timestamp_callback)(TimestampCallback callback) = nullptr;
  Result (*enable_all_sync_records)(uint8_t on) = nullptr;
  Result (*get_timestamp)(uint64_t* now_ns) = nullptr;
  Result (*get_stream_id)(void* context, void* stream, uint8_t per_thread, uint32_t* id) = nullptr;
  Result (*get_result_string)(Result result, const char** text) = nullptr;
  Result (*subscribe_v2)(void** subscriber, SubscriberCallback callback, void* user,
                         SubscriberParams* params) = nullptr;
};

enum class FindResult { kFound, kNoLibrary, kIncomplete };

// True if the CUDA driver is mapped in this process.
bool DriverIsMapped();

// Finds and opens libcupti: the one that is mapped; else RANKSCOPE_CUPTI_LIB (`wanted`, may be nullptr); else by the
// name that goes with the CUDA runtime in the process, on the loader's path and then beside the runtime and in its
// toolkit. `path` gets what was opened, `missing` a bit per entry point that it lacks, `failing` the name of a needed
// one.
FindResult FindCupti(const char* wanted, Calls* calls, char* path, size_t path_bytes, uint64_t* missing,
                     const char** failing);

// Bytes from one record of `kind` to the next as the loaded library steps, 0 if it doesn't know the kind. Needs no
// driver.
uint16_t ProbeStride(const Calls& calls, uint32_t kind);

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_CUPTI_CALLS_H_
