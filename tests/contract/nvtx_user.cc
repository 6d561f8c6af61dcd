// A library of a training process that carries NVTX's real header, as torch, NCCL or cuBLAS do: each copy of it has
// NVTX's state of its own. Built twice, loaded by nvtx_test's children, called on any thread of theirs.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stdlib.h>
#include <string.h>

#include <cstdint>
#include <initializer_list>

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

// NCCL's calls as its releases mark them. Up to 2.24: registered names, the payload with the push, and nothing says
// which communicator. From 2.25 on: the payload with the pop, the communicator in it.
struct OldInit {
  int rank, ranks, device;
};
struct OldMessage {
  size_t bytes;
  int operation;
};
struct NewInit {
  uint64_t comm;
  int ranks, rank, device;
};
struct NewMessage {
  uint64_t comm;
  size_t bytes;
};

uint64_t SchemaOf(nvtxDomainHandle_t domain, uint64_t number, const nvtxPayloadSchemaEntry_t* entries, size_t count,
                  size_t bytes) {
  nvtxPayloadSchemaAttr_t schema = {};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = count;
  schema.payloadStaticSize = bytes;
  schema.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + number;
  return nvtxPayloadSchemaRegister(domain, &schema);
}

void OldCall(nvtxDomainHandle_t domain, const char* name, uint64_t schema, const void* payload, size_t bytes) {
  nvtxPayloadData_t data = {schema, bytes, payload};
  nvtxEventAttributes_t event = Attributes();
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, name);
  if (payload != nullptr) {
    NVTX_PAYLOAD_EVTATTR_SET_MULTIPLE(event, &data)
    event.reserved0 = 1;
  }
  nvtxDomainRangePushEx(domain, &event);
  nvtxDomainRangePop(domain);
}

void OldNccl(bool second) {
  static const nvtxPayloadSchemaEntry_t kInit[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT, "Rank", nullptr, 0, 0, nullptr, nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT, "No. of ranks", nullptr, 0, offsetof(OldInit, ranks), nullptr, nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT, "CUDA device", nullptr, 0, offsetof(OldInit, device), nullptr, nullptr}};
  static const nvtxPayloadSchemaEntry_t kMessage[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]", nullptr, 0, 0, nullptr, nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT, "Reduction operation", nullptr, 0, offsetof(OldMessage, operation), nullptr,
       nullptr}};
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
  const uint64_t init = SchemaOf(domain, 0, kInit, 3, sizeof(OldInit));
  const uint64_t message = SchemaOf(domain, 1, kMessage, 2, sizeof(OldMessage));
  const char* rank = getenv("NVTX_USER_RANK");
  const OldInit made = {rank != nullptr ? atoi(rank) : 0, 2, 0};
  const auto call = [&](const char* name, size_t bytes) {
    const OldMessage payload = {bytes, 0};
    OldCall(domain, name, message, &payload, sizeof(payload));
  };
  OldCall(domain, "ncclGetUniqueId", 0, nullptr, 0);
  OldCall(domain, "ncclCommInitRankConfig", init, &made, sizeof(made));
  call("ncclAllReduce", 4096);
  OldCall(domain, "ncclGroupStart", 0, nullptr, 0);
  call("ncclAllReduce", 8192);
  call("ncclAllGather", 1024);
  call("ncclSend", 512);
  OldCall(domain, "ncclGroupEnd", 0, nullptr, 0);
  if (second) {
    OldCall(domain, "ncclCommSplit", 0, nullptr, 0);
    call("ncclAllReduce", 16);
  }
  OldCall(domain, "ncclCommDestroy", 0, nullptr, 0);
}
void OldNcclOne() { OldNccl(false); }
void OldNcclTwo() { OldNccl(true); }

void NewNccl() {
  static const nvtxPayloadSchemaEntry_t kInit[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", nullptr, 0, 0, nullptr, nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT, "No. of ranks", nullptr, 0, offsetof(NewInit, ranks), nullptr, nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT, "Rank", nullptr, 0, offsetof(NewInit, rank), nullptr, nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT, "CUDA device", nullptr, 0, offsetof(NewInit, device), nullptr, nullptr}};
  static const nvtxPayloadSchemaEntry_t kMessage[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", nullptr, 0, 0, nullptr, nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]", nullptr, 0, offsetof(NewMessage, bytes), nullptr,
       nullptr}};
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
  const uint64_t init = SchemaOf(domain, 0, kInit, 4, sizeof(NewInit));
  const uint64_t message = SchemaOf(domain, 1, kMessage, 2, sizeof(NewMessage));
  const auto call = [&](const char* name, uint64_t schema, const void* payload, size_t bytes) {
    nvtxEventAttributes_t event = Attributes();
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = nvtxDomainRegisterStringA(domain, name);
    nvtxDomainRangePushEx(domain, &event);
    nvtxPayloadData_t data = {schema, bytes, payload};
    nvtxRangePopPayload(domain, &data, 1);
  };
  const char* rank = getenv("NVTX_USER_RANK");
  const int own = rank != nullptr ? atoi(rank) : 0;
  const NewInit world = {0xaaaa000000000001, 2, own, 0}, pair = {0xbbbb000000000002, 2, 1 - own, 0};
  call("ncclCommInitRank", init, &world, sizeof(world));
  call("ncclCommSplit", init, &pair, sizeof(pair));
  for (const uint64_t comm : {world.comm, pair.comm, world.comm}) {
    const NewMessage payload = {comm, 4096};
    call("ncclAllReduce", message, &payload, sizeof(payload));
  }
  call("ncclCommDestroy", init, &pair, sizeof(pair));
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
  } kScenes[] = {{"nested", Nested},         {"start_end", StartEnd},      {"domains", Domains},
                 {"unbalanced", Unbalanced}, {"nccl", NcclPayload},        {"prepare", Prepare},
                 {"old_nccl", OldNcclOne},   {"old_nccl_two", OldNcclTwo}, {"new_nccl", NewNccl}};
  for (const auto& scene : kScenes) {
    if (strcmp(scene.name, what) != 0) continue;
    scene.run();
    return 0;
  }
  return 1;
}
