/* Stands in for librankscope.so in hook_test.py: each call becomes a line of the file that HOOK_LOG names. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int rankscope_hook_v1(int operation, const char* name, unsigned long long value) {
  const char* path = getenv("HOOK_LOG");
  FILE* log = path == NULL ? NULL : fopen(path, "a");
  if (log == NULL) return 1;
  fprintf(log, "%d %s %llu\n", operation, name == NULL ? "-" : name, value);
  fclose(log);
  return 0;
}
