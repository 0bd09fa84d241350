#pragma once
// Makes this process what a container with a grant is to the node: a mount namespace of its own, in which the grant's
// endpoint is all of MPS there is, at the place where containers have it, and a different user if asked for. By that
// mount the guard knows whose process it is. For proving a grant from inside without a container runtime (`tranche
// verify --deep`). Needs CAP_SYS_ADMIN; call it before any thread is started.
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace tranche::probe {

struct Container {
  std::string endpoint;               // the grant's directory, as this process sees it; "" = the process stays as it is
  std::optional<std::uint32_t> user;  // and group
};

inline constexpr const char* kRunDirectory = "/run/tranche";  // must exist: the mount is made below it

// kDenied: not without CAP_SYS_ADMIN (or, for a user, CAP_SETUID).
Status become_container(const Container& container);

}  // namespace tranche::probe
