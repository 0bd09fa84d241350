#pragma once
// IMEX channels in the configuration that may be missing on this node. Pure.
#include <string>
#include <vector>

#include "base/problem.h"
#include "config/model.h"

namespace tranche::plan {

// `existing`: those of imex.channel_ids whose device node exists. Errors if the channels are required, else warnings:
// missing channels are omitted from responses.
std::vector<Problem> imex_problems(const config::Imex& imex, const std::vector<int>& existing);

// Why no device may be allocated, in one sentence; "" if no required channel is missing.
std::string imex_block(const config::Imex& imex, const std::vector<int>& existing);

}  // namespace tranche::plan
