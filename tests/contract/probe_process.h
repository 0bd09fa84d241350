#pragma once
// The probe as a process of its own on a simulated node, for contract tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "probe/main.h"
#include "standins/mps/mps_world.h"
#include "standins/node/test_node.h"

namespace tranche::probe {

using Json = nlohmann::json;

struct Ended {
  int status = -1;
  std::string out;
  std::string err;
  Json json() const { return Json::parse(out, nullptr, false); }
};

inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Probe : public testing::Test {
 protected:
  // CUDA starts once per process: every probe gets one of its own.
  Ended run(const ProbeCliOptions& options, const std::map<std::string, std::string>& env = {}) {
    return run([&](std::FILE* out, std::FILE* err) { return probe_main(options, out, err); }, env);
  }
  pid_t start(const ProbeCliOptions& options, const std::map<std::string, std::string>& env, const std::string& out,
              const std::string& err) {
    return start([&](std::FILE* to, std::FILE* errors) { return probe_main(options, to, errors); }, env, out, err);
  }

  using Main = std::function<int(std::FILE* out, std::FILE* err)>;  // of another program that uses CUDA
  Ended run(const Main& main, const std::map<std::string, std::string>& env) {
    const std::string out = world_.dir() + "/probe.out", err = world_.dir() + "/probe.err";
    const pid_t child = start(main, env, out, err);
    const int status = sim::wait_status(child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out), text_of(err)};
  }
  pid_t start(const Main& main, const std::map<std::string, std::string>& env, const std::string& out,
              const std::string& err) {
    return sim::in_child([&] {
      for (const auto& [name, value] : world_.env()) ::setenv(name.c_str(), value.c_str(), 1);
      for (const auto& [name, value] : env) ::setenv(name.c_str(), value.c_str(), 1);
      return main(std::fopen(out.c_str(), "we"), std::fopen(err.c_str(), "we"));
    });
  }
  static ProbeCliOptions quick() {
    ProbeCliOptions options;
    options.json = true;
    options.probe.run_for = std::chrono::milliseconds(20);
    return options;
  }

  sim::MpsWorld world_{"gpus: {profile: H200, count: 2}\ntopology: vm\n"};
};

}  // namespace tranche::probe
