// The node from within: the status sockets of both programs, and the driver.
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "config/live/driver_settings.h"
#include "doctor/verify/checks.h"
#include "doctor/verify/live/looks.h"
#include "gpu/driver/nvml.h"
#include "os/socket/status_socket.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::json;

constexpr Duration kStatusAnswer = std::chrono::seconds(5);

Json document(const std::string& socket) {
  const auto answer = host::ask(socket, "status", kStatusAnswer);
  Json json = answer ? json_of(*answer) : Json();
  return json.is_object() ? json : Json();
}

}  // namespace

Status look_here(const VerifyOptions& options, const config::Config& config, const VerifyPlaces& places,
                 const Tell& tell) {
  verify::Checks checks;
  const Json node = document(options.run_dir + "/node.sock");
  const Json mps = document(places.mps_root_here + "/mps.sock");
  if (!node.is_object()) {
    const std::string socket = options.run_dir + "/node.sock";
    tell(verify::failed("agent.ready", "", "the node agent does not answer on " + socket,
                        "start `tranche node`, or name its directory with --run-dir"));
  } else {
    verify::check_agent(node, mps, checks);
  }
  for (const auto& check : std::exchange(checks, {})) tell(check);

  const auto nvml = host::Nvml::open(driver_settings(config.flags, places.driver_root));
  const auto hardware = nvml ? (*nvml)->scan() : std::unexpected(nvml.error());
  if (!hardware) {
    tell(verify::skipped("hardware.gpu", "", "the driver cannot be asked from here: " + to_string(hardware.error()),
                         "name where the driver's files are with --driver-root-ctr-path"));
  } else if (node.is_object()) {
    verify::check_hardware(*hardware, node, checks);
  }
  for (const auto& check : checks) tell(check);
  return {};
}

}  // namespace tranche::agent
