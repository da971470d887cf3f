// beige kubeconfig: how stock kubectl reaches the gateway. What it prints holds the operator's token.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BeigeError } from "../../core/errors.ts";
import { type Context, type Run, word } from "../flags.ts";
import { health } from "../gateway.ts";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

function checked(value: string, form: RegExp, what: string): string {
  if (form.test(value)) return value;
  throw new BeigeError("invalid", `"${value}" is not a ${what}`, { hint: "letters, digits and '-', at most 63" });
}

function read(context: Context, ...parts: readonly string[]): string {
  const path = join(context.home, ...parts);
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new BeigeError("unavailable", `${path} cannot be read`, { hint: "beige gateway restart --kube-listen 7443", cause: error });
  }
}

export const run: Run = async (context, input) => {
  const name = checked(word(input, "context") ?? "beige", NAME, "context name");
  const namespace = checked(word(input, "namespace") ?? "default", NAMESPACE, "namespace");
  const seen = await health(context.home, context.signal);
  if (!seen.up) throw seen.error ?? new BeigeError("unavailable", "no gateway answers", { hint: "beige gateway start --kube-listen 7443" });
  const server = seen.body?.["kube"];
  if (typeof server !== "string")
    throw new BeigeError("unavailable", "this gateway has no port for kubectl", { hint: "beige gateway restart --kube-listen 7443" });
  const authority = Buffer.from(read(context, "kube", "tls.crt")).toString("base64");
  const cluster = { name, cluster: { server, "certificate-authority-data": authority } };
  const user = { name, user: { token: read(context, "token").trim() } };
  const lines = [
    "apiVersion: v1",
    "kind: Config",
    `current-context: ${JSON.stringify(name)}`,
    // One JSON value a line is YAML too.
    `clusters: [${JSON.stringify(cluster)}]`,
    `users: [${JSON.stringify(user)}]`,
    `contexts: [${JSON.stringify({ name, context: { cluster: name, user: name, namespace } })}]`,
  ];
  await context.out.write(`${lines.join("\n")}\n`);
  return 0;
};
