// What an NVTX v3 injection needs of NVTX, in our own words, so that the build needs no NVTX header: the export
// tables by which a library is attached, the numbers of the calls, the layout of event attributes and of extended
// payloads. All of it is frozen by NVTX's promise that old programs work with new tools; nvtx_abi_checks.cc compares
// it with the real headers where they are found. Declarations only: nothing here runs, on any thread. Must never
// include an NVTX header.
#ifndef RANKSCOPE_SHIM_NVTX_ABI_H_
#define RANKSCOPE_SHIM_NVTX_ABI_H_

#include <cstddef>
#include <cstdint>

namespace rankscope::shim::nvtx {

// ---- How a copy of NVTX's header (one in each shared library) hands out its function pointers.
enum ExportTableId : uint32_t { kExportCallbacks = 1, kExportVersionInfo = 3 };
enum Module : int { kModuleCore = 1, kModuleCuda = 2, kModuleCore2 = 5 };

using FunctionPointer = void (*)();
using FunctionTable = FunctionPointer**;  // entry k points at the variable that holds the k-th call's function
struct ExportTableCallbacks {
  size_t struct_bytes;
  // Gives the module's table and its number of entries; 0 = no such module.
  int (*get_module_function_table)(Module module, FunctionTable* table, unsigned int* entries);
};
using GetExportTable = const void* (*)(uint32_t export_table_id);

enum CoreCall : uint32_t {
  kCoreMarkEx = 1,
  kCoreMarkA = 2,
  kCoreMarkW = 3,
  kCoreRangeStartEx = 4,
  kCoreRangeStartA = 5,
  kCoreRangeStartW = 6,
  kCoreRangeEnd = 7,
  kCoreRangePushEx = 8,
  kCoreRangePushA = 9,
  kCoreRangePushW = 10,
  kCoreRangePop = 11,
};
enum Core2Call : uint32_t {
  kCore2DomainMarkEx = 1,
  kCore2DomainRangeStartEx = 2,
  kCore2DomainRangeEnd = 3,
  kCore2DomainRangePushEx = 4,
  kCore2DomainRangePop = 5,
  kCore2DomainRegisterStringA = 10,
  kCore2DomainRegisterStringW = 11,
  kCore2DomainCreateA = 12,
  kCore2DomainCreateW = 13,
  kCore2DomainDestroy = 14,
};

// ---- What a call brings.
using DomainHandle = void*;  // given out by the tool; null = the default domain
using StringHandle = void*;  // given out by the tool
using RangeId = uint64_t;    // given out by the tool

enum MessageType : int32_t { kMessageNone = 0, kMessageAscii = 1, kMessageUnicode = 2, kMessageRegistered = 3 };
enum PayloadType : int32_t {
  kPayloadNone = 0,
  kPayloadUint64 = 1,
  kPayloadInt64 = 2,
  kPayloadDouble = 3,
  kPayloadUint32 = 4,
  kPayloadInt32 = 5,
  kPayloadFloat = 6,
  kPayloadExtended = static_cast<int32_t>(0xDFBD0009u),  // payload is the address of payload_count PayloadData
};

// Versions 1 to 3 of NVTX lay it out alike.
struct EventAttributes {
  uint16_t version;
  uint16_t size;  // bytes of the caller's struct
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;   // PayloadType
  int32_t payload_count;  // of kPayloadExtended; reserved, 0 with the others
  union {
    uint64_t u64;
    int64_t i64;
    double f64;
    uint32_t u32;
    int32_t i32;
    float f32;
  } payload;
  int32_t message_type;  // MessageType
  union {
    const char* ascii;
    const wchar_t* unicode;
    StringHandle registered;
  } message;
};
static_assert(sizeof(EventAttributes) == 48);

inline constexpr int kNoPushPopTracking = -2;

// ---- The payload extension: attached by an entry point of its own, InitializeInjectionNvtxExtension.
struct ExtensionSegment {
  size_t id;
  size_t slot_count;
  intptr_t* slots;  // slot k holds the k-th call's function
};
struct ExtensionModule {
  uint16_t nvtx_version;
  uint16_t struct_bytes;
  uint16_t module_id;
  uint16_t compatibility;
  size_t segment_count;
  ExtensionSegment* segments;
  intptr_t (*get_export_function)(uint32_t id);
  const void* info;
};
inline constexpr uint16_t kExtensionPayload = 2;

enum PayloadCall : uint32_t {
  kPayloadSchemaRegister = 0,
  kPayloadEnumRegister = 1,
  kPayloadMark = 2,
  kPayloadRangePush = 3,
  kPayloadRangePop = 4,
  kPayloadRangeStart = 5,
  kPayloadRangeEnd = 6,
};

struct PayloadData {
  uint64_t schema_id;
  size_t bytes;
  const void* payload;
};
struct SchemaEntry {
  uint64_t flags;
  uint64_t type;  // EntryType, or another schema's id
  const char* name;
  const char* description;
  uint64_t array_or_union_detail;
  uint64_t offset;  // 0 = behind the entry before it, aligned
  const void* semantics;
  const void* reserved;
};
enum SchemaField : uint64_t {
  kSchemaHasName = 1 << 1,
  kSchemaHasEntries = 1 << 4,
  kSchemaHasEntryCount = 1 << 5,
  kSchemaHasId = 1 << 8,
};
struct SchemaAttributes {
  uint64_t field_mask;  // SchemaField bits
  const char* name;
  uint64_t type;
  uint64_t flags;
  const SchemaEntry* entries;
  size_t entry_count;
  size_t static_bytes;
  size_t pack_align;
  uint64_t schema_id;
  void* extension;
};
enum EntryType : uint64_t {
  kEntryInt = 5,
  kEntryUint = 6,
  kEntryUlonglong = 10,
  kEntryInt32 = 15,
  kEntryUint32 = 16,
  kEntryInt64 = 17,
  kEntryUint64 = 18,
  kEntrySize = 22,
};
inline constexpr uint64_t kDynamicSchemaIds = uint64_t{1} << 32;  // ids that the tool gives out begin here

}  // namespace rankscope::shim::nvtx

#endif  // RANKSCOPE_SHIM_NVTX_ABI_H_
