#pragma once
// Devices → the ResourceSlice objects (resource.k8s.io/v1) of this node's pool, as the scheduler reads them. The pool's
// name is the node's; counter sets lie in slices of their own, since Kubernetes 1.35 refuses them beside devices. Which
// writes bring the API server there is slice_diff.h.
//
// Order packs: the scheduler takes slices by object name and devices in list order, first fit. Shared devices come by
// ascending index and whole ones by descending, so that shares fill the first GPU and whole claims take the last.
//
// One counter of a GPU is drawn on by its whole and its shared device: the first claim decides which of the two it is.
// The counters of a GPU that is partitioned on demand are dra/partition.h's.
// Docs: docs/internals/dra.md. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dra/dra_devices.h"

namespace tranche::dra {

inline constexpr const char* kSlicesPath = "/apis/resource.k8s.io/v1/resourceslices";

// Bounds of the API (staging/src/k8s.io/api/resource/v1/types.go): of a slice whose devices draw on counters or have
// taints, and of counter sets in a slice.
inline constexpr std::size_t kMostDevicesInSlice = 64;
inline constexpr std::size_t kMostCounterSetsInSlice = 8;
inline constexpr std::size_t kLongestAttribute = 64;

// What an API server keeps of a slice: it drops the fields of a feature gate that is off and returns no error.
struct Features {
  bool shares = true;    // allowMultipleAllocations, requestPolicy: DRAConsumableCapacity
  bool counters = true;  // sharedCounters, consumesCounters: DRAPartitionableDevices
  bool taints = true;    // DRADeviceTaints
  friend bool operator==(const Features&, const Features&) = default;
};

struct Pool {
  std::string driver;  // "gpu.tranche.io"
  std::string node;
  Features features{};
  friend bool operator==(const Pool&, const Pool&) = default;
};

struct Slice {
  std::string name;  // of the object: the same for the same place in the pool, so that a create can be repeated
  std::string spec;  // JSON with sorted keys, without pool.generation
  friend bool operator==(const Slice&, const Slice&) = default;
};

struct Slices {
  std::vector<Slice> list;         // at least one: an empty slice means that the node has no device
  std::vector<std::string> notes;  // what the server's features keep from being published
  friend bool operator==(const Slices&, const Slices&) = default;
};

Slices slices_of(const std::vector<Device>& devices, const Pool& pool);

// "143771Mi", "8Gi": as Kubernetes itself writes the quantity, rounded down to MiB.
std::string quantity_of(Bytes bytes);

// The object to create in a dry run, which shows what the server keeps; and what its answer shows.
std::string probe_body(const Pool& pool);
Features features_of(const nlohmann::json& stored);

}  // namespace tranche::dra
