#pragma once
// IMEX channels that the configuration names and this node may not have. Pure.
#include <string>
#include <vector>

#include "base/problem.h"
#include "config/model.h"

namespace tranche::plan {

// `existing`: of imex.channel_ids, those whose device node is there. Errors when the channels are required, else
// warnings: what is missing is left out of answers.
std::vector<Problem> imex_problems(const config::Imex& imex, const std::vector<int>& existing);

// Why no device may be handed out, in one sentence; "" when nothing that is required is missing.
std::string imex_block(const config::Imex& imex, const std::vector<int>& existing);

}  // namespace tranche::plan
