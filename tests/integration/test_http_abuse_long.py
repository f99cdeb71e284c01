"""Slow clients as in test_http_abuse.py, ten times as many."""

import lib
import test_http_abuse


def test_two_thousand_slow_clients_are_cut_and_others_served():
    test_http_abuse.slow_clients_are_cut_and_others_served(2000)


if __name__ == "__main__":
    lib.main()
