#pragma once
// The state of publishing ResourceSlices (slice_publisher.h), for the status document.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tranche::agent {

struct SliceReport {
  std::string state = "off";  // "off", "waiting" (for the API server), "publishing", "published", "removing", "failing"
  std::string problem;        // why it waits or fails
  std::string driver;         // "gpu.tranche.io"
  std::size_t devices = 0;    // that should be published
  std::size_t slices = 0;     // that the API server has
  std::int64_t generation = 0;
  std::uint64_t writes = 0;           // creates, updates and deletes that succeeded
  std::vector<std::string> notes;     // devices that are left out, and why
  std::vector<std::string> withheld;  // what is not published because the API server would drop a part of it
  friend bool operator==(const SliceReport&, const SliceReport&) = default;
};

}  // namespace tranche::agent
