"""scripts/layers on a tree of its own: which includes it refuses."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/layers"


class Layers(unittest.TestCase):
    # Promise: layers: A file that includes a header of its own layer or of a higher one is a fault.
    def test_refuse_an_include_that_does_not_lead_down(self):
        for place, include, fault in (("upper/a.cpp", "lower/b.h", None), ("upper/a.cpp", "upper/c.h", None),
                                      ("upper/part/a.cpp", "upper/c.h", None), ("upper/a.cpp", "vector.h", None),
                                      ("lower/a_test.cpp", "upper/c.h", "lower/a_test.cpp:2: lower must not include upper/c.h: upper is not below it"),
                                      ("lower/a.h", "beside/d.h", "lower/a.h:2: lower must not include beside/d.h: beside is not below it"),
                                      ("upper/a.cpp", "upper/apart/e.h", "upper/a.cpp:2: upper must not include upper/apart/e.h: upper/apart is not below it"),
                                      ("new/a.cpp", "lower/b.h", "new/a.cpp: LAYERS does not name its folder")):
            with self.subTest(place=place, include=include), tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder)
                (root / "LAYERS").write_text("# lowest first\nlower beside\nupper\nupper/apart\n")
                for name, text in (*((header, "") for header in ("lower/b.h", "upper/c.h", "beside/d.h", "upper/apart/e.h")),
                                   (place, f'#pragma once\n#include "{include}"\n')):
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
                done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
                self.assertEqual((done.stdout, done.returncode), (f"{fault}\n", 1) if fault else ("", 0))


if __name__ == "__main__":
    unittest.main()
