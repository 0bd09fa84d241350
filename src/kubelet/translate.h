#pragma once
// Between our values and kubelet's messages, and between our errors and gRPC's. Pure.
#include <deviceplugin/v1beta1/api.pb.h>
#include <grpcpp/support/status.h>
#include <podresources/v1/api.pb.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "plan/plan.h"

namespace tranche::kubelet {

// What we can do, in one place: Register and GetDevicePluginOptions both say this, so they cannot disagree.
v1beta1::DevicePluginOptions our_options();

v1beta1::ListAndWatchResponse to_message(const plan::Advertised& advertised);
void write_grant(const grants::Grant& grant, v1beta1::ContainerAllocateResponse& response);
std::vector<grants::Held> to_holdings(const v1::ListPodResourcesResponse& response);

// kInvalid → INVALID_ARGUMENT, kNotFound → NOT_FOUND, kUnsupported → UNIMPLEMENTED, kUnavailable → UNAVAILABLE,
// kTimeout → DEADLINE_EXCEEDED, kDenied → PERMISSION_DENIED, kConflict → FAILED_PRECONDITION; the text is the Error's.
grpc::Status to_status(const Error& error);
// Of an answer that failed, kUnavailable: `what` is the first half of the sentence.
Error from_status(const grpc::Status& status, std::string what, std::string where);

}  // namespace tranche::kubelet
