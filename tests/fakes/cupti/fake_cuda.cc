// A stand-in for the CUDA driver as far as its injection door goes: the first cuInit opens what CUDA_INJECTION64_PATH
// names and calls InitializeInjection on the calling thread.
#include <dlfcn.h>

#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int cuInit(unsigned) {
  static const int result = [] {
    const char* path = std::getenv("CUDA_INJECTION64_PATH");
    if (path == nullptr) return 0;
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return 304;
    auto* enter = reinterpret_cast<int (*)()>(dlsym(handle, "InitializeInjection"));
    return enter != nullptr && enter() == 1 ? 0 : 304;
  }();
  return result;
}
extern "C" __attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
