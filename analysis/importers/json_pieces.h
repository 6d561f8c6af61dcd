// A trace in JSON cut into pieces that fit into memory: the members of its outermost object, and one by one the
// elements of its "traceEvents" (or of the array that the file is).
//
// Called by the importers, on one thread. Knows strings and brackets, nothing else: what a piece says is read by
// whoever gets it. Lenient, for the files are damaged in known ways: control characters inside strings, quotes that
// are not escaped (the event is left out, and reading goes on at the next), an end that is missing. Memory: one block
// and the longest piece, at most kLongestPiece. Must never: take time that grows faster than the file.
#ifndef RANKSCOPE_ANALYSIS_IMPORTERS_JSON_PIECES_H_
#define RANKSCOPE_ANALYSIS_IMPORTERS_JSON_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rankscope::analysis {

struct JsonPiece {
  enum class Kind {
    kEnd,
    kMember,  // `key` and `text` of the outermost object
    kEvent,   // `text` is an object of traceEvents
  };
  Kind kind = Kind::kEnd;
  std::string key;
  // Valid until the next call; kPadding bytes behind it may be read.
  absl::string_view text;
  uint64_t offset = 0;  // in the (uncompressed) file
};

class JsonPieces {
 public:
  static constexpr size_t kLongestPiece = 1 << 20;
  static constexpr size_t kPadding = 64;
  // Reads up to so many bytes; fewer only at the end.
  using Reader = std::function<size_t(char*, size_t)>;

  explicit JsonPieces(Reader reader, size_t block_bytes = 1 << 22);
  JsonPiece Next();

  // Places where something was not JSON and was left out.
  uint64_t damaged() const { return damaged_; }
  // The text ended before its outermost bracket was closed.
  bool cut() const { return cut_; }
  // The outermost bracket was there.
  bool is_json() const { return state_ != State::kStart && state_ != State::kNoJson; }

 private:
  enum class State { kStart, kNoJson, kMembers, kEvents, kEnd };
  enum class Extent { kWhole, kMore, kDamaged };

  bool Fill();
  bool SkipSpace(const char* also);
  Extent FindEnd(size_t* end) const;
  bool Take(size_t* end);
  bool SkipToEvent(size_t from);
  bool NextEvent(JsonPiece* piece);
  bool NextMember(JsonPiece* piece);
  void Cut();

  const Reader reader_;
  const size_t block_bytes_;
  std::vector<char> buffer_;  // [at_, end_) is unread
  size_t at_ = 0, end_ = 0;
  uint64_t offset_ = 0;  // of buffer_[0] in the file
  bool no_more_ = false;
  State state_ = State::kStart;
  bool events_are_all_ = false;  // the file is an array
  uint64_t damaged_ = 0;
  bool cut_ = false;
};

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_IMPORTERS_JSON_PIECES_H_
