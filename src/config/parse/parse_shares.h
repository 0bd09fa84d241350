#pragma once
// Inside config/ only: how a GPU is divided into shares (config/share_policies.h), below sharing.mps and in its
// entries. An absent value leaves `into` unchanged; an invalid one is reported and leaves it unchanged too.
#include <optional>

#include "config/document/fields.h"
#include "config/model.h"

namespace tranche::config {

void read_value(const Value& value, ThreadsPolicy& into);               // equal, open, tenant, {factor: 2}, {sms: 16}
void read_value(const Value& value, MemoryPolicy& into);                // equal, open, tenant, {factor: 2}, 4Gi
void read_value(const Value& value, Reserve& into);                     // none, auto, 600Mi
void read_split(const Value& value, std::optional<SplitPolicy>& into);  // reject, span
std::optional<Bytes> read_memory_size(const Value& value, const std::string& remedy);

}  // namespace tranche::config
