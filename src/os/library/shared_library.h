#pragma once
// What the loader has of a library that was opened at run time (dlopen). Header only. *Thread:* any.
#include <dlfcn.h>
#include <link.h>

#include <initializer_list>
#include <string>

namespace tranche::os {

// A symbol of a library, as a function of the type that it is assigned to; a null pointer if the library lacks it.
class Symbol {
 public:
  explicit Symbol(void* address) : address_(address) {}
  template <class F>
  operator F*() const {  // NOLINT(google-explicit-constructor): the declaration of the function says the type
    return reinterpret_cast<F*>(address_);
  }

 private:
  void* address_;
};

// By the first of its names that the library has. library: nullptr = none.
inline Symbol find_symbol(void* library, std::initializer_list<const char*> names) {
  void* address = nullptr;
  for (const char* one : names)
    if (library != nullptr && address == nullptr) address = ::dlsym(library, one);
  return Symbol(address);
}

// The file that the loader mapped; `asked` if it does not say.
inline std::string library_path(void* library, const std::string& asked) {
  link_map* map = nullptr;
  const bool known = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr;
  return known && *map->l_name != '\0' ? map->l_name : asked;
}

// Why the last call of the loader failed.
inline std::string loader_error() {
  const char* reason = ::dlerror();
  return reason != nullptr ? reason : "no reason given";
}

}  // namespace tranche::os
