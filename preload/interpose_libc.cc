// libc's file calls, as LD_PRELOAD puts them before libc's own: the real call, and a note of what it moved.
//
// Exported because interposition needs it; where the library was opened by dlopen nobody comes here. Each function
// does what libc's does, with libc's errno: the real one is called, and found the first time (dlsym, RTLD_NEXT);
// where that fails, by the system call. The constructor does nothing, so that the shells, compilers and loaders that
// inherit LD_PRELOAD pay for loading the file alone.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/file_io.h"
#include "recorder/atomic_word.h"

#define RANKSCOPE_EXPORT extern "C" __attribute__((visibility("default")))

namespace rankscope::preload {
namespace {

using schema::FileOperation;

// libc's function, looked up once; nullptr if there is none.
template <typename F>
F* Next(F** known, const char* name) {
  F* function = recorder::LoadRelaxed(*known);
  if (function != nullptr) return function;
  const int saved_errno = errno;
  function = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
  errno = saved_errno;
  recorder::StoreRelaxed(*known, function);
  return function;
}

bool TakesMode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace
}  // namespace rankscope::preload

using rankscope::preload::BeginIo;
using rankscope::preload::EndIo;
using rankscope::preload::FileOperation;
using rankscope::preload::Next;
using rankscope::preload::NoteClose;
using rankscope::preload::NoteOpen;
using rankscope::preload::TakesMode;

// The file calls of large-file programs have names of their own; on these machines they are the same.
#define RANKSCOPE_OPEN(NAME)                                                                             \
  RANKSCOPE_EXPORT int NAME(const char* path, int flags, ...) {                                          \
    mode_t mode = 0;                                                                                     \
    if (TakesMode(flags)) {                                                                              \
      va_list arguments;                                                                                 \
      va_start(arguments, flags);                                                                        \
      mode = va_arg(arguments, mode_t);                                                                  \
      va_end(arguments);                                                                                 \
    }                                                                                                    \
    static int (*known)(const char*, int, ...) = nullptr;                                                \
    auto* next = Next(&known, #NAME);                                                                    \
    const int fd = next != nullptr ? next(path, flags, mode)                                             \
                                   : static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode)); \
    if (fd >= 0) NoteOpen(fd, path);                                                                     \
    return fd;                                                                                           \
  }
RANKSCOPE_OPEN(open)
RANKSCOPE_OPEN(open64)

#define RANKSCOPE_OPENAT(NAME)                                                                         \
  RANKSCOPE_EXPORT int NAME(int folder, const char* path, int flags, ...) {                            \
    mode_t mode = 0;                                                                                   \
    if (TakesMode(flags)) {                                                                            \
      va_list arguments;                                                                               \
      va_start(arguments, flags);                                                                      \
      mode = va_arg(arguments, mode_t);                                                                \
      va_end(arguments);                                                                               \
    }                                                                                                  \
    static int (*known)(int, const char*, int, ...) = nullptr;                                         \
    auto* next = Next(&known, #NAME);                                                                  \
    const int fd = next != nullptr ? next(folder, path, flags, mode)                                   \
                                   : static_cast<int>(syscall(SYS_openat, folder, path, flags, mode)); \
    if (fd >= 0) NoteOpen(fd, path);                                                                   \
    return fd;                                                                                         \
  }
RANKSCOPE_OPENAT(openat)
RANKSCOPE_OPENAT(openat64)

#define RANKSCOPE_FOPEN(NAME)                                       \
  RANKSCOPE_EXPORT FILE* NAME(const char* path, const char* mode) { \
    static FILE* (*known)(const char*, const char*) = nullptr;      \
    auto* next = Next(&known, #NAME);                               \
    if (next == nullptr) {                                          \
      errno = ENOSYS;                                               \
      return nullptr;                                               \
    }                                                               \
    FILE* file = next(path, mode);                                  \
    if (file != nullptr) NoteOpen(fileno(file), path);              \
    return file;                                                    \
  }
RANKSCOPE_FOPEN(fopen)
RANKSCOPE_FOPEN(fopen64)

RANKSCOPE_EXPORT int close(int fd) {
  NoteClose(fd);
  static int (*known)(int) = nullptr;
  auto* next = Next(&known, "close");
  return next != nullptr ? next(fd) : static_cast<int>(syscall(SYS_close, fd));
}
RANKSCOPE_EXPORT int fclose(FILE* file) {
  if (file != nullptr) NoteClose(fileno(file));
  static int (*known)(FILE*) = nullptr;
  auto* next = Next(&known, "fclose");
  return next != nullptr ? next(file) : EOF;
}

RANKSCOPE_EXPORT ssize_t read(int fd, void* data, size_t bytes) {
  static ssize_t (*known)(int, void*, size_t) = nullptr;
  auto* next = Next(&known, "read");
  const uint64_t begin = BeginIo(fd);
  const ssize_t got = next != nullptr ? next(fd, data, bytes) : syscall(SYS_read, fd, data, bytes);
  EndIo(fd, FileOperation::kRead, begin, got);
  return got;
}
RANKSCOPE_EXPORT ssize_t write(int fd, const void* data, size_t bytes) {
  static ssize_t (*known)(int, const void*, size_t) = nullptr;
  auto* next = Next(&known, "write");
  const uint64_t begin = BeginIo(fd);
  const ssize_t put = next != nullptr ? next(fd, data, bytes) : syscall(SYS_write, fd, data, bytes);
  EndIo(fd, FileOperation::kWrite, begin, put);
  return put;
}
RANKSCOPE_EXPORT ssize_t readv(int fd, const iovec* parts, int count) {
  static ssize_t (*known)(int, const iovec*, int) = nullptr;
  auto* next = Next(&known, "readv");
  const uint64_t begin = BeginIo(fd);
  const ssize_t got = next != nullptr ? next(fd, parts, count) : syscall(SYS_readv, fd, parts, count);
  EndIo(fd, FileOperation::kRead, begin, got);
  return got;
}
RANKSCOPE_EXPORT ssize_t writev(int fd, const iovec* parts, int count) {
  static ssize_t (*known)(int, const iovec*, int) = nullptr;
  auto* next = Next(&known, "writev");
  const uint64_t begin = BeginIo(fd);
  const ssize_t put = next != nullptr ? next(fd, parts, count) : syscall(SYS_writev, fd, parts, count);
  EndIo(fd, FileOperation::kWrite, begin, put);
  return put;
}

#define RANKSCOPE_PREAD(NAME)                                                                            \
  RANKSCOPE_EXPORT ssize_t NAME(int fd, void* data, size_t bytes, off64_t offset) {                      \
    static ssize_t (*known)(int, void*, size_t, off64_t) = nullptr;                                      \
    auto* next = Next(&known, #NAME);                                                                    \
    const uint64_t begin = BeginIo(fd);                                                                  \
    const ssize_t got =                                                                                  \
        next != nullptr ? next(fd, data, bytes, offset) : syscall(SYS_pread64, fd, data, bytes, offset); \
    EndIo(fd, FileOperation::kRead, begin, got);                                                         \
    return got;                                                                                          \
  }
RANKSCOPE_PREAD(pread)
RANKSCOPE_PREAD(pread64)

#define RANKSCOPE_PWRITE(NAME)                                                                            \
  RANKSCOPE_EXPORT ssize_t NAME(int fd, const void* data, size_t bytes, off64_t offset) {                 \
    static ssize_t (*known)(int, const void*, size_t, off64_t) = nullptr;                                 \
    auto* next = Next(&known, #NAME);                                                                     \
    const uint64_t begin = BeginIo(fd);                                                                   \
    const ssize_t put =                                                                                   \
        next != nullptr ? next(fd, data, bytes, offset) : syscall(SYS_pwrite64, fd, data, bytes, offset); \
    EndIo(fd, FileOperation::kWrite, begin, put);                                                         \
    return put;                                                                                           \
  }
RANKSCOPE_PWRITE(pwrite)
RANKSCOPE_PWRITE(pwrite64)

#define RANKSCOPE_SYNC(NAME)                                                                  \
  RANKSCOPE_EXPORT int NAME(int fd) {                                                         \
    static int (*known)(int) = nullptr;                                                       \
    auto* next = Next(&known, #NAME);                                                         \
    const uint64_t begin = BeginIo(fd);                                                       \
    const int result = next != nullptr ? next(fd) : static_cast<int>(syscall(SYS_fsync, fd)); \
    EndIo(fd, FileOperation::kSync, begin, 0);                                                \
    return result;                                                                            \
  }
RANKSCOPE_SYNC(fsync)
RANKSCOPE_SYNC(fdatasync)
