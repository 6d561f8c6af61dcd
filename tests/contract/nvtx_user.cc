// A library of a training process that carries NVTX's real header, as torch, NCCL or cuBLAS do: each copy of it has
// NVTX's state of its own. Built twice, loaded by nvtx_test's children, called on any thread of theirs.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <string.h>

#include <cstdint>

namespace {

nvtxEventAttributes_t Attributes() {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return event;
}

void Nested() {
  nvtxRangePushA("outer");
  nvtxRangePushW(L"inner \u20ac");
  nvtxMarkA("mark");
  nvtxRangePop();
  nvtxRangePop();
}

void StartEnd() {
  const nvtxRangeId_t first = nvtxRangeStartA("started first");
  const nvtxRangeId_t second = nvtxRangeStartA("started second");
  nvtxRangeEnd(first);
  nvtxRangeEnd(second);
}

void Domains() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("DeepSpeed");
  nvtxEventAttributes_t event = Attributes();
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered name");
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = 1234567890123;
  nvtxDomainRangePushEx(domain, &event);
  nvtxRangePushA("default inside");
  nvtxDomainRangePop(domain);  // not the newest of the thread, but of its domain
  nvtxRangePop();
  nvtxDomainMarkEx(domain, &event);
  nvtxDomainDestroy(domain);
}

void Unbalanced() {
  nvtxRangePop();
  nvtxRangePushA("DeepSpeedEngine.forward");  // an exception: no pop
  nvtxRangePushA("DeepSpeedEngine.forward");
  nvtxRangePop();
}

// As NCCL does it: a static schema of the domain "NCCL", a payload with the push, another one with the pop.
void NcclPayload() {
  struct Payload {
    uint64_t comm;
    size_t bytes;
    int root;
  };
  static const nvtxPayloadSchemaEntry_t kEntries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", nullptr, 0, 0, nullptr, nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]", nullptr, 0, offsetof(Payload, bytes), nullptr,
       nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT, "Root", nullptr, 0, offsetof(Payload, root), nullptr, nullptr},
  };
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
  nvtxPayloadSchemaAttr_t schema = {};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = kEntries;
  schema.numEntries = 3;
  schema.payloadStaticSize = sizeof(Payload);
  schema.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 6;
  nvtxPayloadSchemaRegister(domain, &schema);
  const Payload payload = {0x1122334455667788, 65536, 0};
  nvtxPayloadData_t data = {schema.schemaId, sizeof(payload), &payload};
  nvtxEventAttributes_t event = Attributes();
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "ncclBroadcast";
  nvtxDomainRangePushEx(domain, &event);
  nvtxRangePopPayload(domain, &data, 1);
  NVTX_PAYLOAD_EVTATTR_SET_MULTIPLE(event, &data)
  event.reserved0 = 1;
  nvtxDomainRangePushEx(domain, &event);
  nvtxDomainRangePop(domain);
}

// Everything that a library does before its first range.
void Prepare() {
  nvtxInitialize(nullptr);
  nvtxDomainRegisterStringA(nvtxDomainCreateA("prepared"), "prepared");
  nvtxRangePop();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int nvtx_user_run(const char* what) {
  const struct {
    const char* name;
    void (*run)();
  } kScenes[] = {{"nested", Nested},         {"start_end", StartEnd}, {"domains", Domains},
                 {"unbalanced", Unbalanced}, {"nccl", NcclPayload},   {"prepare", Prepare}};
  for (const auto& scene : kScenes) {
    if (strcmp(scene.name, what) != 0) continue;
    scene.run();
    return 0;
  }
  return 1;
}
