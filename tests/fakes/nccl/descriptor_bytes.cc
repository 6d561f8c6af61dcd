// See descriptor_bytes.h.
#include "tests/fakes/nccl/descriptor_bytes.h"

#include <cstring>

namespace rankscope::testing {

namespace {

class Out {
 public:
  explicit Out(uint8_t* bytes) : bytes_(bytes) {}
  template <typename T>
  void Put(int offset, T value) const {
    std::memcpy(bytes_ + offset, &value, sizeof(T));
  }

 private:
  uint8_t* bytes_;
};

void FillColl(int v, const EventFields& f, const Out& out) {
  if (v <= 3) {
    out.Put(24, f.name);
    out.Put(32, f.comm_hash);
    out.Put(40, f.seq);
    if (v == 1) {
      out.Put(48, f.func_number);
    } else {
      out.Put(48, f.func);
    }
    out.Put(56, f.buffer);
    out.Put(64, f.buffer);
    out.Put(72, f.count);
    out.Put(80, f.root);
  }
  switch (v) {
    case 1:
      out.Put(84, f.datatype_number);
      out.Put(104, f.channels);
      out.Put(105, f.warps);
      out.Put(106, f.algo_number);
      out.Put(107, f.proto_number);
      return;
    case 2:
      out.Put(88, f.datatype);
      out.Put(104, f.channels);
      out.Put(105, f.warps);
      out.Put(112, f.algo);
      out.Put(120, f.proto);
      return;
    case 3:
      out.Put(88, f.datatype);
      out.Put(96, f.channels);
      out.Put(97, f.warps);
      out.Put(104, f.algo);
      out.Put(112, f.proto);
      return;
    default:
      break;
  }
  out.Put(24, f.seq);
  out.Put(32, f.func);
  out.Put(40, f.buffer);
  out.Put(48, f.buffer);
  out.Put(56, f.count);
  out.Put(64, f.root);
  out.Put(72, f.datatype);
  out.Put(80, f.channels);
  out.Put(81, f.warps);
  out.Put(88, f.algo);
  out.Put(96, f.proto);
  if (v >= 5) out.Put(104, f.parent_group);
  if (v >= 7) {
    out.Put(112, static_cast<const char*>(nullptr));
    out.Put(120, f.symmetric);
  }
}

void FillP2p(int v, const EventFields& f, const Out& out) {
  if (v <= 3) {
    out.Put(24, f.name);
    out.Put(32, f.comm_hash);
    if (v == 1) {
      out.Put(40, f.func_number);
      out.Put(56, f.datatype_number);
    } else {
      out.Put(40, f.func);
      out.Put(56, f.datatype);
    }
    out.Put(48, f.buffer);
    out.Put(64, f.count);
    out.Put(72, f.peer);
    return;
  }
  out.Put(24, f.func);
  out.Put(32, f.buffer);
  out.Put(40, f.datatype);
  out.Put(48, f.count);
  out.Put(56, f.peer);
  out.Put(60, f.channels);
  if (v >= 5) out.Put(64, f.parent_group);
}

void FillCe(const EventFields& f, const Out& out) {
  switch (f.type) {
    case kNcclCeColl:
      out.Put(24, f.seq);
      out.Put(32, f.func);
      out.Put(40, f.buffer);
      out.Put(48, f.buffer);
      out.Put(56, f.count);
      out.Put(64, f.root);
      out.Put(72, f.datatype);
      out.Put(80, "UC");
      out.Put(100, static_cast<uint32_t>(f.seq));
      out.Put(104, f.stream);
      return;
    case kNcclCeSync:
      out.Put(24, f.complete);
      out.Put(28, f.ranks);
      return;
    default:
      out.Put(24, f.ops);
      out.Put(32, f.total_bytes);
      out.Put(40, f.complete);
      return;
  }
}

void FillApi(const EventFields& f, const Out& out) {
  if (f.type == kNcclGroupApi) {
    out.Put(24, f.captured);
    out.Put(28, f.group_depth);
    return;
  }
  if (f.type == kNcclKernelLaunch) {
    out.Put(24, f.stream);
    return;
  }
  out.Put(24, f.func);
  out.Put(32, f.count);
  out.Put(40, f.datatype);
  if (f.type == kNcclCollApi) {
    out.Put(48, f.root);
    out.Put(56, f.stream);
    out.Put(64, f.captured);
  } else {
    out.Put(48, f.stream);
    out.Put(56, f.captured);
  }
}

void FillProxy(int v, const EventFields& f, const Out& out) {
  switch (f.type) {
    case kNcclProxyOp:
      out.Put(24, f.pid);
      out.Put(28, f.channel);
      out.Put(32, f.peer);
      out.Put(36, f.steps);
      out.Put(40, f.chunk_bytes);
      out.Put(44, f.is_send);
      return;
    case kNcclProxyStep:
      out.Put(24, f.step);
      return;
    case kNcclKernelCh:
      out.Put(24, f.channel);
      if (v >= 4) out.Put(32, f.gpu_time);
      return;
    case kNcclNetPlugin:
      out.Put(24, f.net_id);
      out.Put(32, f.net_data);
      return;
    case kNcclKernelPhase:
      out.Put(24, f.channel);
      out.Put(25, f.phase);
      out.Put(32, "compute");
      out.Put(40, f.gpu_time);
      return;
    default:
      return;
  }
}

}  // namespace

int DescriptorSize(int version) {
  static constexpr int kSizes[] = {0, 120, 128, 120, 104, 112, 112, 136};
  return kSizes[version];
}

void FillDescriptor(int version, const EventFields& fields, uint8_t* bytes) {
  const Out out(bytes);
  if (version >= 5) {
    out.Put(0, fields.type);
  } else {
    out.Put(0, static_cast<uint8_t>(fields.type));
  }
  out.Put(8, fields.parent);
  out.Put(16, fields.rank);
  switch (fields.type) {
    case kNcclColl:
      return FillColl(version, fields, out);
    case kNcclP2p:
      return FillP2p(version, fields, out);
    case kNcclGroupApi:
    case kNcclCollApi:
    case kNcclP2pApi:
    case kNcclKernelLaunch:
      return FillApi(fields, out);
    case kNcclCeColl:
    case kNcclCeSync:
    case kNcclCeBatch:
      return FillCe(fields, out);
    default:
      return FillProxy(version, fields, out);
  }
}

}  // namespace rankscope::testing
