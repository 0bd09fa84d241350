"""scripts/promises on a tree of its own: what it prints, and what --check finds."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/promises"
SAYS = "// " + "Promise: "  # in two pieces: this file is read for annotations itself


class Promises(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("scripts", "docs/internals", "src", "tests/contract"):
            (self.root / folder).mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "scripts/promises")
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def run_script(self, *flags):
        return subprocess.run([sys.executable, self.root / "scripts/promises", *flags], capture_output=True, text=True)

    def keep_page(self):
        (self.root / "docs/internals/promises.md").write_text(self.run_script().stdout)

    # Promise: promises: The page has a row for each promise with all tests that pin it.
    def test_are_rows_with_their_tests_by_subject(self):
        (self.root / "src/a_test.cpp").write_text(f"{SAYS}b/c: It holds.\nTEST(A, Holds) {{}}\n\n{SAYS}a: It works.\n// More.\nTEST_F(A,\n       Works) {{}}\n")
        (self.root / "tests/d_test.py").write_text(f"class D:\n    {SAYS.replace('//', '#')}b/c: It holds.\n    @skip\n    def test_too(self):\n")
        page = self.run_script().stdout
        self.assertIn("| It holds. | [`A.Holds`](../../src/a_test.cpp), [`d_test.test_too`](../../tests/d_test.py) |", page)
        self.assertLess(page.index("| It works. | [`A.Works`]"), page.index("| It holds. |"))

    # Promise: promises: A page that differs from the annotations is a fault.
    def test_that_changed_make_the_kept_page_a_fault(self):
        source = self.root / "src/a_test.cpp"
        source.write_text(f"{SAYS}a: It works.\nTEST(A, Works) {{}}\n")
        self.keep_page()
        self.assertEqual(self.run_script("--check").returncode, 0)
        source.write_text(f"{SAYS}a: It works well.\nTEST(A, Works) {{}}\n")
        done = self.run_script("--check")
        self.assertEqual((done.returncode, done.stdout.count("\n")), (1, 1), done.stdout)

    # Promise: promises: An annotation without a test, without its parts or above 120 columns is a fault.
    def test_that_are_wrong_are_named_with_their_place(self):
        long = f"{SAYS}a: {'It works ' * 13}well."
        for text, fault in ((f"{SAYS}a: It works.\n\nTEST(A, Works) {{}}\n", "a_test.cpp:1: no test follows"), (f"{SAYS}it works\nTEST(A, Works) {{}}\n", "a_test.cpp:1: write"),
                            (f"{long}\nTEST(A, Works) {{}}\n", "a_test.cpp:1: the annotation is longer")):
            (self.root / "src/a_test.cpp").write_text(text)
            self.keep_page()
            done = self.run_script("--check")
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(fault, done.stdout)

    # Promise: promises: A test of kubelet's contract without an annotation is a fault.
    def test_are_above_every_test_of_kubelets_contract(self):
        (self.root / "tests/contract/a_test.cpp").write_text("TEST(A, Works) {}\n")
        self.keep_page()
        self.assertIn("A.Works pins a fact without an annotation", self.run_script("--check").stdout)


unittest.main()
