// See mapped_file.h.
#include "analysis/recording/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/recording/clean_text.h"

namespace rankscope::analysis {

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    const std::string sentence = absl::StrCat("cannot open ", path, ": ", ErrnoText(error));
    return error == ENOENT ? absl::NotFoundError(sentence) : absl::PermissionDeniedError(sentence);
  }
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  const uint8_t* data = nullptr;
  if (size > 0) {
    // Files of a ring's size are read whole: their pages are mapped in one go instead of fault by fault.
    constexpr uint64_t kReadWholeBytes = 256ull << 20;
    void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED | (size <= kReadWholeBytes ? MAP_POPULATE : 0), fd, 0);
    if (mapping == MAP_FAILED) {
      const std::string sentence = absl::StrCat("cannot map ", path, " (", size, " bytes): ", ErrnoText(errno));
      close(fd);
      return absl::ResourceExhaustedError(sentence);
    }
    data = static_cast<const uint8_t*>(mapping);
  }
  close(fd);
  return std::unique_ptr<MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

namespace {
void Advise(const uint8_t* data, uint64_t size, uint64_t offset, uint64_t bytes, int advice) {
  if (data == nullptr || offset >= size) return;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  const uint64_t end = bytes > size - offset ? size : offset + bytes;
  if (end > begin) madvise(const_cast<uint8_t*>(data) + begin, end - begin, advice);
}
}  // namespace

void MappedFile::WillNeed(uint64_t offset, uint64_t bytes) const {
  Advise(data_, size_, offset, bytes, MADV_WILLNEED);
}

void MappedFile::Release(uint64_t offset, uint64_t bytes) const {
  Advise(data_, size_, offset, bytes, MADV_DONTNEED);
}

}  // namespace rankscope::analysis
