// Compares nvtx_abi.h with NVTX's own headers, where the build found them (RANKSCOPE_HAVE_NVTX): nothing but
// static_asserts.
#include "shim/nvtx_abi.h"

#ifdef RANKSCOPE_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#define RANKSCOPE_HAVE_NVTX_PAYLOAD 1
#endif

namespace rankscope::shim::nvtx {

#define SAME(a, b) static_assert(static_cast<uint64_t>(a) == static_cast<uint64_t>(b))
SAME(kTableCallbacks, NVTX_ETID_CALLBACKS);
SAME(kCore, NVTX_CB_MODULE_CORE);
SAME(kCore2, NVTX_CB_MODULE_CORE2);
SAME(kMarkEx, NVTX_CBID_CORE_MarkEx);
SAME(kMarkW, NVTX_CBID_CORE_MarkW);
SAME(kRangeStartEx, NVTX_CBID_CORE_RangeStartEx);
SAME(kRangeEnd, NVTX_CBID_CORE_RangeEnd);
SAME(kRangePushEx, NVTX_CBID_CORE_RangePushEx);
SAME(kRangePushA, NVTX_CBID_CORE_RangePushA);
SAME(kRangePushW, NVTX_CBID_CORE_RangePushW);
SAME(kRangePop, NVTX_CBID_CORE_RangePop);
SAME(kDomainMarkEx, NVTX_CBID_CORE2_DomainMarkEx);
SAME(kDomainRangeStartEx, NVTX_CBID_CORE2_DomainRangeStartEx);
SAME(kDomainRangeEnd, NVTX_CBID_CORE2_DomainRangeEnd);
SAME(kDomainRangePushEx, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(kDomainRangePop, NVTX_CBID_CORE2_DomainRangePop);
SAME(kDomainRegisterStringA, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(kDomainRegisterStringW, NVTX_CBID_CORE2_DomainRegisterStringW);
SAME(kDomainCreateA, NVTX_CBID_CORE2_DomainCreateA);
SAME(kDomainCreateW, NVTX_CBID_CORE2_DomainCreateW);
SAME(kAscii, NVTX_MESSAGE_TYPE_ASCII);
SAME(kUnicode, NVTX_MESSAGE_TYPE_UNICODE);
SAME(kRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(kUnsigned64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(kSigned64, NVTX_PAYLOAD_TYPE_INT64);
SAME(kUnsigned32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(kSigned32, NVTX_PAYLOAD_TYPE_INT32);
static_assert(sizeof(Attributes) == sizeof(nvtxEventAttributes_t));
static_assert(offsetof(Attributes, payload_type) == offsetof(nvtxEventAttributes_t, payloadType));
static_assert(offsetof(Attributes, reserved0) == offsetof(nvtxEventAttributes_t, reserved0));
static_assert(offsetof(Attributes, payload) == offsetof(nvtxEventAttributes_t, payload));
static_assert(offsetof(Attributes, message_type) == offsetof(nvtxEventAttributes_t, messageType));
static_assert(offsetof(Attributes, message) == offsetof(nvtxEventAttributes_t, message));
#ifdef RANKSCOPE_HAVE_NVTX_PAYLOAD
static_assert(kExtendedPayload == NVTX_PAYLOAD_TYPE_EXT);
SAME(kPayloadModule, NVTX_EXT_PAYLOAD_MODULEID);
SAME(kSchemaHasId, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
static_assert(sizeof(PayloadData) == sizeof(nvtxPayloadData_t) &&
              offsetof(PayloadData, data) == offsetof(nvtxPayloadData_t, payload));
static_assert(sizeof(SchemaEntry) == sizeof(nvtxPayloadSchemaEntry_t) &&
              offsetof(SchemaEntry, offset) == offsetof(nvtxPayloadSchemaEntry_t, offset) &&
              offsetof(SchemaEntry, name) == offsetof(nvtxPayloadSchemaEntry_t, name));
static_assert(offsetof(Schema, entries) == offsetof(nvtxPayloadSchemaAttr_t, entries) &&
              offsetof(Schema, entry_count) == offsetof(nvtxPayloadSchemaAttr_t, numEntries) &&
              offsetof(Schema, id) == offsetof(nvtxPayloadSchemaAttr_t, schemaId));
static_assert(sizeof(ExtensionModule) == sizeof(nvtxExtModuleInfo_t) &&
              offsetof(ExtensionModule, segments) == offsetof(nvtxExtModuleInfo_t, segments) &&
              offsetof(ExtensionSegment, functions) == offsetof(nvtxExtModuleSegment_t, functionSlots));
#endif
#undef SAME

}  // namespace rankscope::shim::nvtx
#endif
