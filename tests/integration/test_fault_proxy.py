"""The fault proxy of tests/support: each of its modes, seen from both sides."""

import http.client
import http.server
import pathlib
import sys
import threading
import time

import lib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import fault_proxy  # pylint: disable=wrong-import-position


class Backend(http.server.ThreadingHTTPServer):
    """Remembers what was delivered (self.seen, bodies in order) and answers with it.  /stream goes on,
    a number at a time, until told to end."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen = []
        self.streaming = True
        self.pieces = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self):
        return "{}:{}".format(*self.server_address)

    def handle_error(self, request, client_address):
        pass  # connections that break are what this is about


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.seen.append(body)
        self.send_response(200)
        if self.path == "/stream":
            self._stream()
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def _stream(self):
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while self.server.streaming:
            self.server.pieces += 1
            self.wfile.write(b"4\r\n%03d\n\r\n" % self.server.pieces)
            time.sleep(0.02)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        pass


class Rig:
    """A backend, two links to it, and the outcome of a request: its text, "reset" or "silence"."""

    def __init__(self):
        self.backend = Backend()
        self.proxy = fault_proxy.FaultProxy(seed=1)
        self.one = self.proxy.link("one>back", self.backend.address)
        self.two = self.proxy.link("two>back", self.backend.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proxy.close()
        self.backend.shutdown()
        self.backend.server_close()

    def ask(self, body, path="/a", link=None, timeout=20.0):
        host, port = (link or self.one).rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        try:
            connection.request("POST", path, body=body)
            return connection.getresponse().read().decode()
        except TimeoutError:
            return "silence"
        except (OSError, http.client.HTTPException):
            return "reset"
        finally:
            connection.close()

    def start(self, *args, **kwargs):
        """ask() beside what follows; returns a function that waits for the outcome.  Its outcome is []
        until then."""
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(self.ask(*args, **kwargs)))
        thread.start()

        def wait():
            thread.join()
            return outcome[0]
        wait.outcome = outcome
        return wait

    def wait_seen(self, *bodies):
        lib.wait_until(lambda: self.backend.seen == list(bodies), 5,
                       f"delivered: {bodies}; so far {self.backend.seen}")


def test_without_rules_it_is_not_there():
    with Rig() as rig:
        connection = http.client.HTTPConnection(*rig.one.rsplit(":", 1), timeout=20)
        for number in range(20):  # over one connection
            connection.request("POST", "/a", body=str(number) * 5000)
            lib.equal(connection.getresponse().read().decode(), str(number) * 5000)
        connection.close()
        lib.equal(len(rig.backend.seen), 20)
        lib.equal(rig.proxy.requests(), {"one>back": 20, "two>back": 0})


def test_cut_by_link_path_and_body():
    with Rig() as rig:
        rule = rig.proxy.rule("cut", link="one>*", path="/cut*", body="b.d")
        lib.equal(rig.ask("bad", "/cut/1"), "reset")
        lib.equal(rig.ask("good", "/cut/1"), "good")
        lib.equal(rig.ask("bad", "/other"), "bad")
        lib.equal(rig.ask("bad", "/cut/1", rig.two), "bad")
        lib.equal(rig.proxy.hits(rule), 1)
        lib.equal(rig.proxy.remove(rule), 1)
        lib.equal(rig.ask("bad", "/cut/1"), "bad")
        rig.wait_seen("good", "bad", "bad", "bad")


def test_a_probability_and_a_limit():
    with Rig() as rig:
        rule = rig.proxy.rule("cut", p=0.5)
        outcomes = [rig.ask("x") for _ in range(60)]
        hits = rig.proxy.remove(rule)
        lib.check(10 < hits < 50, hits)
        lib.equal(outcomes.count("reset"), hits)
        rig.proxy.rule("cut", limit=2)
        lib.equal([rig.ask("x") for _ in range(4)], ["reset", "reset", "x", "x"])


def test_delay_of_a_request_and_of_an_answer():
    with Rig() as rig:
        rule = rig.proxy.rule("delay", ms=[400, 400])
        begun = time.monotonic()
        lib.equal(rig.ask("x"), "x")
        lib.check(time.monotonic() - begun >= 0.4, "the request is late")
        rig.proxy.remove(rule)
        rig.proxy.rule("delay", ms=[2000, 2000], way="answer")
        begun = time.monotonic()
        answer = rig.start("y")
        rig.wait_seen("x", "y")
        lib.check(answer.outcome == [], "the request is not")
        lib.equal(answer(), "y")
        lib.check(time.monotonic() - begun >= 2, "the answer is late")


def test_a_delayed_request_lands_though_its_client_has_given_up():
    with Rig() as rig:
        rig.proxy.rule("delay", ms=[1000, 1000], limit=1)
        lib.equal(rig.ask("late", timeout=0.3), "silence")
        lib.equal(rig.ask("next"), "next")
        rig.wait_seen("next", "late")


def test_reorder_of_requests_and_of_answers():
    with Rig() as rig:
        rule = rig.proxy.rule("reorder", ms=[0, 60000])
        first = rig.start("first")
        lib.wait_until(lambda: rig.proxy.hits(rule) == 1, 5, "it is held")
        lib.equal(rig.backend.seen, [])
        lib.equal(rig.ask("second"), "second")
        lib.equal(first(), "first")
        rig.wait_seen("second", "first")
        rig.proxy.remove(rule)
        rule = rig.proxy.rule("reorder", ms=[0, 60000], way="answer")
        third = rig.start("third")
        rig.wait_seen("second", "first", "third")
        lib.equal(rig.ask("fourth"), "fourth")
        lib.equal(third(), "third")
        rig.proxy.remove(rule)
        rig.proxy.rule("reorder", ms=[0, 100])
        lib.equal(rig.ask("alone"), "alone")


def test_repeat():
    with Rig() as rig:
        rig.proxy.rule("repeat", ms=[300, 300], limit=1)
        lib.equal(rig.ask("x"), "x")
        lib.equal(rig.ask("y"), "y")
        rig.wait_seen("x", "y", "x")


def test_eat_the_answer():
    with Rig() as rig:
        rig.proxy.rule("eat", limit=1)
        lib.equal(rig.ask("cut"), "reset")
        rig.proxy.rule("eat", limit=1, then="hang")
        lib.equal(rig.ask("hang", timeout=0.5), "silence")
        lib.equal(rig.backend.seen, ["cut", "hang"])


def test_loss_on_the_way_there():
    with Rig() as rig:
        rule = rig.proxy.rule("lose_up", link="one>*", late=1)
        lib.equal(rig.ask("x", timeout=0.5), "silence")
        waiting = rig.start("y")
        lib.wait_until(lambda: rig.proxy.hits(rule) == 2, 5, "both are held")
        lib.equal(rig.ask("z", link=rig.two), "z")
        lib.equal(rig.backend.seen, ["z"])
        rig.proxy.remove(rule)  # as TCP does, it repeats what was lost
        lib.equal(waiting(), "y")
        lib.wait_until(lambda: sorted(rig.backend.seen) == ["x", "y", "z"], 5, "also without its client")
        rule = rig.proxy.rule("lose_up", late=0)
        waiting = rig.start("never")
        lib.wait_until(lambda: rig.proxy.hits(rule) == 1, 5, "it is held")
        rig.proxy.remove(rule)
        lib.equal(waiting(), "reset")
        lib.equal(len(rig.backend.seen), 3)


def test_loss_on_the_way_back():
    with Rig() as rig:
        rule = rig.proxy.rule("lose_down", late=1)
        lib.equal(rig.ask("x", timeout=0.5), "silence")
        rig.wait_seen("x")
        waiting = rig.start("y")
        rig.wait_seen("x", "y")
        rig.proxy.remove(rule)
        lib.equal(waiting(), "y")


def test_a_stream_stops_while_its_way_back_is_lost():
    with Rig() as rig:
        connection = http.client.HTTPConnection(*rig.one.rsplit(":", 1), timeout=20)
        connection.request("POST", "/stream", body="s")
        stream = connection.getresponse()
        lib.equal(stream.readline(), b"001\n")
        rule = rig.proxy.rule("lose_down", late=1)
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(stream.read().split()))
        reader.start()
        begun = rig.backend.pieces
        lib.wait_until(lambda: rig.backend.pieces > begun + 20, 10, "the server goes on")
        lib.check(not seen and reader.is_alive(), "nothing of it comes")
        rig.proxy.remove(rule)
        rig.backend.streaming = False
        reader.join(20)
        lib.equal([int(number) for number in seen], list(range(2, rig.backend.pieces + 1)), "all comes")
        connection.close()


def test_a_stream_ends_at_the_server_when_its_client_leaves():
    with Rig() as rig:
        connection = http.client.HTTPConnection(*rig.one.rsplit(":", 1), timeout=20)
        connection.request("POST", "/stream", body="s")
        lib.equal(connection.getresponse().readline(), b"001\n")
        connection.close()

        def still():
            before = rig.backend.pieces
            time.sleep(0.3)
            return rig.backend.pieces == before
        lib.wait_until(still, 10, "the server notices")


def test_black_hole():
    with Rig() as rig:
        rule = rig.proxy.rule("black_hole", late=0)
        lib.equal(rig.ask("x", timeout=0.5), "silence")
        lib.equal(rig.ask("y", timeout=0.5), "silence")
        rig.proxy.remove(rule)
        lib.equal(rig.ask("z"), "z")
        lib.equal(rig.backend.seen, ["z"])


def test_a_server_that_is_not_there():
    with Rig() as rig:
        link = rig.proxy.link("three>nobody", f"127.0.0.1:{lib.free_port()}")
        lib.equal(rig.ask("x", link=link), "reset")


def test_bad_orders_are_named():
    with Rig() as rig:
        for fields, complaint in (({"kind": "melt"}, "melt"), ({"kind": "cut", "p": 1.5}, "1.5"),
                                  ({"kind": "delay", "ms": [5, 1]}, "[5, 1]"),
                                  ({"kind": "eat", "then": "smile"}, "smile"),
                                  ({"kind": "delay", "way": "up"}, "up")):
            try:
                rig.proxy.rule(**fields)
                raise lib.Failure(f"{fields} was taken")
            except RuntimeError as err:
                lib.check(complaint in str(err), err)


if __name__ == "__main__":
    lib.main()
