#pragma once
// The driver's libraries of a mounted driver root, for programs that run in this container: MPS servers and CUDA proofs
// open libcuda by its name. The root's own folders must not be searched: the C library of the driver's container or of
// the host lies there too, and our loader cannot work with another's. So the driver's files alone are linked to from
// one folder. Any thread.
#include <string>

#include "base/result.h"

namespace tranche::host {

// Below the MPS root. Links of the first lead to the root as our container has it, of the second as the host does: for
// daemons that live there (--daemon-home host), where the same holds.
inline constexpr const char* kDriverLibraries = "driver-libraries";
inline constexpr const char* kHostsDriverLibraries = "driver-libraries-of-host";

// Whether the file is the driver's: libcuda.so.1, libnvidia-ml.so.1 … Pure.
bool is_driver_library(const std::string& name);

// Makes `folder` hold exactly one link for each of the driver's libraries below `driver_root`, and returns it; "" when
// there are none, or the root is the container's own ("" or "/"), where the loader finds them by itself. The links name
// the root `named`.
Result<std::string> link_driver_libraries(const std::string& driver_root, const std::string& folder,
                                          const std::string& named);

// LD_LIBRARY_PATH with the folder before what is there already. Pure.
std::string library_path(const std::string& folder, const std::string& there);

}  // namespace tranche::host
