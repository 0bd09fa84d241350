"""The scenarios in the order of a whole run."""

from . import change, chart, cluster, config, drop_in, kubelet_alone, mission_without_gpu, pods, shares, stopping, verify

ORDER = {"kubelet-alone": kubelet_alone.run, "drop-in": drop_in.run, "cluster": cluster.run, "change": change.run, "pods": pods.run, "config": config.run, "shares": shares.run, "stopping": stopping.run, "chart": chart.run, "verify": verify.run,
         "without-gpu": mission_without_gpu.run}
