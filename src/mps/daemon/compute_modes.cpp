#include "mps/daemon/compute_modes.h"

#include <nlohmann/json.hpp>

#include "base/enum_names.h"
#include "base/json_text.h"
#include "base/text.h"
#include "os/files/files.h"

namespace tranche::mps {
namespace {

constexpr const char* kModesFile = "compute-mode.json";
using gpu::ComputeMode;

}  // namespace

Result<EarlierModes> parse_earlier_modes(std::string_view json) {
  const auto refuse = [](std::string what) { return fail(Kind::kInvalid, std::move(what), kModesFile); };
  const auto document = json_of(json);
  if (!document.is_object()) return refuse("it is not a JSON object of GPU UUIDs and compute modes");
  EarlierModes earlier;
  for (const auto& [uuid, value] : document.items()) {
    const auto mode = enum_of<ComputeMode>(value.is_string() ? value.get<std::string>() : "");
    if (uuid.empty() || !mode)
      return refuse("the entry " + in_quotes(uuid) + " has no compute mode: " + json_text(value));
    earlier[uuid] = *mode;
  }
  return earlier;
}

std::string render_earlier_modes(const EarlierModes& earlier) {
  auto document = nlohmann::ordered_json::object();
  for (const auto& [uuid, mode] : earlier) document[uuid] = std::string(to_string(mode));
  return json_text(document, 2) + "\n";
}

ComputeModes::ComputeModes(os::Dir root, Setter set) : root_(std::move(root)), set_(std::move(set)) {
  auto file = os::read_kept(root_, kModesFile);
  lost_ = std::move(file.lost);
  if (!file.text) return;
  auto parsed = parse_earlier_modes(*file.text);
  if (parsed && lost_.empty())
    earlier_ = *std::move(parsed);
  else
    lost_ = os::put_aside(root_, kModesFile, lost_.empty() ? parsed.error().what : "it ends within a line");
}

Status ComputeModes::save(const EarlierModes& earlier) {
  TRY_STATUS(earlier.empty() ? root_.remove(kModesFile)
                             : os::write_kept(root_, kModesFile, render_earlier_modes(earlier), 0644, os::Sync::kYes));
  earlier_ = earlier;
  return {};
}

void ComputeModes::set(const std::string& uuid, ComputeMode mode, Done done) {
  set_(uuid, mode, [this, uuid, mode, done = std::move(done)](const Status& status) {
    if (status) present_[uuid] = mode;
    done(status);
  });
}

void ComputeModes::make_exclusive(const std::string& uuid, Done done) {
  const auto found = present_.find(uuid);
  const auto present = found == present_.end() ? ComputeMode::kDefault : found->second;
  if (present == ComputeMode::kExclusiveProcess) return done({});
  // Written first: after a kill between the two steps, a mode is restored that never changed, which is harmless.
  if (!earlier_.contains(uuid)) {
    EarlierModes with = earlier_;
    with[uuid] = present;
    if (auto saved = save(with); !saved) {
      Error error = within(saved.error(), "the compute mode of " + uuid +
                                              " is not changed, because the mode it had cannot be written down; make "
                                              "the MPS root writable and free space on its file system");
      error.kind = Kind::kUnavailable;  // not a missing permission on the GPU
      return done(std::unexpected(std::move(error)));
    }
  }
  set(uuid, ComputeMode::kExclusiveProcess, [uuid, done = std::move(done)](const Status& status) {
    if (status) return done({});
    done(
        std::unexpected(within(status.error(), "the compute mode of " + uuid + " cannot be set to EXCLUSIVE_PROCESS")));
  });
}

void ComputeModes::give_back(const std::string& uuid, Done done) {
  const auto found = earlier_.find(uuid);
  if (found == earlier_.end()) return done({});
  set(uuid, found->second, [this, uuid, done = std::move(done)](const Status& status) {
    if (!status) {
      return done(std::unexpected(within(status.error(), "the compute mode of " + uuid + " cannot be given back")));
    }
    EarlierModes without = earlier_;
    without.erase(uuid);
    done(save(without));
  });
}

}  // namespace tranche::mps
