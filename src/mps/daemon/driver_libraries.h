#pragma once
// Links the driver's libraries of a mounted driver root into one folder, for programs that run in this container: MPS
// servers and CUDA proofs open libcuda by its name. The root's own folders must not be searched, because they also hold
// the C library of the driver's container or of the host, which our loader cannot use. Any thread.
#include <string>

#include "base/result.h"

namespace tranche::host {

// Below the MPS root. Links in the first folder lead to the root as our container sees it; links in the second as the
// host sees it, for daemons that run there (--daemon-home host).
inline constexpr const char* kDriverLibraries = "driver-libraries";
inline constexpr const char* kHostsDriverLibraries = "driver-libraries-of-host";

// Whether the file belongs to the driver: libcuda.so.1, libnvidia-ml.so.1 … Pure.
bool is_driver_library(const std::string& name);

// Makes `folder` hold exactly one link for each driver library below `driver_root`, and returns the folder. Returns ""
// if there are none, or if the root is the container's own ("" or "/"), where the loader finds them without help. The
// links name the root `named`.
Result<std::string> link_driver_libraries(const std::string& driver_root, const std::string& folder,
                                          const std::string& named);

// LD_LIBRARY_PATH with the folder before its present value. Pure.
std::string library_path(const std::string& folder, const std::string& there);

}  // namespace tranche::host
