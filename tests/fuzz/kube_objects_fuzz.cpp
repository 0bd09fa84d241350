// A list of objects, a node, a ConfigMap and the name of one, as anybody may send them: read without harm; a name that
// is accepted can stand in a path.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kube/object.h"

using namespace tranche;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto head = kube::parse_list(bytes, [](const nlohmann::json& object) -> Status {
    kube::name_of(object);
    kube::labels_of(object);
    kube::data_of_config_map(object);
    return {};
  });
  if (head && head->resource_version.empty()) std::abort();
  if (const auto name = kube::parse_object_name(bytes)) {
    if (name->in_namespace + "/" + name->name != bytes) std::abort();
    if (bytes.find("..") == 0 || name->name.find('/') != std::string::npos) std::abort();
  }
  return 0;
}
