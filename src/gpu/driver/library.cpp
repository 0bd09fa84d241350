#include "gpu/driver/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "gpu/platform/platform.h"
#include "os/loop/fd.h"

namespace tranche::gpu::nvml {
namespace {

// Encodes a number as path components that do not change the path: "/." for a 1, "/" for a 0.
void append_bits(std::string& path, std::uint64_t number) {
  for (; number != 0; number >>= 1) path += (number & 1) != 0 ? "/." : "/";
  path += "/./";  // end marker
}

// The loader knows a library by each name that it was opened by, and returns the mapped one even if that path now holds
// another driver's file. For a name that it has not seen, it compares the files (device and inode) and maps a different
// one. So the name encodes the file's identity; the inode of a mapped file is not reused. `handle`: what the loader
// returned for `path`; the result replaces it.
void* newest_of(void* handle, const std::string& path) {
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return handle;  // a bare name, or deleted
  std::string name = "/proc/self/fd/";
  append_bits(name, status.st_dev);
  append_bits(name, status.st_ino);
  void* newest = ::dlopen((name + std::to_string(file.get())).c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (newest == nullptr) return handle;
  ::dlclose(handle);
  return newest;
}

Kind kind_of(Return code) {
  using enum Return;
  static constexpr std::pair<Return, Kind> kKinds[] = {{kInvalidArgument, Kind::kInvalid},
                                                       {kNotSupported, Kind::kUnsupported},
                                                       {kFunctionNotFound, Kind::kUnsupported},
                                                       {kArgumentVersionMismatch, Kind::kUnsupported},
                                                       {kNoPermission, Kind::kDenied},
                                                       {kOperatingSystem, Kind::kDenied},
                                                       {kNotFound, Kind::kNotFound},
                                                       {kGpuNotFound, Kind::kNotFound},
                                                       {kTimeout, Kind::kTimeout},
                                                       {kVersionMismatch, Kind::kConflict},
                                                       {kInUse, Kind::kConflict}};
  const auto found = std::ranges::find(kKinds, code, &std::pair<Return, Kind>::first);
  return found == std::end(kKinds) ? Kind::kUnavailable : found->second;
}

}  // namespace

std::unique_ptr<Library> Library::none() {
  return std::unique_ptr<Library>(new Library);
}

Result<std::unique_ptr<Library>> Library::open(const std::string& driver_root) {
  std::unique_ptr<Library> library(new Library);
  const std::string found = library_in_root(driver_root, kSoname);
  const std::string name = found.empty() ? kSoname : found;
  library->handle_ = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    return fail(Kind::kUnavailable,
                "the NVIDIA driver library cannot be opened (" + os::loader_error() +
                    "); install the driver, mount it into this container, or set the driver root",
                name);
  }
  library->path_ = os::library_path(library->handle_, name);
  const std::string& file = found.empty() ? library->path_ : found;
  if (void* newest = newest_of(library->handle_, file); newest != library->handle_) {
    library->handle_ = newest;
    library->path_ = file;
  }
  library->functions_ = Functions(library->handle_);
  const Functions& f = library->functions_;
  if (f.init == nullptr || f.shutdown == nullptr || f.device_count == nullptr || f.device_by_index == nullptr) {
    return fail(Kind::kUnsupported,
                "this file is not a usable NVIDIA management library: it lacks nvmlInit or the device list",
                library->path_);
  }
  const Return code = f.init();
  if (code == Return::kVersionMismatch) {
    return fail(Kind::kConflict,
                "the driver was upgraded under us: library and kernel module have different versions; it is opened as "
                "soon as they are alike again: load the new module, or reboot the node if the old one is still in use",
                library->path_, static_cast<int>(code));
  }
  if (code == Return::kDriverNotLoaded) {
    return fail(Kind::kUnavailable, "the NVIDIA kernel driver is not loaded", library->path_, static_cast<int>(code));
  }
  TRY_STATUS(library->check(code, "the NVIDIA management library does not start", library->path_));
  library->initialised_ = true;
  return library;
}

Library::~Library() {
  // An initialised library stays mapped: it may have state and threads of its own. One that failed to initialise is
  // closed, so that the next attempt opens the file that matches the module loaded at that time.
  if (initialised_) {
    functions_.shutdown();
  } else if (handle_ != nullptr) {
    ::dlclose(handle_);
  }
}

Error Library::error(Return code, std::string doing, std::string where) const {
  const char* text = functions_.error_string != nullptr ? functions_.error_string(code) : nullptr;
  std::string what = std::move(doing) + ": " + (text != nullptr ? text : "no words for it");
  if (code == Return::kGpuIsLost) what += "; reset the GPU or reboot the node";
  if (code == Return::kNoPermission) what += "; run as root in the host's user namespace";
  return Error{kind_of(code), std::move(what), std::move(where), static_cast<int>(code)};
}

Status Library::check(Return code, std::string_view doing, std::string_view where) const {
  if (code == Return::kSuccess) return {};
  return std::unexpected(error(code, std::string(doing), std::string(where)));
}

}  // namespace tranche::gpu::nvml
