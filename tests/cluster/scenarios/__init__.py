"""The scenarios in the order of a whole run."""

from . import kubelet_alone

ORDER = {"kubelet-alone": kubelet_alone.run}
