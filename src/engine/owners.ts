// Field owners that a client wrote itself: kubectl moves its own from client-side to server-side apply with such a patch, once.
import { isDeepStrictEqual } from "node:util";
import { BeigeError } from "../core/errors.ts";
import { decodeFields, encodeFields } from "../core/fieldset.ts";
import { API_VERSION, type ManagedFields, type Resource } from "../core/resource.ts";
import { isObject } from "../core/schema.ts";

const MOST = 100;
const wrong = (what: string): BeigeError =>
  new BeigeError("invalid", `metadata.managedFields ${what}`, { hint: "leave it as it was read" });

/** The owners in a patched object, in our own form; those of before where they were not touched. Throws `invalid`. */
export function writtenOwners(patched: unknown, before: Resource): readonly ManagedFields[] {
  const was = before.metadata.managedFields ?? [];
  const metadata = isObject(patched) ? patched["metadata"] : undefined;
  const said = isObject(metadata) ? (metadata["managedFields"] ?? []) : was;
  if (isDeepStrictEqual(said, was)) return was;
  if (!Array.isArray(said)) throw wrong("is no list");
  if (said.length > MOST) throw wrong(`has more than ${MOST} entries`);
  // One empty entry is how Kubernetes' clients take all owners away.
  return said.filter((entry) => !isObject(entry) || Object.keys(entry).length > 0).map((entry) => owner(entry, before));
}

function owner(entry: unknown, before: Resource): ManagedFields {
  if (!isObject(entry)) throw wrong("has an entry that is no mapping");
  const { manager, operation, time, fieldsV1 } = entry;
  if (typeof manager !== "string" || manager === "" || manager.length > 128) throw wrong("has an entry without a manager");
  if (operation !== "Apply" && operation !== "Update") throw wrong("has an entry whose operation is neither Apply nor Update");
  const at = typeof time === "string" && !Number.isNaN(Date.parse(time)) ? time : before.metadata.creationTimestamp;
  const fields = encodeFields(decodeFields(fieldsV1));
  return { manager, operation, apiVersion: API_VERSION, time: at, fieldsType: "FieldsV1", fieldsV1: fields };
}
