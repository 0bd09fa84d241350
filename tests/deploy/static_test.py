#!/usr/bin/env python3
"""The manifests of deploy/static: of this chart, and with words that the programs know. Where Helm is, they are compared with
what it makes of the chart."""

import glob
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["TRANCHE_SOURCE"], os.environ["TRANCHE_BUILD"]
STATIC = f"{SOURCE}/deploy/static"


def text_of(path):
    with open(path) as file:
        return file.read()


def renderer():
    loader = importlib.machinery.SourceFileLoader("render", f"{STATIC}/render")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("render", loader))
    loader.exec_module(module)
    return module


class TheKeptManifests(unittest.TestCase):
    def setUp(self):
        self.render = renderer()
        self.kept = {name: text_of(f"{STATIC}/{name}") for name in self.render.KEPT}

    def test_are_all_that_lie_there(self):
        self.assertEqual(sorted(map(os.path.basename, glob.glob(f"{STATIC}/*.yaml"))), sorted([*self.kept, "kustomization.yaml"]))

    def test_are_of_this_chart(self):
        for name, text in self.kept.items():
            self.assertIn(f"sha256 {self.render.digest()}.\n", text, f"{name} was made of another chart; run deploy/static/render and look at the difference")

    def test_are_what_helm_makes_of_the_chart(self):
        env = dict(os.environ)
        for path in (f"{BUILD}/kubernetes/helm", f"{os.environ.get('TRANCHE_KUBERNETES_BIN', '')}/helm"):
            if os.access(path, os.X_OK):
                env.setdefault("TRANCHE_HELM", path)
        done = subprocess.run([f"{STATIC}/render", "--check"], capture_output=True, text=True, check=False, env=env)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_start_the_programs_with_flags_and_variables_that_they_have(self):
        for program in ("node", "mps"):
            known = subprocess.run([f"{BUILD}/bin/tranche", program, "--help"], capture_output=True, text=True, check=True).stdout
            for name, text in self.kept.items():
                container = re.search(rf"command: \[tranche, {program}\]\n(.*?)\n +ports:", text, re.DOTALL)
                self.assertIsNotNone(container, name)
                flags = re.findall(r"^ +- (--[a-z-]+)=", container.group(1), re.MULTILINE)
                self.assertIn("--listen", flags)
                for flag in flags:
                    self.assertRegex(known, rf"(^|[\s,]){flag}\b", f"{name}: tranche {program} has no {flag}")
                for variable in re.findall(r"- name: ([A-Z_]+)$", container.group(1), re.MULTILINE):
                    self.assertIn(variable, known, f"{name}: tranche {program} reads no {variable}")

    def test_name_the_version_of_the_programs(self):
        version = subprocess.run([f"{BUILD}/bin/tranche", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        chart = text_of(f"{SOURCE}/deploy/helm/tranche/Chart.yaml")
        self.assertIn(f"appVersion: {version}\n", chart)
        for name, text in self.kept.items():
            self.assertEqual(set(re.findall(r"image: (\S+)", text)), {f"tranche.io/tranche:v{version}"}, name)
        self.assertIn(f"newTag: v{version}\n", text_of(f"{STATIC}/kustomization.yaml"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--quiet"])
