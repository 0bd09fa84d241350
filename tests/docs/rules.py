"""What becomes of each program that a document's command names. A program that is not here fails the test."""

import re

# Programs of the document's reader that are run as they stand.
PLAIN = {"cat", "grep", "export", "mkdir", "echo", "cd", "true", "sim-node", "sim-cuda", "nvidia-cuda-mps-control",
         "build/standins/sim-node", "build/bin/tranche", "wait", "rm"}
# Programs that a stand-in takes (standin.py): it runs the real one as far as it can be run here.
TAKEN = {"tranche", "kubectl", "helm", "docker", "skopeo", "kind", "ctest", "./dev", "grep"}

# What is not run here, why, and what runs it: a ctest name, a scenario of tests/cluster, or a script of tests/gpu.
# A pattern is matched against the whole command, with what a document leaves open filled in.
ELSEWHERE = [
    (r"tranche verify n1", "asks an API server", "cluster:verify"),
    (r"tranche verify (n1 --deep.*|--inside.*)", "makes probe pods, or is one", "cluster:verify-pods"),
    (r"tranche verify --local --deep.*", "takes slots and starts probes; root", "ctest:gpu_verify_deep_simulated"),
    (r"kubectl exec -i deploy/my-cuda-app -- nvidia-cuda-mps-control .*", "asks an endpoint from inside a pod", "cluster:operator"),
    (r"tranche reset( --node-name n1)?( --force)?", "takes the node down", "ctest:node_verify_test"),
    (r"tranche plan .*--pods cluster.*", "asks an API server", "ctest:node_plan_test"),
    (r"tranche labels --label-output \w+ --remove", "asks an API server, or writes a file of the node's", "ctest:node_kube_test"),
    (r"tranche mps --end", "ends the daemons", "ctest:node_faults_test"),
    (r"tranche probe( .*)?", "beside MPS in exclusive mode nothing runs; the probe's own tests and the stand-ins do", "ctest:gpu_sm_counts_simulated"),
    (r"cmake --(preset release|build build --target gemm-check)|build/bin/gemm-check( .*)?", "needs cuBLAS; against the stand-ins", "ctest:gpu_sm_counts_simulated"),
    (r"helm (upgrade|install)( -i| --install)?( \S+)? (nvdp|nvidia)/.*", "a chart of NVIDIA's, from the network", "cluster:upgrade"),
    (r"helm repo .*", "the network", "cluster:upgrade"),
    (r"helm (uninstall|rollback|get|status|list)( .*)?", "needs a release in a cluster", "cluster:upgrade"),
    (r"(docker|podman) (build|load|exec|manifest|pull|push|run|tag)( .*)?", "needs an engine; the same files without one", "ctest:image_test"),
    (r"skopeo copy .*", "needs a registry; the archive that it reads is checked", "ctest:image_test"),
    (r"\./dev release( .*)?|(cosign|sha256sum|base64|tar) .*|helm (pull|install tranche oci://.*)|ctr -n k8s\.io images (import tranche-0|tag ).*"
     r"|kubectl (krew .*|apply -f tranche\.yaml)", "needs a registry or the files of a release; these are checked", "ctest:release_test"),
    (r"kind (create|delete|get|load) .*", "needs an engine", "cluster:kind"),
    (r"scripts/setup\.sh( .*)?", "drives kubectl and helm", "ctest:scripts_setup"),
    (r"scripts/verify-mps-setup\.sh( .*)?", "drives kubectl", "ctest:scripts_verify"),
    (r"deploy/kind/setup\.sh( .*)?", "needs docker and kind", "ctest:scripts_kind"),
    (r"deploy/static/render", "its output is compared", "ctest:static_test"),
    (r"tests/cluster/run( --keep)?( [\w-]+)*", "is what it names", "cluster:"),
    (r"\./dev cluster( [\w-]+)?", "is what it names", "cluster:"),
    (r"\./dev (test|build)( .*)?", "is what runs this test", "ctest:docs_test"),
    (r"\./dev image.*", "is built in its own test", "ctest:image_test"),
    (r"\./dev promises( .*)?", "prints what scripts/house-rules checks", "ctest:scripts_promises"),
    (r"\./dev mutants( .*)?", "takes minutes, and is run by hand", "file:scripts/mutants"),
    (r"\./dev coverage( .*)?", "takes half an hour, and is run by hand", "file:scripts/coverage"),
    (r"tranche why --cluster .*", "asks an API server", "ctest:observe_browser_web"),
    (r"kubectl tranche( .*)?|tranche status --node .*", "asks an API server", "cluster:without-gpu"),
    (r"tranche web( .*)?", "asks an API server", "ctest:observe_browser_web"),
    (r"\./dev browser", "needs Chromium", "ctest:observe_browser"),
    (r"\./dev pictures", "needs Chromium", "ctest:observe_pictures"),
    (r"\./dev (bench|clean)( .*)?", "is run by hand", "file:dev"),
    (r"\./dev (rules|full|asan|tsan|fuzz|lint)( .*)?|\.ci/run|scripts/under-load", "is run by .ci/run or by hand", "file:scripts/full"),
    (r"bench/run( --quick)?", "takes minutes", "file:bench/run"),
    (r"ctr -n k8s.io images import build/tranche-image.tar", "needs containerd", "cluster:upgrade"),
    (r"(systemctl|crictl|curl|modprobe|nvidia-smi|nvidia-ctk|apt-get|sudo|git)( .*)?", "changes or asks the reader's machine, and none of it is ours", "none:"),
]

# What a document leaves open, filled in. `{dir}` is the simulated node's folder.
OPEN = [
    (r"--pods (F|FILE)\b", "--pods {dir}/pods.yaml"),
    (r"--inventory FILE\b", "--inventory node"),
    (r"\b(F2|OLD)\b", "{dir}/other.yaml"),
    (r"\b(F|FILE|NEW)\b(?!=)", "{dir}/config.yaml"),
    (r"\bNODE\b|(?<= )n1\b", "n1"),
    (r"\bREGISTRY\b", "registry.example"),
    (r"\b(AGENT-POD|DAEMONSET-POD|POD)\b", "tranche-node-x"),
    (r"\bGRANT-ID\b", "gpu-"),  # what stands in any log of a node
    (r"<name>", "docs_test"),
    (r"/tmp/node\b", "{dir}/doc-node"),
    (r"\$PWD/build/standins|(?<![\w/])build/standins", "{standins}"),
    (r" \| \.\.\.$| …$|…", ""),
]

# Files that a document says its reader has.
VALUES = "image: {repository: registry.example/tranche}\n"
GIVEN = {"docs/guide/migrate.md": {"values.yaml": VALUES, "nvidia-values.yaml": "{}\n"}, "docs/guide/install.md": {"values.yaml": VALUES}}

# Exit statuses that say "done" of what is run here.
STATUS = {"check": {0, 1}, "plan": {0, 3}, "mig": {0, 4, 5}, "reset": {1}, "status": {0}, "verify": {0}, "labels": {0}, "version": {0}}
# Flags that a text names without their value.
NEEDS_VALUE = {"--against", "--pods", "--config", "--config-file", "--deep", "--endpoint", "--config-of-node", "--inventory"}


def fill(command, directory, standins):
    for pattern, text in OPEN:
        command = re.sub(pattern, lambda _, text=text: text.format(dir=directory, standins=standins), command)
    return command.strip()


def elsewhere(command):
    for pattern, why, where in ELSEWHERE:
        if re.fullmatch(pattern, command, re.S):
            return why, where
    return None


def programs_of(command):
    """First words of the simple commands in a line of shell."""
    text = re.sub(r"<<'?(\w+)'?.*", "", command, flags=re.S).replace("\\\n", " ")
    text = re.sub(r"\s#.*", "", text)
    pieces, quote, current = [], "", ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        if c in "|&;\n" and not quote:
            pieces.append(current)
            current = ""
        else:
            current += c
    pieces.append(current)
    words = [piece.split() for piece in pieces]
    return [next((w for w in line if not re.match(r"^\w+=", w)), "export") for line in words if line]
