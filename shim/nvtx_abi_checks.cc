// Compares nvtx_abi.h with the real NVTX headers at compile time; built only where CMake finds them. Runs on no
// thread. Must never be linked into the library: the header would bring a copy of NVTX's own state along.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include "shim/nvtx_abi.h"

namespace rankscope::shim::nvtx {
namespace {

#define SAME_FIELD(ours, field, theirs, their_field) \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field))
#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_VALUE(ours, theirs) static_assert(static_cast<int64_t>(ours) == static_cast<int64_t>(theirs))

SAME_SIZE(ExportTableCallbacks, NvtxExportTableCallbacks);
SAME_FIELD(ExportTableCallbacks, get_module_function_table, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME_VALUE(kExportCallbacks, NVTX_ETID_CALLBACKS);
SAME_VALUE(kExportVersionInfo, NVTX_ETID_VERSIONINFO);
SAME_VALUE(kModuleCore, NVTX_CB_MODULE_CORE);
SAME_VALUE(kModuleCuda, NVTX_CB_MODULE_CUDA);
SAME_VALUE(kModuleCore2, NVTX_CB_MODULE_CORE2);
SAME_VALUE(kCoreMarkEx, NVTX_CBID_CORE_MarkEx);
SAME_VALUE(kCoreMarkA, NVTX_CBID_CORE_MarkA);
SAME_VALUE(kCoreMarkW, NVTX_CBID_CORE_MarkW);
SAME_VALUE(kCoreRangeStartEx, NVTX_CBID_CORE_RangeStartEx);
SAME_VALUE(kCoreRangeStartA, NVTX_CBID_CORE_RangeStartA);
SAME_VALUE(kCoreRangeStartW, NVTX_CBID_CORE_RangeStartW);
SAME_VALUE(kCoreRangeEnd, NVTX_CBID_CORE_RangeEnd);
SAME_VALUE(kCoreRangePushEx, NVTX_CBID_CORE_RangePushEx);
SAME_VALUE(kCoreRangePushA, NVTX_CBID_CORE_RangePushA);
SAME_VALUE(kCoreRangePushW, NVTX_CBID_CORE_RangePushW);
SAME_VALUE(kCoreRangePop, NVTX_CBID_CORE_RangePop);
SAME_VALUE(kCore2DomainMarkEx, NVTX_CBID_CORE2_DomainMarkEx);
SAME_VALUE(kCore2DomainRangeStartEx, NVTX_CBID_CORE2_DomainRangeStartEx);
SAME_VALUE(kCore2DomainRangeEnd, NVTX_CBID_CORE2_DomainRangeEnd);
SAME_VALUE(kCore2DomainRangePushEx, NVTX_CBID_CORE2_DomainRangePushEx);
SAME_VALUE(kCore2DomainRangePop, NVTX_CBID_CORE2_DomainRangePop);
SAME_VALUE(kCore2DomainRegisterStringA, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME_VALUE(kCore2DomainRegisterStringW, NVTX_CBID_CORE2_DomainRegisterStringW);
SAME_VALUE(kCore2DomainCreateA, NVTX_CBID_CORE2_DomainCreateA);
SAME_VALUE(kCore2DomainCreateW, NVTX_CBID_CORE2_DomainCreateW);
SAME_VALUE(kCore2DomainDestroy, NVTX_CBID_CORE2_DomainDestroy);

SAME_SIZE(EventAttributes, nvtxEventAttributes_t);
SAME_FIELD(EventAttributes, size, nvtxEventAttributes_t, size);
SAME_FIELD(EventAttributes, category, nvtxEventAttributes_t, category);
SAME_FIELD(EventAttributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME_FIELD(EventAttributes, payload_count, nvtxEventAttributes_t, reserved0);
SAME_FIELD(EventAttributes, payload, nvtxEventAttributes_t, payload);
SAME_FIELD(EventAttributes, message_type, nvtxEventAttributes_t, messageType);
SAME_FIELD(EventAttributes, message, nvtxEventAttributes_t, message);
SAME_SIZE(RangeId, nvtxRangeId_t);
SAME_SIZE(DomainHandle, nvtxDomainHandle_t);
SAME_SIZE(StringHandle, nvtxStringHandle_t);
SAME_VALUE(kMessageAscii, NVTX_MESSAGE_TYPE_ASCII);
SAME_VALUE(kMessageUnicode, NVTX_MESSAGE_TYPE_UNICODE);
SAME_VALUE(kMessageRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
SAME_VALUE(kPayloadUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME_VALUE(kPayloadInt64, NVTX_PAYLOAD_TYPE_INT64);
SAME_VALUE(kPayloadDouble, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME_VALUE(kPayloadUint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME_VALUE(kPayloadInt32, NVTX_PAYLOAD_TYPE_INT32);
SAME_VALUE(kPayloadFloat, NVTX_PAYLOAD_TYPE_FLOAT);
SAME_VALUE(kNoPushPopTracking, NVTX_NO_PUSH_POP_TRACKING);

#if defined(NVTX_PAYLOAD_CALLBACK_ID_V1)  // headers of 2024 and later; older ones name the same things otherwise
SAME_VALUE(kPayloadExtended, NVTX_PAYLOAD_TYPE_EXT);
SAME_VALUE(kExtensionPayload, NVTX_EXT_PAYLOAD_MODULEID);
SAME_VALUE(kPayloadSchemaRegister, NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
SAME_VALUE(kPayloadEnumRegister, NVTX3EXT_CBID_nvtxPayloadEnumRegister);
SAME_VALUE(kPayloadMark, NVTX3EXT_CBID_nvtxMarkPayload);
SAME_VALUE(kPayloadRangePush, NVTX3EXT_CBID_nvtxRangePushPayload);
SAME_VALUE(kPayloadRangePop, NVTX3EXT_CBID_nvtxRangePopPayload);
SAME_VALUE(kPayloadRangeStart, NVTX3EXT_CBID_nvtxRangeStartPayload);
SAME_VALUE(kPayloadRangeEnd, NVTX3EXT_CBID_nvtxRangeEndPayload);
SAME_SIZE(ExtensionSegment, nvtxExtModuleSegment_t);
SAME_FIELD(ExtensionSegment, slots, nvtxExtModuleSegment_t, functionSlots);
SAME_SIZE(ExtensionModule, nvtxExtModuleInfo_t);
SAME_FIELD(ExtensionModule, module_id, nvtxExtModuleInfo_t, moduleId);
SAME_FIELD(ExtensionModule, segments, nvtxExtModuleInfo_t, segments);
SAME_SIZE(PayloadData, nvtxPayloadData_t);
SAME_FIELD(PayloadData, bytes, nvtxPayloadData_t, size);
SAME_FIELD(PayloadData, payload, nvtxPayloadData_t, payload);
SAME_SIZE(SchemaEntry, nvtxPayloadSchemaEntry_t);
SAME_FIELD(SchemaEntry, type, nvtxPayloadSchemaEntry_t, type);
SAME_FIELD(SchemaEntry, name, nvtxPayloadSchemaEntry_t, name);
SAME_FIELD(SchemaEntry, offset, nvtxPayloadSchemaEntry_t, offset);
SAME_SIZE(SchemaAttributes, nvtxPayloadSchemaAttr_t);
SAME_FIELD(SchemaAttributes, entries, nvtxPayloadSchemaAttr_t, entries);
SAME_FIELD(SchemaAttributes, entry_count, nvtxPayloadSchemaAttr_t, numEntries);
SAME_FIELD(SchemaAttributes, schema_id, nvtxPayloadSchemaAttr_t, schemaId);
SAME_VALUE(kSchemaHasName, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME);
SAME_VALUE(kSchemaHasEntries, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
SAME_VALUE(kSchemaHasEntryCount, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES);
SAME_VALUE(kSchemaHasId, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
SAME_VALUE(kEntryInt, NVTX_PAYLOAD_ENTRY_TYPE_INT);
SAME_VALUE(kEntryUint, NVTX_PAYLOAD_ENTRY_TYPE_UINT);
SAME_VALUE(kEntryUlonglong, NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG);
SAME_VALUE(kEntryInt32, NVTX_PAYLOAD_ENTRY_TYPE_INT32);
SAME_VALUE(kEntryUint32, NVTX_PAYLOAD_ENTRY_TYPE_UINT32);
SAME_VALUE(kEntryInt64, NVTX_PAYLOAD_ENTRY_TYPE_INT64);
SAME_VALUE(kEntryUint64, NVTX_PAYLOAD_ENTRY_TYPE_UINT64);
SAME_VALUE(kEntrySize, NVTX_PAYLOAD_ENTRY_TYPE_SIZE);
SAME_VALUE(kDynamicSchemaIds, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
#endif

}  // namespace
}  // namespace rankscope::shim::nvtx
