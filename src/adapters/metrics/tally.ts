// What is counted, in plain numbers until somebody asks for it: a request notes a dozen of them, and most gateways are never asked.

export type Labels = Readonly<Record<string, string>>;

/** One metric with one set of labels: what came since it was taken last. */
export interface Series<K extends string> {
  readonly what: K;
  readonly labels: Labels;
  sum: number;
  readonly times: number[];
}

export interface Tally<K extends string> {
  /** The series of these labels. What comes after the first 500 of a metric is counted under `other`. */
  of(what: K, labels: object): Series<K>;
  all(): Iterable<Series<K>>;
}

/** Labels of one metric; names of models may be anybody's. */
const SERIES_MAX = 500;
const OTHER = "other";

interface Branch<K extends string> {
  readonly by: Map<string, Branch<K>>;
  series: Series<K> | undefined;
}
const branch = <K extends string>(): Branch<K> => ({ by: new Map(), series: undefined });

export function createTally<K extends string>(): Tally<K> {
  const roots = new Map<string, { readonly top: Branch<K>; size: number }>();
  const list: Series<K>[] = [];

  /** Walks by the labels' values, without a key to be made of them: this is done for every request, many times. */
  function find(top: Branch<K>, labels: Labels): Series<K> | undefined {
    let at: Branch<K> | undefined = top;
    for (const name in labels) {
      at = at.by.get(labels[name] as string);
      if (at === undefined) return undefined;
    }
    return at.series;
  }
  function add(top: Branch<K>, what: K, labels: Labels): Series<K> {
    let at = top;
    for (const value of Object.values(labels)) {
      let next = at.by.get(value);
      if (next === undefined) {
        next = branch();
        at.by.set(value, next);
      }
      at = next;
    }
    at.series = { what, labels, sum: 0, times: [] };
    list.push(at.series);
    return at.series;
  }

  return {
    of(what, given) {
      const labels = given as Labels;
      let root = roots.get(what);
      if (root === undefined) {
        root = { top: branch(), size: 0 };
        roots.set(what, root);
      }
      const found = find(root.top, labels);
      if (found !== undefined) return found;
      root.size += 1;
      if (root.size <= SERIES_MAX) return add(root.top, what, labels);
      const rest = Object.fromEntries(Object.keys(labels).map((name) => [name, OTHER]));
      return find(root.top, rest) ?? add(root.top, what, rest);
    },
    all: () => list,
  };
}
