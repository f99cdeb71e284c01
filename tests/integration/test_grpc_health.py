"""grpc.health.v1 and server reflection, as Python clients use them."""

import threading

import grpc

import grpc_lib
import lib

SERVING = grpc_lib.health.HealthCheckResponse.SERVING
NOT_SERVING = grpc_lib.health.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = grpc_lib.health.HealthCheckResponse.SERVICE_UNKNOWN
ALWAYS = ("snowfleet.v1.ClockService", "grpc.health.v1.Health",
          "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
WHEN_READY = ("", "snowfleet.v1.IdService")


def request(service=""):
    return grpc_lib.health.HealthCheckRequest(service=service)


class Watch:
    """What a Watch has told so far, in a thread of its own."""

    def __init__(self, channel, service=""):
        self.seen = []
        self.call = grpc_lib.Health(channel).Watch(request(service))
        self.ended = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        try:
            for reply in self.call:
                self.seen.append(reply.status)
        except grpc.RpcError as err:
            self.ended = err.code()

    def wait(self, *expected, timeout=20):
        lib.wait_until(lambda: self.seen == list(expected), timeout,
                       f"the watch tells {expected}, and told {self.seen}")


def test_health_says_what_readiness_says():
    with lib.Fleet() as fleet:
        worker = fleet.worker("--assign-wait=0s")
        with grpc_lib.channel(worker.grpc_address) as channel:
            health = grpc_lib.Health(channel)
            lib.check(not worker.ready(), "nobody has initialised the cluster")
            for service in WHEN_READY:
                lib.equal(health.Check(request(service)).status, NOT_SERVING, service)
            watch, own = Watch(channel), Watch(channel, "snowfleet.v1.IdService")
            watch.wait(NOT_SERVING)
            fleet.init("--new")
            watch.wait(NOT_SERVING, SERVING)
            own.wait(NOT_SERVING, SERVING)
            worker.wait_ready()
            for service in (*WHEN_READY, *ALWAYS):
                lib.equal(health.Check(request(service)).status, SERVING, service)
            for service in ("nothing", "snowfleet.v1", "snowfleet.v1.IdService ", "x" * 1000):
                grpc_lib.refused(grpc_lib.Code.NOT_FOUND, lambda service=service: health.Check(
                    request(service)), "no such service")
                Watch(channel, service).wait(SERVICE_UNKNOWN)


def test_a_lost_lease_is_no_reason_but_a_used_up_window_is():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", "--window=6s", "--lease-ttl=2s",
                              "--keepalive-interval=500ms")
        worker.wait_ready()
        with grpc_lib.channel(worker.grpc_address) as channel:
            health = grpc_lib.Health(channel)
            watch = Watch(channel)
            watch.wait(SERVING)
            fleet.etcd.pause()
            # The lease (2 s) is over long before the window is.
            watch.wait(SERVING, NOT_SERVING, timeout=30)
            lib.equal(health.Check(request()).status, NOT_SERVING)
            lib.equal(worker.get("/readyz").status, 503)
            lib.equal(health.Check(request("snowfleet.v1.ClockService")).status, SERVING)
            metadata = grpc_lib.refused(grpc_lib.Code.UNAVAILABLE, lambda: grpc_lib.IdService(
                channel).Next(grpc_lib.ids.NextRequest()))
            lib.check(int(metadata["grpc-retry-pushback-ms"]) > 0, f"{metadata}")
            fleet.etcd.resume()
            watch.wait(SERVING, NOT_SERVING, SERVING, timeout=30)
            lib.check(grpc_lib.IdService(channel).Next(grpc_lib.ids.NextRequest()).id > 0, "an ID")


def test_a_drain_is_told_at_once():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s", "--drain-timeout=8s")
        worker.wait_ready()
        with grpc_lib.channel(worker.grpc_address) as channel:
            watches = [Watch(channel, service) for service in (*WHEN_READY, *ALWAYS)]
            for watch in watches:
                watch.wait(SERVING)
            fleet.etcd.pause()  # it cannot hand its machine ID back, and takes its whole time
            worker.signal(15)
            for watch in watches:
                watch.wait(SERVING, NOT_SERVING)
            # On a new connection health can still be asked, and says the same.
            with grpc_lib.channel(worker.grpc_address) as other:
                lib.equal(grpc_lib.Health(other).Check(request(), timeout=10).status, NOT_SERVING)
                Watch(other).wait(NOT_SERVING)
                grpc_lib.refused(grpc_lib.Code.UNAVAILABLE, lambda: grpc_lib.IdService(other).Next(
                    grpc_lib.ids.NextRequest(), timeout=10))
            lib.equal(worker.get("/readyz").status, 503)
            lib.equal(worker.wait(15), 0)
            for watch in watches:
                lib.wait_until(lambda watch=watch: watch.ended, 10, "the watch ends")
                lib.equal(watch.ended, grpc_lib.Code.UNAVAILABLE)
            fleet.etcd.resume()


def ask(channel, version, **questions):
    """The answers to (name, value) questions, asked in one stream."""
    module = grpc_lib.reflection if version == "v1" else grpc_lib.reflection_old
    service = grpc_lib.Reflection(channel, version)
    requests = [module.ServerReflectionRequest(host="here", **{name: value})
                for name, value in questions["of"]]
    return list(service.ServerReflectionInfo(iter(requests), timeout=20 * lib.SLOW))


def test_reflection_describes_all_that_is_served():
    from google.protobuf import descriptor_pb2
    with lib.Fleet() as fleet:
        worker = fleet.worker()
        with grpc_lib.channel(worker.grpc_address) as channel:
            for version in ("v1", "v1alpha"):
                listed, by_name, by_symbol, by_method, by_value, extension, extensions, *wrong = ask(
                    channel, version, of=[
                        ("list_services", "*"),
                        ("file_by_filename", "snowfleet/v1/ids.proto"),
                        ("file_containing_symbol", "snowfleet.v1.NextBatchRequest.count"),
                        ("file_containing_symbol", "grpc.health.v1.Health.Watch"),
                        ("file_containing_symbol", "snowfleet.v1.FORM_TEXT"),
                        ("file_containing_extension", {"containing_type": "x",
                                                       "extension_number": 1}),
                        ("all_extension_numbers_of_type", "snowfleet.v1.IdRange"),
                        ("file_by_filename", "no/such.proto"),
                        ("file_containing_symbol", "snowfleet.v1.Nothing"),
                        ("file_containing_symbol", "snowfleet.v1"),
                        ("all_extension_numbers_of_type", "snowfleet.v1.IdService")])
                lib.equal(sorted(service.name for service in listed.list_services_response.service),
                          sorted(("snowfleet.v1.IdService", *ALWAYS)))
                lib.equal(listed.valid_host, "here")
                lib.equal(listed.original_request.list_services, "*")
                for answer, name, service in (
                        (by_name, "snowfleet/v1/ids.proto", "IdService"),
                        (by_symbol, "snowfleet/v1/ids.proto", "IdService"),
                        (by_method, "grpc/health/v1/health.proto", "Health"),
                        (by_value, "snowfleet/v1/ids.proto", "IdService")):
                    files = answer.file_descriptor_response.file_descriptor_proto
                    lib.equal(len(files), 1)
                    described = descriptor_pb2.FileDescriptorProto.FromString(files[0])
                    lib.equal((described.name, [each.name for each in described.service]),
                              (name, [service]))
                    lib.equal(list(described.dependency), [], "nothing is imported")
                lib.equal(extension.error_response.error_code, 5)
                lib.equal(extensions.all_extension_numbers_response.base_type_name,
                          "snowfleet.v1.IdRange")
                for answer in wrong:
                    lib.equal(answer.error_response.error_code, 5, f"{answer}")
                lib.equal(ask(channel, version, of=[]), [], "no question, no answer")


def test_a_client_that_knows_nothing_gets_an_id():
    """As grpcurl does: services, then their files, then a call made of what they say."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    with lib.Fleet() as fleet:
        fleet.init("--new")
        worker = fleet.worker("--assign-wait=0s")
        worker.wait_ready()
        with grpc_lib.channel(worker.grpc_address) as channel:
            pool = descriptor_pool.DescriptorPool()
            (listed,) = ask(channel, "v1", of=[("list_services", "")])
            for service in listed.list_services_response.service:
                (answer,) = ask(channel, "v1", of=[("file_containing_symbol", service.name)])
                for raw in answer.file_descriptor_response.file_descriptor_proto:
                    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(raw))
            method = pool.FindMethodByName("snowfleet.v1.IdService.NextBatch")
            factory = message_factory.MessageFactory(pool)
            ask_for, reply = map(factory.GetPrototype, (method.input_type, method.output_type))
            call = channel.unary_unary("/snowfleet.v1.IdService/NextBatch",
                                       request_serializer=ask_for.SerializeToString,
                                       response_deserializer=reply.FromString)
            lib.equal(len(call(ask_for(count=5)).ids), 5)


if __name__ == "__main__":
    lib.main()
