// A file of text, plain or gzip, read once from front to back.
//
// Called by the importers, on one thread. Which of the two it is, the content says, not the name. Memory: zlib's
// window and buffer. Must never: take a cut file's end for a whole one's.
#ifndef RANKSCOPE_ANALYSIS_IMPORTERS_TEXT_FILE_H_
#define RANKSCOPE_ANALYSIS_IMPORTERS_TEXT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct gzFile_s;

namespace rankscope::analysis {

class TextFile {
 public:
  // The error is one sentence for the user.
  static absl::StatusOr<std::unique_ptr<TextFile>> Open(const std::string& path);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  // Fills up to `bytes`; fewer only at the end. An error of the disk or of the compressed data ends the text there:
  // see damage().
  size_t Read(char* to, size_t bytes);

  const std::string& path() const { return path_; }
  // Why the text ended early; empty where it did not.
  const std::string& damage() const { return damage_; }
  // Of the file on the disk: for progress.
  uint64_t read_bytes() const;
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  TextFile(std::string path, gzFile_s* file, uint64_t size_bytes);

  const std::string path_;
  gzFile_s* const file_;
  const uint64_t size_bytes_;
  std::string damage_;
};

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_IMPORTERS_TEXT_FILE_H_
