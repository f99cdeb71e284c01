"""What may be run once more after a run of ctest (support/again.py), on files as ctest 3.25 writes them."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import again  # pylint: disable=wrong-import-position


def case(name, status="fail", output="not within 10.0 s: it is ready"):
    failure = '<failure message=""/>' if status == "fail" else ""
    return (f'<testcase name="{name}" classname="{name}" time="1.5" status="{status}">{failure}'
            f"<system-out>{output}</system-out></testcase>")


class Again(unittest.TestCase):
    def judge(self, *cases):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write('<?xml version="1.0" encoding="UTF-8"?><testsuite name="(empty)">'
                       + "".join(cases) + "</testsuite>")
            file.flush()
            return again.judge(file.name)

    def test_a_time_limit_of_an_integration_test_may_have_passed_for_want_of_time(self):
        self.assertEqual(self.judge(case("integration.a"), case("unit.b", "run"),
                                    case("integration.c")),
                         (["integration.a", "integration.c"], []))

    def test_a_promise_that_broke_is_no_matter_of_time(self):
        for output in ("ERROR: AddressSanitizer: heap-use-after-free on address 0x61",
                       "==1==ERROR: LeakSanitizer: detected memory leaks",
                       "WARNING: ThreadSanitizer: data race", "a.c:1:2: runtime error: shift",
                       "IDs: 1 issued twice, such as [7]", "q: no value twice: got 3, expected 4"):
            names, reasons = self.judge(case("integration.a"), case("integration.b", output=output))
            self.assertEqual((names, len(reasons)), (["integration.a"], 1), output)

    def test_what_no_clock_decides_is_not_tried_again(self):
        for name in ("unit.a", "scenario.a", "fuzz.a", "faults.a", "model.good.a"):
            self.assertEqual(self.judge(case(name))[0], [])
            self.assertEqual(len(self.judge(case(name))[1]), 1)

    def test_a_failure_of_many_is_one(self):
        self.assertEqual(self.judge(*(case(f"integration.{i}") for i in range(4)))[1], [])
        self.assertEqual(self.judge(*(case(f"integration.{i}") for i in range(5)))[1],
                         ["5 tests failed"])

    def test_what_was_not_run_has_not_passed(self):
        self.assertEqual(len(self.judge(case("integration.a", "notrun"))[1]), 1)


if __name__ == "__main__":
    unittest.main()
