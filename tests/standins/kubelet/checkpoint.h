#pragma once
// The device manager's checkpoint as a file: which container holds which devices, with the plugin's recorded response,
// and which resources were registered. The JSON has kubelet's structure (Data.PodDeviceEntries, Data.RegisteredDevices,
// Checksum), so tools that read kubelet's file can read this one; only the checksum is computed differently.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "standins/kubelet/device_ledger.h"

namespace tranche::sim {

struct Checkpoint {
  std::vector<Holding> holdings;
  std::map<std::string, std::vector<std::string>> registered;  // resource → healthy ids when it was written
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

std::string to_json(const Checkpoint& checkpoint);
Result<Checkpoint> parse_checkpoint(std::string_view text);  // a wrong checksum is an error, as in kubelet

// Written beside the file and renamed over it.
Status write_file_atomically(const std::string& path, std::string_view content);
Result<std::string> read_whole_file(const std::string& path);  // kNotFound if there is none

}  // namespace tranche::sim
