#pragma once
// The table of keys (config/keys.h) as a document and as a JSON Schema. What `tranche check --config-reference` prints
// is docs/reference/configuration.md, what `--config-schema` prints is deploy/schema/config.schema.json; a test
// compares. Pure.
#include <string>

namespace tranche::config {

std::string reference_text();  // Markdown
std::string schema_json();     // draft 2020-12; keys as they are written usually, for editors

}  // namespace tranche::config
