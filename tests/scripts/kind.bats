#!/usr/bin/env bats
# deploy/kind/setup.sh: each missing piece is said with its remedy; what is passed to each program; twice is the same as once.
load lib

setup() {
  common_setup
  export STATE=$BATS_TEST_TMPDIR/state NVIDIA_RUNTIME_CONFIG=$BATS_TEST_TMPDIR/config.toml DEFAULT_RUNTIME=nvidia
  mkdir "$STATE"
  printf 'accept-nvidia-visible-devices-as-volume-mounts = true\n' >"$NVIDIA_RUNTIME_CONFIG"
  # A copy of what it uses, so that nothing is written into this tree.
  tree=$BATS_TEST_TMPDIR/tree
  mkdir -p "$tree/deploy" "$tree/build"
  cp -r "$source/deploy/kind" "$source/deploy/samples" "$source/deploy/helm" "$tree/deploy"
  : >"$tree/build/tranche-image.tar"
}
up() { run "$tree/deploy/kind/setup.sh" "$@"; }
without() {  # programs that are not there
  mkdir "$BATS_TEST_TMPDIR/few"
  local program
  ln -s -t "$BATS_TEST_TMPDIR/few" /usr/bin/*
  ln -sf -t "$BATS_TEST_TMPDIR/few" "$BATS_TEST_DIRNAME"/standins/*
  for program; do rm -f "$BATS_TEST_TMPDIR/few/$program"; done
  PATH=$BATS_TEST_TMPDIR/few
}

@test "with GPUs: the worker sees them by a mount, its runtime is configured, the chart is installed and waited for" {
  up
  ended 0
  called 'docker run --rm -v /dev/null:/var/run/nvidia-container-devices/all ubuntu:24.04 nvidia-smi -L'
  called 'kind create cluster --name tranche --config -'
  grep -qF -- '- {hostPath: /dev/null, containerPath: /var/run/nvidia-container-devices/all}' "$STATE/tranche"
  called 'docker exec -i tranche-worker bash -c'
  called 'nvidia-ctk runtime configure --runtime=containerd'
  called 'kubectl --context kind-tranche label node tranche-worker --overwrite nvidia.com/gpu.present=true'
  called "kind load image-archive $tree/build/tranche-image.tar --name tranche"
  called "helm upgrade --install tranche $tree/deploy/helm/tranche --kube-context kind-tranche -n tranche -f $tree/deploy/kind/values.yaml --wait"
  called 'kubectl --context kind-tranche -n tranche rollout status daemonset/tranche-node'
  called 'kubectl --context kind-tranche -n tranche wait --for=condition=Ready pod -l app.kubernetes.io/component=mps'
  said 'kubectl --context kind-tranche apply -f'
}

@test "twice: the cluster is left as it is, all else is done again" {
  up
  ended 0
  : >"$CALLS"
  up
  ended 0
  said 'the cluster tranche is there'
  not_called 'kind create'
  called 'helm upgrade --install'
}

@test "each program that is missing is said, with where to get it" {
  path=$PATH
  for program in docker kind kubectl helm nvidia-ctk nvidia-smi; do
    PATH=$path
    rm -rf "$BATS_TEST_TMPDIR/few"
    without "$program"
    up
    ended 1
    said "$program is not there"
    said 'install it: '
    not_called 'kind create'
  done
}

@test "all that are missing are said at once" {
  without docker kind helm
  up
  ended 1
  said 'docker is not there'
  said 'kind is not there'
  said 'helm is not there'
}

@test "Docker that does not answer" {
  DOCKER_STATUS=1 up
  ended 1
  said 'Docker does not answer'
  said 'systemctl start docker'
}

@test "Docker's default runtime is another" {
  DEFAULT_RUNTIME=runc up
  ended 1
  said "default runtime is not nvidia"
  said 'nvidia-ctk runtime configure --runtime=docker --set-as-default'
  not_called 'kind create'
}

@test "NVIDIA's runtime does not take GPUs by mounts" {
  printf '#accept-nvidia-visible-devices-as-volume-mounts = true\n' >"$NVIDIA_RUNTIME_CONFIG"
  up
  ended 1
  said 'accept-nvidia-visible-devices-as-volume-mounts=true --in-place'
}

@test "a container does not see the GPUs" {
  RUN_STATUS=1 up
  ended 1
  said 'does not see them'
  not_called 'kind create'
}

@test "no image" {
  rm "$tree/build/tranche-image.tar"
  up
  ended 1
  said './dev image'
  up --image registry:5000/a/tranche:v9
  ended 0
  called '--set image.repository=registry:5000/a/tranche --set image.tag=v9'
  not_called 'load image-archive'
}

@test "names and numbers" {
  up --name two --workers 2
  ended 0
  called 'kind create cluster --name two'
  [[ $(grep -c 'role: worker' "$STATE/two") == 2 ]]
  called 'docker exec -i two-worker bash'
  called 'docker exec -i two-worker2 bash'
  for words in '--workers 0' '--workers many' '--name Bad/Name' '--what' '--name' '--values'; do
    # shellcheck disable=SC2086
    up $words
    ended 2
  done
  up --values /nowhere
  ended 1
  said 'no values at /nowhere'
}

@test "a failure of kind or helm is a failure" {
  CREATE_STATUS=1 up
  [[ $status != 0 ]]
  not_called helm
  HELM_STATUS=1 up
  [[ $status != 0 ]]
}

@test "without a GPU: neither driver nor toolkit is asked for; each worker has simulated ones of its own" {
  [[ -x $build/standins/sim-node ]] || skip "no stand-ins are built"
  export TRANCHE_STANDINS=$build/standins
  without nvidia-ctk nvidia-smi
  DEFAULT_RUNTIME=runc up --without-gpu --workers 2 --gpus 3 --profile T4
  ended 0
  said "apply -k $tree/deploy/kind/without-gpu"
  not_called 'docker run'
  not_called 'nvidia-ctk'
  for worker in 1 2; do
    grep -qF "{\"hostPath\": \"$tree/build/kind-tranche/worker-$worker\", \"containerPath\": \"/opt/tranche-sim\"}" "$STATE/tranche"
    TRANCHE_SIM_NODE=$tree/build/kind-tranche/worker-$worker/node "$build/standins/sim-node" show >"$BATS_TEST_TMPDIR/show-$worker"
    [[ $(grep -c 'Tesla T4' "$BATS_TEST_TMPDIR/show-$worker") == 3 ]]
  done
  run cmp -s "$BATS_TEST_TMPDIR/show-1" "$BATS_TEST_TMPDIR/show-2"  # UUIDs differ
  ended 1
  called 'docker exec -i tranche-worker bash -s -- 3'
  called 'mknod -m 0666'
  called "-f $tree/deploy/kind/values-without-gpu.yaml --wait"
  DEFAULT_RUNTIME=runc up --without-gpu --workers 2 --gpus 3 --profile T4
  ended 0
  DEFAULT_RUNTIME=runc up --without-gpu --workers 2 --gpus 2 --profile T4
  ended 1
  said 'has other GPUs'
}

@test "without a GPU and without stand-ins, or with a GPU that nobody knows" {
  TRANCHE_STANDINS=/nowhere up --without-gpu
  ended 1
  said './dev build'
  [[ -x $build/standins/sim-node ]] || skip "no stand-ins are built"
  TRANCHE_STANDINS=$build/standins up --without-gpu --profile H201
  ended 2
  said 'there is no GPU H201'
  said 'H200'
}

@test "what simulated-node leaves is all that the samples and the values name" {
  [[ -x $build/standins/sim-node ]] || skip "no stand-ins are built"
  TRANCHE_STANDINS=$build/standins "$tree/deploy/kind/simulated-node" "$BATS_TEST_TMPDIR/sim"
  for path in $(grep -hoE '/opt/tranche-sim/[A-Za-z0-9./_-]+' "$tree/deploy/kind/values-without-gpu.yaml" "$tree/deploy/kind/without-gpu/kustomization.yaml" | sort -u); do
    [[ -e $BATS_TEST_TMPDIR/sim${path#/opt/tranche-sim} ]] || { echo "$path is not there"; false; }
  done
}
