#include "mig/live/gpu_reset.h"

#include <csignal>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::mig {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr Duration kPatience = 60s;

std::string first_of(const std::string& root, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::error_code failed;
    const std::string path = os::under_root(root, name);
    if (fs::exists(path, failed)) return path;
  }
  return {};
}

// The words that run it, of a driver root that is mounted at a different place with that root's own loader and
// libraries. kNotFound: the driver root has no nvidia-smi.
Result<std::vector<std::string>> reset_command(const std::string& driver_root, const std::string& gpu_uuid) {
  const std::string root = driver_root.empty() ? "/" : driver_root;
  const std::string program = first_of(root, {"/usr/bin/nvidia-smi", "/bin/nvidia-smi", "/usr/local/bin/nvidia-smi",
                                              "/usr/local/nvidia/bin/nvidia-smi", "/opt/bin/nvidia-smi"});
  if (program.empty()) return fail(Kind::kNotFound, "there is no nvidia-smi in the driver root", root);
  std::vector<std::string> words{program, "--gpu-reset", "-i", gpu_uuid};
  if (root == "/") return words;
  const std::string loader = first_of(root, {"/lib64/ld-linux-x86-64.so.2", "/usr/lib64/ld-linux-x86-64.so.2",
                                             "/lib/ld-linux-aarch64.so.1", "/usr/lib/ld-linux-aarch64.so.1"});
  if (loader.empty()) return words;
  std::vector<std::string> libraries;
  for (const char* folder :
       {"/usr/lib64", "/lib64", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
        "/lib/aarch64-linux-gnu", "/usr/lib", "/usr/local/nvidia/lib64"})
    libraries.push_back(root + folder);
  words.insert(words.begin(), {loader, "--library-path", join(libraries, ":")});
  return words;
}

}  // namespace

GpuReset::GpuReset(os::Loop& loop, std::map<std::string, std::string> environment, std::function<void(Status)> done)
    : loop_(loop), environment_(std::move(environment)), done_(std::move(done)) {}

Status GpuReset::start(const std::string& driver_root, const std::string& gpu_uuid) {
  os::Command command{.env = environment_, .kill_on_drop = true};
  TRY(command.argv, reset_command(driver_root, gpu_uuid));
  TRY(process_, os::Process::start(
                    loop_, command,
                    [this](const std::string& line) {
                      if (!trimmed(line).empty()) last_ = line;
                    },
                    [this](os::ExitNote note) {
                      patience_.stop();
                      // A callback of the process must not drop it: the answer comes in a callback of its own.
                      Status status;
                      if (note.signalled || note.code != 0)
                        status = fail(Kind::kConflict, "nvidia-smi --gpu-reset " + os::to_string(note) +
                                                           (last_.empty() ? "" : ": " + last_));
                      loop_.post([done = done_, status = std::move(status)] { done(status); });
                    }));
  patience_.start(kPatience, [this] {
    if (process_) (void)process_->signal(SIGKILL);
  });
  return {};
}

}  // namespace tranche::mig
