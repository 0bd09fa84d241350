#pragma once
// Adds found files to edits: paths on the host, mount options, and the command lines of NVIDIA's hook program. Private
// to cdi. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "cdi/driver_files.h"
#include "cdi/make_specs.h"
#include "cdi/spec.h"

namespace tranche::cdi {

// Where paths below a root are on the host. Private to cdi. Pure.
// `path` below `root`: "/run/driver/usr/lib64/x"; "" and "/" are the root of the host.
std::string below(std::string_view root, std::string_view path);

struct HostRoots {
  std::string driver;
  std::string devices;  // without the trailing "/dev" that NVIDIA's flag may have
};
HostRoots host_roots(const Settings& settings);

class EditWriter {
 public:
  EditWriter(const Settings& settings, DriverFiles::HookProgram program);

  void add_node(Edits& edits, const Found& node) const;
  void add_nodes(Edits& edits, const std::vector<Found>& nodes) const;
  void add_files(Edits& edits, const std::vector<Found>& files) const;    // read-only
  void add_sockets(Edits& edits, const std::vector<Found>& files) const;  // writable, as sockets require
  // By hook, or by a mount for each if the hook program is known to be missing: a link that the loader needs to find a
  // library can be a second mount of that library.
  void add_links(Edits& edits, const std::vector<Link>& links) const;
  // Does nothing if the hook is disabled or its program is missing.
  void add_hook(Edits& edits, HookName name, std::vector<std::string> arguments = {}) const;
  void add_ldcache_hook(Edits& edits, const std::vector<Found>& libraries) const;

 private:
  Mount mount_of(const std::string& real, const std::string& path, std::vector<std::string> options) const;

  const Settings& settings_;
  HostRoots roots_;
  bool program_missing_;
};

std::string folder_of(const std::string& path);  // "/usr/lib64"
std::string base_of(const std::string& path);    // "libcuda.so.1"

}  // namespace tranche::cdi
