#!/usr/bin/env python3
"""Documents against the programs: every command in them is run here, or named with what runs it; configurations and manifests are
read; links lead somewhere. Variables: TRANCHE_SOURCE, TRANCHE_BUILD; Helm is used from $TRANCHE_KUBERNETES_BIN or PATH."""

import functools, json, os, pathlib, re, shutil, subprocess, sys, tempfile, unittest

try:
    import yaml
except ImportError:
    print("SKIPPED: Python has no yaml (Debian: python3-yaml)")
    sys.exit(77)

import documents, node, rules

SOURCE = os.path.abspath(os.environ.get("TRANCHE_SOURCE", os.path.join(os.path.dirname(__file__), "../..")))
BUILD = os.path.abspath(os.environ.get("TRANCHE_BUILD", os.path.join(SOURCE, "build")))
HERE = os.path.join(SOURCE, "tests/docs")
DOCUMENTS = documents.documents(SOURCE)
# Blocks of YAML that are parts of something, by their first key.
FRAGMENTS = {"args": "a container's arguments", "command": "a container's command", "env": "a container's variables"}


def found_program(name):
    places = os.pathsep.join([os.environ.get("TRANCHE_KUBERNETES_BIN", ""), os.environ.get("PATH", "")])
    return shutil.which(name, path=places) or ""


@functools.cache
def ctest_names():
    return set(re.findall(r"Test +#\d+: (\S+)", subprocess.run(["ctest", "-N", "--test-dir", BUILD], capture_output=True, text=True).stdout))


def is_there(where, command):
    """Whether what is said to run a command exists."""
    kind, _, name = where.partition(":")
    if kind == "none":
        return True
    if kind == "file":
        return os.access(f"{SOURCE}/{name}", os.X_OK)
    if kind == "ctest":
        return name in ctest_names()
    scenarios = [name] if name else [w for w in command.split()[1:] if w != "cluster" and not w.startswith("-")]
    known = pathlib.Path(SOURCE, "tests/cluster/scenarios/__init__.py").read_text()
    return all(f'"{scenario}":' in known for scenario in scenarios)


def flags_of_script(command):
    """Flags that a script of ours is called with and does not know."""
    words = command.split()
    path = pathlib.Path(SOURCE) / words[0]
    if not words[0].startswith(("scripts/", "deploy/", "tests/cluster/", "bench/")) or not path.is_file():
        return []
    return [w for w in words[1:] if w.startswith("--") and w.split("=")[0] not in path.read_text()]


class Shell:
    """Runs commands as a reader would, at the root of a checkout, with stand-ins for what is not here (standin.py)."""

    def __init__(self, at):
        self.node, self.dir = at, tempfile.mkdtemp(prefix="reader.", dir="/tmp")
        self.bin = f"{self.dir}/.bin"
        os.mkdir(self.bin)
        for name in ("tranche", "kubectl", "helm", "ctest", "grep"):
            os.symlink(f"{HERE}/standin.py", f"{self.bin}/{name}")
        for name in ("deploy", "docs", "data", "tests", "build"):
            os.symlink(BUILD if name == "build" else f"{SOURCE}/{name}", f"{self.dir}/{name}")
        os.symlink(f"{HERE}/standin.py", f"{self.dir}/dev")
        self.log = f"{self.dir}/.log"

        self.kept = set(os.listdir(self.dir)) | {".log"}

    def begin(self, document):
        """A document finds nothing of the one before, and what it says that its reader has."""
        for name in set(os.listdir(self.dir)) - self.kept:
            os.remove(f"{self.dir}/{name}")
        for name, text in rules.GIVEN.get(document, {}).items():
            pathlib.Path(self.dir, name).write_text(text)

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, script):
        """What went wrong, and what was called."""
        open(self.log, "w").close()
        shutil.rmtree(f"{self.node.dir}/doc-node", ignore_errors=True)
        path = f"{self.bin}:{self.node.env['PATH']}"
        environment = self.node.env | {"PATH": path, "DOCS_PATH": self.node.env["PATH"], "DOCS_LOG": self.log, "DOCS_BUILD": BUILD, "DOCS_SOURCE": SOURCE,
                                       "DOCS_NODE": self.node.dir, "DOCS_HELM": found_program("helm"), "DOCS_KUBECTL": found_program("kubectl")}
        if "&\n" in script:  # what it leaves running is ended
            # Not in the middle of its handshake, which would leave the daemon stuck.
            script += "\nfor _ in $(seq 600); do echo ps | nvidia-cuda-mps-control | /bin/grep -q sim-cuda && break; sleep 0.1; done; kill -9 $(jobs -p)"
        if "nvidia-cuda-mps-control -d" in script:
            script += "\necho quit -t 1 | nvidia-cuda-mps-control"
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(["bash", "-eu", "-c", script], cwd=self.dir, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, text=True, timeout=120)
            said.seek(0)
            output = said.read()
        with open(self.log) as log:
            calls = [json.loads(line) for line in log]
        wrong = [f"{call['call']}: {call['detail']}" for call in calls if call["verdict"] == "wrong"]
        if re.search(r"command not found|syntax error|unbound variable|No such file", output):
            wrong.append(output[-600:])
        if done.returncode != 0 and not wrong:
            wrong.append(f"exit status {done.returncode}: {output[-300:]}")
        return wrong, calls


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = node.Node(BUILD).start()
        cls.shell = Shell(cls.node)

    @classmethod
    def tearDownClass(cls):
        cls.shell.close()
        cls.node.stop()

    def filled(self, span):
        return rules.fill(span.text, self.node.dir, f"{BUILD}/standins")

    def faults_of(self, spans):
        """Of commands that belong together: each is run, or has its place in the list."""
        script, faults, expected = [], [], 0
        for span in spans:
            command = self.filled(span)
            place = f"{span.document}:{span.line}: {command}"
            bare = re.sub(r"\s+#.*", "", command).strip()
            if unknown := flags_of_script(bare):
                faults.append(f"{place}: the script does not know {unknown}")
            if named := rules.elsewhere(bare):
                if not is_there(named[1], bare):
                    faults.append(f"{place}: is said to be run by {named[1]}, which is not there")
                continue
            for program in rules.programs_of(command):
                if program not in rules.PLAIN | rules.TAKEN and not program.startswith(f"{BUILD}/standins/"):
                    faults.append(f"{place}: nothing says how {program} is run; add it to tests/docs/rules.py with the test that does")
                expected += program in rules.TAKEN
            script.append(command)
        if faults or not script:
            return faults
        wrong, calls = self.shell.run("\n".join(script))
        faults += [f"{spans[0].document}:{spans[0].line}: {each}" for each in wrong]
        if len(calls) < expected:
            faults.append(f"{spans[0].document}:{spans[0].line}: of {expected} commands {len(calls)} were called: {script}")
        return faults

    def test_of_blocks_are_run_or_named(self):
        faults, seen = [], 0
        for name in DOCUMENTS:
            self.shell.begin(name)
            for block in documents.blocks_of(SOURCE, name):
                if block.language in ("sh", "console", "bash"):
                    commands = documents.commands_of(block)
                    seen += len(commands)
                    faults += self.faults_of(commands)
        self.assertEqual(faults, [], "\n".join(faults))
        self.assertGreater(seen, 20)

    def test_in_the_text_are_run_or_named(self):
        faults, seen = [], {}
        for name in DOCUMENTS:
            for span in documents.spans_of(SOURCE, name):
                seen.setdefault(self.filled(span), span)
        for span in seen.values():
            words = span.text.split()
            if len(words) == 1:
                faults += self.mention(span, words)
            elif words[0] == "tranche" and len(words) == 2 and words[1] in ("reset", "verify"):
                faults += self.faults_of([documents.Span(span.document, span.line, span.text + " --help")])
            else:
                faults += self.faults_of([span])
        self.assertEqual(faults, [], "\n".join(faults))
        self.assertGreater(len(seen), 50)

    def mention(self, span, words):
        """A program's name alone: it is there."""
        if words[0].startswith(("./", "scripts/", "deploy/", "tests/", "build/", "bench/")):
            path = words[0].rstrip("/").replace("./", "")
            exists = bool(list(pathlib.Path(SOURCE).glob(path))) or path.startswith("build") and os.path.exists(f"{BUILD}/{path[6:]}") or path == "build"
            return [] if exists else [f"{span.document}:{span.line}: {words[0]} is not there"]
        return []

    def test_that_nobody_knows_are_a_fault(self):
        """The test of this test."""
        for text in ("tranche plan --no-such-flag", "tranche no-such-command", "kubectl label node n1 --nosuch", "kubectl frob n1", "frobnicate n1",
                     "helm install x deploy/helm/tranche --set nosuch.value=1", "tranche check --config docs/guide/configure.md", "deploy/kind/setup.sh --no-such-flag",
                     "./dev nosuch", "tests/cluster/run no-such-scenario", "kubectl -n tranche logs tranche-node-x | grep 'no such words'"):
            if (text.startswith("kubectl") and not found_program("kubectl")) or (text.startswith("helm") and not found_program("helm")):
                continue
            with self.subTest(text):
                self.assertNotEqual(self.faults_of([documents.Span("test", 1, text)]), [])


class Blocks(unittest.TestCase):
    def check_mig(self, text):
        """Each configuration of a file in mig-parted's format, by the program."""
        for name in yaml.safe_load(text)["mig-configs"]:
            came = subprocess.run([f"{BUILD}/bin/tranche", "mig", "assert", "--valid-config", "--config-file", "-", name], input=text, capture_output=True, text=True, timeout=120)
            if came.returncode != 0:
                return came.stdout + came.stderr
        return ""

    def check(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            for words in (["check", "--strict"], ["plan", "--strict", "--inventory", f"{SOURCE}/tests/golden/plan/inventories/4xH200.json"]):
                done = subprocess.run([f"{BUILD}/bin/tranche", *words, "--config", file.name], capture_output=True, text=True)
                if done.returncode != 0:
                    return done.stdout + done.stderr
        return ""

    def judge(self, text):
        """What is wrong with a block of YAML."""
        try:
            objects = [each for each in yaml.safe_load_all(text) if each is not None]
        except yaml.YAMLError as error:
            return str(error)
        for each in objects:
            if not isinstance(each, dict):
                return "is no mapping"
            first = next(iter(each))
            if "kind" in each and "apiVersion" in each:
                if each["kind"] == "ConfigMap":
                    for key, value in each.get("data", {}).items():
                        if wrong := self.check(value):
                            return f"{key}: {wrong}"
            elif "mig-configs" in each:
                if wrong := self.check_mig(text):
                    return wrong
            elif {"version", "sharing", "flags"} & set(each):
                if wrong := self.check(text):
                    return wrong
            elif first in FRAGMENTS:
                continue
            elif not self.are_values(each):
                return "is neither a configuration, an object, values of a chart nor a fragment that tests/docs knows"
        return ""

    def are_values(self, mapping):
        """Of our chart (each key is one of values.yaml), or of the GPU Operator's."""
        if set(mapping) <= {"devicePlugin", "gfd", "validator", "mps", "migManager", "dcgmExporter"} and isinstance(mapping.get("devicePlugin"), dict) and "repository" in mapping["devicePlugin"]:
            return True
        with open(f"{SOURCE}/deploy/helm/tranche/values.yaml") as file:
            return set(mapping) <= set(yaml.safe_load(file))

    def test_of_yaml_are_what_they_say(self):
        faults, seen = [], 0
        for name in DOCUMENTS:
            for block in documents.blocks_of(SOURCE, name):
                if block.language in ("yaml", "yml"):
                    seen += 1
                    if wrong := self.judge(block.text):
                        faults.append(f"{name}:{block.line}: {wrong}")
                if block.language == "json":
                    json.loads(re.sub(r"…|\.\.\.", "", block.text)) if "…" not in block.text else None
        self.assertEqual(faults, [], "\n".join(faults))
        self.assertGreater(seen, 2)

    def test_that_are_wrong_are_a_fault(self):
        for text in ("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: no}]}}", "version: v1\nsharring: {}", "a: [", "no: sense", "noSuchValue: 1",
                     "apiVersion: v1\nkind: ConfigMap\ndata: {a: 'sharing: {mps: {}}'}"):
            with self.subTest(text):
                self.assertNotEqual(self.judge(text), "")


class Links(unittest.TestCase):
    def faults(self, name):
        for line, target in documents.links_of(SOURCE, name):
            if re.match(r"^[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            full = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not os.path.exists(f"{SOURCE}/{full}"):
                yield f"{name}:{line}: {target} leads nowhere"
            elif anchor and full.endswith(".md") and anchor not in documents.anchors_of(SOURCE, full):
                yield f"{name}:{line}: {full} has no heading #{anchor}"

    def test_lead_somewhere(self):
        faults = [fault for name in [*DOCUMENTS, *(str(p.relative_to(SOURCE)) for p in pathlib.Path(SOURCE, "docs/internals/evidence").glob("*.md"))] for fault in self.faults(name)]
        self.assertEqual(faults, [], "\n".join(faults))

    def test_to_every_document_there_are(self):
        linked = {os.path.normpath(os.path.join(os.path.dirname(name), target.partition("#")[0])) for name in DOCUMENTS for _, target in documents.links_of(SOURCE, name)}
        lost = [name for name in DOCUMENTS if name.startswith("docs/") and name not in linked and os.path.dirname(name) not in linked - {"docs"}]
        self.assertEqual(lost, [], "no document leads to these")


class Printed(unittest.TestCase):
    def test_by_the_program_is_what_is_kept(self):
        for flag, kept in (("--config-reference", "docs/reference/configuration.md"), ("--config-schema", "deploy/schema/config.schema.json")):
            done = subprocess.run([f"{BUILD}/bin/tranche", "check", flag], capture_output=True, text=True)
            self.assertEqual(done.stdout, pathlib.Path(SOURCE, kept).read_text(), f"tranche check {flag} > {kept}")


class Messages(unittest.TestCase):
    def missing(self, messages):
        sources = "".join(p.read_text() for p in sorted(pathlib.Path(SOURCE, "src").rglob("*.cpp")) if not p.name.endswith("_test.cpp"))
        sources = re.sub(r'"\s*\n\s*"', "", sources)  # sentences that go over lines
        return [m for m in messages for piece in m.split("…") if piece.strip() not in sources]

    def test_of_ours_are_in_the_sources(self):
        messages = []
        for page, section in (("docs/reference/messages.md", "## Tranche"), ("docs/guide/troubleshoot.md", "## A pod fails with UnexpectedAdmissionError")):
            text = pathlib.Path(SOURCE, page).read_text().split(section)[1].split("\n## ")[0]
            messages += re.findall(r"^\| `([^`]+)` \|", text, re.M)
        messages.remove("no healthy devices present; cannot allocate unhealthy devices")  # kubelet's
        self.assertGreater(len(messages), 10)
        self.assertEqual(self.missing(messages), [])
        self.assertEqual(self.missing(["is not … such a message"]), ["is not … such a message"])


class Pictures(unittest.TestCase):
    def test_are_sound_and_described(self):
        import xml.etree.ElementTree as tree

        files = sorted(pathlib.Path(SOURCE, "docs/pictures").glob("*.svg"))
        self.assertGreater(len(files), 3)
        text = "".join(pathlib.Path(SOURCE, name).read_text() for name in DOCUMENTS)
        for file in files:
            with self.subTest(file.name):
                root = tree.parse(file).getroot()
                width, height = float(root.get("width")), float(root.get("height"))
                self.assertTrue(root.findtext("{*}title") and root.findtext("{*}desc"))
                self.assertIn(f"pictures/{file.name}", text)
                pages = {item for page in root.iter("{http://www.w3.org/2000/svg}foreignObject") for item in page.iter()}
                for item in set(root.iter("{http://www.w3.org/2000/svg}rect")) - pages:
                    self.assertLessEqual(float(item.get("x")) + float(item.get("width")), width)
                    self.assertLessEqual(float(item.get("y")) + float(item.get("height")), height)


if __name__ == "__main__":
    unittest.main(verbosity=1)
