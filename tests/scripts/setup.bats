#!/usr/bin/env bats
# scripts/setup.sh: a fork's order of words and variables, and the traps that its own script fell into. The configurations that it
# writes go to the real `tranche check` and `tranche plan`.
load lib

setup() {
  common_setup
  export TRANCHE_CHART=$BATS_TEST_TMPDIR/chart
  mkdir "$TRANCHE_CHART" && : >"$TRANCHE_CHART/Chart.yaml"
  printf 'n1 gpu\nn2 nfd\ncpu none\n' >"$NODES"
}
install() { run "$source/scripts/setup.sh" "$@"; }

@test "the guide's own order" {
  install 20 aggregate n1 harbor.example/team/tranche v1.2 harbor-regcred
  ended 0
  called 'kubectl label node n1 nvidia.com/device-plugin.config=aggregate-gpu-mps --overwrite'
  called "helm upgrade --install tranche $TRANCHE_CHART --namespace tranche --create-namespace --values -"
  value 'v["image"] == {"repository": "harbor.example/team/tranche", "tag": "v1.2"} and v["imagePullSecrets"] == [{"name": "harbor-regcred"}]'
  value 'v["nodeSelector"] == {"kubernetes.io/hostname": "n1"} and v["affinity"] is None and v["config"]["default"] == ""'
  value '"replicas: 20" in v["config"]["map"]["aggregate-gpu-mps"]'
}

@test "the configurations are understood, and mean what the mode says" {
  for mode in aggregate individual; do
    install 20 "$mode" n1
    ended 0
    python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["config"]["map"][sys.argv[2]])' "$VALUES" "$mode-gpu-mps" >"$BATS_TEST_TMPDIR/config.yaml"
    "$build/bin/tranche" check --strict --config-file "$BATS_TEST_TMPDIR/config.yaml"
    run "$build/bin/tranche" plan --inventory "$source/tests/golden/plan/inventories/4xH200.json" --config-file "$BATS_TEST_TMPDIR/config.yaml" --json
    ended 0
    count=$(grep -o '"name": *"nvidia.com/gpu[0-3]"' <<<"$output" | sort -u | wc -l)
    [[ $mode == aggregate && $count == 0 || $mode == individual && $count == 4 ]] || { echo "$mode advertises $count resources of single GPUs"; false; }
  done
}

@test "another number than 20 is what is shared, in aggregate mode too (the fork's formula had 20 in it)" {
  install 5 aggregate n1
  ended 0
  value '"replicas: 5" in v["config"]["map"]["aggregate-gpu-mps"]'
  said '5 slots of each GPU'
}

@test "all, on a fresh cluster: every node that is known to have a GPU, by labels of discovery too, and later ones by default" {
  install 5 individual all
  ended 0
  called 'label node n1 '
  called 'label node n2 '
  not_called 'label node cpu'
  value '"nodeSelector" not in v and "affinity" not in v and v["config"]["default"] == "individual-gpu-mps"'
}

@test "nothing is called by a node's name 'all', and GPUs of this machine are not looked at" {
  install 5 aggregate all
  ended 0
  not_called 'node all'
  not_called nvidia-smi
}

@test "node gpu1 is not gpu10" {
  printf 'gpu1 gpu\ngpu10 gpu\n' >"$NODES"
  install 5 aggregate gpu1
  ended 0
  called 'label node gpu1 '
  not_called 'label node gpu10'
}

@test "the mode may be left out, names may be used, the environment counts last" {
  PLUGIN_IMAGE_REPO=a/b:c PLUGIN_IMAGE_TAG=d IMAGE_PULL_SECRET_NAME=s install 7 n1
  ended 0
  value 'v["image"] == {"repository": "a/b", "tag": "d"} and v["imagePullSecrets"] == [{"name": "s"}] and "replicas: 7" in v["config"]["map"]["aggregate-gpu-mps"]'
  PLUGIN_IMAGE_REPO=a/b PLUGIN_IMAGE_TAG=d install 7 aggregate n1 x/y z
  value 'v["image"] == {"repository": "x/y", "tag": "z"}'
  install --replicas 3 --mode individual --node n2 --image x/y --tag z --pull-secret s --memory-limit false
  ended 0
  value '"memory: open" in v["config"]["map"]["individual-gpu-mps"] and v["image"]["tag"] == "z"'
}

@test "the seventh word, and ENABLE_MEMORY_LIMIT, lift the memory limit" {
  install 4 aggregate n1 a b c false
  value '"memory: open" in v["config"]["map"]["aggregate-gpu-mps"]'
  ENABLE_MEMORY_LIMIT=false install 4 aggregate n1
  value '"memory: open" in v["config"]["map"]["aggregate-gpu-mps"]'
  install 4 aggregate n1
  value '"memory: open" not in v["config"]["map"]["aggregate-gpu-mps"]'
}

@test "an image with a port, a tag and a digest" {
  digest=sha256:$(printf 'a%.0s' {1..64})
  install 2 aggregate n1 "registry:5000/team/img:v1@$digest"
  ended 0
  value 'v["image"]["repository"] == "registry:5000/team/img" and v["image"]["tag"] == "v1" and v["image"]["digest"].startswith("sha256:aa")'
  install 2 aggregate n1 registry:5000/img
  value 'v["image"] == {"repository": "registry:5000/img"}'
}

@test "a pull secret in the tag's place is noticed" {
  install 5 aggregate n1 repo/img harbor-regcred
  ended 2
  said 'looks like a pull secret'
  not_called helm
}

@test "what means nothing is refused before anything is done" {
  for words in '0' '-3' 'many' '20 aggregate n1 img tag Bad_Secret' '20 aggregate n1 img ta/g' '1001' '20 aggregate n1 a b c maybe' '1 aggregate n1 a b c true more' '--what' '--mode triple' '--node'; do
    # shellcheck disable=SC2086
    install $words
    ended 2
    not_called helm
    not_called 'label node'
  done
}

@test "a node that is not there, and several where one is meant" {
  install 4 aggregate n9
  ended 1
  said "no node 'n9'"
  install 4
  ended 2
  said 'n1 n2'
  not_called 'label node'
}

@test "no node with a GPU, under all" {
  printf 'cpu none\n' >"$NODES"
  install 4 aggregate all
  ended 1
  said 'no node is known to have a GPU'
  not_called helm
}

@test "--dry-run says everything and does nothing" {
  install 20 individual n1 --dry-run
  ended 0
  said 'would label node n1'
  said 'gpu%d'
  not_called helm
  not_called 'label node'
}

@test "a release that does not become ready, or a label that is refused, is a failure" {
  HELM_STATUS=1 install 20 aggregate n1
  ended 1
  said 'did not become ready'
  : >"$CALLS"
  LABEL_STATUS=1 install 20 aggregate n1
  ended 1
  not_called helm
}

@test "pods that hold GPUs are named; nothing of kubelet's is deleted, no pod, no node status" {
  HOLDERS='default/trainer ' install 20 aggregate n1
  ended 0
  said 'default/trainer'
  not_called delete
  not_called patch
}

@test "twice is the same as once" {
  install 20 aggregate n1
  ended 0
  cp "$VALUES" "$BATS_TEST_TMPDIR/first"
  install 20 aggregate n1
  ended 0
  cmp "$VALUES" "$BATS_TEST_TMPDIR/first"
}

@test "kubectl or helm that is not there, and a chart that is not, are said" {
  mkdir "$BATS_TEST_TMPDIR/few"
  for program in bash dirname readlink sed sort cat; do ln -s "$(command -v $program)" "$BATS_TEST_TMPDIR/few"; done
  PATH=$BATS_TEST_TMPDIR/few run "$(command -v bash)" "$source/scripts/setup.sh" 4 aggregate n1
  ended 1
  said 'kubectl is needed'
  TRANCHE_CHART=/nowhere install 4 aggregate n1
  ended 1
  said 'no chart at /nowhere'
}
