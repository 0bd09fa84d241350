#pragma once
// Private to kube/client: owns libcurl, opened at run time. It loads two dozen libraries that a node without a cluster
// does not need (docs/internals/decisions/0010-kubernetes-client.md). Opening takes some milliseconds; afterwards any
// thread may use it.
#include <curl/curl.h>

#include <memory>

#include "base/result.h"

namespace tranche::host {

inline constexpr const char* kCurlSoname = "libcurl.so.4";

class CurlLibrary {
 public:
  static Result<std::shared_ptr<const CurlLibrary>> open(const char* soname = kCurlSoname);
  CurlLibrary(const CurlLibrary&) = delete;
  CurlLibrary& operator=(const CurlLibrary&) = delete;
  ~CurlLibrary();

  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_global_cleanup) global_cleanup = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_setopt) multi_setopt = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_socket_action) multi_socket_action = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;

 private:
  CurlLibrary() = default;
  bool initialised_ = false;
};

}  // namespace tranche::host
