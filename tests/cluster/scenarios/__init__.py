"""The scenarios in the order of a whole run."""

from . import cluster, drop_in, kubelet_alone

ORDER = {"kubelet-alone": kubelet_alone.run, "drop-in": drop_in.run, "cluster": cluster.run}
