"""gRPC for the tests: Python stubs made from our own .proto files, and calls by their names.

    with grpc_lib.channel(worker.grpc_address) as channel:
        ids = grpc_lib.IdService(channel)
        ids.Next(grpc_lib.ids.NextRequest()).id
"""

import atexit
import importlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

import grpc

import lib

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
FILES = ("snowfleet/v1/ids.proto", "snowfleet/v1/clock.proto", "grpc/health/v1/health.proto",
         "grpc/reflection/v1/reflection.proto", "grpc/reflection/v1alpha/reflection.proto")

# Of packages called grpc.* only the modules are wanted: the name is grpcio's.
_made = pathlib.Path(tempfile.mkdtemp(prefix="snowfleet-proto-"))
atexit.register(shutil.rmtree, _made, ignore_errors=True)
subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={_made}", *FILES], check=True)
for _name in FILES:
    _flat = _name.replace("/", "_").replace(".proto", "_pb2.py")
    (_made / _name.replace(".proto", "_pb2.py")).rename(_made / _flat)
sys.path.insert(0, str(_made))
ids, clock, health, reflection, reflection_old = (
    importlib.import_module(name.replace("/", "_").replace(".proto", "_pb2")) for name in FILES)

Code = grpc.StatusCode
UNARY, STREAM, BOTH = "unary_unary", "unary_stream", "stream_stream"


def channel(address, *options):
    """A channel of its own connection, past any proxy."""
    return grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0),
                                           ("grpc.use_local_subchannel_pool", 1), *options])


class Service:
    """Calls by name."""

    def __init__(self, made_channel, name, **methods):
        for method, (kind, request, reply) in methods.items():
            setattr(self, method, getattr(made_channel, kind)(
                f"/{name}/{method}", request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString))


def IdService(made_channel):
    return Service(made_channel, "snowfleet.v1.IdService",
                   Next=(UNARY, ids.NextRequest, ids.NextResponse),
                   NextBatch=(UNARY, ids.NextBatchRequest, ids.NextBatchResponse),
                   Stream=(STREAM, ids.StreamRequest, ids.NextBatchResponse),
                   Decode=(UNARY, ids.DecodeRequest, ids.DecodeResponse),
                   Encode=(UNARY, ids.EncodeRequest, ids.EncodeResponse))


def ClockService(made_channel):
    return Service(made_channel, "snowfleet.v1.ClockService",
                   Probe=(UNARY, clock.ProbeRequest, clock.ProbeResponse))


def Health(made_channel):
    return Service(made_channel, "grpc.health.v1.Health",
                   Check=(UNARY, health.HealthCheckRequest, health.HealthCheckResponse),
                   Watch=(STREAM, health.HealthCheckRequest, health.HealthCheckResponse))


def Reflection(made_channel, version="v1"):
    module = reflection if version == "v1" else reflection_old
    return Service(made_channel, f"grpc.reflection.{version}.ServerReflection",
                   ServerReflectionInfo=(BOTH, module.ServerReflectionRequest,
                                         module.ServerReflectionResponse))


def refused(code, call, *words):
    """call() fails with that code, and words are in its message; returns its trailing metadata."""
    try:
        call()
    except grpc.RpcError as err:
        lib.equal(err.code(), code, f"{err.details()!r}")
        for word in words:
            lib.check(word in err.details(), f"{word!r} is in {err.details()!r}")
        return dict(err.trailing_metadata() or ())
    raise lib.Failure(f"was answered, expected {code}")


def retry(code, call, timeout, what):
    """Calls until it does not fail with that code any more, and returns the answer."""
    def attempt():
        try:
            return (call(),)
        except grpc.RpcError as err:
            lib.equal(err.code(), code, f"{err.details()!r}")
            return None
    return lib.wait_until(attempt, timeout, what)[0]
