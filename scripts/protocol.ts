// The page docs/reference/protocol.md, made from schemas/protocol.json.
import { readFileSync } from "node:fs";

interface Frame {
  readonly type: string;
  readonly name: string;
  readonly is?: string;
  readonly off?: string;
  readonly stream?: string;
  readonly payload?: string;
}

interface Protocol {
  readonly title: string;
  readonly version: number;
  readonly carriers: Readonly<Record<string, string>>;
  readonly header: {
    readonly bytes: number;
    readonly order: string;
    readonly fields: readonly { readonly name: string; readonly at: number; readonly type: string; readonly is: string }[];
  };
  readonly limits: Readonly<Record<string, number>>;
  readonly toSupervisor: readonly Frame[];
  readonly fromSupervisor: readonly Frame[];
  readonly spec: { readonly is: string };
}

const cell = (text: string | undefined): string => (text ?? "").replaceAll("|", "\\|");
const frame = (one: Frame): string => {
  const says = [one.is, one.stream === undefined ? undefined : `Stream: ${one.stream}.`].filter((part) => part !== undefined).join(" ");
  return `| \`${one.type}\` | ${one.name} | ${cell(one.off)} | ${cell(one.payload)} | ${cell(says)} |`;
};
const FRAMES = ["| type | name | off | payload | |", "|---|---|---|---|---|"];

export function protocolPage(note: string): string {
  const protocol = JSON.parse(readFileSync(new URL("../schemas/protocol.json", import.meta.url), "utf8")) as Protocol;
  return [
    note,
    "",
    `# ${protocol.title}, version ${protocol.version}`,
    "",
    "How the gateway and the program that is PID 1 of a sandbox talk. Commands belong to PID 1 and outlive connections: a gateway that",
    "comes back opens anew, and goes on at the byte that it has.",
    "",
    "## Carriers",
    "",
    ...Object.entries(protocol.carriers).map(([name, is]) => `- **${name}**: ${is}`),
    "",
    "## Header",
    "",
    `Every frame begins with ${protocol.header.bytes} bytes, ${protocol.header.order}.`,
    "",
    "| at | field | type | |",
    "|---|---|---|---|",
    ...protocol.header.fields.map(({ at, name, type, is }) => `| ${at} | ${name} | ${type} | ${cell(is)} |`),
    "",
    "## To the supervisor",
    "",
    ...FRAMES,
    ...protocol.toSupervisor.map(frame),
    "",
    "## From the supervisor",
    "",
    ...FRAMES,
    ...protocol.fromSupervisor.map(frame),
    "",
    "## Spec of a command",
    "",
    protocol.spec.is,
    "",
    "## Limits",
    "",
    "| limit | |",
    "|---|---|",
    ...Object.entries(protocol.limits).map(([name, value]) => `| ${name} | ${value} |`),
    "",
  ].join("\n");
}
