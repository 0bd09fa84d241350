"""scripts/promises on a tree of its own: what it prints, and what --check finds."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/promises"
PROMISE = "// " + "Promise: "  # in two pieces: this file is read for annotations itself


class Promises(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("scripts", "src", "tests/contract"):
            (self.root / folder).mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "scripts/promises")
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def run_script(self, *flags):
        return subprocess.run([sys.executable, self.root / "scripts/promises", *flags], capture_output=True, text=True)

    # Promise: promises: Each promise is one line under its subject, with the places of all its tests.
    def test_are_lines_by_subject_with_the_places_of_their_tests(self):
        (self.root / "src/a_test.cpp").write_text(f"{PROMISE}mps/relay: It holds.\nTEST(A, Holds) {{}}\n\n{PROMISE}guard: It works.\n// More.\nTEST_F(A,\n       Works) {{}}\n")
        (self.root / "tests/d.py").write_text(f"class D:\n    {PROMISE.replace('//', '#')}mps/relay: It holds.\n    @skip\n    def test_too(self):\n")
        guard, relay = "## guard\n\n- It works. (src/a_test.cpp:4)\n", "## mps/relay\n\n- It holds. (src/a_test.cpp:1, tests/d.py:2)\n"
        self.assertEqual(self.run_script().stdout, f"{guard}\n{relay}")
        self.assertEqual(self.run_script("mps").stdout, relay)
        self.assertEqual(self.run_script("mps/rel").returncode, 1)

    # Promise: promises: An unknown subject, and a sentence that two subjects have, are faults.
    def test_have_a_known_subject_and_a_sentence_of_their_own(self):
        source = self.root / "src/a_test.cpp"
        for text, fault in ((f"{PROMISE}nosuch/relay: It works.\nTEST(A, Works) {{}}\n", "a_test.cpp:1: `nosuch/relay` is not a subject"),
                            (f"{PROMISE}guard: It works.\nTEST(A, Works) {{}}\n{PROMISE}top: It works.\nTEST(A, Too) {{}}\n", "a_test.cpp:3: the sentence is already a promise of `guard` (src/a_test.cpp:1)")):
            source.write_text(text)
            done = self.run_script("--check")
            self.assertEqual((done.returncode, done.stdout.count("\n")), (1, 1), done.stdout)
            self.assertIn(fault, done.stdout)
        source.write_text(f"{PROMISE}guard: It works.\nTEST(A, Works) {{}}\n{PROMISE}guard: It works.\nTEST(A, Too) {{}}\n")
        done = self.run_script("--check")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    # Promise: promises: An annotation without a test, without its parts or above 120 columns is a fault.
    def test_that_are_wrong_are_named_with_their_place(self):
        long = f"{PROMISE}guard: {'It works ' * 13}well."
        for text, fault in ((f"{PROMISE}guard: It works.\n\nTEST(A, Works) {{}}\n", "a_test.cpp:1: no test follows"), (f"{PROMISE}it works\nTEST(A, Works) {{}}\n", "a_test.cpp:1: write"),
                            (f"{long}\nTEST(A, Works) {{}}\n", "a_test.cpp:1: the annotation is longer")):
            (self.root / "src/a_test.cpp").write_text(text)
            done = self.run_script("--check")
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(fault, done.stdout)

    # Promise: promises: Checks of a script of tests count as the test of a promise.
    def test_are_above_checks_of_a_script_too(self):
        script = self.root / "tests/story.py"
        for text, status in (("    checks.check('it works', True)\n", 0), ("    pass\n", 1)):
            script.write_text(f"def run(checks):\n    {PROMISE.replace('//', '#')}guard: It works.\n{text}")
            self.assertEqual(self.run_script("--check").returncode, status, text)

    # Promise: promises: A test of kubelet's contract without an annotation is a fault.
    def test_are_above_every_test_of_kubelets_contract(self):
        (self.root / "tests/contract/a_test.cpp").write_text("TEST(A, Works) {}\n")
        self.assertIn("A.Works pins a fact without an annotation", self.run_script("--check").stdout)


unittest.main()
