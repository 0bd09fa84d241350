#!/usr/bin/env python3
"""The JSON Schema of configurations against every configuration that is kept: what the program takes without a word the schema takes,
and what the schema refuses the program has something to say about."""

import os, pathlib, subprocess, sys, unittest

try:
    import jsonschema, yaml
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

SOURCE, BUILD = os.environ["TRANCHE_SOURCE"], os.environ["TRANCHE_BUILD"]
FILES = sorted(pathlib.Path(SOURCE, "tests/golden").glob("*/configs/*.yaml")) + sorted(pathlib.Path(SOURCE, "tests/malformed").glob("**/*.yaml"))


def tranche(*words):
    return subprocess.run([f"{BUILD}/bin/tranche", *words], capture_output=True, text=True)


class Schema(unittest.TestCase):
    def setUp(self):
        import json

        self.schema = json.loads(tranche("check", "--config-schema").stdout)
        jsonschema.Draft202012Validator.check_schema(self.schema)
        self.validator = jsonschema.Draft202012Validator(self.schema)

    def taken(self, path):
        """Whether the schema takes a file; None for what is no YAML."""
        try:
            value = yaml.safe_load(path.read_text())
        except (yaml.YAMLError, UnicodeDecodeError, ValueError):
            return None
        return value is None or self.validator.is_valid(value)

    def test_takes_what_the_program_takes_without_a_word(self):
        seen = 0
        for path in FILES:
            if "no problems" not in tranche("check", "--config", str(path)).stdout:
                continue
            seen += 1
            with self.subTest(path.name):
                self.assertIs(self.taken(path), True, [e.message for e in self.validator.iter_errors(yaml.safe_load(path.read_text()))])
        self.assertGreater(seen, 10)

    def test_refuses_much_of_what_the_program_refuses(self):
        refused = [path for path in FILES if tranche("check", "--config", str(path)).returncode == 2]
        found = [path for path in refused if self.taken(path) is False]
        self.assertGreater(len(found), len(refused) // 3, f"{len(found)} of {len(refused)}")

    def test_refuses_what_is_misspelt(self):
        for value in ({"sharing": {"mps": {"resorces": []}}}, {"version": "v2"}, {"flags": {"migStrategy": "both"}}, {"sharing": {"mps": {"memory": "4"}}},
                      {"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 0}]}}}):
            self.assertFalse(self.validator.is_valid(value), value)


if __name__ == "__main__":
    unittest.main()
