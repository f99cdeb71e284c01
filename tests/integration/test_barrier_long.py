"""As test_barrier.py, ten rounds."""

import lib
import test_barrier


def test_ten_rounds_with_a_coordinator():
    test_barrier.rounds(True, 10)


def test_ten_rounds_without_one():
    test_barrier.rounds(False, 10)


if __name__ == "__main__":
    lib.main()
