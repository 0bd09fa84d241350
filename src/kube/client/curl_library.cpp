#include "kube/client/curl_library.h"

#include <dlfcn.h>

namespace tranche::host {
namespace {

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

#define TRANCHE_FIND(name) find(handle, "curl_" #name, library->name)

// Never closed: OpenSSL, which comes along, leaves functions to be called at the end of the process.
Result<std::shared_ptr<const CurlLibrary>> CurlLibrary::open(const char* soname) {
  void* handle = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(Kind::kUnsupported,
                std::string("libcurl is not there (Debian: libcurl4): ") + (why == nullptr ? "" : why), soname);
  }
  const std::shared_ptr<CurlLibrary> library(new CurlLibrary);
  const bool whole = TRANCHE_FIND(global_init) && TRANCHE_FIND(global_cleanup) && TRANCHE_FIND(version_info) &&
                     TRANCHE_FIND(easy_init) && TRANCHE_FIND(easy_cleanup) && TRANCHE_FIND(easy_setopt) &&
                     TRANCHE_FIND(easy_getinfo) && TRANCHE_FIND(easy_strerror) && TRANCHE_FIND(slist_append) &&
                     TRANCHE_FIND(slist_free_all) && TRANCHE_FIND(multi_init) && TRANCHE_FIND(multi_cleanup) &&
                     TRANCHE_FIND(multi_setopt) && TRANCHE_FIND(multi_add_handle) &&
                     TRANCHE_FIND(multi_remove_handle) && TRANCHE_FIND(multi_socket_action) &&
                     TRANCHE_FIND(multi_info_read);
  if (!whole) return fail(Kind::kUnsupported, "libcurl lacks functions that are needed", soname);
  if (library->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return fail(Kind::kUnsupported, "libcurl cannot be initialised", soname);
  library->initialised_ = true;
  const auto* version = library->version_info(CURLVERSION_NOW);
  if (version == nullptr || version->version_num < 0x075700 || (version->features & CURL_VERSION_SSL) == 0)
    return fail(Kind::kUnsupported, "libcurl 7.87 or newer with TLS is needed", soname);
  return library;
}

#undef TRANCHE_FIND

CurlLibrary::~CurlLibrary() {
  if (initialised_) global_cleanup();
}

}  // namespace tranche::host
