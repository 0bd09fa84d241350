#include "kube/client/find_access.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "os/clock/clock.h"
#include "os/files/files.h"
#include "os/process/process.h"

namespace tranche::kube {
namespace {

using namespace std::chrono_literals;

constexpr Duration kBeforeItExpires = 30s;
constexpr Duration kUnattended = 60s;  // for a program that cannot ask a person

bool can_read(const std::string& path) {
  return ::access(path.c_str(), R_OK) == 0;
}

Result<Access> access_of_files(const std::vector<std::string>& paths, const std::string& context,
                               std::vector<Problem>& problems) {
  std::vector<KubeconfigFile> files;
  for (const auto& path : paths) {
    auto text = os::read_file(path);
    if (!text && text.error().kind == Kind::kNotFound && paths.size() > 1) continue;  // as kubectl does with a list
    if (!text) return std::unexpected(within(std::move(text).error(), "the kubeconfig cannot be read (--kubeconfig)"));
    files.push_back({*std::move(text), path.find('/') == std::string::npos ? "./" + path : path});
  }
  if (files.empty()) return fail(Kind::kNotFound, "none of the kubeconfig files exists", join(paths, ":"));
  auto parsed = parse_kubeconfig(files, context);
  problems.insert(problems.end(), parsed.problems.begin(), parsed.problems.end());
  if (parsed.access) return *std::move(parsed.access);
  return fail(Kind::kInvalid, to_string(*std::ranges::find(parsed.problems, Severity::kError, &Problem::severity)));
}

// The standard error is the person's, except `again`: then `tranche top` may have the terminal.
Result<std::string> run_program(const Access& access, const CredentialProgram& program,
                                const config::Environment& environment, bool interactive, bool again) {
  os::Command command{.argv = program.argv, .env = {environment.begin(), environment.end()}};
  command.argv[0] = os::program_in_path(program.argv[0], config::variable(environment, "PATH"));
  if (command.argv[0].empty())
    return fail(Kind::kNotFound,
                "the program is not in PATH" + (program.install_hint.empty() ? "" : ". " + program.install_hint));
  for (const auto& [name, value] : program.env) command.env[name] = value;
  command.env["KUBERNETES_EXEC_INFO"] = credential_request(access, program, interactive);
  const os::Fd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nowhere) return fail_errno("cannot start a process", "");
  command.errors = again ? nowhere.get() : STDERR_FILENO;
  command.foreground = interactive;
  if (interactive && program.input != CredentialProgram::Input::kNever) command.input = STDIN_FILENO;
  TRY(const auto ended, os::run_to_end(command, interactive ? Duration::max() : kUnattended));
  if (ended.note.signalled || ended.note.code != 0) return fail(Kind::kInvalid, "it " + os::to_string(ended.note));
  return ended.output;
}

Status add_credentials(Access& access, const CredentialProgram& program, const config::Environment& environment,
                       bool again) {
  const bool interactive = !again && ::isatty(STDIN_FILENO) != 0;
  if (program.input == CredentialProgram::Input::kAlways && !interactive)
    return fail(Kind::kInvalid, "it asks a person (interactiveMode: Always), and there is no terminal");
  if (program.cluster_info && access.authorities.pem.empty() && !access.authorities.file.empty()) {
    TRY(access.authorities.pem, os::read_file(access.authorities.file));
  }
  TRY(const auto printed, run_program(access, program, environment, interactive, again));
  return read_credential(printed, program, access);
}

}  // namespace

Result<Access> find_access(const std::string& kubeconfig, const config::Environment& environment,
                           std::vector<Problem>& problems) {
  if (kubeconfig.empty()) return access_in_pod(environment, can_read);
  TRY(auto access, access_of_files({kubeconfig}, "", problems));
  if (access.program)
    return fail(Kind::kInvalid,
                "the user of the kubeconfig has a credential program (exec), which is run only for commands of a "
                "person; write token, tokenFile, or client-certificate and client-key",
                kubeconfig);
  return access;
}

Result<Access> PersonsAccess::find() {
  std::string files = choice_.files.empty() ? config::variable(environment_, "KUBECONFIG") : choice_.files;
  if (files.empty()) {
    const auto usual = config::variable(environment_, "HOME") + "/.kube/config";
    if (can_read(usual)) files = usual;
  }
  if (files.empty() && config::variable(environment_, "KUBERNETES_SERVICE_HOST").empty())
    return fail(Kind::kNotFound,
                "not in a pod, and no kubeconfig: name one with --kubeconfig or $KUBECONFIG, or write ~/.kube/config");
  if (files.empty()) return access_in_pod(environment_, can_read);
  std::vector<std::string> paths;
  for (const auto path : split(files, ':'))
    if (!path.empty()) paths.emplace_back(path);
  return access_of_files(paths, choice_.context, problems_);
}

Result<Access> PersonsAccess::get() {
  if (kept_ && (!kept_->expires || os::wall_now() < *kept_->expires - kBeforeItExpires)) return *kept_;
  problems_.clear();
  TRY(auto access, find());
  if (access.program) {
    if (auto added = add_credentials(access, *access.program, environment_, std::exchange(asked_before_, true)); !added)
      return std::unexpected(within(std::move(added).error(), "the credential program " + access.program->argv[0] +
                                                                  " of the kubeconfig gave no credentials"));
  }
  kept_ = access;
  return access;
}

}  // namespace tranche::kube
