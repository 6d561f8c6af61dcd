// A whole file mapped read-only.
//
// Called by: the ring and timeline readers, any thread. Must never: map anything but a regular file, write to it, or
// hand out a pointer beyond the size that the file had when it was opened. (A file that somebody shortens while it
// is mapped raises SIGBUS, as for every mapping: neither the recorder nor our writer ever shortens one.)
#ifndef RANKSCOPE_ANALYSIS_RECORDING_MAPPED_FILE_H_
#define RANKSCOPE_ANALYSIS_RECORDING_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace rankscope::analysis {

class MappedFile {
 public:
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }

  // Tells the kernel that [offset, offset + bytes) will be read soon, or isn't needed any more. Only advice.
  void WillNeed(uint64_t offset, uint64_t bytes) const;
  void Release(uint64_t offset, uint64_t bytes) const;

 private:
  MappedFile(std::string path, const uint8_t* data, uint64_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  const std::string path_;
  const uint8_t* const data_;
  const uint64_t size_;
};

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_MAPPED_FILE_H_
