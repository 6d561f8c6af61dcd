// See text_file.h.
#include "analysis/importers/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/recording/clean_text.h"

namespace rankscope::analysis {

absl::StatusOr<std::unique_ptr<TextFile>> TextFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", ErrnoText(errno)));
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  gzFile file = gzdopen(fd, "rb");
  if (file == nullptr) {
    close(fd);
    return absl::ResourceExhaustedError(absl::StrCat("cannot read ", path, ": out of memory"));
  }
  gzbuffer(file, 1u << 18);
  return std::unique_ptr<TextFile>(new TextFile(path, file, static_cast<uint64_t>(info.st_size)));
}

TextFile::TextFile(std::string path, gzFile_s* file, uint64_t size_bytes)
    : path_(std::move(path)), file_(file), size_bytes_(size_bytes) {}

TextFile::~TextFile() { gzclose_r(file_); }

size_t TextFile::Read(char* to, size_t bytes) {
  size_t done = 0;
  while (done < bytes && damage_.empty()) {
    const auto piece = static_cast<unsigned>(std::min(bytes - done, size_t{1} << 30));
    const int got = gzread(file_, to + done, piece);
    if (got > 0) done += static_cast<size_t>(got);
    if (got == static_cast<int>(piece)) continue;
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code == Z_BUF_ERROR) {
      damage_ = "the compressed data is cut off";
    } else if (code == Z_ERRNO) {
      damage_ = ErrnoText(errno);
    } else if (code != Z_OK && code != Z_STREAM_END) {
      damage_ = absl::StrCat("the compressed data is damaged (", text, ")");
    }
    if (got <= 0) break;
  }
  return done;
}

uint64_t TextFile::read_bytes() const {
  const z_off_t at = gzoffset(file_);
  return at > 0 ? static_cast<uint64_t>(at) : 0;
}

}  // namespace rankscope::analysis
