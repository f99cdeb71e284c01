"""gRPC under TLS: certificates of both sides, their change under way, and what is refused."""

import os
import ssl
import socket
import subprocess
import warnings

import grpc

import grpc_lib
import lib


def openssl(*args):
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, check=False)
    lib.equal(done.returncode, 0, done.stderr)


class Authority:
    """A CA of its own, in a folder of its own."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.key, self.cert = folder / f"{name}.key", folder / f"{name}.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2,
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.cert)

    def issue(self, name):
        """(certificate, key) for localhost and 127.0.0.1."""
        key, request, cert = (self.folder / f"{self.name}-{name}{end}" for end in (".key", ".csr", ".pem"))
        names = self.folder / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", 2,
                "-extfile", names, "-out", cert)
        return cert, key


def channel(worker, root, pair=None):
    credentials = grpc.ssl_channel_credentials(
        root.cert.read_bytes(), *(() if pair is None else (pair[1].read_bytes(), pair[0].read_bytes())))
    return grpc.secure_channel(worker.grpc_address, credentials, [("grpc.enable_http_proxy", 0),
                                                                 ("grpc.use_local_subchannel_pool", 1)])


def next_id(worker, root, pair=None):
    with channel(worker, root, pair) as made:
        return grpc_lib.IdService(made).Next(grpc_lib.ids.NextRequest(), timeout=10 * lib.SLOW).id


def is_refused(worker, root, pair=None):
    """No connection comes about, which grpcio tries until its deadline or says at once."""
    with channel(worker, root, pair) as made:
        try:
            grpc_lib.IdService(made).Next(grpc_lib.ids.NextRequest(), timeout=10 * lib.SLOW)
        except grpc.RpcError as err:
            lib.equal(err.code(), grpc_lib.Code.UNAVAILABLE, err.details())
            return
    raise lib.Failure("was let in")


def start(fleet, cert, key, *args):
    fleet.init("--new")
    worker = fleet.worker("--assign-wait=0s", f"--tls-cert-file={cert}", f"--tls-key-file={key}", *args)
    worker.wait_ready()
    return worker


def handshake(worker, alpn=("h2",), **settings):
    """The protocol agreed on; raises when there is no agreement."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name, value in settings.items():
            setattr(context, name, value)
    host, port = worker.grpc_address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10 * lib.SLOW) as plain:
        with context.wrap_socket(plain) as secure:
            lib.check(secure.recv(1) if secure.selected_alpn_protocol() is None else True, "is not served")
            return secure.version(), secure.selected_alpn_protocol()


def test_a_channel_under_tls():
    with lib.Fleet() as fleet:
        ours, other = Authority(fleet.folder, "ours"), Authority(fleet.folder, "other")
        worker = start(fleet, *ours.issue("server"), f"--unix-socket={fleet.folder}/sock")
        lib.check(next_id(worker, ours) > 0, "an ID")
        with channel(worker, ours) as made:
            service = grpc_lib.IdService(made)
            numbers = [number for reply in service.Stream(grpc_lib.ids.StreamRequest(count=200000, batch_count=10000))
                       for number in reply.ids]
            lib.equal((len(numbers), numbers), (200000, sorted(set(numbers))), "much, in order")
        is_refused(worker, other)
        with grpc_lib.channel(worker.grpc_address) as plain:
            grpc_lib.refused(grpc_lib.Code.UNAVAILABLE, lambda: grpc_lib.IdService(plain).Next(
                grpc_lib.ids.NextRequest(), timeout=10 * lib.SLOW))
        with grpc_lib.channel(f"unix:{fleet.folder}/sock") as plain:
            lib.check(grpc_lib.IdService(plain).Next(grpc_lib.ids.NextRequest()).id > 0, "the socket is without")
        lib.check(next_id(worker, ours) > 0, "it goes on")


def test_old_versions_and_other_protocols_are_refused():
    with lib.Fleet() as fleet:
        ours = Authority(fleet.folder, "ours")
        worker = start(fleet, *ours.issue("server"))
        lib.equal(handshake(worker), ("TLSv1.3", "h2"))
        lib.equal(handshake(worker, maximum_version=ssl.TLSVersion.TLSv1_2), ("TLSv1.2", "h2"))
        lib.equal(handshake(worker, alpn=("http/1.1", "h2")), ("TLSv1.3", "h2"))
        for what, settings in (("TLS 1.1", {"minimum_version": ssl.TLSVersion.TLSv1,
                                            "maximum_version": ssl.TLSVersion.TLSv1_1}),
                               ("http/1.1", {"alpn": ("http/1.1",)}), ("no protocol", {"alpn": ()})):
            try:
                agreed = handshake(worker, **settings)
            except (OSError, lib.Failure):
                continue
            raise lib.Failure(f"{what}: {agreed}")
        lib.check(next_id(worker, ours) > 0, "it goes on")


def test_clients_need_a_certificate_of_the_right_ca():
    with lib.Fleet() as fleet:
        ours, clients = Authority(fleet.folder, "ours"), Authority(fleet.folder, "clients")
        known, foreign = clients.issue("known"), ours.issue("foreign")
        worker = start(fleet, *ours.issue("server"), f"--tls-client-ca-file={clients.cert}")
        lib.check(next_id(worker, ours, known) > 0, "an ID")
        is_refused(worker, ours)
        is_refused(worker, ours, foreign)
        lib.check(next_id(worker, ours, known) > 0, "it goes on")


def replace(path, source):
    fresh = path.with_suffix(".new")
    fresh.write_bytes(source.read_bytes())
    os.replace(fresh, path)


def test_certificates_change_while_it_runs():
    with lib.Fleet() as fleet:
        old, new = Authority(fleet.folder, "old"), Authority(fleet.folder, "new")
        cert, key, client_ca = (fleet.folder / f"server{end}" for end in (".pem", ".key", ".ca"))
        for path, source in zip((cert, key), old.issue("server")):
            replace(path, source)
        replace(client_ca, old.cert)
        of_old, of_new, next_pair = old.issue("client"), new.issue("client"), new.issue("server")
        worker = start(fleet, cert, key, f"--tls-client-ca-file={client_ca}")
        with channel(worker, old, of_old) as made:
            service = grpc_lib.IdService(made)
            lib.check(service.Next(grpc_lib.ids.NextRequest()).id > 0, "an ID")
            replace(cert, next_pair[0])  # and the key does not go with it yet
            lib.wait_until(lambda: worker.logged("tls", "the files cannot be used, those read last stay"), 10,
                           "half a change is told")
            lib.check(next_id(worker, old, of_old) > 0, "what was read last stays")
            replace(key, next_pair[1])
            replace(client_ca, new.cert)
            lib.wait_until(lambda: worker.logged("tls", "changed"), 10, "the change is told")

            def lets_new_clients_in():
                # Between the two files it may have been read with the old authority of the clients.
                try:
                    return next_id(worker, new, of_new) > 0
                except grpc.RpcError:
                    return False
            lib.wait_until(lets_new_clients_in, 10, "new clients are let in")
            is_refused(worker, old, of_old)
            is_refused(worker, new, of_old)
            lib.check(service.Next(grpc_lib.ids.NextRequest()).id > 0, "who was there before stays")
        lib.equal(len(worker.logged("tls", "the files cannot be used, those read last stay")), 1, "told once")


def test_files_that_cannot_be_used_are_named():
    with lib.Fleet() as fleet:
        ours = Authority(fleet.folder, "ours")
        cert, key = ours.issue("server")
        _, other_key = ours.issue("other")
        junk, none, secret = fleet.folder / "junk", fleet.folder / "none", fleet.folder / "secret.key"
        junk.write_text("no PEM\n")
        openssl("ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", secret)
        for code, word, args in (
                (64, "--tls-cert-file needs --tls-key-file", [f"--tls-cert-file={cert}"]),
                (64, "--tls-key-file needs --tls-cert-file", [f"--tls-key-file={key}"]),
                (64, "--tls-client-ca-file needs --tls-cert-file", [f"--tls-client-ca-file={ours.cert}"]),
                (64, "--grpc-listen", [f"--tls-cert-file={cert}", f"--tls-key-file={key}", "--grpc-listen="]),
                (1, str(none), [f"--tls-cert-file={none}", f"--tls-key-file={key}"]),
                (1, str(junk), [f"--tls-cert-file={junk}", f"--tls-key-file={key}"]),
                (1, str(junk), [f"--tls-cert-file={cert}", f"--tls-key-file={junk}"]),
                (1, str(other_key), [f"--tls-cert-file={cert}", f"--tls-key-file={other_key}"]),
                (1, str(secret), [f"--tls-cert-file={cert}", f"--tls-key-file={secret}"]),
                (1, str(junk), [f"--tls-cert-file={cert}", f"--tls-key-file={key}", f"--tls-client-ca-file={junk}"])):
            worker = fleet.worker(*args)
            lib.equal(worker.wait(15), code, worker.errors())
            lib.equal(len(worker.errors().splitlines()), 1, worker.errors())
            lib.check(word in worker.errors(), f"{word!r} is in {worker.errors()!r}")


if __name__ == "__main__":
    lib.main()
