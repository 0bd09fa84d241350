#include "gemm-check/cublas_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"

namespace tranche::gemm_check {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersions[] = {"13", "12", "11"};
constexpr const char* kInToolkit[] = {"/lib64", "/targets/x86_64-linux/lib", "/targets/sbsa-linux/lib"};
constexpr const char* kSystem[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"};

template <class F>
bool look_up(void* handle, F*& function, const char* name) {
  function = reinterpret_cast<F*>(::dlsym(handle, name));
  return function != nullptr;
}

bool look_up_plain(void* handle, CublasFunctions& f) {
  return look_up(handle, f.create, "cublasCreate_v2") && look_up(handle, f.destroy, "cublasDestroy_v2") &&
         look_up(handle, f.version, "cublasGetVersion_v2") && look_up(handle, f.gemm, "cublasGemmEx");
}

void look_up_lt(void* handle, CublasFunctions& f) {
  const bool all = look_up(handle, f.lt_create, "cublasLtCreate") && look_up(handle, f.lt_destroy, "cublasLtDestroy") &&
                   look_up(handle, f.lt_desc_create, "cublasLtMatmulDescCreate") &&
                   look_up(handle, f.lt_desc_set, "cublasLtMatmulDescSetAttribute") &&
                   look_up(handle, f.lt_desc_destroy, "cublasLtMatmulDescDestroy") &&
                   look_up(handle, f.lt_layout_create, "cublasLtMatrixLayoutCreate") &&
                   look_up(handle, f.lt_layout_destroy, "cublasLtMatrixLayoutDestroy") &&
                   look_up(handle, f.lt_preference_create, "cublasLtMatmulPreferenceCreate") &&
                   look_up(handle, f.lt_preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
                   look_up(handle, f.lt_preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
                   look_up(handle, f.lt_heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
                   look_up(handle, f.lt_matmul, "cublasLtMatmul");
  if (!all) f.lt_create = nullptr;
}

void add_directory(std::vector<std::string>& files, const std::string& directory) {
  for (const char* version : kVersions) files.push_back(directory + "/libcublas.so." + version);
}

// cuBLAS needs the cuBLASLt of its own version, which lies beside it and which the loader would not find there.
std::string lt_beside(const std::string& file) {
  const fs::path path(file);
  std::string name = path.filename().string();
  constexpr std::string_view kName = "libcublas.so";
  if (!name.starts_with(kName)) return {};
  name = "libcublasLt.so" + name.substr(kName.size());
  return path.has_parent_path() ? (path.parent_path() / name).string() : name;
}

std::string loaded_from(void* handle, const std::string& file) {
  link_map* map = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr;
  return known && *map->l_name != '\0' ? map->l_name : file;
}

bool may_be_there(const std::string& file) {
  std::error_code ignored;
  return file.find('/') == std::string::npos || fs::exists(file, ignored);
}

std::vector<std::string> toolkits_under(const std::string& root) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root + "/usr/local", ignored)) {
    if (entry.path().filename().string().starts_with("cuda")) found.push_back(entry.path().string());
  }
  std::ranges::sort(found, std::ranges::greater());  // cuda-13.0 before cuda-12.4 before cuda
  return found;
}

}  // namespace

CublasPlaces cublas_places(const std::string& path, const std::string& driver_root) {
  CublasPlaces places{path, {}, driver_root == "/" ? "" : driver_root, {}};
  if (const char* value = std::getenv("LD_LIBRARY_PATH")) places.library_path = value;
  places.toolkits = toolkits_under("");
  if (!places.driver_root.empty()) {
    const auto there = toolkits_under(places.driver_root);
    places.toolkits.insert(places.toolkits.end(), there.begin(), there.end());
  }
  return places;
}

std::vector<std::string> cublas_candidates(const CublasPlaces& places) {
  std::vector<std::string> files;
  if (!places.path.empty()) {
    if (fs::path(places.path).filename().string().find(".so") != std::string::npos) return {places.path};
    add_directory(files, places.path);
    return files;
  }
  for (const auto& directory : split(places.library_path, ':')) {
    if (!directory.empty()) add_directory(files, std::string(directory));
  }
  for (const char* version : kVersions) files.push_back(std::string("libcublas.so.") + version);
  if (!places.driver_root.empty()) {
    for (const char* directory : kSystem) add_directory(files, places.driver_root + directory);
  }
  for (const auto& toolkit : places.toolkits) {
    for (const char* directory : kInToolkit) add_directory(files, toolkit + directory);
  }
  return files;
}

Result<std::unique_ptr<CublasLibrary>> CublasLibrary::open(const CublasPlaces& places) {
  std::string refused;
  for (const auto& file : cublas_candidates(places)) {
    if (!may_be_there(file)) continue;
    const std::string lt_file = lt_beside(file);
    void* lt = lt_file.empty() ? nullptr : ::dlopen(lt_file.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      const char* reason = ::dlerror();
      if (file.find('/') != std::string::npos) refused += std::string("; ") + (reason != nullptr ? reason : "refused");
      continue;
    }
    auto library = std::make_unique<CublasLibrary>();
    library->path_ = loaded_from(handle, file);
    if (!look_up_plain(handle, library->functions_)) {
      refused += "; " + library->path_ + " lacks cublasGemmEx";
      continue;
    }
    look_up_lt(lt != nullptr ? lt : handle, library->functions_);
    look_up(handle, library->status_name_, "cublasGetStatusName");
    return library;
  }
  return fail(Kind::kNotFound,
              "no libcublas.so.13, .12 or .11 in LD_LIBRARY_PATH, the loader's paths, the driver root or "
              "/usr/local/cuda*" +
                  refused +
                  "; install cuBLAS (it comes with the CUDA toolkit, with the package libcublas, and with PyTorch), or "
                  "name it with --cublas",
              places.path.empty() ? "cuBLAS" : "--cublas " + places.path);
}

std::string CublasLibrary::name_of(int status) const {
  const char* name = status_name_ != nullptr ? status_name_(status) : nullptr;
  return name != nullptr ? name : "cuBLAS status " + std::to_string(status);
}

}  // namespace tranche::gemm_check
