// Loads a large module graph in small steps, so that nobody waits for it: leaves first, in an order in which Node itself could run them.
import { readFile } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";

/** Longest time that steps take together before others get a turn. One step is one module, or one circle of them. */
const STRETCH_MS = 8;
const FILES_MAX = 5000;

const IMPORT = /(?:^|[;\n}])\s*(?:import|export)\b[^"'`;()]*?\bfrom\s*["']([^"']+)["']|(?:^|[;\n}])\s*import\s*["']([^"']+)["']/g;

type Resolve = (specifier: string) => string;

function importedBy(text: string, url: string, resolve: Resolve): readonly string[] {
  return [...text.matchAll(IMPORT)].flatMap(([, from, bare]) => {
    const specifier = from ?? bare ?? "";
    try {
      const found = specifier.startsWith(".") ? new URL(specifier, url).href : resolve(specifier);
      return found.startsWith("file:") && /\.m?js$/.test(found) ? [found] : [];
    } catch {
      // A package that only its importer can see: it comes with the importer.
      return [];
    }
  });
}

interface Node {
  readonly url: string;
  readonly index: number;
  low: number;
  readonly edges: readonly string[];
  at: number;
}

/**
 * Modules one after another, of each circle of imports only the one that Node would come to first: loading another one
 * before it could run the circle's modules in an order in which they fail. (Tarjan's components, without recursion.)
 */
async function* inOrder(entry: string, resolve: Resolve): AsyncGenerator<string> {
  const seen = new Map<string, Node>();
  const path: Node[] = [];
  const open = new Set<string>();
  const stack: string[] = [];
  const enter = async (url: string): Promise<void> => {
    const text = await readFile(new URL(url), "utf8").catch(() => "");
    const node: Node = { url, index: seen.size, low: seen.size, edges: importedBy(text, url, resolve), at: 0 };
    seen.set(url, node);
    path.push(node);
    open.add(url);
    stack.push(url);
  };
  await enter(entry);
  for (let node = path.at(-1); node !== undefined; node = path.at(-1)) {
    const next = node.edges[node.at++];
    if (next !== undefined) {
      const known = seen.get(next);
      if (known === undefined && seen.size < FILES_MAX) await enter(next);
      else if (known !== undefined && open.has(next)) node.low = Math.min(node.low, known.index);
      continue;
    }
    path.pop();
    const above = path.at(-1);
    if (above !== undefined) above.low = Math.min(above.low, node.low);
    if (node.low !== node.index) continue;
    for (let url = stack.pop(); url !== undefined; url = stack.pop()) {
      open.delete(url);
      if (url === node.url) break;
    }
    yield node.url;
  }
}

/** Resolves when all is loaded. What fails is left to whoever needs it: it is told there. */
export async function loadGently(entry: string, resolve: Resolve): Promise<void> {
  let since = performance.now();
  for await (const url of inOrder(entry, resolve)) {
    await import(url).catch(() => undefined);
    if (performance.now() - since < STRETCH_MS) continue;
    await nextTurn();
    since = performance.now();
  }
}
