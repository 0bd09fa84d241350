"""The scenarios in the order of a whole run."""

from . import change, cluster, config, deaths, dra, dra_cases, dra_faults, dra_nvidia, dra_partitions, dra_rollout, dra_slots, dra_thousand, drop_in, figures, gpu_operator, kind, kubelet_alone, manifests, mission_fork, mission_mig, mission_one_node, mission_operator, mission_slices, mission_two_nodes, mission_upgrade, mission_without_gpu, nvidia_chart, pods, quickstart, shares, verify, verify_pods

ORDER = {
    "kubelet-alone": kubelet_alone.run,
    "drop-in": drop_in.run,
    "cluster": cluster.run,
    "change": change.run,
    "pods": pods.run,
    "config": config.run,
    "shares": shares.run,
    "dra": dra.run,
    "dra-cases": dra_cases.run,
    "dra-faults": dra_faults.run,
    "dra-nvidia": dra_nvidia.run,
    "dra-older-server": dra.run_older_server,
    "dra-partitions": dra_partitions.run,
    "dra-rollout": dra_rollout.run,
    "dra-slots": dra_slots.run,
    "dra-thousand": dra_thousand.run,
    "deaths": deaths.run,
    "figures": figures.run,
    "verify": verify.run,
    "verify-pods": verify_pods.run,
    "without-gpu": mission_without_gpu.run,
    "kind": kind.run,
    "nvidia-chart": nvidia_chart.run,
    "gpu-operator": gpu_operator.run,
    "manifests": manifests.run,
    "fork": mission_fork.run,
    "mig": mission_mig.run,
    "operator": mission_operator.run,
    "slices": mission_slices.run,
    "upgrade": mission_upgrade.run,
    "one-node": mission_one_node.run,
    "two-nodes": mission_two_nodes.run,
    "quickstart": quickstart.run,
}
TWO_NODES = {"two-nodes"}  # those that have a second node
# Further programs of build-programs that a scenario needs, and what it does outside its namespaces, which have no way to Debian's mirror.
BEFORE = {"kind": (kind.PROGRAMS, kind.prepare)}
