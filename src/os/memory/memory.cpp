#include "os/memory/memory.h"

#include <malloc.h>

namespace tranche::os {

void keep_little_memory() {
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(kOwnBlock));
}

void return_free_memory() {
  ::malloc_trim(0);
}

}  // namespace tranche::os
