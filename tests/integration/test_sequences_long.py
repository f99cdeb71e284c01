"""Two of test_sequences.py with as many as one likes."""

import lib
import test_sequences


def test_64_connections_of_50000_over_blocks_of_10():
    test_sequences.connections_over_blocks_of_10(50000)


def test_a_hundred_killed_workers_lose_what_they_held():
    test_sequences.killed_workers_lose_what_they_held(100)


if __name__ == "__main__":
    lib.main()
