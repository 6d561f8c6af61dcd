/* A shared library that uses NVTX as a training program's libraries do: its own copy of the header's state, hence its own
 * initialisation. Built twice. The payload schema is of the kind that NCCL registers. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stddef.h>

struct nccl_like {
  uint64_t comm;
  size_t bytes;
  int root;
};

__attribute__((visibility("default"))) int nvtx_part_run(const char* who) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA(who);
  nvtxStringHandle_t string = nvtxDomainRegisterStringA(domain, "registered name");
  nvtxEventAttributes_t attributes = {0};
  nvtxRangeId_t id;
  int depth;
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;

  depth = nvtxRangePushA("default outer");
  nvtxRangePushW(L"default wide");
  nvtxRangePop();

  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = string;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = 4242;
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxRangePop(); /* the default domain's: "default outer" */
  nvtxDomainRangePop(domain);

  id = nvtxDomainRangeStartEx(domain, &attributes);
  nvtxMarkA("mark");
  nvtxDomainRangeEnd(domain, id);
  nvtxRangePop(); /* nothing is open */
  return depth;
}

__attribute__((visibility("default"))) void nvtx_part_nccl(void) {
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", NULL, 0, offsetof(struct nccl_like, comm), NULL, NULL},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]", NULL, 0, offsetof(struct nccl_like, bytes), NULL, NULL},
  };
  nvtxPayloadSchemaAttr_t schema = {0};
  nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
  struct nccl_like values = {0x1122334455667788u, 1u << 20, 3};
  nvtxPayloadData_t payload;
  nvtxEventAttributes_t attributes = {0};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 2;
  schema.payloadStaticSize = sizeof(values);
  schema.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 4;
  payload.schemaId = nvtxPayloadSchemaRegister(domain, &schema);
  payload.size = sizeof(values);
  payload.payload = &values;
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "ncclAllReduce";
  attributes.payloadType = (int32_t)NVTX_PAYLOAD_TYPE_EXT;
  attributes.reserved0 = 1;
  attributes.payload.ullValue = (uint64_t)(uintptr_t)&payload;
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxDomainRangePop(domain);
}
