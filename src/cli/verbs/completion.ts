// beige completion: a script for a shell, which asks this program for words; live names come from the gateway.
import { BeigeError } from "../../core/errors.ts";
import { type Run } from "../flags.ts";
import { GLOBAL, type Verb } from "../flags.ts";
import { TOPICS } from "../help.ts";
import { KINDS, pathOf } from "../names.ts";
import { findVerb, groupOf } from "../parse.ts";
import type { Context } from "../flags.ts";
import { verbs } from "../verbs.ts";

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_beige() {
  local IFS=$'\\n'
  COMPREPLY=($(beige __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -o default -F _beige beige
`,
  zsh: `#compdef beige
_beige() {
  local -a words_found
  words_found=("\${(@f)$(beige __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -- $words_found
}
compdef _beige beige
`,
  fish: `complete -c beige -f -a '(beige __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
complete -c beige -s f -l filename -r -F
`,
  // The words before the cursor; an empty last one must be said, since the shell drops it.
  pwsh: `Register-ArgumentCompleter -Native -CommandName beige -ScriptBlock {
  param($last, $tree, $cursor)
  $words = @($tree.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursor } | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  if ($last -eq '') { $words += @('') }
  beige __complete '--' @words 2>$null | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }
}
`,
};

export const script: Run = async (context, input) => {
  const shell = input.args[0] ?? "";
  const text = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
  if (text === undefined)
    throw new BeigeError("invalid", `there is no completion for "${shell}"`, { hint: `shells: ${SHELLS.join(", ")}` });
  await context.out.write(text);
  return 0;
};
export const SHELLS = Object.keys(SCRIPTS);

/** Names of live objects, quickly or not at all. */
async function names(context: Context, kind: (typeof KINDS)[number], prefix: string): Promise<readonly string[]> {
  const list = await context.client
    .get<{ readonly items: readonly { readonly metadata: { readonly name: string; readonly namespace?: string } }[] }>({
      path: pathOf({ kind, namespace: "" }, true),
      idleMs: 500,
    })
    .catch(() => ({ items: [] }));
  return list.items.map(
    ({ metadata }) => prefix + (metadata.namespace && metadata.namespace !== "default" ? `${metadata.namespace}.` : "") + metadata.name,
  );
}

const keys = (context: Context): Promise<readonly string[]> =>
  context.client
    .get<{ readonly items: readonly { readonly name: string }[] }>({ path: "/api/keys", idleMs: 500 })
    .then(({ items }) => items.map(({ name }) => name))
    .catch(() => []);

const OBJECTS = new Set([
  "get",
  "describe",
  "delete",
  "wait",
  "events",
  "logs",
  "edit",
  "patch",
  "label",
  "annotate",
  "tree",
  "restart",
  "rollout status",
  "rollout history",
  "rollout undo",
  "rollout restart",
]);

async function candidates(context: Context, before: readonly string[], last: string): Promise<readonly string[]> {
  const found = findVerb(before, verbs);
  const first = before[0];
  if (first === undefined)
    return [...new Set(verbs.filter((verb) => !verb.name.startsWith("__")).map((verb) => verb.name.split(" ")[0] ?? ""))];
  if (!found) return groupOf(first, verbs).map((verb) => verb.name.slice(first.length + 1));
  const previous = before.at(-1) ?? "";
  const flag = flagOf(found.verb, previous);
  const agent = KINDS.find((kind) => kind.kind === "Agent");
  if (flag?.value === "AGENT" && agent !== undefined) return names(context, agent, "");
  if (flag?.value !== undefined) return flag.choices ?? [];
  if (last.startsWith("-")) return [...found.verb.flags, ...GLOBAL].map((each) => `--${each.name}`);
  if (found.verb.name === "help") return [...verbs.map((verb) => verb.name), ...Object.keys(TOPICS)];
  if (found.verb.name === "completion") return SHELLS;
  if (found.verb.name === "key revoke") return keys(context);
  if (agent && (found.verb.name === "prompt" || found.verb.name === "exec")) return names(context, agent, "");
  return OBJECTS.has(found.verb.name) ? objects(context, before.slice(found.used), last) : [];
}

const flagOf = (verb: Verb, text: string) =>
  [...verb.flags, ...GLOBAL].find((flag) => text === `--${flag.name}` || (flag.short !== undefined && text === `-${flag.short}`));

async function objects(context: Context, given: readonly string[], last: string): Promise<readonly string[]> {
  const fits = (word: string) =>
    KINDS.find((kind) => kind.kind.toLowerCase() === word || kind.plural === word || kind.short.includes(word));
  const slash = last.indexOf("/");
  if (slash > 0) {
    const kind = fits(last.slice(0, slash));
    return kind ? names(context, kind, `${last.slice(0, slash)}/`) : [];
  }
  const kind = fits(given.find((word) => !word.startsWith("-")) ?? "");
  if (kind) return names(context, kind, "");
  return KINDS.flatMap((each) => [each.plural, `${each.kind.toLowerCase()}/`]);
}

/** Words for the last one, a line each. */
export const complete: Run = async (context, input) => {
  const last = input.rest.at(-1) ?? "";
  const found = await candidates(context, input.rest.slice(0, -1), last);
  await context.out.write(
    found
      .filter((word) => word.startsWith(last))
      .map((word) => `${word}\n`)
      .join(""),
  );
  return 0;
};
