// See torch_event.h.
#include "analysis/importers/torch_event.h"

#include <simdjson.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace rankscope::analysis {
namespace {

namespace od = simdjson::ondemand;

constexpr size_t kPadding = 64;
static_assert(kPadding >= simdjson::SIMDJSON_PADDING);

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// A number's text, or a string's contents: forks of the profiler write numbers in quotes.
absl::string_view Token(od::value value) {
  absl::string_view token = absl::StripAsciiWhitespace(View(value.raw_json_token()));
  if (token.size() >= 2 && token.front() == '"') {
    token.remove_prefix(1);
    const size_t end = token.find('"');
    if (end != absl::string_view::npos) token = token.substr(0, end);
  }
  return token;
}

Number WholeNumber(absl::string_view token) {
  Number number;
  if (absl::SimpleAtoi(token, &number.value)) {
    number.known = true;
    return number;
  }
  uint64_t large;
  if (absl::SimpleAtoi(token, &large)) return {static_cast<int64_t>(large), true};
  double real;  // "1e3", "7.0"
  if (absl::SimpleAtod(token, &real) && std::fabs(real) < 9e18) return {static_cast<int64_t>(real), true};
  return {};
}

uint64_t Product(od::value value) {
  od::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) return 0;
  uint64_t product = 1;
  for (auto item : array) {
    int64_t factor = 0;
    if (item.get_int64().get(factor) != simdjson::SUCCESS || factor < 0) return 0;
    if (__builtin_mul_overflow(product, static_cast<uint64_t>(factor), &product)) return 0;
  }
  return product;
}

// A list of numbers comes as a string, or (from forks) as a list.
absl::string_view Text(od::value value) {
  std::string_view text;
  if (value.get_string().get(text) == simdjson::SUCCESS) return View(text);
  return {};
}

using NumberField = Number TorchEvent::*;
using TextField = absl::string_view TorchEvent::*;

struct ArgNumber {
  std::string_view name;
  NumberField field;
};
constexpr ArgNumber kArgNumbers[] = {
    {"External id", &TorchEvent::external},
    {"correlation", &TorchEvent::correlation},
    {"device", &TorchEvent::device},
    {"context", &TorchEvent::context},
    {"stream", &TorchEvent::stream},
    {"bytes", &TorchEvent::bytes},
    {"cbid", &TorchEvent::callback},
    {"graph id", &TorchEvent::graph},
    {"graph node id", &TorchEvent::graph_node},
    {"Group size", &TorchEvent::group_size},
    {"In msg nelems", &TorchEvent::in_elements},
    {"Out msg nelems", &TorchEvent::out_elements},
    {"Seq", &TorchEvent::sequence},
    {"Rank", &TorchEvent::rank},
    {"Src Rank", &TorchEvent::source_rank},
    {"Dst Rank", &TorchEvent::destination_rank},
    {"external id", &TorchEvent::external},  // 2021's files
    {"In msg size", &TorchEvent::in_elements},
    {"Out msg size", &TorchEvent::out_elements},
};
struct ArgText {
  std::string_view name;
  TextField field;
};
constexpr ArgText kArgTexts[] = {
    {"name", &TorchEvent::text},
    {"Collective name", &TorchEvent::collective},
    {"dtype", &TorchEvent::dtype},
    {"Process Group Name", &TorchEvent::group_name},
    {"Process Group Description", &TorchEvent::group_description},
    {"Process Group Ranks", &TorchEvent::group_ranks},
};

// The phase where it is the first member, as Kineto writes it; 0 where that isn't seen at once.
char PhaseAtFirstSight(absl::string_view json) {
  size_t at = 1;
  const auto skip_space = [&] {
    while (at < json.size() && (json[at] == ' ' || json[at] == '\n' || json[at] == '\r' || json[at] == '\t')) ++at;
  };
  skip_space();
  if (json.substr(at, 4) != "\"ph\"") return 0;
  at += 4;
  skip_space();
  if (json.substr(at, 1) != ":") return 0;
  ++at;
  skip_space();
  return at + 2 < json.size() && json[at] == '"' && json[at + 2] == '"' ? json[at + 1] : '\0';
}

bool AllHex(absl::string_view text) {
  for (const char c : text) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
  }
  return true;
}

// Control characters and broken escapes in strings, bytes that are no UTF-8, words that are no numbers.
std::string Mend(absl::string_view json) {
  std::string out;
  out.reserve(json.size() + kPadding);
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const auto byte = static_cast<unsigned char>(c);
    if (in_string) {
      if (c == '"') {
        in_string = false;
        out += c;
      } else if (c == '\\') {
        const char next = i + 1 < json.size() ? json[i + 1] : 0;
        const bool is_unicode = next == 'u' && i + 5 < json.size() && AllHex(json.substr(i + 2, 4));
        if (next != 0 && (std::strchr("\"\\/bfnrt", next) != nullptr || is_unicode)) {
          out += c;
          out += next;
          ++i;
        } else {
          out += "\\\\";
        }
      } else {
        out += byte < 0x20 || byte >= 0x7f ? '?' : c;
      }
      continue;
    }
    if (c == '"') in_string = true;
    if (std::isalpha(byte) != 0 ||
        (c == '-' && i + 1 < json.size() && std::isalpha(static_cast<unsigned char>(json[i + 1])) != 0)) {
      size_t end = i + 1;
      while (end < json.size() && std::isalpha(static_cast<unsigned char>(json[end])) != 0) ++end;
      const absl::string_view word = json.substr(i, end - i);
      out.append(word == "true" || word == "false" ? std::string(word) : "null");
      i = end - 1;
      continue;
    }
    out += byte < 0x20 && c != '\n' && c != '\r' && c != '\t' ? ' ' : c;
  }
  return out;
}

}  // namespace

TorchCategory CategoryOf(absl::string_view cat) {
  struct Entry {
    const char* name;
    TorchCategory category;
  };
  static constexpr Entry kEntries[] = {
      {"cpu_op", TorchCategory::kCpuOp},         {"kernel", TorchCategory::kKernel},
      {"cuda_runtime", TorchCategory::kRuntime}, {"gpu_memcpy", TorchCategory::kMemcpy},
      {"gpu_memset", TorchCategory::kMemset},    {"user_annotation", TorchCategory::kUserAnnotation},
      {"cuda_driver", TorchCategory::kDriver},   {"cuda_sync", TorchCategory::kSync},
      {"runtime", TorchCategory::kRuntime},      {"operator", TorchCategory::kCpuOp},
      {"memcpy", TorchCategory::kMemcpy},        {"memset", TorchCategory::kMemset},
  };
  for (const Entry& entry : kEntries) {
    if (absl::EqualsIgnoreCase(cat, entry.name)) return entry.category;
  }
  return TorchCategory::kOther;
}

Number NanosecondsOfMicroseconds(absl::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  const absl::string_view digits = negative ? text.substr(1) : text;
  uint64_t ns = 0;
  int decimals = -1;
  for (const char c : digits) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    if (c < '0' || c > '9') {
      double us;  // with an exponent
      if (!absl::SimpleAtod(text, &us) || !(std::fabs(us) < 9e15)) return {};
      return {static_cast<int64_t>(us * 1000), true};
    }
    if (decimals >= 3) continue;
    if (__builtin_mul_overflow(ns, uint64_t{10}, &ns)) return {};
    ns += static_cast<uint64_t>(c - '0');
    if (decimals >= 0) ++decimals;
  }
  if (digits.empty()) return {};
  for (int d = decimals < 0 ? 0 : decimals; d < 3; ++d) {
    if (__builtin_mul_overflow(ns, uint64_t{10}, &ns)) return {};
  }
  if (ns > static_cast<uint64_t>(INT64_MAX)) return {};
  return {negative ? -static_cast<int64_t>(ns) : static_cast<int64_t>(ns), true};
}

class TorchEventReader::State {
 public:
  bool Parse(absl::string_view json, TorchEvent* event) {
    *event = TorchEvent();
    od::document document;
    if (parser_.iterate(json.data(), json.size(), json.size() + kPadding).get(document) != simdjson::SUCCESS)
      return false;
    od::object object;
    if (document.get_object().get(object) != simdjson::SUCCESS) return false;
    for (auto item : object) {
      std::string_view key;
      od::value value;
      if (item.unescaped_key().get(key) != simdjson::SUCCESS || item.value().get(value) != simdjson::SUCCESS)
        return false;
      if (!TakeMember(key, value, event)) return false;
    }
    // A value that was stepped over is not looked at; what matters was.
    return true;
  }

  bool Mended(absl::string_view json, TorchEvent* event) {
    mended_text_ = Mend(json);
    const size_t size = mended_text_.size();
    mended_text_.append(kPadding, ' ');
    return Parse(absl::string_view(mended_text_).substr(0, size), event);
  }

  uint64_t mended = 0;

 private:
  static bool TakeMember(std::string_view key, od::value value, TorchEvent* event) {
    switch (key.size()) {
      case 2:
        if (key == "ph") {
          const absl::string_view phase = Text(value);
          event->phase = phase.empty() ? '\0' : phase.front();
        } else if (key == "ts") {
          event->begin_ns = NanosecondsOfMicroseconds(Token(value));
        }
        return true;
      case 3:
        if (key == "cat") event->category = CategoryOf(Text(value));
        if (key == "dur") event->length_ns = NanosecondsOfMicroseconds(Token(value));
        if (key == "pid") event->process = WholeNumber(Token(value));
        if (key == "tid") event->thread = WholeNumber(Token(value));
        return true;
      case 4:
        if (key == "name") {
          std::string_view name;
          if (value.get_string().get(name) != simdjson::SUCCESS) return false;
          event->name = View(name);
        } else if (key == "args" && !ArgsAreUnused(*event)) {
          return TakeArgs(value, event);
        }
        return true;
      default:
        return true;
    }
  }

  // Most events are operators, and of most of these nobody wants to know more. (The name comes before the arguments.)
  static bool ArgsAreUnused(const TorchEvent& event) {
    return event.category == TorchCategory::kCpuOp && !event.name.empty() && event.name != kCollectiveCall;
  }

  static bool TakeArgs(od::value value, TorchEvent* event) {
    od::object args;
    if (value.get_object().get(args) != simdjson::SUCCESS) return true;  // null, a string: nothing of ours
    for (auto item : args) {
      std::string_view key;
      od::value arg;
      if (item.unescaped_key().get(key) != simdjson::SUCCESS || item.value().get(arg) != simdjson::SUCCESS)
        return false;
      TakeArg(key, arg, event);
    }
    return true;
  }

  static void TakeArg(std::string_view key, od::value value, TorchEvent* event) {
    if (key == "grid") {
      event->grid_blocks = Product(value);
      return;
    }
    if (key == "block") {
      event->block_threads = Product(value);
      return;
    }
    for (const ArgNumber& arg : kArgNumbers) {
      if (key != arg.name) continue;
      event->*arg.field = WholeNumber(Token(value));
      return;
    }
    for (const ArgText& arg : kArgTexts) {
      if (key != arg.name) continue;
      event->*arg.field = Text(value);
      return;
    }
  }

  od::parser parser_;
  std::string mended_text_;
};

TorchEventReader::TorchEventReader() : state_(std::make_unique<State>()) {}
TorchEventReader::~TorchEventReader() = default;

bool TorchEventReader::Read(absl::string_view json, TorchEvent* event) {
  const char phase = PhaseAtFirstSight(json);
  if (phase != 0 && phase != 'X' && phase != 'M') {
    *event = TorchEvent();
    event->phase = phase;
    return true;
  }
  if (state_->Parse(json, event)) return true;
  if (!state_->Mended(json, event)) return false;
  ++state_->mended;
  return true;
}

uint64_t TorchEventReader::mended() const { return state_->mended; }

}  // namespace rankscope::analysis
