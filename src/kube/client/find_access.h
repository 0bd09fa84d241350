#pragma once
// How this process connects to the API server: with a kubeconfig file, or as its own pod. Reads files; any thread.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "kube/access.h"

namespace tranche::kube {

// For programs that run unattended. `kubeconfig` "" = the service account of this pod. Credential programs are not run.
// `problems` receives all findings about the file, including warnings; the error is the first of them.
Result<Access> find_access(const std::string& kubeconfig, const config::Environment& environment,
                           std::vector<Problem>& problems);

struct KubeconfigChoice {
  std::string files;    // one or several, separated by ":"; "" = $KUBECONFIG, ~/.kube/config, or as find_access()
  std::string context;  // "" = the current one
};

// The access for a command that a person runs, found as by kubectl. A credential program of the kubeconfig is run, with
// the person's terminal the first time. What it prints is kept until it expires.
//
// Thread: one. Errors: kInvalid of the files or the program; kNotFound, kDenied, kTimeout.
class PersonsAccess {
 public:
  PersonsAccess(KubeconfigChoice choice, config::Environment environment)
      : choice_(std::move(choice)), environment_(std::move(environment)) {}

  Result<Access> get();              // blocks until the program has ended
  void refused() { kept_.reset(); }  // by the API server (401): the next get() runs the program again
  const std::vector<Problem>& problems() const { return problems_; }  // findings about the files

 private:
  Result<Access> find();

  KubeconfigChoice choice_;
  config::Environment environment_;
  std::optional<Access> kept_;
  std::vector<Problem> problems_;
  bool asked_before_ = false;
};

}  // namespace tranche::kube
