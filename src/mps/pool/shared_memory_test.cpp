#include "mps/pool/pool_dirs.h"

#include <gtest/gtest.h>

namespace tranche::mps {
namespace shared_memory_test {

// Measured on driver 580.159.04 (docs/internals/evidence/mps-handshake.md).
TEST(SharedMemory, OfARecentServerIsAnonymous) {
  EXPECT_EQ(shared_memory_in("7f839be6c000-7f839be6d000 rw-s 00000000 00:01 1036                       "
                             "/memfd:mps.shm.0.488 (deleted)\n"),
            SharedMemory::kAnonymous);
}

TEST(SharedMemory, InDevShmIsWhatClientsNeed) {
  EXPECT_EQ(shared_memory_in("7f83-7f84 rw-s 00000000 00:1b 2 /dev/shm/cuda.shm.0.52.1\n"), SharedMemory::kNamed);
  EXPECT_EQ(shared_memory_in("7f83-7f84 rw-s 0 00:01 1 /memfd:mps.shm.0.1 (deleted)\n"
                             "7f85-7f86 rw-s 0 00:1b 2 /dev/shm/cuda.shm.0.52.1"),
            SharedMemory::kNamed);
}

TEST(SharedMemory, OfAProcessWithoutAnyIsUnknown) {
  EXPECT_EQ(shared_memory_in(""), SharedMemory::kUnknown);
  EXPECT_EQ(shared_memory_in("\n \n7f83-7f84"), SharedMemory::kUnknown);
  EXPECT_EQ(shared_memory_in("5581-5582 r--p 00000000 fe:00 7 /usr/bin/nvidia-cuda-mps-server\n"
                             "7f83-7f84 rw-s 0 00:1b 2 /dev/shm/other\n"
                             "7f85-7f86 rw-p 0 00:00 0 \n"),
            SharedMemory::kUnknown);
  EXPECT_EQ(shared_memory_in("a b c d e f /memfd:mps.shm.0.1"), SharedMemory::kUnknown) << "not the whole path";
}

}  // namespace shared_memory_test
}  // namespace tranche::mps
