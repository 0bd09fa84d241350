#!/usr/bin/env bash
# A kind cluster with Tranche installed in it, whose workers see this machine's GPUs, or simulated ones: one command, again and again.
#   setup.sh [--name NAME] [--workers N] [--image IMAGE | --archive FILE] [--values FILE]
#   setup.sh --without-gpu [--gpus N] [--profile NAME] …      two simulated H200 a worker, on a machine without any
# It changes nothing on this machine: what Docker or NVIDIA's toolkit lack is said, with the command that fixes it.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
source=$(readlink -f "$here/../..")

name=tranche workers=1 image='' archive=$source/build/tranche-image.tar values='' simulated=false gpus=2 profile=H200
usage() { printf 'setup: %s; --help says what there is\n' "$1" >&2; exit 2; }
while (($#)); do
  case $1 in
    --without-gpu) simulated=true; shift; continue ;;
    -h | --help) sed -n '2,5s/^# \?//p' "$0"; exit ;;
    --name | --workers | --image | --archive | --values | --gpus | --profile) [[ -n ${2:-} ]] || usage "$1 needs a value" ;;
    *) usage "there is no $1" ;;
  esac
  case $1 in
    --name) name=$2 ;;
    --workers) workers=$2 ;;
    --image) image=$2 ;;
    --archive) archive=$2 ;;
    --values) values=$2 ;;
    --gpus) gpus=$2 ;;
    --profile) profile=$2 ;;
  esac
  shift 2
done
[[ $workers =~ ^[1-9][0-9]?$ ]] || usage "--workers is a number from 1 to 99, not '$workers'"
[[ $name =~ ^[a-z0-9][a-z0-9.-]*$ ]] || usage "--name is lower-case letters, digits, . and -, not '$name'"
if [[ -z $values ]]; then
  values=$here/values.yaml
  ! $simulated || values=$here/values-without-gpu.yaml
fi

say() { printf '── %s\n' "$*" >&2; }
lacking=0
lacks() {  # what, what to do
  printf 'setup: %s\n       %s\n' "$1" "$2" >&2
  lacking=1
}
where() {  # how to come by a program
  case $1 in
    docker) printf 'https://docs.docker.com/engine/install' ;;
    kind) printf 'https://kind.sigs.k8s.io/docs/user/quick-start/#installation' ;;
    kubectl) printf 'https://kubernetes.io/docs/tasks/tools' ;;
    helm) printf 'https://helm.sh/docs/intro/install' ;;
    nvidia-ctk) printf 'NVIDIA'\''s container toolkit: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html' ;;
    nvidia-smi) printf 'NVIDIA'\''s driver; or try it without a GPU: %s --without-gpu' "$0" ;;
  esac
}

# --- what this machine has to have ------------------------------------------------------------------------------------
programs=(docker kind kubectl helm)
$simulated || programs+=(nvidia-ctk nvidia-smi)
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || lacks "$program is not there" "install it: $(where "$program")"
done
((lacking)) && exit 1
docker info >/dev/null 2>&1 || { lacks "Docker does not answer" "sudo systemctl start docker; may you use it? sudo usermod -aG docker \$USER, and log in again"; exit 1; }
[[ -r $values ]] || lacks "there are no values at $values" "name another file with --values"
[[ -n $image || -r $archive ]] || lacks "there is no image at $archive" "./dev image, or --image REPOSITORY:TAG"
if ! $simulated; then
  [[ $(docker info --format '{{.DefaultRuntime}}') == nvidia ]] ||
    lacks "Docker's default runtime is not nvidia, so workers of kind see no GPU" \
      "sudo nvidia-ctk runtime configure --runtime=docker --set-as-default --cdi.enabled && sudo systemctl restart docker"
  grep -Eqs '^[[:space:]]*accept-nvidia-visible-devices-as-volume-mounts[[:space:]]*=[[:space:]]*true' "${NVIDIA_RUNTIME_CONFIG:-/etc/nvidia-container-runtime/config.toml}" ||
    lacks "NVIDIA's runtime does not take GPUs by mounts, which is how kind can ask for them" \
      "sudo nvidia-ctk config --set accept-nvidia-visible-devices-as-volume-mounts=true --in-place"
fi
((lacking)) && exit 1
if ! $simulated; then
  docker run --rm -v /dev/null:/var/run/nvidia-container-devices/all ubuntu:24.04 nvidia-smi -L >&2 ||
    { lacks "a container that asks for the GPUs by a mount does not see them" "sudo systemctl restart docker; then: nvidia-ctk config, docker info"; exit 1; }
fi

# --- the cluster ------------------------------------------------------------------------------------------------------
mount_of() {  # worker's number: what it sees of the machine, as kind's YAML
  if $simulated; then
    # JSON is YAML: a path may have any characters.
    printf '{"hostPath": "%s", "containerPath": "/opt/tranche-sim"}' "$source/build/kind-$name/worker-$1"
  else
    printf '{hostPath: /dev/null, containerPath: /var/run/nvidia-container-devices/all}'
  fi
}
if $simulated; then
  for ((worker = 1; worker <= workers; worker++)); do
    "$here/simulated-node" "$source/build/kind-$name/worker-$worker" --gpus "$gpus" --profile "$profile" --seed "$name-$worker"
  done
fi
if kind get clusters 2>/dev/null | grep -qx -- "$name"; then
  say "the cluster $name is there"
else
  say "creating the cluster $name"
  {
    printf 'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n'
    for ((worker = 1; worker <= workers; worker++)); do
      printf -- '- role: worker\n  extraMounts:\n  - %s\n' "$(mount_of "$worker")"
    done
  } | kind create cluster --name "$name" --config -
fi
context=kind-$name

# Runs in the worker: the toolkit, with its runtime known to containerd, and the driver's parameters as containers see them.
prepare_worker() {
  set -eu
  if ! command -v nvidia-ctk >/dev/null; then
    apt-get update -q && apt-get install -q -y --no-install-recommends gnupg curl ca-certificates
    curl -fsSL https://nvidia.github.io/libnvidia-container/gpgkey | gpg --dearmor -o /usr/share/keyrings/nvidia-container-toolkit.gpg
    curl -fsSL https://nvidia.github.io/libnvidia-container/stable/deb/nvidia-container-toolkit.list |
      sed 's#deb https://#deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit.gpg] https://#' >/etc/apt/sources.list.d/nvidia-container-toolkit.list
    apt-get update -q && apt-get install -q -y --no-install-recommends nvidia-container-toolkit
  fi
  nvidia-ctk runtime configure --runtime=containerd --config-source=command --cdi.enabled
  # Where the driver may make device nodes itself, it makes nodes of GPUs that a container was not given.
  if ! grep -q '^ModifyDeviceFiles: 0' /proc/driver/nvidia/params; then
    umount /proc/driver/nvidia 2>/dev/null || true
    sed 's/^ModifyDeviceFiles: 1/ModifyDeviceFiles: 0/' /proc/driver/nvidia/params >/run/nvidia-params
    mount --bind /run/nvidia-params /proc/driver/nvidia/params
  fi
  systemctl restart containerd
}
for worker in $(kind get nodes --name "$name" | grep worker | sort -V); do
  say "preparing $worker"
  if $simulated; then
    docker exec -i "$worker" bash -s -- "$gpus" <"$here/simulated-devices" >&2
  else
    docker exec -i "$worker" bash -c "$(declare -f prepare_worker); prepare_worker" >&2
  fi
  kubectl --context "$context" label node "$worker" --overwrite nvidia.com/gpu.present=true >&2
done
kubectl --context "$context" apply -f - >&2 <<'YAML'
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
---
apiVersion: v1
kind: Namespace
metadata: {name: tranche, labels: {pod-security.kubernetes.io/enforce: privileged}}
YAML

# --- Tranche ----------------------------------------------------------------------------------------------------------
more=()
if [[ -n $image ]]; then
  more=(--set "image.repository=${image%:*}" --set "image.tag=${image##*:}")
else
  say "loading $archive"
  kind load image-archive "$archive" --name "$name"
fi
say "installing the chart"
helm upgrade --install tranche "$source/deploy/helm/tranche" --kube-context "$context" -n tranche -f "$values" --wait "${more[@]}" >&2
kubectl --context "$context" -n tranche rollout status daemonset/tranche-node --timeout=120s >&2
kubectl --context "$context" -n tranche wait --for=condition=Ready pod -l app.kubernetes.io/component=mps --timeout=120s >&2
if [[ $values == "$here"/* ]]; then  # whose resources are known: kubelet adds them to its Node some seconds after the pods are ready
  for resource in gpu 'gpu\.shared'; do
    kubectl --context "$context" wait --for="jsonpath={.status.allocatable.nvidia\.com/$resource}" node -l nvidia.com/gpu.present=true --timeout=120s >&2
  done
fi
kubectl --context "$context" -n tranche get pods -o wide
kubectl --context "$context" get nodes -o custom-columns='NODE:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu,SHARED:.status.allocatable.nvidia\.com/gpu\.shared'
samples="-f $source/deploy/samples/probe.yaml"
! $simulated || samples="-k $here/without-gpu"
say "pods that share them: kubectl --context $context apply $samples"
