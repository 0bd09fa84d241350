#pragma once
// Private to src/simulate: the containers and claims of one pod spec and what they ask for. Every fault that the API
// server would refuse the pod for, as far as extended resources are concerned, is a Problem.
#include <vector>

#include "config/document/fields.h"
#include "simulate/pods.h"

namespace tranche::simulate {

void read_pod_spec(const config::Value& pod_spec, PodAsk& pod);  // containers and claims

}  // namespace tranche::simulate
