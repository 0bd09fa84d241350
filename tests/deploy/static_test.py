#!/usr/bin/env python3
"""The manifests of deploy/static: of this chart, and with words that the programs know. Where Helm is, they are compared with
what it makes of the chart."""

import glob
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
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
        find_helm()
        done = subprocess.run([f"{STATIC}/render", "--check"], capture_output=True, text=True, check=False)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_start_the_programs_with_flags_and_variables_that_they_have(self):
        for program in ("node", "mps"):
            known = subprocess.run([f"{BUILD}/bin/tranche", program, "--help-config"], capture_output=True, text=True, check=True).stdout
            for name, text in self.kept.items():
                container = re.search(rf"command: \[tranche, {program}\]\n(.*?)\n +ports:", text, re.DOTALL)
                self.assertIsNotNone(container, name)
                flags = re.findall(r"^ +- (--[a-z-]+)=", container.group(1), re.MULTILINE)
                self.assertIn("--listen", flags)
                for flag in flags:
                    self.assertRegex(known, rf"(^|[\s,]){flag}\b", f"{name}: tranche {program} has no {flag}")
                for variable in re.findall(r"- name: ([A-Z_]+)$", container.group(1), re.MULTILINE):
                    self.assertIn(variable, known, f"{name}: tranche {program} reads no {variable}")

    def test_have_no_probe_by_which_the_network_restarts_a_pod_or_by_which_tenants_end(self):
        for name, text in self.kept.items():
            self.assertEqual(re.findall(r"livenessProbe:\n +(\w+): ", text), ["exec"], name)
            self.assertIn("exec: {command: [tranche, status, --alive, ", text, name)
            mps = text[text.index("command: [tranche, mps]"):].split("\n---\n")[0]
            self.assertNotIn("livenessProbe", mps, name)

    def test_name_the_version_of_the_programs(self):
        version = subprocess.run([f"{BUILD}/bin/tranche", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        chart = text_of(f"{SOURCE}/deploy/helm/tranche/Chart.yaml")
        self.assertIn(f"appVersion: {version}\n", chart)
        for name, text in self.kept.items():
            self.assertEqual(set(re.findall(r"image: (\S+)", text)), {f"tranche.io/tranche:v{version}"}, name)
        self.assertIn(f"newTag: v{version}\n", text_of(f"{STATIC}/kustomization.yaml"))


class ThePlatformValues(unittest.TestCase):
    """deploy/values: what a person passes with -f on each platform."""

    # Beyond these, what the node agent's DaemonSet must have where Helm renders it.
    WANTED = {
        "aks": ["key: kubernetes.azure.com/accelerator", "key: sku"], "eks": ["capabilities: {drop: [ALL]"],
        "gke": ["hostPath: {path: /home/kubernetes/bin/nvidia, type: Directory}", "value: cdi-cri", "privileged: true"],
        "host-driver-without-toolkit": ["hostPath: {path: /, type: Directory}", "value: cdi-cri", "privileged: true"],
        "k0s": ["hostPath: {path: /var/lib/k0s/kubelet/pod-resources, type: Directory}", "runtimeClassName: nvidia"],
        "k3s": ["runtimeClassName: nvidia"], "kubeadm-host-driver": ["runtimeClassName: nvidia"],
        "kubeadm-operator-driver": ["hostPath: {path: /run/nvidia/driver, type: Directory}", "runtimeClassName: nvidia"],
        "openshift": ["openshift.io/required-scc: privileged", "hostPath: {path: /run/nvidia/driver, type: Directory}"],
        "rke2": ["runtimeClassName: nvidia"],
    }
    FILES = sorted(glob.glob(f"{SOURCE}/deploy/values/*.yaml"))

    def test_are_values_of_the_chart_and_named_by_the_guide(self):
        import jsonschema
        import yaml
        with open(f"{SOURCE}/deploy/helm/tranche/values.schema.json") as file:
            schema = json.load(file)
        self.assertEqual([os.path.basename(path)[:-5] for path in self.FILES], sorted(self.WANTED))
        guide = text_of(f"{SOURCE}/docs/guide/install.md")
        for path in self.FILES:
            jsonschema.validate(yaml.safe_load(text_of(path)), schema)
            self.assertIn(f"deploy/values/{os.path.basename(path)}", guide)

    def test_give_the_node_agent_what_the_platform_asks_for(self):
        program = find_helm()
        if program is None:
            self.skipTest("there is no Helm")
        for path in self.FILES:
            done = subprocess.run([program, "template", "tranche", f"{SOURCE}/deploy/helm/tranche", "-f", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{path}: {done.stderr}")
            node = next(text for text in done.stdout.split("\n---\n") if "command: [tranche, node]" in text)
            for words in [*self.WANTED[os.path.basename(path)[:-5]], "hostPath: {path: /var/lib/kubelet/device-plugins, type: Directory}"]:
                self.assertIn(words, node.replace('"', ""), path)


def find_helm():
    for path in (f"{BUILD}/kubernetes/helm", f"{os.environ.get('TRANCHE_KUBERNETES_BIN', '')}/helm"):
        if os.access(path, os.X_OK):
            os.environ.setdefault("TRANCHE_HELM", path)
    return renderer().helm()


class TheChart(unittest.TestCase):
    def setUp(self):
        self.program = find_helm()
        if self.program is None:
            self.skipTest("there is no Helm")

    def template(self, *words, version=None):
        settings = [word for each in words for word in ("--set", each)] + (["--kube-version", version] if version else [])
        return subprocess.run([self.program, "template", "tranche", f"{SOURCE}/deploy/helm/tranche", *settings], capture_output=True, text=True, check=False)

    def test_refuses_several_configurations_of_which_unlabelled_nodes_would_get_none(self):
        two = ("config.map.mps=version: v1", "config.map.slices=version: v1")
        refused = self.template(*two)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("config.map has mps, slices", refused.stderr)
        for more in ("config.default=mps", "config.map.default=version: v1", "config.fallbackStrategies={empty}"):
            self.assertEqual(self.template(*two, more).returncode, 0, more)

    def test_tolerates_the_taint_that_it_removes(self):
        made = self.template("startupTaint=tranche.io/not-ready").stdout
        self.assertEqual(made.count("key: tranche.io/not-ready"), 2)
        self.assertEqual(self.template("startupTaint=a", "tolerations=null").stdout.count("key: a\n"), 2)

    def test_has_a_metrics_service_for_each_program_with_its_port(self):
        services = re.findall(r"kind: Service\nmetadata:\n  name: (\S+)\n.*?component: (\w+)\n  ports:\n  - {name: metrics, port: (\d+)", self.template().stdout, re.DOTALL)
        self.assertEqual(services, [("tranche-metrics", "node", "9400"), ("tranche-mps-metrics", "mps", "9401")])
        self.assertNotIn("kind: Service\n", self.template("reset.enabled=true", "reset.nodes={n1}").stdout)

    def test_has_nothing_of_dra_until_that_is_switched_on(self):
        made = self.template().stdout
        for word in ("resource.k8s.io", "plugins_registry", "tranche-slices"):
            self.assertNotIn(word, made)

    def test_has_classes_rights_a_policy_and_sockets_for_dra(self):
        made = self.template("dra.enabled=true", "dra.driverName=gpu.example.com", "dra.extendedResourceName=nvidia.com/mine").stdout
        self.assertEqual(re.findall(r"kind: DeviceClass\nmetadata:\n  name: (\S+)", made), ["tranche-shared", "tranche-gpu", "tranche-monitor", "tranche-mig", "tranche-extended-resource"])
        self.assertEqual(made.count("device.driver == 'gpu.example.com'"), 5)
        self.assertNotIn("gpu.tranche.io", made)
        self.assertIn("extendedResourceName: nvidia.com/mine\n", made)
        self.assertIn("request.userInfo.username == 'system:serviceaccount:default:tranche-node'", made)
        self.assertIn("mountPath: /var/lib/kubelet/plugins_registry}\n", made)
        asked = made[made.index("name: tranche-dra"):].split("\n---\n")[0]
        known = text_of(f"{SOURCE}/deploy/rbac/dra.yaml").split("\n---\n")[0]
        listed = re.findall(r"^  - (\S+)$", asked.replace('""', "core").replace("gpu.example.com", "gpu.tranche.io"), re.MULTILINE)
        words = [word.strip('"') for line in re.findall(r": \[(.*)\]", known.replace('[""]', "[core]")) for word in line.split(", ")]
        self.assertEqual(sorted(listed), sorted(words))

    def policies(self, *settings, version="1.36.0"):
        """What the chart makes, and the names of the policies that limit the agents to their nodes."""
        done = self.template(*settings, version=version)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, re.findall(r"kind: ValidatingAdmissionPolicy\nmetadata:\n  name: (\S+-own-\S+)", done.stdout)

    # Promise: chart: From Kubernetes 1.32 on, policies limit each node agent to its own node.
    def test_limits_the_agents_to_their_nodes_by_policies_of_what_is_on(self):
        self.assertEqual(self.policies()[1], ["tranche-own-node"])
        self.assertEqual(self.policies("mig.manager.enabled=true")[1], ["tranche-own-node"])
        every = ("dra.enabled=true", "labels.output=nodefeature", "mig.manager.enabled=true", "mig.manager.evictAfter=10m")
        made, names = self.policies(*every, "dra.driverName=gpu.example.com", "fullnameOverride=mine", "startupTaint=example.com/wait")
        self.assertEqual(names, [f"mine-own-{part}" for part in ("node", "claims", "features", "pods")])
        self.assertEqual(re.findall(r"policyName: (mine-own-\S+)", made), names)
        self.assertEqual(set(re.findall(r"username == '(.*)'", made)), {"system:serviceaccount:default:mine-node"})
        self.assertNotIn("gpu.tranche.io", made)
        self.assertIn("t.key != 'example.com/wait' &&", made)
        self.assertIn("t.key != '' &&", self.policies()[0])
        binding = made[made.index("policyName: mine-own-pods"):].split("\n---\n")[0]
        self.assertIn("selector: {}", binding)

    def test_has_these_policies_where_tokens_name_their_node_for_sure_or_where_asked(self):
        self.assertEqual(self.policies(version="1.31.9")[1], [])
        self.assertEqual(self.policies(version="1.32.0-gke.5")[1], ["tranche-own-node"])
        self.assertEqual(self.policies("admission.ownNode=always", version="1.30.0")[1], ["tranche-own-node"])
        self.assertEqual(self.policies("admission.ownNode=never")[1], [])
        self.assertNotEqual(self.template("admission.ownNode=off").returncode, 0)

    def test_runs_the_agent_privileged_for_partitions_on_demand_only(self):
        def privileged(*settings):
            return self.template(*settings).stdout.count("privileged: true")
        usual = privileged("dra.enabled=true")
        self.assertEqual(privileged("dra.enabled=true", "dra.partitions=true"), usual + 1)
        self.assertEqual(privileged("dra.partitions=true"), usual)

    def test_has_nvidias_classes_under_nvidias_driver_name_only(self):
        made = self.template("dra.enabled=true", "dra.driverName=gpu.nvidia.com").stdout
        self.assertEqual(re.findall(r"kind: DeviceClass\nmetadata:\n  name: (\S+)", made), ["tranche-shared", "tranche-gpu", "tranche-monitor", "tranche-mig", "gpu.nvidia.com", "mig.nvidia.com"])
        self.assertIn("extendedResourceName: nvidia.com/gpu\n", made)
        self.assertNotIn("mig.nvidia.com", self.template("dra.enabled=true").stdout)

    def test_refuses_dra_where_kubelet_would_not_find_the_sockets(self):
        refused = self.template("dra.enabled=true", "kubeletDir=/var/lib/k0s/kubelet")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("dra.enabled needs kubeletDir /var/lib/kubelet", refused.stderr)


class ThePolicies(unittest.TestCase):
    """deploy/admission/own-*.yaml against what the programs write."""

    def test_know_the_labels_conditions_and_the_annotation_that_the_agent_writes(self):
        policy = text_of(f"{SOURCE}/deploy/admission/own-node.yaml")
        others = re.search(r"kOthers\{(.*?)\};", text_of(f"{SOURCE}/src/labels/outputs.cpp"), re.DOTALL).group(1)
        listed = re.search(r"\[('nvidia.com/gpu.deploy.'.*?)\]", policy, re.DOTALL).group(1)
        self.assertEqual(sorted(re.findall(r"'(.*?)'", listed)), sorted(re.findall(r'"(.*?)"', others)))
        conditions = re.findall(r'string_view k\w+Condition = "(.*?)"', text_of(f"{SOURCE}/src/kube/object.h"))
        self.assertEqual(sorted(re.findall(r"'(Tranche\w+)'", policy)), sorted(conditions))
        annotation = re.search(r'kOwnedAnnotation = "(.*?)"', text_of(f"{SOURCE}/src/labels/outputs.h")).group(1)
        self.assertIn(f"k != '{annotation}'", policy)
        state = re.search(r'kMigStateLabel = "(.*?)"', text_of(f"{SOURCE}/src/mig/live/mig_options.h")).group(1)
        self.assertIn(f"k != '{state}'", policy)

    def test_limit_the_agents_account_only_and_refuse_what_cannot_be_judged(self):
        for name in ("own-node", "own-claims", "own-features", "own-pods"):
            policy = text_of(f"{SOURCE}/deploy/admission/{name}.yaml")
            self.assertEqual(re.findall(r"username == '(.*)'", policy), ["system:serviceaccount:tranche:tranche-node"], name)
            self.assertIn("failurePolicy: Fail\n", policy, name)
            self.assertIn("- expression: variables.node != ''\n", policy, name)
            self.assertEqual(policy.count("reason: Forbidden\n"), policy.count("message: ") + policy.count("messageExpression: "), name)


def kubectl():
    """Of Kubernetes 1.26 or later, or None: the older one of Debian has a kustomize that ends at other fields."""
    for path in (f"{os.environ.get('TRANCHE_KUBERNETES_BIN', '')}/kubectl", f"{BUILD}/kubernetes/kubectl", shutil.which("kubectl") or ""):
        if not os.access(path, os.X_OK):
            continue
        shown = subprocess.run([path, "version", "--client"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"v1\.(\d+)", shown)
        if found and int(found.group(1)) >= 26:
            return path
    return None


class TheKustomizeBase(unittest.TestCase):
    def setUp(self):
        self.program = kubectl()
        if self.program is None:
            self.skipTest("there is no kubectl of 1.26 or later")
        self.scratch = tempfile.mkdtemp(dir=os.path.dirname(BUILD))  # kustomize takes bases by relative path
        self.addCleanup(shutil.rmtree, self.scratch)

    def built(self, folder):
        done = subprocess.run([self.program, "kustomize", folder], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def overlay(self, name, text, **files):
        folder = f"{self.scratch}/{name}"
        os.makedirs(folder)
        for file, content in {"kustomization.yaml": text, **{f"{key}.yaml": value for key, value in files.items()}}.items():
            with open(f"{folder}/{file}", "w") as out:
                out.write(content)
        return folder

    def test_makes_of_the_kept_manifest_what_it_is(self):
        plain = self.built(self.overlay("plain", "resources: [tranche.yaml]\n", tranche=text_of(f"{STATIC}/tranche.yaml")))
        self.assertEqual(self.built(STATIC), plain)
        objects = [text for text in text_of(f"{STATIC}/tranche.yaml").split("\n---\n") if re.search("^kind: ", text, re.MULTILINE)]
        self.assertEqual(len(plain.split("\n---\n")), len(objects))

    def test_takes_an_image_and_a_configuration_from_an_overlay_and_nothing_else_changes(self):
        base = os.path.relpath(STATIC, f"{self.scratch}/mine")
        image = "images: [{name: tranche.io/tranche, newName: registry.example/gpu/tranche, newTag: v9}]\n"
        patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tranche-configs, namespace: tranche}\ndata: {mine: 'version: v1'}\n"
        made = self.built(self.overlay("mine", f"resources: [{base}]\n{image}patches: [{{path: patch.yaml}}]\n", patch=patch))
        self.assertEqual(re.findall(r"image: (\S+)", made), ["registry.example/gpu/tranche:v9"] * 2)
        self.assertIn("  mine: 'version: v1'\n", made)
        back = made.replace("registry.example/gpu/tranche:v9", re.search(r"image: (\S+)", self.built(STATIC)).group(1)).replace("  mine: 'version: v1'\n", "")
        self.assertEqual(back, self.built(STATIC))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--quiet"])
