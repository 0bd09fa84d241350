#pragma once
// The places that node labels are written to: standard output, a file of node feature discovery's, a NodeFeature
// object, the Node itself. Each compares with what is there and writes only what differs. docs/reference/labels.md says
// what each is for. Loop thread only; one write at a time. Answers come as turns of their own or at once, and may
// destroy nothing here.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/client/kube_client.h"
#include "labels/label.h"
#include "labels/live/label_output.h"
#include "labels/outputs.h"

namespace tranche::agent {

struct Written {
  bool changed = false;              // something was written
  std::vector<std::string> foreign;  // keys that somebody else has set otherwise, left alone
  std::vector<std::string> remarks;  // for the log: what could not be found out, and is not needed
};

class LabelWriter {
 public:
  // kDenied and kNotFound: somebody has to act, such as giving a right; kInvalid: what is there is not what it should
  // be. Others pass.
  using Done = std::function<void(Result<Written>)>;
  virtual ~LabelWriter() = default;  // ends what is under way; its answer never comes
  virtual void write(const label::Labels& labels, Done done) = 0;
  virtual void clean_up() {}  // what NVIDIA's feature discovery removes when it ends
};

// `print` gets the whole text, whenever the labels are others than before.
std::unique_ptr<LabelWriter> label_printer(std::function<void(const label::Labels&)> print);

// Replaced atomically, by way of a hidden file beside it. Its folder must exist.
std::unique_ptr<LabelWriter> label_file(const std::string& path);

// `client` must outlive them. `pod_name`: whose DaemonSet the object belongs to, and with which it goes; "" = nobody's.
std::unique_ptr<LabelWriter> node_feature(host::KubeClient& client, label::FeaturePlace place, std::string pod_name);
std::unique_ptr<LabelWriter> node_object(host::KubeClient& client, std::string node_name);

}  // namespace tranche::agent
