// Protobuf bodies of kubectl 1.32 and later, for the few built-in kinds that it sends so: read in full, or refused.
import { badRequest, Refusal } from "../status.ts";
import { parse, type Parsed } from "./wire.ts";

export const PROTOBUF = "application/vnd.kubernetes.protobuf";

/** Paths whose protobuf bodies are understood in full. */
const UNDERSTOOD = [
  /^\/api\/v1\/namespaces$/,
  /^\/apis\/authorization\.k8s\.io\/v1\/selfsubject(access|rules)reviews$/,
  /^\/apis\/authentication\.k8s\.io\/v1\/selfsubjectreviews$/,
];
export const understood = (url: string): boolean => UNDERSTOOD.some((path) => path.test(url.split("?", 1)[0] ?? ""));

const MAGIC = Buffer.from("k8s\0");

const DECODERS: Readonly<Record<string, (raw: Parsed) => object>> = {
  Namespace: (raw) => ({ metadata: metadata(raw.inner(1)) }),
  SelfSubjectAccessReview: (raw) => ({ metadata: metadata(raw.inner(1)), spec: accessSpec(raw.inner(2)) }),
  SelfSubjectRulesReview: (raw) => ({ metadata: metadata(raw.inner(1)), spec: present({ namespace: raw.inner(2).text(1) }) }),
  SelfSubjectReview: (raw) => ({ metadata: metadata(raw.inner(1)) }),
};

/** The object in a body: an envelope with its type, then the message. Throws 400 or 415. */
export function decodeBody(body: Uint8Array): object {
  if (!Buffer.from(body.subarray(0, 4)).equals(MAGIC)) throw badRequest("the protobuf body does not begin with k8s and a zero byte");
  const envelope = parse(body.subarray(4));
  const type = envelope.inner(1);
  const [apiVersion, kind] = [type.text(1), type.text(2)];
  if (envelope.text(3) !== "") throw badRequest("compressed protobuf bodies are not taken");
  const decode = Object.hasOwn(DECODERS, kind) ? DECODERS[kind] : undefined;
  if (decode === undefined)
    throw new Refusal(415, "UnsupportedMediaType", `protobuf bodies of kind ${JSON.stringify(kind)} are not taken`, "use kubectl apply -f");
  return { apiVersion, kind, ...decode(envelope.inner(2)) };
}

/** Kubernetes leaves out what is empty. */
function present(fields: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));
}

function metadata(raw: Parsed): object {
  const maps = { labels: textMap(raw.bytes(11)), annotations: textMap(raw.bytes(12)) };
  return {
    ...present({ name: raw.text(1), generateName: raw.text(2), namespace: raw.text(3) }),
    ...Object.fromEntries(Object.entries(maps).filter(([, map]) => Object.keys(map).length > 0)),
  };
}

function textMap(entries: readonly Uint8Array[]): Record<string, string> {
  const map = Object.create(null) as Record<string, string>;
  for (const entry of entries) {
    const pair = parse(entry);
    map[pair.text(1)] = pair.text(2);
  }
  return map;
}

const ATTRIBUTES = ["namespace", "verb", "group", "version", "resource", "subresource", "name"];

function accessSpec(raw: Parsed): object {
  if (raw.bytes(2).length > 0) {
    const asked = raw.inner(2);
    return { nonResourceAttributes: present({ path: asked.text(1), verb: asked.text(2) }) };
  }
  const asked = raw.inner(1);
  return { resourceAttributes: present(Object.fromEntries(ATTRIBUTES.map((name, i) => [name, asked.text(i + 1)]))) };
}
