// A client of an NDN forwarder by NDNts: files by name, and NFD management. README.md says how it
// is called. Prints a JSON value for each operation; `serve` prints `ready` once its prefix is
// registered, and stays.
import { createPrivateKey } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline/promises";
import {
  Certificate, SigningAlgorithmListFull, createSigner, createVerifier,
} from "@ndn/keychain";
import { AltUri } from "@ndn/naming-convention2";
import {
  ControlParameters, CsFlags, CsInfo, FaceStatus, GeneralStatus, RibEntry, StrategyChoice,
  enableNfdPrefixReg, getPrefix, invoke, invokeCsErase, list,
} from "@ndn/nfdmgmt";
import { TcpTransport, UdpTransport, UnixTransport } from "@ndn/node-transport";
import { Data, Name, StructFieldName, digestSigning } from "@ndn/packet";
import { retrieveMetadata, serveMetadata } from "@ndn/rdr";
import { FileChunkSource, fetch, serveVersioned } from "@ndn/segmented-object";
import { Decoder, StructBuilder, StructFieldNNI, StructFieldType } from "@ndn/tlv";
import { WsTransport } from "@ndn/ws-transport";

const CHUNK_LEN = 8000;

const USAGE = "usage: ndnts.mjs URI OPERATION [ARGUMENT...] | URI -: see README.md";

const [uri, ...words] = process.argv.slice(2);
if (uri === "--help") {
  console.log(USAGE);
  process.exit(0);
}
if (words.length === 0) {
  fail(USAGE);
}

// What NDNts lacks: the dataset of the FIB.
const nextHop = new StructBuilder("NextHopRecord")
  .add(0x69, "faceId", StructFieldNNI, { required: true })
  .add(0x6A, "cost", StructFieldNNI, { required: true });
class NextHop extends nextHop.baseClass() {}
nextHop.subclass = NextHop;
const fibEntry = new StructBuilder("FibEntry", 0x80)
  .add(0x07, "name", StructFieldName, { required: true })
  .add(0x81, "nextHops", StructFieldType.nest(NextHop), { required: true, repeat: true });
class FibEntry extends fibEntry.baseClass() {
  static datasetName = "fib/list";
}
fibEntry.subclass = FibEntry;

const DATASETS = {
  status: GeneralStatus, faces: FaceStatus, fib: FibEntry, rib: RibEntry, cs: CsInfo,
  strategy: StrategyChoice,
};

// What goes wrong in the background ends the program with a message, too.
process.on("unhandledRejection", (e) => fail(e.message));
const face = await connect(uri);
const management = { prefix: getPrefix(face.attributes.local) };
try {
  if (words[0] === "-") {
    for await (const line of createInterface({ input: process.stdin })) {
      await run(...line.split(" "));
    }
  } else {
    await run(...words);
  }
} catch (e) {
  fail(e.message);
}
if (words[0] !== "serve") {
  face.close();
  process.exit(0);
}

/** A face to the forwarder. A producer's gets no route: it asks for nothing but its prefix. */
function connect(uri) {
  const { protocol, pathname, hostname, port } = new URL(uri);
  const options = words[0] === "serve" ? { addRoutes: [] } : {};
  const host = hostname.replace(/^\[|\]$/g, "");
  switch (protocol) {
    case "unix:": return UnixTransport.createFace(options, pathname);
    case "tcp:": return TcpTransport.createFace(options, host, Number(port || 6363));
    case "udp:": return UdpTransport.createFace(options, host, Number(port || 6363));
    case "ws:": return WsTransport.createFace(options, uri);
    default: return fail(`${uri}: neither unix:// nor tcp:// nor udp:// nor ws://`);
  }
}

async function run(operation, ...args) {
  switch (operation) {
    case "serve": return serve(...args);
    case "fetch": return fetchTo(...args);
    case "show": return print(await show(args[0]));
    case "register": return command("rib/register", { name: parse(args[0]) });
    case "register-by":
      return command("rib/register", { name: parse(args[1]) }, await operator(args[0]));
    case "unregister": return command("rib/unregister", { name: parse(args[0]) });
    case "set-strategy":
      return command("strategy-choice/set", { name: parse(args[0]), strategy: parse(args[1]) });
    case "unset-strategy": return command("strategy-choice/unset", { name: parse(args[0]) });
    case "create-face": return command("faces/create", { uri: args[0] });
    case "destroy-face": return command("faces/destroy", { faceId: Number(args[0]) });
    case "set-cache": return command("cs/config", cacheParameters(...args));
    case "erase-cache":
      return print({ erased: await invokeCsErase(parse(args[0]), management) });
    default: return fail(`no operation ${operation}: see README.md`);
  }
}

/** Publishes a file: segments by version, and metadata that names the version. */
async function serve(prefix, file) {
  const registration = enableNfdPrefixReg(face);
  prefix = parse(prefix);
  const pOpts = { announcement: prefix, dataSigner: digestSigning };
  const source = new FileChunkSource(file, { chunkSize: CHUNK_LEN });
  const server = serveVersioned(prefix, source, { pOpts });
  serveMetadata({ name: server.prefix, encodeTo: (e) => e.encode(server.prefix) },
    { prefix, pOpts });
  // The library tells of success by this table alone.
  while (registration.table.get(prefix)?.status !== 1) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  console.log("ready");
}

async function fetchTo(prefix, file) {
  const { name } = await retrieveMetadata(parse(prefix), { retx: 3 });
  const fetched = fetch(name);
  const content = await fetched;
  await writeFile(file, content);
  print({ name: text(name), segments: fetched.count, bytes: content.length });
}

async function show(dataset) {
  const items = await list(DATASETS[dataset] ?? fail(`no dataset ${dataset}`), management);
  return dataset === "status" || dataset === "cs" ? items[0] : items;
}

async function command(name, parameters, signer) {
  const answer = await invoke(name, parameters, { ...management, signer });
  const body = answer.body?.length ? ControlParameters.decodeFromResponseBody(answer) : undefined;
  print({ code: answer.statusCode, text: answer.statusText, parameters: body });
}

/** The signer of the operator, whose certificate the library finds right. */
async function operator(dir) {
  const certificate = async (name) => {
    const packet = Buffer.from(await readFile(`${dir}/${name}.ndncert`, "utf8"), "base64");
    return Certificate.fromData(Decoder.decode(packet, Data));
  };
  const [root, own] = [await certificate("root"), await certificate("operator")];
  const algoList = SigningAlgorithmListFull;
  for (const [by, of] of [[root, root], [root, own]]) {
    of.checkValidity();
    await (await createVerifier(by, { algoList })).verify(of.data);
  }
  const [algo] = await own.importPublicKey(algoList);
  const key = createPrivateKey(await readFile(`${dir}/operator.key`));
  const pkcs8 = key.export({ type: "pkcs8", format: "der" });
  const pair = await algo.cryptoGenerate({ importPkcs8: [pkcs8, own.publicKeySpki] }, false);
  return createSigner(own.name.getPrefix(-2), algo, pair).withKeyLocator(own.name);
}

/** capacity=N, admit=0|1, serve=0|1: what is named is changed. */
function cacheParameters(...changes) {
  const parameters = {};
  for (const change of changes) {
    const [key, value] = change.split("=");
    if (key === "capacity") {
      parameters.capacity = Number(value);
      continue;
    }
    const bit = { admit: CsFlags.EnableAdmit, serve: CsFlags.EnableServe }[key];
    parameters.mask = (parameters.mask ?? 0) | (bit ?? fail(`no setting ${change}`));
    parameters.flags = (parameters.flags ?? 0) | (value === "1" ? bit : 0);
  }
  return parameters;
}

// Versions and segments as in "v=5" and "seg=0".
function parse(uri) {
  return AltUri.parseName(uri);
}

function text(name) {
  return AltUri.ofName(name);
}

/** Fields as the library has them; names as texts, enumerations as the numbers that were sent. */
function plain(value) {
  if (value instanceof Name) {
    return text(value);
  }
  if (typeof value === "bigint") {
    return Number(value);
  }
  if (Array.isArray(value)) {
    return value.map(plain);
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, of]) => [key, plain(of)]));
  }
  return value;
}

function print(value) {
  console.log(JSON.stringify(plain(value)));
}

function fail(message) {
  console.error(`ndnts.mjs: ${message}`);
  process.exit(1);
}
