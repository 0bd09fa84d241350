#!/usr/bin/env python3
"""The chart's Prometheus rules: of metrics that there are, each alert with its section of the guide. Where promtool is, it
reads the rules and tests them (rules_test.yaml)."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["TRANCHE_SOURCE"]
RULES = f"{SOURCE}/deploy/helm/tranche/files/rules.yaml"


def text_of(path):
    with open(path) as file:
        return file.read()


def promtool(*words, cwd):
    return subprocess.run(["promtool", *words], capture_output=True, text=True, check=False, cwd=cwd)


class TheRules(unittest.TestCase):
    def setUp(self):
        self.text = text_of(RULES)
        self.alerts = re.findall(r"^  - alert: (\w+)$", self.text, re.MULTILINE)

    def test_are_of_metrics_and_labels_that_there_are(self):
        table = re.findall(r"^- `(tranche_\w+)(?:\{(.*?)\})?`:", text_of(f"{SOURCE}/docs/reference/metrics.md").replace("TENANT", "namespace,pod,container,gpu,resource"), re.MULTILINE)
        labels = {name: set(re.findall(r"\w+", row)) for name, row in table}
        used = re.findall(r"\b(tranche_\w+)(?:\{(.*?)\})?", self.text)
        self.assertGreater(len(used), 20)
        for name, matchers in used:
            self.assertIn(name, labels)
            for label in re.findall(r"(\w+)=", matchers):
                self.assertIn(label, labels[name], name)

    def test_use_recorded_series_that_there_are(self):
        recorded = set(re.findall(r"^  - record: (\S+)$", self.text, re.MULTILINE))
        self.assertEqual(set(re.findall(r"\btranche:[\w:]+", self.text)), recorded)

    # Promise: alerts: Each alert of the chart has a section of the guide that says what it means and what to do.
    def test_each_alert_has_its_section(self):
        sections = re.findall(r"^## (\w+)$", text_of(f"{SOURCE}/docs/guide/alerts.md"), re.MULTILINE)
        self.assertEqual(self.alerts, sections)
        for alert in self.alerts:
            self.assertIn(f"runbook_url: docs/guide/alerts.md#{alert.lower()}\n", self.text)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool (Debian's package prometheus)")
    def test_fire_when_they_should(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(RULES, f"{folder}/rules.yaml")
            shutil.copy(f"{SOURCE}/tests/deploy/rules_test.yaml", folder)
            for words in (["check", "rules", "rules.yaml"], ["test", "rules", "rules_test.yaml"]):
                done = promtool(*words, cwd=folder)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
