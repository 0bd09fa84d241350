#include "mps/daemon/binary.h"

#include <unistd.h>

#include "base/text.h"
#include "mps/control/questions.h"

namespace tranche::mps {
namespace {

constexpr const char* kName = "nvidia-cuda-mps-control";
constexpr Duration kDeadline = std::chrono::seconds(10);

std::string without_slash(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path;
}

// Two questions; the answer to the first starts the second.
class Describing final : public Question {
 public:
  Describing(os::Loop& loop, std::string path, ProcessEnvironment env, std::function<void(Result<ControlBinary>)> done)
      : loop_(loop), done_(std::move(done)) {
    binary_.path = std::move(path);
    binary_.env = std::move(env);
    run("-h", [this](const std::string& text) {
      binary_.offers_multiuser = offers_multiuser(text);
      run("-v", [this](const std::string& version) {
        binary_.version = parse_version(version).value_or(0);
        const auto callback = std::move(done_);
        callback(binary_);
      });
    });
  }

 private:
  void run(const char* option, std::function<void(const std::string&)> then) {
    question_ = ask(loop_, {{binary_.path, option}, binary_.env}, "", kDeadline,
                    [this, then = std::move(then)](const Result<std::string>& text) {
                      const auto next = then;  // outlives the question that holds it
                      if (text) return next(*text);
                      const auto callback = std::move(done_);
                      callback(std::unexpected(within(text.error(), "cannot learn about the MPS control program")));
                    });
  }

  os::Loop& loop_;
  std::function<void(Result<ControlBinary>)> done_;
  ControlBinary binary_;
  std::unique_ptr<Question> question_;
};

}  // namespace

std::vector<std::string> candidates(const BinarySearch& search) {
  if (!search.given.empty()) return {search.given};
  std::vector<std::string> paths;
  const std::string root = without_slash(search.driver_root);
  for (const char* dir : {"/usr/bin/", "/usr/local/bin/", "/usr/local/nvidia/bin/"})
    paths.push_back(root + dir + kName);
  for (const auto dir : split(search.path, ':')) {
    if (dir.starts_with('/')) paths.push_back(without_slash(std::string(dir)) + '/' + kName);
  }
  return paths;
}

Result<std::string> find_control_binary(const BinarySearch& search) {
  const auto paths = candidates(search);
  for (const auto& path : paths) {
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return fail(Kind::kNotFound,
              std::string("there is no ") + kName +
                  "; it comes with the driver (in a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility), or name it "
                  "with --mps-control",
              "looked at " + join(paths, ", "));
}

ProcessEnvironment handed_on(const ProcessEnvironment& ours) {
  ProcessEnvironment env;
  for (const auto& [name, value] : ours) {
    if (name == "LD_LIBRARY_PATH" || name == "PATH" || name.starts_with("TRANCHE_")) env.emplace(name, value);
  }
  return env;
}

std::unique_ptr<Question> describe_control_binary(os::Loop& loop, std::string path, ProcessEnvironment env,
                                                  std::function<void(Result<ControlBinary>)> done) {
  return std::make_unique<Describing>(loop, std::move(path), std::move(env), std::move(done));
}

}  // namespace tranche::mps
