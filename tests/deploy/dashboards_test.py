#!/usr/bin/env python3
"""The chart's Grafana dashboards: the shape that Grafana reads, and queries of metrics and labels that there are. Where
promtool is, it evaluates every query over one series of each metric: each must give something."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["TRANCHE_SOURCE"]
BOARDS = sorted(glob.glob(f"{SOURCE}/deploy/helm/tranche/dashboards/*.json"))
RULES = f"{SOURCE}/deploy/helm/tranche/files/rules.yaml"
TARGET = {"node", "instance"}  # labels of the chart's PodMonitor, and Prometheus's own
FOREIGN = {"ALERTS": {"alertname", "alertstate", "severity"} | TARGET | {"namespace", "pod"}}
KINDS = {"stat", "table", "timeseries", "row"}


def text_of(path):
    with open(path) as file:
        return file.read()


def metrics():
    """{name: labels} of what the programs export, and of what the rules record."""
    table = re.findall(r"^- `(tranche_\w+)(?:\{(.*?)\})?`:", text_of(f"{SOURCE}/docs/reference/metrics.md").replace("TENANT", "namespace,pod,container,gpu,resource"), re.MULTILINE)
    known = {name: set(re.findall(r"\w+", row)) | TARGET for name, row in table}
    for name, expression in re.findall(r"^  - record: (\S+)\n    expr: (.*)$", text_of(RULES), re.MULTILINE):
        by = re.search(r"by \((.*?)\)", expression)
        known[name] = set(by.group(1).split(", ")) if by else known[re.search(r"tranche_\w+", expression).group()]
    return {**known, **FOREIGN}


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries(board):
    return [(panel["title"], target["expr"]) for panel in panels(board) for target in panel["targets"]]


class TheDashboards(unittest.TestCase):
    def setUp(self):
        self.boards = {os.path.basename(path): json.loads(text_of(path)) for path in BOARDS}
        self.assertEqual(list(self.boards), ["cluster.json", "node.json", "tenant.json"])

    def test_have_the_shape_that_grafana_reads(self):
        self.assertEqual(len({board["uid"] for board in self.boards.values()}), len(self.boards))
        for name, board in self.boards.items():
            self.assertRegex(board["uid"], r"^[a-z-]{1,40}$", name)  # Grafana refuses more than 40
            self.assertTrue(board["title"] and board["schemaVersion"] >= 36 and "id" not in board, name)
            first = board["templating"]["list"][0]
            self.assertEqual((first["type"], first["name"], first["query"]), ("datasource", "datasource", "prometheus"), name)
            ids = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(ids), len(set(ids)), name)
            taken = set()
            for panel in board["panels"]:
                at = panel["gridPos"]
                self.assertIn(panel["type"], KINDS, panel["title"])
                self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
                cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
                self.assertFalse(cells & taken, f"{name}: {panel['title']} lies on another panel")
                taken |= cells
            for panel in panels(board):
                self.assertTrue(panel["title"] and panel["targets"], name)
                for part in [panel, *panel["targets"]]:
                    self.assertEqual(part["datasource"], {"type": "prometheus", "uid": "${datasource}"}, panel["title"])
                self.assertEqual([target["refId"] for target in panel["targets"]], [chr(65 + i) for i in range(len(panel["targets"]))], panel["title"])

    # Promise: dashboards: Every metric and label that a dashboard's panel queries exists.
    def test_are_of_metrics_and_labels_that_there_are(self):
        known = metrics()
        for name, board in self.boards.items():
            variables = {each["name"] for each in board["templating"]["list"]}
            for each in board["templating"]["list"][1:]:
                metric, label = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", each["query"]["query"]).groups()
                self.assertIn(label, known[metric], name)
            for title, query in queries(board):
                where = f"{name}: {title}"
                self.assertTrue(set(re.findall(r"\$(\w+)", query)) <= variables, where)
                used = re.findall(r"\b(tranche[_:][\w:]+|ALERTS)\b(?:\{(.*?)\})?", query)
                self.assertTrue(used, where)
                labels = set()
                for metric, matchers in used:
                    self.assertIn(metric, known, where)
                    labels |= known[metric]
                    for label in re.findall(r"(\w+)(?:=~|!=|=)", matchers):
                        self.assertIn(label, known[metric], where)
                for group in re.findall(r"\b(?:by|on|group_left) \((.*?)\)", query):
                    self.assertTrue(set(group.split(", ")) <= labels, where)
            for panel in panels(board):
                for target in panel["targets"]:
                    labels = set().union(*(known[metric] for metric in re.findall(r"\b(?:tranche[_:][\w:]+|ALERTS)\b", target["expr"])))
                    self.assertTrue(set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, panel["title"])

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool (Debian's package prometheus)")
    def test_each_query_gives_something(self):
        series = []
        for name, labels in metrics().items():
            if name.startswith("tranche:"):
                continue
            for which in ("a", "b"):  # several of each, so that joins that are not one to one fail
                given = {label: which for label in labels}
                for label, value in (("health", "healthy"), ("state", "starting"), ("status", "False"), ("alertname", "TrancheX"), ("alertstate", "firing"), ("kind", "uncorrected")):
                    given.update({label: value} if label in labels else {})
                # Nothing runs of one, for the queries that look for that; the others grow.
                values = "0+0x60" if name in ("tranche_tenant_clients", "tranche_slots_allocated") and which == "b" else "1x60" if name in ("tranche_pool_state", "tranche_gpu_info", "tranche_ready") else "1+1x60"
                pairs = ",".join(f'{label}="{value}"' for label, value in sorted(given.items()))
                series.append((name + "{" + pairs + "}", values))
        series.append(('tranche_ready{node="a",instance="a",status="True",reason="x"}', "1x60"))
        series.append(('tranche_slots{node="a",instance="a",gpu="a",resource="a",health="unhealthy"}', "1x60"))
        expressions = [(f"{name}: {title}", re.sub(r'=~"\$\w+"', '=~".*"', query).replace("$node", "a")) for name, board in self.boards.items() for title, query in queries(board)]
        self.assertGreater(len(expressions), 60)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(RULES, f"{folder}/rules.yaml")
            rules = {"groups": [{"name": "dashboards", "rules": [{"record": f"query:{i}", "expr": query} for i, (_, query) in enumerate(expressions)]}]}
            # Recorded one after another in one group: the last sample of each query is what counts.
            tests = {"rule_files": ["rules.yaml", "queries.yaml"], "evaluation_interval": "1m",
                     "tests": [{"interval": "1m", "input_series": [{"series": s, "values": v} for s, v in series],
                                "promql_expr_test": [{"expr": f'label_replace(count(query:{i}) > bool 0, "query", "{where}", "", "")', "eval_time": "50m",
                                                      "exp_samples": [{"labels": f'{{query="{where}"}}', "value": 1}]} for i, (where, _) in enumerate(expressions)]}]}
            for name, value in (("queries.yaml", rules), ("test.yaml", tests)):
                with open(f"{folder}/{name}", "w") as file:
                    json.dump(value, file)  # which is YAML
            for words in (["check", "rules", "queries.yaml"], ["test", "rules", "test.yaml"]):
                done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False, cwd=folder)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])


if __name__ == "__main__":
    unittest.main()
