#!/usr/bin/env bash
# scripts/setup.sh and scripts/verify-mps-setup.sh against stand-ins of kubectl and helm; the configurations that they
# write against the real `tranche check`. Arguments: source folder, build folder.
set -u
source=$1 build=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CALLS=$dir/calls NODES=$dir/nodes VALUES=$dir/values TRANCHE_CHART=$dir/chart
mkdir "$dir/chart" && : >"$dir/chart/Chart.yaml"
PATH=$source/tests/scripts/standins:$PATH
unset PLUGIN_IMAGE_REPO PLUGIN_IMAGE_TAG IMAGE_PULL_SECRET_NAME ENABLE_MEMORY_LIMIT KUBECONFIG
bad=0 name=''

setup() { : >"$CALLS"; : >"$VALUES"; out=$("$source/scripts/setup.sh" "$@" 2>&1); status=$?; }
fault() { printf 'FAILED %s: %s\n  status %s, said: %s\n  calls:\n%s\n  values: %s\n' "$name" "$1" "$status" "$out" "$(cat "$CALLS")" "$(cat "$VALUES")"; bad=1; }
ended() { [[ $status == "$1" ]] || fault "status is not $1"; }
said() { [[ $out == *"$1"* ]] || fault "does not say '$1'"; }
called() { grep -qF -- "$1" "$CALLS" || fault "did not call '$1'"; }
not_called() { ! grep -qF -- "$1" "$CALLS" || fault "called '$1'"; }
value() { # python expression over v
  python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$VALUES" "$1" 2>/dev/null || fault "values are not: $1"
}
printf 'n1 gpu\nn2 nfd\ncpu none\n' >"$NODES"

name="the guide's own order"
setup 20 aggregate n1 harbor.example/team/tranche v1.2 harbor-regcred
ended 0
called 'kubectl label node n1 nvidia.com/device-plugin.config=aggregate-gpu-mps --overwrite'
called "helm upgrade --install tranche $dir/chart --namespace tranche --create-namespace --values -"
value 'v["image"] == {"repository": "harbor.example/team/tranche", "tag": "v1.2"} and v["imagePullSecrets"] == [{"name": "harbor-regcred"}]'
value 'v["nodeSelector"] == {"kubernetes.io/hostname": "n1"} and v["affinity"] is None and v["config"]["default"] == ""'
value '"replicas: 20" in v["config"]["map"]["aggregate-gpu-mps"]'

name="the configurations are understood, and mean what the mode says"
for mode in aggregate individual; do
  setup 20 "$mode" n1
  ended 0
  python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["config"]["map"][sys.argv[2]])' "$VALUES" "$mode-gpu-mps" >"$dir/config.yaml"
  "$build/bin/tranche" check --strict --config-file "$dir/config.yaml" >"$dir/check" 2>&1 || fault "tranche check: $(cat "$dir/check")"
  "$build/bin/tranche" plan --inventory "$source/tests/golden/plan/inventories/4xH200.json" --config-file "$dir/config.yaml" --json >"$dir/plan" 2>&1 || fault "tranche plan: $(tail -3 "$dir/plan")"
  count=$(grep -o '"name": *"nvidia.com/gpu[0-3]"' "$dir/plan" | sort -u | wc -l)
  [[ $mode == aggregate && $count == 0 || $mode == individual && $count == 4 ]] || fault "$mode advertises $count resources of single GPUs"
done

name="all: every node that is known to have a GPU, and later ones by default"
setup 5 individual all
ended 0
called 'label node n1 '
called 'label node n2 '
not_called 'label node cpu'
value '"nodeSelector" not in v and "affinity" not in v and v["config"]["default"] == "individual-gpu-mps"'

name="the mode may be left out, names may be used, the environment counts last"
PLUGIN_IMAGE_REPO=a/b:c PLUGIN_IMAGE_TAG=d setup 7 n1
ended 0
value 'v["image"] == {"repository": "a/b", "tag": "d"} and "replicas: 7" in v["config"]["map"]["aggregate-gpu-mps"]'
setup --replicas 3 --mode individual --node n2 --image x/y --tag z --pull-secret s --memory-limit false
ended 0
value '"memory: open" in v["config"]["map"]["individual-gpu-mps"] and v["image"]["tag"] == "z"'

name="an image with a port, a tag and a digest"
digest=sha256:$(printf 'a%.0s' {1..64})
setup 2 aggregate n1 "registry:5000/team/img:v1@$digest"
ended 0
value 'v["image"]["repository"] == "registry:5000/team/img" and v["image"]["tag"] == "v1" and v["image"]["digest"].startswith("sha256:aa")'
setup 2 aggregate n1 registry:5000/img
value 'v["image"] == {"repository": "registry:5000/img"}'

name="a pull secret in the tag's place is noticed"
setup 5 aggregate n1 repo/img harbor-regcred
ended 2
said 'looks like a pull secret'
not_called helm

name="what means nothing is refused before anything is done"
for words in '0' '-3' 'many' '20 aggregate n1 img tag Bad_Secret' '20 aggregate n1 img ta/g' '1001' '20 aggregate n1 a b c maybe' '1 aggregate n1 a b c true more' '--what' '--mode triple' '--node'; do
  # shellcheck disable=SC2086
  setup $words
  [[ $status == 2 ]] || fault "'$words' is taken"
  not_called helm
  not_called 'label node'
done

name="a node that is not there, and several where one is meant"
setup 4 aggregate n9
ended 1
said "no node 'n9'"
setup 4
ended 2
said 'n1 n2'
not_called 'label node'
printf 'cpu none\n' >"$NODES"
setup 4 aggregate all
ended 1
said 'no node is known to have a GPU'
not_called helm
printf 'n1 gpu\n' >"$NODES"

name="--dry-run says everything and does nothing"
setup 20 individual n1 --dry-run
ended 0
said 'would label node n1'
said 'gpu%d'
not_called helm
not_called 'label node'

name="a release that does not become ready is a failure"
HELM_STATUS=1 setup 20 aggregate n1
ended 1
LABEL_STATUS=1 setup 20 aggregate n1
ended 1
not_called helm

name="pods that hold GPUs are named"
HOLDERS='default/trainer ' setup 20 aggregate n1
ended 0
said 'default/trainer'

verify() { : >"$CALLS"; out=$("$source/scripts/verify-mps-setup.sh" "$@" 2>&1); status=$?; }
name="verify-mps-setup.sh in the agent's pod"
export TRANCHE=/nowhere/tranche
AGENT_POD=agent-x verify n1 --json
ended 0
called 'kubectl exec -n tranche agent-x -- tranche verify --local --json'
AGENT_POD=agent-x EXEC_STATUS=1 verify n1 --deep
ended 1
verify n1
ended 2
said 'no node agent runs on n1'
verify
ended 2
name="verify-mps-setup.sh by the program"
printf '#!/bin/sh\necho ran "$@"\n' >"$dir/tranche" && chmod +x "$dir/tranche"
HOME=$dir TRANCHE=$dir/tranche verify n1 --json
ended 0
said 'ran verify n1 --json'

((bad == 0)) && echo "all as they should be"
exit "$bad"
