#pragma once
// How the C library's allocator treats memory that a program that runs on does not use for the moment. It does not
// limit what is allocated. Any thread; nothing here can fail.
#include <malloc.h>

#include <cstddef>

namespace tranche::os {

// A block of at least this many bytes is memory of its own, which the system has back when it is freed. Otherwise the
// allocator raises this bound up to 32 MB with each page that is freed, and keeps pages in its arenas.
inline constexpr std::size_t kOwnBlock = std::size_t{128} << 10;

// At the start, before a second thread. Two arenas: of the main thread, and of all others, which rarely allocate at
// the same time; by default each thread has one, with free memory of its own.
inline void keep_little_memory() {
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(kOwnBlock));
}

// After a document of many small values was freed. The last blocks freed by a thread stay in its cache, and hold
// megabytes below them in the arena.
inline void return_free_memory() {
  ::malloc_trim(0);
}

}  // namespace tranche::os
