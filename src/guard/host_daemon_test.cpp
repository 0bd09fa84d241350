#include "guard/judge.h"

#include <gtest/gtest.h>

namespace tranche::guard {
namespace host_daemon_test {

TEST(HostDaemon, HasTheNameOfAProgramOfNvidias) {
  for (const char* program : {"/usr/bin/dcgm-exporter", "/usr/bin/nv-hostengine", "nvidia-cuda-mps-server"})
    EXPECT_TRUE(has_host_daemons_name(program)) << program;
  for (const char* program : {"/usr/bin/python3", "/dcgm/python3", ""})
    EXPECT_FALSE(has_host_daemons_name(program)) << program;
}

}  // namespace host_daemon_test
}  // namespace tranche::guard
