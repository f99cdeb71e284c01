"""The coordinator's page in a real Chromium: what an operator sees, and what a browser lets it do."""

import gzip
import http.client
import re
import zlib

import browser
import lib
import page_stub

ARROW_RIGHT, ARROW_DOWN, ENTER, TAB = "\ue014", "\ue015", "\ue007", "\ue004"
NASTY = "<img/src=x/onerror=alert(1)>"


def wait_text(page, selector, pattern, timeout=15):
    return lib.wait_until(lambda: re.search(pattern, page.text(selector)), timeout,
                          f"{selector} reads {pattern!r}")


def silent_console(page):
    """Neither errors nor violations of the Content-Security-Policy, which the console would show."""
    lib.equal(page.console(), [], "the console")


def nothing_wider_than_the_screen(page, width):
    lib.equal(page.run("return document.documentElement.scrollWidth"), width, "width of the page")


def contrast(page, selector):
    """Of an element's text with what is behind it, as WCAG counts it."""
    return page.run("""
        const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
            .map((c) => (c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
        let behind = document.querySelector(arguments[0]);
        const text = light(parts(getComputedStyle(behind).color));
        while (behind && (parts(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0)
            behind = behind.parentElement;
        const ground = light(parts(getComputedStyle(behind || document.documentElement).backgroundColor));
        return (Math.max(text, ground) + .05) / (Math.min(text, ground) + .05)""", selector)


def test_files_are_served_whole_compressed_or_not_at_all():
    with lib.Fleet() as fleet:
        coordinator = fleet.coordinator()
        page = coordinator.get("/")
        policy = page.headers["content-security-policy"]
        lib.equal(policy, page_stub.CSP, "the stub's policy is the real one")
        lib.check(policy.startswith("default-src 'none'; ") and "unsafe" not in policy
                  and "frame-ancestors 'none'" in policy, policy)
        lib.equal(page.headers["x-content-type-options"], "nosniff")
        for path, (file, _) in page_stub.FILES.items():
            content = file.read_bytes()
            host, port = coordinator.address.rsplit(":", 1)
            connection = http.client.HTTPConnection(host, int(port), timeout=10 * lib.SLOW)
            for accept, unpack in ((None, bytes), ("br, gzip;q=0.5", gzip.decompress),
                                   ("gzip;q=0", bytes), ("gzipped", bytes)):
                connection.request("GET", path, headers={"Accept-Encoding": accept} if accept else {})
                answer = connection.getresponse()
                lib.equal(unpack(answer.read()), content, f"{path} {accept}")
                tag = answer.headers["ETag"]
                for known, status in ((tag, 304), ("*", 304), (f'"x", {tag}', 304), ('"x"', 200)):
                    connection.request("GET", path, headers={"If-None-Match": known})
                    again = connection.getresponse()
                    lib.equal((again.status, again.read()), (status, b"" if status == 304 else content),
                              f"{path} {known}")
            connection.close()
        lib.equal(coordinator.get("/page/nothing.js").status, 404)
        lib.equal(coordinator.request("POST", "/").status, 405)


def test_many_viewers_share_one_answer():
    with lib.Fleet() as fleet:
        coordinator = fleet.coordinator()
        coordinator.get("/v1/fleet")
        texts = set()
        host, port = coordinator.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=10 * lib.SLOW)
        for _ in range(20):
            connection.request("GET", "/v1/fleet", headers={"Accept-Encoding": "gzip"})
            texts.add(zlib.decompress(connection.getresponse().read(), 31))
        connection.close()
        lib.check(len(texts) < 20, "an answer is made anew each time")


def test_three_workers_are_shown_and_one_that_dies_is_named():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        coordinator = fleet.coordinator("--probe-interval=1s", "--ceiling-interval=1s")
        candidate = fleet.coordinator("--probe-interval=1s", "--ceiling-interval=1s")
        fleet.leader([coordinator, candidate])
        if candidate.leads():
            coordinator, candidate = candidate, coordinator
        workers = [fleet.worker("--lease-ttl=5s", "--keepalive-interval=1s"),
                   fleet.worker("--lease-ttl=5s", "--keepalive-interval=1s"),
                   fleet.worker(f"--identity={NASTY}")]
        for worker in workers:
            worker.wait_ready()
        workers[0].ids(1000)
        with browser.Browser(fleet.folder) as page:
            page.size(1280, 900)
            page.open(coordinator.url)
            lib.wait_until(lambda: len(page.texts("#rows tr")) == 3, 15, "three rows")
            lib.wait_until(lambda: page.run("return document.querySelectorAll('#map .HELD').length") == 3,
                           15, "three squares are held")
            lib.equal(page.run("return document.querySelectorAll('#map .cell').length"), 1024)
            wait_text(page, "#facts", r"this coordinator[\s\S]*3 of 3")
            wait_text(page, "#facts", r"Ceiling\s+2[34]\.\d\sh ahead[\s\S]*etcd\s+answers")
            wait_text(page, "#rows", r"serving")
            # Nothing synchronises this machine's clock, or something does: both are said.
            wait_text(page, "#verdict-title", r"^(All is well|1 warning)$")
            lib.check(NASTY in page.texts("#rows .name"), "its name is text")
            lib.equal(page.run("return document.querySelectorAll('main img').length"), 0, "no element")
            wait_text(page, "#plot-legend", r"worker1")

            workers[1].kill()
            wait_text(page, "#alarms", r"worker2")
            wait_text(page, "#verdict-title", r"warning|critical", 5)
            lib.wait_until(lambda: page.run("return document.querySelectorAll('#map .COOLING').length") == 1,
                           30, "its square is cooling")
            lib.wait_until(lambda: len(page.texts("#rows tr")) == 2, 30, "its row goes")

            page.run("location.href = arguments[0]", candidate.url)
            wait_text(page, "#standby", "stands by")
            lib.equal(page.run("return document.querySelector('#standby a').href"), coordinator.url + "/")
            silent_console(page)

            candidate.kill()
            wait_text(page, "#lost", r"does not answer[\s\S]*Next try in")
            lib.check(page.run("return document.body.classList.contains('old')"), "the rest is dimmed")


def test_500_workers():
    made = page_stub.Fleet(500)
    made.names[7] = NASTY
    made.wrong = {3: {"offset_ms": 740}, 17: {"silent": True}, 42: {"unsynchronized": True},
                  77: {"state": "STARVED", "reason": "the time granted is used up", "runway_ms": -4000}}
    with lib.Fleet(start_etcd=False) as fleet, page_stub.Server(made) as server, \
            browser.Browser(fleet.folder) as page:
        page.size(1280, 900)
        page.scheme("light")
        page.open(server.url)
        wait_text(page, "#workers-title", r"500", 30)
        wait_text(page, "#verdict-title", r"1 critical, 2 warnings")
        lib.equal(page.texts("#rows .name")[:3], ["prod/ids-77", "prod/ids-3", "prod/ids-17"], "worst first")
        for state, count in {"HELD": 499, "STUCK": 1, "FREE": 457, "AHEAD": 3, "RESERVED": 32,
                             "OUT_OF_RANGE": 32}.items():
            lib.equal(page.run("return document.querySelectorAll('#map .cell.' + arguments[0]).length",
                               state), count, state)
        lib.equal(page.run("return new Set([...document.querySelectorAll('#legend .swatch')].map((e) => "
                           "getComputedStyle(e).backgroundImage + getComputedStyle(e).borderStyle + "
                           "(getComputedStyle(e).backgroundColor === 'rgba(0, 0, 0, 0)'))).size"), 6,
                  "each state has a look of its own, whatever its colour")

        # Keyboard: through the map, and into it again where one left it.
        page.run("document.querySelector('#map .cell[tabindex=\"0\"]').focus()")
        page.keys(ARROW_RIGHT, ARROW_DOWN, ARROW_DOWN)
        lib.equal(page.run("return document.activeElement.dataset.id"), "65")
        wait_text(page, "#map-detail", r"Machine ID 65: held by prod/ids-65, runway")
        page.keys(ENTER)
        lib.equal(page.run("return document.querySelectorAll('#map .same').length"), 1)
        wait_text(page, "#plot-legend", r"prod/ids-65\b")
        page.keys(TAB)
        lib.check(page.run("return !document.activeElement.closest('#map')"), "one Tab leaves the map")
        page.click("#map .cell[data-id='77']")
        wait_text(page, "#map-detail", r"77: stuck by prod/ids-77, its horizon is past")

        # The table.
        lib.equal(len(page.texts("#rows tr")), 50)
        page.click("#filter")
        page.keys(*"ids-499")
        lib.equal(page.texts("#rows .name"), ["prod/ids-499"])
        page.run("const f = document.getElementById('filter'); f.value = 'not heard'; "
                 "f.dispatchEvent(new Event('input'))")
        lib.equal(page.texts("#rows .name"), ["prod/ids-17"])
        page.run("const f = document.getElementById('filter'); f.value = 'onerror'; "
                 "f.dispatchEvent(new Event('input'))")
        lib.equal(page.texts("#rows .name"), [NASTY])
        page.run("const f = document.getElementById('filter'); f.value = ''; "
                 "f.dispatchEvent(new Event('input'))")
        page.click("#all")
        lib.equal(len(page.texts("#rows tr")), 500)
        lib.equal(page.run("return document.querySelectorAll('main img').length"), 0, "no element")

        # It goes on by itself, and what goes is gone.
        asked = made.asked
        made.gone.add(499)
        made.wrong[3] = {}
        wait_text(page, "#workers-title", r"499")
        wait_text(page, "#verdict-title", r"^▲? ?2 warnings")
        lib.check(made.asked > asked, "it asked again")

        # Both themes can be read, whatever chose them.
        grounds = set()
        for scheme in ("light", "dark"):
            page.scheme(scheme)
            grounds.add(page.run("return getComputedStyle(document.documentElement).backgroundColor"))
            for selector in ("#verdict-title", "#alarms .text", "#alarms .meaning", "#alarms .severity",
                             "#facts dt", "#facts .bad dd", ".hint", "#rows .name", "#rows .note",
                             "#rows td", "th button", "#age", "footer p", "footer a"):
                ratio = contrast(page, selector)
                lib.check(ratio >= 4.5, f"{scheme} {selector}: contrast {ratio:.2f}")
        lib.equal(len(grounds), 2)
        page.click("#theme")
        page.click("#theme")
        lib.equal(page.run("return document.documentElement.dataset.theme"), "dark")
        page.scheme("light")
        lib.check(page.run("return getComputedStyle(document.documentElement).backgroundColor") in grounds,
                  "dark stays")
        page.open(server.url)
        lib.equal(page.run("return document.documentElement.dataset.theme"), "dark", "after a reload")

        # A phone.
        page.size(360, 740, 2, True)
        page.open(server.url)
        wait_text(page, "#workers-title", r"499", 30)
        lib.wait_until(lambda: page.run("return document.querySelectorAll('#plot canvas').length"), 20,
                       "the plot is drawn")
        nothing_wider_than_the_screen(page, 360)
        wait_text(page, "#plot-summary", r"^498 of 499\sclocks heard; the farthest is 1\.[0-9]+\sms")
        lib.equal(page.run("""return new Set([...document.querySelectorAll('#rows td:nth-child(4)')]
            .map((e) => Math.round(e.getBoundingClientRect().left))).size"""), 1, "the cards' columns are in line")

        # Every control has a name, every region too.
        lib.equal(page.run("""return [...document.querySelectorAll('button, input, select, section')]
            .filter((e) => !e.hidden && !(e.innerText || e.labels?.length || e.ariaLabel
                || e.getAttribute('aria-labelledby'))).map((e) => e.outerHTML)"""), [])
        silent_console(page)
        server.http.broken = True
        wait_text(page, "#lost-text", r"answers 503", 20)
        server.http.broken = False
        page.click("#retry")
        lib.wait_until(lambda: page.run("return document.getElementById('lost').hidden"), 15, "it is back")


if __name__ == "__main__":
    lib.main()
