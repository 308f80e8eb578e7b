"""A client of an NDN forwarder by python-ndn: files by name, and NFD management.

README.md says how it is called. Prints a JSON value for each operation; `serve` prints `ready` once
its prefix is registered, and stays. Files are fetched by the library's own tool
(pyndntools); commands and datasets are asked for as by its other (pynfdc): signed, both of them.
"""

import json
import sys
from base64 import b64decode, b64encode
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path

from Cryptodome.PublicKey import ECC, RSA

from ndn.app_support import nfd_mgmt
from ndn.app_support.security_v2 import new_cert, parse_certificate
from ndn.appv2 import NDNApp, pass_all
from ndn.bin.tools.cmd_fetch_rdrcontent import fetch_content, fetch_metadata
from ndn.encoding import Component, Name, TlvModel, parse_and_check_tl, parse_data
from ndn.security import (
    DigestSha256Signer, Ed25519Signer, Sha256WithEcdsaSigner, Sha256WithRsaSigner)
from ndn.security.validator.known_key_validator import verify_ecdsa
from ndn.utils import timestamp

CHUNK_LEN = 8000
FRESHNESS_MS = 60_000
LIFETIME_MS = 4000
RETRIES = 15
METADATA = Component.from_str("32=metadata")

DATASETS = {
    "status": ("status/general", nfd_mgmt.GeneralStatus, None),
    "faces": ("faces/list", nfd_mgmt.FaceStatusMsg, "face_status"),
    "fib": ("fib/list", nfd_mgmt.FibStatus, "entries"),
    "rib": ("rib/list", nfd_mgmt.RibStatus, "entries"),
    "cs": ("cs/info", nfd_mgmt.CsInfo, None),
    "strategy": ("strategy-choice/list", nfd_mgmt.StrategyChoiceMsg, "strategy_choices"),
}


async def serve(app, prefix, file):
    """Publishes a file: segments by version, and metadata that names the version."""
    with open(file, "rb") as opened:
        content = opened.read()
    prefix = Name.from_str(prefix)
    versioned = prefix + [Component.from_version(timestamp())]
    last = Component.from_segment(max(len(content) - 1, 0) // CHUNK_LEN)

    def packet(name, chunk, final):
        return app.make_data(name, chunk, signer=DigestSha256Signer(),
                             freshness_period=FRESHNESS_MS, final_block_id=final)

    segments = [
        packet(versioned + [Component.from_segment(i)],
               content[i * CHUNK_LEN:(i + 1) * CHUNK_LEN], last)
        for i in range(Component.to_number(last) + 1)
    ]
    first = Component.from_segment(0)
    version_of_metadata = [METADATA, Component.from_version(timestamp()), first]
    metadata = packet(prefix + version_of_metadata, Name.to_bytes(versioned), first)

    def answer(name, _parameters, reply, _context):
        asked = name[len(prefix)] if len(name) > len(prefix) else METADATA
        if asked == METADATA:
            reply(metadata)
        elif asked == versioned[-1]:
            is_segment = Component.get_type(name[-1]) == Component.TYPE_SEGMENT
            number = Component.to_number(name[-1]) if is_segment else 0
            if number < len(segments):
                reply(segments[number])

    app.attach_handler(prefix, answer)
    if not await app.register(prefix):
        raise RuntimeError(f"{Name.to_str(prefix)} was not registered")
    print("ready", flush=True)


async def fetch(app, prefix, file):
    prefix = Name.from_str(prefix)
    asked = prefix + [METADATA]
    name = await fetch_metadata(app, RETRIES, asked, len(prefix), True, LIFETIME_MS)
    content, count = await fetch_content(app, RETRIES, name, False, LIFETIME_MS)
    with open(file, "wb") as opened:
        opened.write(content)
    show({"name": Name.to_str(name), "segments": count, "bytes": len(content)})


def command_signer(name, file):
    """The library's signer for a key in DER or PEM, which says the time that a command needs."""
    try:
        key, of = RSA.import_key(file), Sha256WithRsaSigner
    except ValueError:
        key = ECC.import_key(file)
        of = Ed25519Signer if key.curve == "Ed25519" else Sha256WithEcdsaSigner

    class Timed(of):
        def write_signature_info(self, signature_info):
            super().write_signature_info(signature_info)
            signature_info.signature_time = timestamp()

    rsa = of is Sha256WithRsaSigner
    return Timed(name, key.export_key("DER") if rsa else key.export_key(format="DER"))


def certify(directory):
    """Keys and certificates: `root` (P-256), and `operator` (RSA), which root has signed."""
    directory = Path(directory)
    start = datetime.now() - timedelta(days=2)
    end = start + timedelta(days=30)
    root, operator = ECC.generate(curve="P-256"), RSA.generate(2048)
    root_name = Name.from_str("/interop/KEY/1")
    signer = Sha256WithEcdsaSigner(root_name, root.export_key(format="DER"))
    for file, name, issuer, key in [
        ("root", root_name, "self", root),
        ("operator", Name.from_str("/interop/operator/KEY/2"), "root", operator),
    ]:
        public = key.public_key().export_key(format="DER")
        _, packet = new_cert(name, Component.from_str(issuer), public, signer, start, end)
        (directory / f"{file}.ndncert").write_bytes(b64encode(packet))
    (directory / "operator.key").write_bytes(operator.export_key("DER"))


def signer_of(directory):
    """The operator, whose certificate the library finds right."""
    directory = Path(directory)
    packet = b64decode((directory / "operator.ndncert").read_bytes())
    root = parse_certificate(b64decode((directory / "root.ndncert").read_bytes()))
    name, _, _, signature = parse_data(packet)
    if not verify_ecdsa(ECC.import_key(bytes(root.content)), signature):
        raise RuntimeError(f"{Name.to_str(name)} is not signed by {Name.to_str(root.name)}")
    period = parse_certificate(packet).signature_info.validity_period
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S").encode()
    if not bytes(period.not_before) <= now <= bytes(period.not_after):
        raise RuntimeError(f"{Name.to_str(name)} is not valid now")
    return command_signer(name, (directory / "operator.key").read_bytes())


async def ask(app, name, signer=None):
    signer = signer or DigestSha256Signer(for_interest=True)
    _, content, _ = await app.express(name, validator=pass_all, app_param=b"", signer=signer,
                                      lifetime=LIFETIME_MS, can_be_prefix=True, must_be_fresh=True)
    return content


async def dataset(app, which):
    name, model, items = DATASETS[which]
    local = "localhost" if app.face.isLocalFace() else "localhop"
    content = await ask(app, Name.from_str(f"/{local}/nfd/{name}"))
    if model is nfd_mgmt.CsInfo:
        # The library's model is what is in the one element of this dataset.
        content = parse_and_check_tl(memoryview(content), 0x80)
    parsed = model.parse(content)
    show(getattr(parsed, items) if items else parsed)


async def command(app, module, verb, signer=None, **parameters):
    name = nfd_mgmt.make_command_v2(module, verb, app.face, **parameters)
    content = await ask(app, name, signer)
    # Not the library's parse_response: it cannot read an answer without a body.
    response = nfd_mgmt.ControlResponse.parse(parse_and_check_tl(memoryview(content), 0x65))
    show({"code": response.status_code, "text": response.status_text,
          "parameters": response.body})


def cache_parameters(changes):
    """capacity=N, admit=0|1, serve=0|1: what is named is changed."""
    parameters = {}
    for key, value in (change.split("=") for change in changes):
        if key == "capacity":
            parameters["capacity"] = int(value)
            continue
        bit = {"admit": 1, "serve": 2}[key]
        parameters["mask"] = parameters.get("mask", 0) | bit
        parameters["flags"] = parameters.get("flags", 0) | (bit if value == "1" else 0)
    return parameters


def plain(value):
    """Fields as the library has them, but named as by NDNts; enumerations as numbers."""
    if isinstance(value, nfd_mgmt.Strategy):
        return Name.to_str(value.name)
    if isinstance(value, TlvModel):
        fields = ((f.name, getattr(value, f.name)) for f in value._encoded_fields)
        return {camel(name, of): plain_field(name, of) for name, of in fields if of is not None}
    if isinstance(value, dict):
        return {key: plain(of) for key, of in value.items() if of is not None}
    if isinstance(value, list):
        return [plain(of) for of in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode(errors="replace")
    return value.value if isinstance(value, Enum) else value


def plain_field(name, value):
    return Name.to_str(value) if name == "name" else plain(value)


def camel(name, value):
    name = {"routes": "route", "next_hop_records": "next_hops"}.get(name, name)
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def show(value):
    print(json.dumps(plain(value)), flush=True)


def task(app, operation, args):
    match operation, args:
        case "serve", [prefix, file]:
            return serve(app, prefix, file)
        case "fetch", [prefix, file]:
            return fetch(app, prefix, file)
        case "show", [which] if which in DATASETS:
            return dataset(app, which)
        case "register" | "unregister", [prefix]:
            return command(app, "rib", operation, name=prefix)
        case "register-by", [directory, prefix]:
            return command(app, "rib", "register", signer_of(directory), name=prefix)
        case "set-strategy", [prefix, strategy]:
            return command(app, "strategy-choice", "set", name=prefix, strategy=strategy)
        case "unset-strategy", [prefix]:
            return command(app, "strategy-choice", "unset", name=prefix)
        case "create-face", [uri]:
            return command(app, "faces", "create", uri=uri)
        case "destroy-face", [face]:
            return command(app, "faces", "destroy", face_id=int(face))
        case "set-cache", changes:
            return command(app, "cs", "config", **cache_parameters(changes))
        case "erase-cache", [prefix]:
            return command(app, "cs", "erase", name=prefix)
    raise ValueError(f"no operation {operation} {' '.join(args)}: see README.md")


def main():
    usage = "usage: python_ndn.py URI OPERATION [ARGUMENT...] | URI -: see README.md"
    if sys.argv[1:] == ["--help"]:
        print(usage)
        return
    if sys.argv[2:3] == ["certify"]:
        certify(sys.argv[3])
        return
    if len(sys.argv) < 3:
        sys.exit(usage)
    uri, *words = sys.argv[1:]
    # The library has a file for this, too; and reads it where the transport is not given.
    app = NDNApp(client_conf={"transport": uri})
    failed = []

    async def run():
        try:
            lines = map(str.split, sys.stdin) if words == ["-"] else [words]
            for operation, *args in lines:
                await task(app, operation, args)
        except Exception as e:
            failed.append(f"python_ndn.py: {type(e).__name__}: {e}")
        if failed or words[0] != "serve":
            app.shutdown()

    app.run_forever(run())
    if failed:
        sys.exit(failed[0])


main()
