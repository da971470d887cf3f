// beige edit: an object as YAML in the person's editor; what is wrong with it stands above the text when the editor opens again.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ManifestFile } from "../../core/control.ts";
import { BeigeError, type Problem } from "../../core/errors.ts";
import { renderProblems } from "../../core/problems.ts";
import type { Resource } from "../../core/resource.ts";
import { scanVariables } from "../../core/scan.ts";
import { type Context, on, type Run } from "../flags.ts";
import { neat } from "../neat.ts";
import { pathOf, refOfTarget } from "../names.ts";
import { type Named, namedTargets, untouched, write } from "../objects.ts";
import { oneLine } from "../output.ts";
import { nameOf } from "../render/values.ts";

const MAX_BYTES = 4 * 1024 * 1024;
/** Lines of ours above the text: taken away again when it is read. */
const MARK = "#| ";

const HEAD = ["Save to change the object; leave the text as it is, or empty it, to change nothing."];

const withHead = (lines: readonly string[], text: string): string =>
  `${lines.map((line) => `${MARK}${line}`.trimEnd()).join("\n")}\n${text}`;

/** The text without our lines. */
const stripped = (text: string): string =>
  text
    .split("\n")
    .filter((line) => !line.startsWith(MARK.trimEnd()))
    .join("\n");

/** Runs the editor as git does: the variable may hold a command with arguments. */
function openEditor(context: Context, file: string): Promise<void> {
  const editor = context.env["VISUAL"] || context.env["EDITOR"] || "vi";
  return new Promise((done, fail) => {
    const child = spawn("/bin/sh", ["-c", `${editor} "$1"`, "sh", file], { stdio: "inherit", cwd: context.cwd });
    child.on("error", (error) =>
      fail(new BeigeError("invalid", `the editor "${editor}" cannot be run: ${error.message}`, { hint: "export EDITOR=nano" })),
    );
    child.on("close", (code, signal) => {
      if (code === 0) done();
      else
        fail(
          new BeigeError("invalid", `the editor "${editor}" ended with ${signal ?? code ?? "an error"}: nothing was changed`, {
            hint: "export EDITOR=nano",
          }),
        );
    });
  });
}

function readBack(file: string): string {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size > MAX_BYTES) throw new BeigeError("invalid", `the text is longer than ${MAX_BYTES / 1048576} MiB`);
  return size === 0 ? "" : stripped(readFileSync(file, "utf8"));
}

interface Edited {
  readonly problems: readonly Problem[];
  readonly value?: unknown;
}

async function understood(context: Context, text: string, target: Named): Promise<Edited> {
  const vars = Object.fromEntries(
    scanVariables(text).flatMap((name) => (context.env[name] === undefined ? [] : [[name, context.env[name]] as const])),
  );
  const file: ManifestFile = { name: "edited.yaml", folder: context.cwd, text, vars, files: {} };
  const { check } = await import("../offline.ts");
  const { problems, documents } = check([file]);
  const [first, second] = documents;
  if (problems.length > 0) return { problems };
  if (first?.ref === undefined || second !== undefined) return { problems: [{ message: "the text holds not just one object" }] };
  const wanted = refOfTarget(target);
  const { kind, namespace, name } = first.ref;
  if (kind !== wanted.kind || namespace !== wanted.namespace || name !== wanted.name)
    return {
      problems: [{ message: `this is ${nameOf(first.ref)}; ${nameOf(wanted)} was opened`, hint: "beige apply makes another object" }],
    };
  return { problems: [], value: first.value };
}

const asProblems = (error: BeigeError): readonly Problem[] =>
  error.problems.length > 0 ? error.problems : [{ message: error.message, ...(error.hint !== undefined && { hint: error.hint }) }];

interface Session {
  readonly target: Named;
  readonly object: Resource;
  readonly file: string;
  readonly original: string;
  readonly force: boolean;
}

/** Writes what was edited. Answers what is wrong with it, which opens the editor again; throws for what no editing mends. */
async function store(context: Context, text: string, { target, object, force }: Session): Promise<readonly Problem[] | Resource> {
  const { problems, value } = await understood(context, text, target);
  if (problems.length > 0) return problems;
  const { metadata, ...rest } = value as { readonly metadata?: object };
  const body = { ...rest, metadata: { ...metadata, uid: object.metadata.uid, resourceVersion: object.metadata.resourceVersion } };
  try {
    return await write(context, target, { method: "PUT", manager: "edit", body, force });
  } catch (error) {
    if (error instanceof BeigeError && error.code === "invalid") return asProblems(error);
    throw error;
  }
}

/** Lines of the heading that says what is wrong; the places are those below it, in the file that opens. */
function headOf(problems: readonly Problem[]): readonly string[] {
  const render = (down: number): readonly string[] => {
    const moved = problems.map((each) => (each.at === undefined ? each : { ...each, at: { ...each.at, line: each.at.line + down } }));
    return [
      ...renderProblems(moved)
        .split("\n")
        .map((line) => line.replace(/^(\s*-->) edited\.yaml:/, "$1 ")),
      ...HEAD,
    ];
  };
  return render(render(0).length);
}

const isObject = (answer: readonly Problem[] | Resource): answer is Resource => !Array.isArray(answer);

async function edit(context: Context, session: Session): Promise<string> {
  const { file, original } = session;
  let text = original;
  let head: readonly string[] = HEAD;
  for (;;) {
    writeFileSync(file, withHead(head, text), { mode: 0o600 });
    await openEditor(context, file);
    const next = readBack(file);
    if (next.trim() === "" || next === original) return "edit cancelled: nothing was changed";
    const failed = head !== HEAD;
    if (failed && next === text)
      throw new BeigeError("invalid", "the text is as wrong as before: nothing was changed", { hint: `your text is kept in ${file}` });
    text = next;
    const answer = await store(context, text, session);
    if (isObject(answer)) return untouched(session.object, answer) ? "unchanged: the text means the same" : "edited";
    head = headOf(answer);
  }
}

export const run: Run = async (context, input) => {
  const [target, second] = await namedTargets(context, input.args, { input, verb: "edit" });
  if (target === undefined || second !== undefined)
    throw new BeigeError("invalid", "edit opens one object", { hint: "beige edit agent/NAME" });
  const object = await context.client.get<Resource>({ path: pathOf(target) });
  const { yamlText } = await import("../offline.ts");
  const original = yamlText(neat(object, { brief: true }));
  const folder = mkdtempSync(join(tmpdir(), "beige-edit-"));
  const file = join(folder, `${target.kind.kind.toLowerCase()}-${target.name}.yaml`);
  try {
    const said = await edit(context, { target, object, file, original, force: on(input, "force-conflicts") });
    await context.out.write(`${nameOf(refOfTarget(target))} ${oneLine(said)}\n`);
  } catch (error) {
    // What somebody wrote is not thrown away with an error.
    if (error instanceof BeigeError && readBack(file).trim() !== "" && readBack(file) !== original) {
      const kept = `your text is kept in ${file}`;
      const hint = error.hint === undefined || error.hint === kept ? kept : `${error.hint}; ${kept}`;
      throw new BeigeError(error.code, error.message, { problems: error.problems, cause: error, hint });
    }
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  rmSync(folder, { recursive: true, force: true });
  return 0;
};
