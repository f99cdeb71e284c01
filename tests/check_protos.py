#!/usr/bin/python3
"""Checks proto/: every field, enum value and method has a comment, and every message is fuzzed."""

import pathlib
import subprocess
import sys

from google.protobuf import descriptor_pb2

TESTS = pathlib.Path(__file__).resolve().parent
PROTO = TESTS.parent / "proto"
# What the parts of a path to a declaration are called in descriptor.proto.
MESSAGES, ENUMS, SERVICES = 4, 5, 6
FIELDS, NESTED_ENUMS, NESTED_MESSAGES, VALUES, METHODS = 2, 4, 3, 2, 2


def described(names):
    made = subprocess.run(["protoc", f"--proto_path={PROTO}", "--include_source_info",
                           "--descriptor_set_out=/dev/stdout", *names], check=True, capture_output=True).stdout
    return descriptor_pb2.FileDescriptorSet.FromString(made).file


def of_message(path, name, message):
    """(path, name) of whatever in it needs a comment."""
    for i, field in enumerate(message.field):
        yield (*path, FIELDS, i), f"{name}.{field.name}"
    for i, enum in enumerate(message.enum_type):
        for k, value in enumerate(enum.value):
            yield (*path, NESTED_ENUMS, i, VALUES, k), f"{name}.{value.name}"
    for i, nested in enumerate(message.nested_type):
        yield from of_message((*path, NESTED_MESSAGES, i), f"{name}.{nested.name}", nested)


def declarations(file):
    for i, message in enumerate(file.message_type):
        yield from of_message((MESSAGES, i), message.name, message)
    for i, enum in enumerate(file.enum_type):
        for k, value in enumerate(enum.value):
            yield (ENUMS, i, VALUES, k), value.name
    for i, service in enumerate(file.service):
        for k, method in enumerate(service.method):
            yield (SERVICES, i, METHODS, k), f"{service.name}.{method.name}"


def snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def findings(file, fuzzed):
    commented = {tuple(place.path) for place in file.source_code_info.location
                 if place.leading_comments.strip() or place.trailing_comments.strip()}
    for path, name in declarations(file):
        if path not in commented:
            yield f"{file.name}: {name} has no comment"
    for message in file.message_type:
        name = "__".join([*file.package.split("."), snake(message.name), "descriptor"])
        if f"&{name}," not in fuzzed:
            yield f"{file.name}: {message.name}: fuzz_proto.c has no {name}"


def main():
    names = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("*/**/*.proto"))
    fuzzed = (TESTS / "fuzz/fuzz_proto.c").read_text(encoding="utf-8")
    files = described(names)
    found = [finding for file in files for finding in findings(file, fuzzed)]
    count = sum(1 for file in files for _ in declarations(file))
    if count < 50:
        found.append(f"only {count} declarations in {names}")
    for finding in found:
        print(finding, file=sys.stderr)
    print(f"{len(names)} files, {count} declarations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
