#pragma once
// Devices → the ResourceSlice objects (resource.k8s.io/v1) of this node's pool, as the scheduler reads them. The pool's
// name is the node's; counter sets lie in slices of their own, since Kubernetes 1.35 refuses them beside devices. And
// which writes bring the API server there (SliceLedger).
//
// Order packs: the scheduler takes slices by object name and devices in list order, first fit. Shared devices come by
// ascending index and whole ones by descending, so that shares fill the first GPU and whole claims take the last.
//
// One counter of a GPU is drawn on by its whole and its shared device: the first claim decides which of the two it is.
// The counters of a GPU that is partitioned on demand are dra/dra_devices.h's.
// Docs: docs/internals/dra.md. Pure. One thread.
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dra/dra_devices.h"
#include "kube/object.h"

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

struct StoredSlice {
  std::string name;
  std::string version;  // metadata.resourceVersion
  std::string driver;
  std::string node;  // "" = of no single node
  std::int64_t generation = 0;
  std::string spec;  // as Slice::spec: without what the server adds
  friend bool operator==(const StoredSlice&, const StoredSlice&) = default;
};
StoredSlice read_slice(const nlohmann::json& object);

struct SliceWrite {
  enum class What { kCreate, kUpdate, kDelete };
  What what = What::kCreate;
  std::string name;
  std::string version;        // kUpdate: of what is replaced
  std::string wanted{};       // Slice::spec
  std::int64_t generation{};  // with which it is sent
  friend bool operator==(const SliceWrite&, const SliceWrite&) = default;
};

// The object to send, owned by the Node: it goes with the node.
std::string body_of(const SliceWrite& write, const std::string& node, const std::string& node_uid);

// What the API server has of this node's slices and what is wanted → the next write. The same question again after
// every answer and every event leads there, from any state, whatever other programs delete or change meanwhile.
//
// Generations: the scheduler uses the slices of the newest generation, and only once it sees as many as they announce.
// One changed slice is updated in its generation; several changes at once are a new generation, written to all slices.
// Obsolete slices go first, then updates, then creates. Not here: waiting, retries, requests.
class SliceLedger {
 public:
  void replace(std::vector<StoredSlice> all);               // by a whole list
  void apply(kube::Change change, const StoredSlice& one);  // an event; one older than what is known is ignored
  void want(std::vector<Slice> wanted);                     // none: everything goes

  std::optional<SliceWrite> next() const;  // nothing: the server has what is wanted
  // The server's answer to a write; kDelete has none. The spec that the server stores for a sent one counts as that
  // one.
  void written(const SliceWrite& write, const std::optional<StoredSlice>& stored);

  const std::map<std::string, StoredSlice>& stored() const { return stored_; }
  std::int64_t generation() const;  // the newest; 0 = no slice exists

 private:
  bool is_as_wanted(const StoredSlice& stored, const Slice& wanted) const;
  bool needs_new_generation(std::int64_t newest) const;

  std::map<std::string, StoredSlice> stored_;  // by name
  std::vector<Slice> wanted_;
  struct Made {
    std::string wanted, stored;
  };
  std::map<std::string, Made> made_;  // by name: what the server made of what was sent last
};

}  // namespace tranche::dra
