#pragma once
// The table of keys (config/keys.h) as a document and as a JSON Schema. `tranche check --config-reference` prints
// docs/reference/configuration.md, and `--config-schema` prints deploy/schema/config.schema.json; a test compares the
// files. Pure.
#include <string>

namespace tranche::config {

std::string reference_text();  // Markdown
std::string schema_json();     // draft 2020-12; keys in their usual case, for editors

}  // namespace tranche::config
