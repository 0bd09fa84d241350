#pragma once
// The outputs of node labels: a file for node feature discovery, a NodeFeature object, the Node itself. Each compares
// with the present content and writes only differences. docs/reference/labels.md describes the purpose of each. Loop
// thread only; one write at a time. Results come inside the call or separately on the loop; their callbacks must not
// destroy the writer.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/client/kube_client.h"
#include "labels/label.h"
#include "labels/live/label_output.h"
#include "labels/outputs.h"

namespace tranche::labels {

struct Written {
  bool changed = false;              // something was written
  std::vector<std::string> foreign;  // keys that another client has set to other values, left unchanged
  std::vector<std::string> remarks;  // for the log: facts that could not be determined and are optional
};

class LabelWriter {
 public:
  // kDenied and kNotFound: an operator must act, for example grant a permission; kInvalid: the present object or file
  // is not of the expected kind. Other errors are temporary.
  using Done = std::function<void(Result<Written>)>;
  virtual ~LabelWriter() = default;  // cancels a write in progress, without a result
  virtual void write(const Labels& labels, Done done) = 0;
  virtual void clean_up() {}  // removes what NVIDIA's feature discovery removes when it exits
};

// nullptr: to a cluster without a client, or to no output or standard output. `client` must outlive the writer.
std::unique_ptr<LabelWriter> label_writer(LabelOutput output, const LabelTarget& target, kube::KubeClient* client);

// Logs the result of a write of `count` labels. foreign_is_known: its foreign keys have been logged.
void log_written(LabelOutput output, const Written& written, std::size_t count, bool foreign_is_known = false);

}  // namespace tranche::labels
