"""The real Helm, as a person would call it, on the cluster of the test."""

import json
import os

from .programs import write

CHART = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../deploy/helm/tranche"))


class Helm:
    """`helm VERB tranche`, in the namespace tranche, with a chart where the verb takes one."""

    def __init__(self, shell):
        self.shell, self.chart = shell, CHART

    def __call__(self, verb, *words, values=None, check=True):
        more = []
        if values is not None:
            path = f"{self.shell.env['HOME']}/values.json"
            write(path, json.dumps(values))
            more = ["-f", path]
        chart = [self.chart] if verb in ("install", "upgrade", "template") else []
        return self.shell("helm", verb, "tranche", *chart, "-n", "tranche", *more, *words, check=check, timeout=200)
