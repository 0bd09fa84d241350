#!/usr/bin/env bash
# Installs Tranche with GPUs shared by MPS on one node or on all nodes with a GPU, by its Helm chart. Nothing is
# installed on the machine that this runs on, and no node is touched but through the API server.
set -euo pipefail

readonly release=${TRANCHE_RELEASE:-tranche} namespace=${TRANCHE_NAMESPACE:-tranche} label=nvidia.com/device-plugin.config
here=$(dirname "$(readlink -f "$0")")
chart=${TRANCHE_CHART:-$here/../deploy/helm/tranche}
timeout=${TRANCHE_TIMEOUT:-180s}

usage() {
  cat <<'TEXT'
usage: setup.sh [REPLICAS] [MODE] [NODE|all] [IMAGE] [TAG] [PULL-SECRET] [MEMORY-LIMIT]
       setup.sh [--replicas N] [--mode aggregate|individual] [--node NODE|--all] [--image REPO[:TAG][@DIGEST]]
                [--tag TAG] [--pull-secret NAME] [--memory-limit true|false] [--kubeconfig FILE] [--dry-run]

  REPLICAS      slots of each GPU, 1 to 1000; 20 by default
  MODE          aggregate: nvidia.com/gpu for all GPUs together; individual: nvidia.com/gpu0, gpu1, …, one for each
  NODE          as `kubectl get nodes` names it, or all (nodes that are known to have a GPU); the only node with a GPU by
                default
  IMAGE         repository, or $PLUGIN_IMAGE_REPO; the chart's own by default
  TAG           or $PLUGIN_IMAGE_TAG
  PULL-SECRET   or $IMAGE_PULL_SECRET_NAME; none by default
  MEMORY-LIMIT  or $ENABLE_MEMORY_LIMIT; true by default

Exit status: 0 installed and ready; 1 it is not; 2 words that mean nothing.
TEXT
}
die() { printf 'setup.sh: %s\n' "$1" >&2; exit "${2:-2}"; }
say() { printf '%s\n' "$*"; }

replicas=20 mode=aggregate node='' repo=${PLUGIN_IMAGE_REPO:-} tag=${PLUGIN_IMAGE_TAG:-} secret=${IMAGE_PULL_SECRET_NAME:-}
memory=${ENABLE_MEMORY_LIMIT:-true} dry=false kubeconfig=() position=0
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --dry-run) dry=true; shift; continue ;;
    --all) node=all; shift; continue ;;
    --replicas | --mode | --node | --image | --tag | --pull-secret | --memory-limit | --kubeconfig)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --replicas) replicas=$2 ;;
        --mode) mode=$2 ;;
        --node) node=$2 ;;
        --image) repo=$2 ;;
        --tag) tag=$2 ;;
        --pull-secret) secret=$2 ;;
        --memory-limit) memory=$2 ;;
        --kubeconfig) kubeconfig=(--kubeconfig "$2") ;;
      esac
      shift 2
      continue
      ;;
    -*) die "there is no option $1; setup.sh --help lists them" ;;
  esac
  position=$((position + 1))
  if [[ $position == 2 && $1 != aggregate && $1 != individual ]]; then position=3; fi  # the mode may be left out
  case $position in
    1) replicas=$1 ;;
    2) mode=$1 ;;
    3) node=$1 ;;
    4) [[ -z $1 ]] || repo=$1 ;;
    5) [[ -z $1 ]] || tag=$1 ;;
    6) [[ -z $1 ]] || secret=$1 ;;
    7) [[ -z $1 ]] || memory=$1 ;;
    *) die "too many words, from $1 on; setup.sh --help shows their order" ;;
  esac
  shift
done

[[ $replicas =~ ^[1-9][0-9]{0,3}$ && $replicas -le 1000 ]] || die "REPLICAS must be a number from 1 to 1000, not '$replicas'"
[[ $mode == aggregate || $mode == individual ]] || die "MODE must be aggregate or individual, not '$mode'"
[[ $memory == true || $memory == false ]] || die "MEMORY-LIMIT must be true or false, not '$memory'"
((replicas <= 48)) || say "note: an MPS server takes 48 clients of one GPU (60 with newer drivers): more slots than that are units of size"

# registry:5000/path:tag@digest: a colon before the last slash is a port.
digest=''
if [[ $repo == *@* ]]; then digest=${repo##*@} repo=${repo%@*}; fi
if [[ ${repo##*/} == *:* ]]; then
  [[ -n $tag ]] || tag=${repo##*:}
  repo=${repo%:*}
fi
[[ -z $digest || $digest =~ ^sha256:[0-9a-f]{64}$ ]] || die "the image's digest must be sha256: and 64 hexadecimal digits, not '$digest'"
[[ -z $tag || $tag =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$ ]] || die "TAG '$tag' is no image tag"
case $tag in
  *regcred* | *-secret | *-cred | *pull-secret*) die "TAG '$tag' looks like a pull secret: the order is … IMAGE TAG PULL-SECRET; write for example: $replicas $mode ${node:-all} ${repo:-REPO} latest $tag" ;;
esac
[[ -z $secret || $secret =~ ^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$ ]] || die "PULL-SECRET '$secret' is no name of a secret"
for program in kubectl helm; do
  command -v "$program" >/dev/null || die "$program is needed and not in PATH" 1
done
[[ -f $chart/Chart.yaml ]] || die "there is no chart at $chart; name its folder with \$TRANCHE_CHART" 1
kube() { kubectl "${kubeconfig[@]}" "$@"; }

# shellcheck disable=SC2016  # kubectl's templates have dollar signs of their own
# Nodes that are known to have a GPU: by labels of discovery, or because they offer some already.
gpu_nodes() {
  {
    kube get nodes -l feature.node.kubernetes.io/pci-10de.present=true -o name
    kube get nodes -l nvidia.com/gpu.present=true -o name
    kube get nodes -l nvidia.com/gpu.count -o name
    kube get nodes -o 'go-template={{range .items}}{{$n := .metadata.name}}{{range $k, $v := .status.allocatable}}{{if and (ge (len $k) 14) (eq (slice $k 0 14) "nvidia.com/gpu")}}node/{{$n}}{{"\n"}}{{end}}{{end}}{{end}}'
  } | sed 's,^node/,,' | sort -u | sed '/^$/d'
}
if [[ -z $node || $node == all ]]; then
  found=$(gpu_nodes) || die "kubectl cannot list nodes; the reason stands above" 1
  mapfile -t nodes < <(printf '%s' "$found" | sed '/^$/d')
  ((${#nodes[@]} > 0)) || die "no node is known to have a GPU: install node feature discovery, label them (kubectl label node NODE nvidia.com/gpu.present=true), or name one" 1
  [[ $node == all || ${#nodes[@]} == 1 ]] || die "several nodes have GPUs: ${nodes[*]}; name one of them, or all"
else
  kube get node "$node" -o name >/dev/null || die "the cluster has no node '$node'; 'kubectl get nodes' lists them" 1
  nodes=("$node")
fi

# \n stays as it is: it is JSON's.
# The chart's settings as one JSON document: nothing of it is read by a shell or as a list again.
readonly config=$mode-gpu-mps
text="version: v1\nsharing:\n  mps:\n    failRequestsGreaterThanOne: false\n"
[[ $memory == true ]] || text+="    memory: open\n"
text+="    resources:\n    - name: nvidia.com/gpu\n      replicas: $replicas\n"
[[ $mode == aggregate ]] || text+="      names: gpu%d\n      split: span\n"
by_default=''
[[ $node != all ]] || by_default=$config
values="{\"config\": {\"map\": {\"$config\": \"$text\"}, \"default\": \"$by_default\", \"fallbackStrategies\": [\"empty\"]}"
image=''
[[ -z $repo ]] || image+=", \"repository\": \"$repo\""
[[ -z $tag ]] || image+=", \"tag\": \"$tag\""
[[ -z $digest ]] || image+=", \"digest\": \"$digest\""
[[ -z $image ]] || values+=", \"image\": {${image:2}}"
[[ -z $secret ]] || values+=", \"imagePullSecrets\": [{\"name\": \"$secret\"}]"
# On one node only: nothing of ours runs on the others.
if [[ $node == all ]]; then
  values+="}"
else
  values+=", \"nodeSelector\": {\"kubernetes.io/hostname\": \"$(kube get node "${nodes[0]}" -o 'jsonpath={.metadata.labels.kubernetes\.io/hostname}')\"}, \"affinity\": null}"
fi

install=(helm "${kubeconfig[@]}" upgrade --install "$release" "$chart" --namespace "$namespace" --create-namespace --values -
  --wait --timeout "$timeout")
say "nodes: ${nodes[*]}"
say "configuration $config: $replicas slots of each GPU, $([[ $mode == aggregate ]] && printf 'all as nvidia.com/gpu' || printf 'each GPU as nvidia.com/gpu<index>'), memory limit $memory"
if $dry; then
  say "would run: ${install[*]}"
  say "with the values: $values"
  for each in "${nodes[@]}"; do say "would label node $each $label=$config"; done
  exit 0
fi

for each in "${nodes[@]}"; do
  # shellcheck disable=SC2016
  held=$(kube get pods --all-namespaces --field-selector "spec.nodeName=$each,status.phase=Running" -o 'go-template={{range .items}}{{$p := .metadata}}{{range .spec.containers}}{{range $k, $v := .resources.limits}}{{if and (ge (len $k) 11) (eq (slice $k 0 11) "nvidia.com/")}}{{$p.namespace}}/{{$p.name}} {{end}}{{end}}{{end}}{{end}}') || held=''
  [[ -z $held ]] || say "note: on $each pods hold GPUs: ${held}- they keep them; what they hold changes when they have ended"
  kube label node "$each" "$label=$config" --overwrite >/dev/null || die "node $each cannot be labelled" 1
done
"${install[@]}" <<<"$values" || die "helm could not install it, or it did not become ready within $timeout; 'kubectl get pods -n $namespace' and their logs say why" 1
say "installed. What the nodes promise is checked with: ${here}/verify-mps-setup.sh NODE"
