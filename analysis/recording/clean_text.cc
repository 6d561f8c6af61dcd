// See clean_text.h.
#include "analysis/recording/clean_text.h"

#include <cstdint>
#include <system_error>

namespace rankscope::analysis {
namespace {

// Bytes of the well-formed UTF-8 sequence at the front of `text` (RFC 3629), 0 if it is not one.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (!continues(1) || !continues(2)) return 0;
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = lead == 0xed && byte(1) > 0x9f;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    const bool overlong = lead == 0xf0 && byte(1) < 0x90;
    const bool beyond = lead == 0xf4 && byte(1) > 0x8f;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

}  // namespace

std::string CleanText(absl::string_view bytes) {
  bytes = bytes.substr(0, bytes.find('\0'));
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = Utf8Length(bytes);
    const uint8_t lead = static_cast<uint8_t>(bytes[0]);
    // U+0080..U+009F are control characters too (some terminals obey them).
    const bool control =
        lead < 0x20 || lead == 0x7f || (length == 2 && lead == 0xc2 && static_cast<uint8_t>(bytes[1]) < 0xa0);
    if (length == 0 || control) {
      text.push_back('?');
      bytes.remove_prefix(length == 0 ? 1 : length);
      continue;
    }
    text.append(bytes.data(), length);
    bytes.remove_prefix(length);
  }
  return text;
}

std::string ErrnoText(int error) { return std::generic_category().message(error); }

}  // namespace rankscope::analysis
