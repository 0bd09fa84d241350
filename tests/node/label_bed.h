#pragma once
// Feature discovery under NVIDIA's name and ours on a simulated node, with an API server's stand-in.
#include <algorithm>
#include <filesystem>

#include "node/bed.h"
#include "os/files/files.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace fs = std::filesystem;

inline constexpr const char* kFeatures = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures";
inline constexpr const char* kObject = "nvidia-features-for-n1";
inline constexpr const char* kNodes = "/api/v1/nodes";
inline constexpr const char* kLong = "1h";     // nothing happens by itself
inline constexpr const char* kShort = "50ms";  // rounds are waited for by what they say

inline std::size_t count(const std::string& text, const std::string& piece) {
  std::size_t found = 0;
  for (auto at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++found;
  return found;
}

class LabelBed : public NodeBed {
 protected:
  LabelBed() : api_(sim::ApiServer::start()) {
    fs::create_directories(in("features.d"));
    fs::create_directories(in("root/sys/bus/pci/devices"));
    write("product_name", "Example Node\n");
    write("kubeconfig", api_->kubeconfig(""));
    api_->serve_collection(kFeatures);
    api_->put(kNodes, "n1", R"({"metadata":{"labels":{"kubernetes.io/os":"linux"}}})");
  }
  std::string program_name() {
    if (!fs::exists(in("gpu-feature-discovery"))) fs::create_symlink(tranche(), in("gpu-feature-discovery"));
    return in("gpu-feature-discovery");
  }
  Environment places() const {
    return {{"DRIVER_ROOT_CTR_PATH", in("driver")},
            {"GFD_MACHINE_TYPE_FILE", in("product_name")},
            {"GFD_OUTPUT_FILE", in("features.d/gfd")},
            {"TRANCHE_SYSTEM_ROOT", in("root")},
            {"KUBECONFIG", in("kubeconfig")}};
  }
  // The file output, as gpu-feature-discovery.
  Program& start_file(Strings words, const Environment& more = {}) {
    Environment environment = places();
    environment["USE_NODE_FEATURE_API"] = "false";
    environment.insert(more.begin(), more.end());
    return start_with(std::move(words), environment);
  }
  Program& start_object(Strings words) {
    Environment environment = places();
    environment["NODE_NAME"] = "n1";
    environment["NAMESPACE"] = "gpu";
    return start_with(std::move(words), environment);
  }
  Program& start_with(Strings words, const Environment& environment) {
    words.insert(words.begin(), program_name());
    return start(std::move(words), environment);
  }
  Program& labels(Strings words, const Environment& more = {}) {
    Environment environment = places();
    environment["NODE_NAME"] = "n1";
    environment["NAMESPACE"] = "gpu";
    environment.insert(more.begin(), more.end());
    words.insert(words.begin(), {tranche(), "labels"});
    return start(std::move(words), environment);
  }
  bool until_written(const Program& program, std::size_t times = 1) {
    return until([&] { return count(program.err(), "labels.written") >= times; },
                 "labels are written " + std::to_string(times) + " times");
  }
  std::string file() const { return os::read_file(in("features.d/gfd")).value_or("(none)"); }
  static std::string value(const std::string& text, const std::string& key) {
    const auto at = text.find(key + "=");
    if (at == std::string::npos) return "(absent)";
    const auto from = at + key.size() + 1;
    return text.substr(from, text.find('\n', from) - from);
  }
  Json object(const char* collection, const std::string& name) const {
    return Json::parse(api_->object(collection, name), nullptr, false);
  }
  // Those about objects as such; the node's condition has a path of its own.
  std::size_t requests(const std::string& method, const std::string& path) const {
    const auto all = api_->requests();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const sim::ApiRequest& request) {
      return request.method == method && request.path.starts_with(path) && !request.path.ends_with("/status");
    }));
  }

  std::unique_ptr<sim::ApiServer> api_;
};

}  // namespace tranche::e2e
