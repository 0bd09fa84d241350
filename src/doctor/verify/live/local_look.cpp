// The node from within: the status sockets of both programs, and the driver.
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "config/live/driver_settings.h"
#include "doctor/verify/check_groups.h"
#include "doctor/verify/live/looks.h"
#include "dra/claim_spec.h"
#include "gpu/driver/driver.h"
#include "os/files/files.h"
#include "os/socket/status_socket.h"

namespace tranche::verify {
namespace {

using Json = nlohmann::json;

constexpr Duration kStatusAnswer = std::chrono::seconds(5);
constexpr std::size_t kLargestSpec = 1 << 20;

Json document(const std::string& socket) {
  const auto answer = os::ask(socket, "status", kStatusAnswer);
  Json json = answer ? json_of(*answer) : Json();
  return json.is_object() ? json : Json();
}

// By file name; those that cannot be read are not there.
std::map<std::string, std::string> claim_specs(const std::string& cdi_root) {
  std::map<std::string, std::string> files;
  for (const auto& name : os::names_in(cdi_root)) {
    if (!dra::is_claim_spec_file(name)) continue;
    if (auto text = os::read_file(cdi_root + "/" + name, kLargestSpec)) files[name] = *std::move(text);
  }
  return files;
}

}  // namespace

void look_here(const VerifyOptions& options, const config::Config& config, const VerifyPlaces& places,
               Findings& checks) {
  const std::string socket = options.run_dir + "/node.sock";
  const Json node = document(socket);
  const Json mps = document(places.mps_root_here + "/mps.sock");
  if (!node.is_object()) {
    checks.fail("agent.ready", "", "the node agent does not answer on " + socket,
                "start `tranche node`, or name its directory with --run-dir");
  } else {
    check_agent(node, mps, checks);
  }
  check_claim_specs(node, claim_specs(options.cdi_root), checks);

  const auto nvml = gpu::nvml::Driver::open(config::driver_settings(config.flags, places.driver_root));
  const auto hardware = nvml ? (*nvml)->scan() : std::unexpected(nvml.error());
  if (!hardware) {
    checks.skip("hardware.gpu", "", "the driver cannot be asked from here: " + to_string(hardware.error()),
                "name where the driver's files are with --driver-root-ctr-path");
  } else if (node.is_object()) {
    check_hardware(*hardware, node, checks);
  }
}

}  // namespace tranche::verify
