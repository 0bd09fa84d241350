#include "dra/slice_diff.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::dra {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostGeneration = std::int64_t{1} << 60;  // far from where the next one would overflow

std::string taint_key(const Json& device, const Json& taint) {
  return text_at(device, "name") + "\n" + text_at(taint, "key") + "\n" + text_at(taint, "value") + "\n" +
         text_at(taint, "effect");
}

// `act` for every taint of every device; a spec of a different shape has none.
template <class Act>
void for_each_taint(Json& spec, const Act& act) {
  const auto devices = spec.find("devices");
  if (devices == spec.end() || !devices->is_array()) return;
  for (Json& device : *devices) {
    if (!device.is_object()) continue;
    const auto taints = device.find("taints");
    if (taints == device.end() || !taints->is_array()) continue;
    for (Json& taint : *taints)
      if (taint.is_object()) act(device, taint);
  }
}

bool is_older(const std::string& version, const std::string& known) {
  const auto a = parse_unsigned(version);
  const auto b = parse_unsigned(known);
  return a && b && *a < *b;
}

std::string spec_to_send(const std::string& wanted, std::int64_t generation, const StoredSlice* before) {
  Json spec = json_of(wanted);
  if (!spec.is_object()) return wanted;
  spec["pool"]["generation"] = generation;
  if (before != nullptr)
    for_each_taint(spec, [before](const Json& device, Json& taint) {
      const auto time = before->taint_times.find(taint_key(device, taint));
      if (time != before->taint_times.end()) taint["timeAdded"] = time->second;
    });
  return json_text(spec);
}

}  // namespace

Result<StoredSlice> read_slice(const Json& object) {
  const Json& metadata = map_at(object, "metadata");
  StoredSlice slice;
  slice.name = text_at(metadata, "name");
  slice.version = text_at(metadata, "resourceVersion");
  if (slice.name.empty() || slice.version.empty())
    return fail(tranche::Kind::kInvalid, "the API server sent a ResourceSlice without a name or a resourceVersion");
  Json spec = map_at(object, "spec");
  slice.driver = text_at(spec, "driver");
  slice.node = text_at(spec, "nodeName");
  if (const auto pool = spec.find("pool"); pool != spec.end() && pool->is_object()) {
    slice.generation = std::clamp<std::int64_t>(number_at(*pool, "generation").value_or(0), 0, kMostGeneration);
    pool->erase("generation");
  }
  for_each_taint(spec, [&slice](const Json& device, Json& taint) {
    const std::string time = text_at(taint, "timeAdded");
    if (!time.empty()) slice.taint_times[taint_key(device, taint)] = time;
    taint.erase("timeAdded");
  });
  slice.spec = json_text(spec);
  return slice;
}

std::string body_of(const SliceWrite& write, const std::string& node, const std::string& node_uid) {
  Json metadata{
      {"name", write.name},
      {"ownerReferences",
       Json::array(
           {{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}, {"uid", node_uid}, {"controller", true}}})}};
  if (write.what == SliceWrite::What::kUpdate) metadata["resourceVersion"] = write.version;
  return json_text(Json{{"apiVersion", "resource.k8s.io/v1"},
                        {"kind", "ResourceSlice"},
                        {"metadata", std::move(metadata)},
                        {"spec", json_of(write.spec)}});
}

void SliceLedger::replace(std::vector<StoredSlice> all) {
  stored_.clear();
  for (StoredSlice& slice : all) {
    std::string name = slice.name;
    stored_.insert_or_assign(std::move(name), std::move(slice));
  }
}

void SliceLedger::apply(kube::Change change, const StoredSlice& one) {
  const auto known = stored_.find(one.name);
  if (known != stored_.end() && is_older(one.version, known->second.version)) return;
  if (change == kube::Change::kDeleted)
    stored_.erase(one.name);
  else
    stored_.insert_or_assign(one.name, one);
}

void SliceLedger::want(std::vector<Slice> wanted) {
  wanted_ = std::move(wanted);
  std::erase_if(made_, [this](const auto& made) {
    return std::ranges::find(wanted_, made.first, &Slice::name) == wanted_.end();
  });
}

bool SliceLedger::is_as_wanted(const StoredSlice& stored, const Slice& wanted) const {
  if (stored.spec == wanted.spec) return true;
  const auto made = made_.find(wanted.name);
  return made != made_.end() && made->second.wanted == wanted.spec && made->second.stored == stored.spec;
}

std::int64_t SliceLedger::generation() const {
  std::int64_t newest = 0;
  for (const auto& [name, slice] : stored_) newest = std::max(newest, slice.generation);
  return newest;
}

// Whether what has to change cannot be one step within the newest generation, nor the rest of the way into it.
bool SliceLedger::needs_new_generation(std::int64_t newest) const {
  std::size_t changed = 0;
  std::size_t behind = 0;
  std::size_t there = 0;
  for (const Slice& wanted : wanted_) {
    const auto stored = stored_.find(wanted.name);
    if (stored == stored_.end()) continue;
    ++there;
    if (stored->second.generation != newest)
      ++behind;
    else if (!is_as_wanted(stored->second, wanted))
      ++changed;
  }
  const bool others = behind > 0 || there < wanted_.size() || there < stored_.size();
  return changed > 1 || (changed == 1 && others);
}

std::optional<SliceWrite> SliceLedger::next() const {
  for (const auto& [name, slice] : stored_)
    if (std::ranges::find(wanted_, name, &Slice::name) == wanted_.end())
      return SliceWrite{SliceWrite::What::kDelete, name, slice.version};
  const std::int64_t newest = generation();
  const std::int64_t target = std::max<std::int64_t>(newest + (needs_new_generation(newest) ? 1 : 0), 1);
  const Slice* missing = nullptr;
  for (const Slice& wanted : wanted_) {
    const auto stored = stored_.find(wanted.name);
    if (stored == stored_.end()) {
      if (missing == nullptr) missing = &wanted;
    } else if (stored->second.generation != target || !is_as_wanted(stored->second, wanted)) {
      return SliceWrite{SliceWrite::What::kUpdate, wanted.name, stored->second.version, wanted.spec,
                        spec_to_send(wanted.spec, target, &stored->second)};
    }
  }
  if (missing == nullptr) return std::nullopt;
  return SliceWrite{SliceWrite::What::kCreate, missing->name, "", missing->spec,
                    spec_to_send(missing->spec, target, nullptr)};
}

void SliceLedger::written(const SliceWrite& write, const std::optional<StoredSlice>& stored) {
  if (!stored) {
    stored_.erase(write.name);
    return;
  }
  made_[write.name] = {write.wanted, stored->spec};
  apply(kube::Change::kModified, *stored);
}

}  // namespace tranche::dra
