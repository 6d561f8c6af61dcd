// See name_memo.h.
#include "plugin/name_memo.h"

namespace rankscope::plugin {

constinit NameMemo g_name_memos[recorder::kLaneLimit][kMemoEntries] = {};

namespace {

// Copies 16 bytes that may lie beyond the name's end but not beyond its page.
RANKSCOPE_READS_BEYOND_THE_NAME void CopySixteen(const char* text, uint64_t* out) {
  uint64_t low, high;
  __builtin_memcpy(&low, text, 8);
  __builtin_memcpy(&high, text + 8, 8);
  out[0] = low;
  out[1] = high;
}

}  // namespace

uint32_t DecodeNames(NameMemo* memo, const char* func, const char* dtype, const char* algo, const char* proto) {
  const uint32_t names =
      PackNames(FunctionFromName(func), DataTypeFromName(dtype), AlgorithmFromName(algo), ProtocolFromName(proto));
  const char* const text[kMemoNames] = {func, dtype, algo, proto};
  memo->inverted_address[0] = 0;  // not to be believed if one of the names can't be kept
  for (const char* name : text) {
    if (name == nullptr || SixteenBytesCrossPage(name)) return names;
  }
  for (int i = 0; i < kMemoNames; ++i) CopySixteen(text[i], memo->bytes[i]);
  memo->names = names;
  for (int i = 0; i < kMemoNames; ++i) memo->inverted_address[i] = ~reinterpret_cast<uint64_t>(text[i]);
  return names;
}

}  // namespace rankscope::plugin
