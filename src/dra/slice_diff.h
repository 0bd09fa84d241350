#pragma once
// What the API server has of this node's ResourceSlices and what is wanted → the next write. The same question again
// after every answer and every event leads there, from any state, whatever other programs delete or change meanwhile.
//
// Generations: the scheduler uses the slices of the newest generation, and only once it sees as many as they announce.
// One changed slice is updated in its generation; several changes at once are a new generation, written to all slices.
// Obsolete slices go first, then updates, then creates. Not here: waiting, retries, requests. Pure. One thread.
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dra/slices.h"
#include "kube/object.h"

namespace tranche::dra {

struct StoredSlice {
  std::string name;
  std::string version;  // metadata.resourceVersion
  std::string driver;
  std::string node;  // "" = of no single node
  std::int64_t generation = 0;
  std::string spec;                                // as Slice::spec: without what the server adds
  std::map<std::string, std::string> taint_times;  // by device and taint: timeAdded
  friend bool operator==(const StoredSlice&, const StoredSlice&) = default;
};
// kInvalid: without a name or a version.
Result<StoredSlice> read_slice(const nlohmann::json& object);

struct SliceWrite {
  enum class What { kCreate, kUpdate, kDelete };
  What what = What::kCreate;
  std::string name;
  std::string version;   // kUpdate: of what is replaced
  std::string wanted{};  // Slice::spec
  std::string spec{};    // as it is sent: with its generation, and the times of taints that it keeps
  friend bool operator==(const SliceWrite&, const SliceWrite&) = default;
};

// The object to send, owned by the Node: it goes with the node.
std::string body_of(const SliceWrite& write, const std::string& node, const std::string& node_uid);

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
