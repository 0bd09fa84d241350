#!/usr/bin/env bash
# `tranche verify` for a node: with the program where it is installed here, otherwise in the agent's pod on that node.
# More words go on to it, such as --json, or --deep for probes on the node. Exit status: 0, 1 (something failed), 2.
set -euo pipefail

if (($# == 0)) || [[ $1 == -* ]]; then
  printf 'usage: verify-mps-setup.sh NODE [--deep] [--json] …\n  tranche verify --help lists the rest\n' >&2
  exit 2
fi
node=$1
shift
deep=false
for word in "$@"; do [[ $word != --deep ]] || deep=true; done

namespace=${TRANCHE_NAMESPACE:-tranche} tranche=${TRANCHE:-tranche}
if ! $deep && command -v "$tranche" >/dev/null; then
  KUBECONFIG=${KUBECONFIG:-$HOME/.kube/config} exec "$tranche" verify "$node" ${TRANCHE_NAMESPACE:+--namespace "$TRANCHE_NAMESPACE"} "$@"
fi
command -v kubectl >/dev/null || { printf 'verify-mps-setup.sh: neither tranche nor kubectl is in PATH\n' >&2; exit 2; }
pod=$(kubectl get pods -n "$namespace" -l app.kubernetes.io/name=tranche,app.kubernetes.io/component=node \
  --field-selector "spec.nodeName=$node" -o 'jsonpath={.items[0].metadata.name}' 2>/dev/null) || pod=''
if [[ -z $pod ]]; then
  printf 'verify-mps-setup.sh: no node agent runs on %s in the namespace %s; name another with TRANCHE_NAMESPACE=…\n' "$node" "$namespace" >&2
  exit 2
fi
exec kubectl exec -n "$namespace" "$pod" -- tranche verify --local "$@"
