// See json_pieces.h.
#include "analysis/importers/json_pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace rankscope::analysis {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// What a byte means outside of strings.
enum Mark : uint8_t { kPlain = 0, kQuote, kOpen, kClose };
constexpr std::array<uint8_t, 256> MakeMarks() {
  std::array<uint8_t, 256> marks{};
  marks['"'] = kQuote;
  marks['{'] = marks['['] = kOpen;
  marks['}'] = marks[']'] = kClose;
  return marks;
}
constexpr std::array<uint8_t, 256> kMarks = MakeMarks();

// Behind a quote that was taken for a string's end: `ph"`, and before it `{`. Then it is a string's begin, and some
// quote before it was one too many: an event starts at the bracket.
const char* EventAround(const char* begin, const char* quote, const char* end) {
  if (end - quote < 4 || std::memcmp(quote + 1, "ph\"", 3) != 0) return nullptr;
  const char* p = quote;
  while (p > begin && IsSpace(p[-1])) --p;
  return p > begin && p[-1] == '{' ? p - 1 : nullptr;
}

}  // namespace

JsonPieces::JsonPieces(Reader reader, size_t block_bytes)
    : reader_(std::move(reader)), block_bytes_(block_bytes), buffer_(block_bytes + kPadding) {}

// More text behind what is unread; false at the file's end.
bool JsonPieces::Fill() {
  if (no_more_) return false;
  if (at_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
    offset_ += at_;
    end_ -= at_;
    at_ = 0;
  }
  if (buffer_.size() < end_ + block_bytes_ + kPadding) buffer_.resize(end_ + block_bytes_ + kPadding);
  const size_t got = reader_(buffer_.data() + end_, block_bytes_);
  no_more_ = got < block_bytes_;
  end_ += got;
  return got > 0;
}

// To the next byte that is neither space nor one of `also`; false at the file's end.
bool JsonPieces::SkipSpace(const char* also) {
  for (;;) {
    while (at_ < end_ && (IsSpace(buffer_[at_]) || (buffer_[at_] != 0 && std::strchr(also, buffer_[at_]) != nullptr)))
      ++at_;
    if (at_ < end_) return true;
    if (!Fill()) return false;
  }
}

// Where the value that begins at at_ ends.
JsonPieces::Extent JsonPieces::FindEnd(size_t* end) const {
  const char* const begin = buffer_.data() + at_;
  const char* const limit = buffer_.data() + end_;
  const char* p = begin;
  int depth = 0;
  while (p < limit) {
    const uint8_t mark = kMarks[static_cast<uint8_t>(*p)];
    if (mark == kPlain) {
      if (depth == 0 && (*p == ',' || IsSpace(*p))) break;  // a number or a word
      ++p;
      continue;
    }
    if (mark == kQuote) {
      const char* quote = p + 1;
      for (;;) {
        quote = static_cast<const char*>(std::memchr(quote, '"', static_cast<size_t>(limit - quote)));
        if (quote == nullptr) return Extent::kMore;
        const char* escape = quote;
        while (escape > p + 1 && escape[-1] == '\\') --escape;
        if ((quote - escape) % 2 == 0) break;
        ++quote;
      }
      if (const char* event = EventAround(p + 1, quote, limit)) {
        *end = static_cast<size_t>(event - buffer_.data());
        return Extent::kDamaged;
      }
      p = quote + 1;
      if (depth == 0) break;
      continue;
    }
    if (mark == kOpen) {
      ++depth;
    } else if (depth == 0) {
      break;  // of the bracket around us
    } else if (--depth == 0) {
      ++p;
      break;
    }
    ++p;
  }
  *end = static_cast<size_t>(p - buffer_.data());
  return p < limit || (p == limit && p > begin && depth == 0 && kMarks[static_cast<uint8_t>(p[-1])] == kClose)
             ? Extent::kWhole
             : Extent::kMore;
}

// The end of the value at at_. False if it is damaged, and at_ is behind the damage (or nothing is left).
bool JsonPieces::Take(size_t* end) {
  for (;;) {
    const Extent extent = FindEnd(end);
    if (extent == Extent::kWhole) return true;
    if (extent == Extent::kDamaged) {
      ++damaged_;
      at_ = *end;
      return false;
    }
    if (end_ - at_ > kLongestPiece) {
      ++damaged_;
      SkipToEvent(at_ + kLongestPiece);
      return false;
    }
    if (Fill()) continue;
    if (no_more_) {
      Cut();
      return false;
    }
  }
}

// To something that looks like the begin of an event; false at the file's end.
bool JsonPieces::SkipToEvent(size_t from) {
  at_ = from;
  for (;;) {
    const char* bracket = static_cast<const char*>(std::memchr(buffer_.data() + at_, '{', end_ - at_));
    if (bracket == nullptr) {
      at_ = end_;
      if (!Fill()) return false;
      continue;
    }
    at_ = static_cast<size_t>(bracket - buffer_.data());
    if (end_ - at_ < 64) Fill();
    size_t p = at_ + 1;
    while (p < end_ && IsSpace(buffer_[p])) ++p;
    if (end_ - p >= 4 && std::memcmp(buffer_.data() + p, "\"ph\"", 4) == 0) return true;
    ++at_;
  }
}

void JsonPieces::Cut() {
  cut_ = true;
  at_ = end_;
  state_ = State::kEnd;
}

bool JsonPieces::NextEvent(JsonPiece* piece) {
  for (;;) {
    if (!SkipSpace(",")) {
      Cut();
      return false;
    }
    const char c = buffer_[at_];
    if (c == ']') {
      ++at_;
      state_ = events_are_all_ ? State::kEnd : State::kMembers;
      return false;
    }
    if (c != '{') {
      ++damaged_;
      if (!SkipToEvent(at_)) {
        Cut();
        return false;
      }
      continue;
    }
    size_t end = 0;
    if (!Take(&end)) {
      if (state_ == State::kEnd) return false;
      continue;
    }
    piece->kind = JsonPiece::Kind::kEvent;
    piece->text = absl::string_view(buffer_.data() + at_, end - at_);
    piece->offset = offset_ + at_;
    at_ = end;
    return true;
  }
}

bool JsonPieces::NextMember(JsonPiece* piece) {
  if (!SkipSpace(",:")) {
    Cut();
    return false;
  }
  if (buffer_[at_] == '}') {
    state_ = State::kEnd;
    return false;
  }
  size_t end = 0;
  if (buffer_[at_] != '"') {
    // An event where a member should be: damage before it hid the array's begin. Else a stray byte.
    ++damaged_;
    if (SkipToEvent(at_)) {
      state_ = State::kEvents;
    } else {
      Cut();
    }
    return false;
  }
  if (!Take(&end)) {
    if (state_ != State::kEnd) state_ = State::kEvents;  // Take stops at an event
    return false;
  }
  piece->key.assign(buffer_.data() + at_ + 1, end - at_ - 2);
  at_ = end;
  if (!SkipSpace(":")) {
    Cut();
    return false;
  }
  if (piece->key == "traceEvents" && buffer_[at_] == '[') {
    ++at_;
    state_ = State::kEvents;
    return false;
  }
  if (!Take(&end)) {
    if (state_ != State::kEnd) state_ = State::kEvents;
    return false;
  }
  piece->kind = JsonPiece::Kind::kMember;
  piece->text = absl::string_view(buffer_.data() + at_, end - at_);
  piece->offset = offset_ + at_;
  at_ = end;
  return true;
}

JsonPiece JsonPieces::Next() {
  JsonPiece piece;
  for (;;) {
    switch (state_) {
      case State::kStart: {
        if (!SkipSpace("\xef\xbb\xbf")) {
          state_ = State::kNoJson;
          return piece;
        }
        const char c = buffer_[at_];
        state_ = c == '{' ? State::kMembers : c == '[' ? State::kEvents : State::kNoJson;
        events_are_all_ = c == '[';
        ++at_;
        break;
      }
      case State::kMembers:
        if (NextMember(&piece)) return piece;
        break;
      case State::kEvents:
        if (NextEvent(&piece)) return piece;
        break;
      case State::kNoJson:
      case State::kEnd:
        return piece;
    }
  }
}

}  // namespace rankscope::analysis
