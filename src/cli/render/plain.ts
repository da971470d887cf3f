// Small examples as block YAML, without the YAML library: plain words stay plain, all else is quoted as JSON.
const WORD = /^[A-Za-z][\w./:@-]*[\w/]$|^[A-Za-z]$/;
/** Words that some reader takes for something else. */
const AMBIGUOUS = /^(y|n|yes|no|on|off|true|false|null|nan|inf)$/i;

function scalar(value: unknown): string {
  if (typeof value === "string" && WORD.test(value) && !AMBIGUOUS.test(value) && !value.includes(": ")) return value;
  return JSON.stringify(value) ?? "null";
}

const isEmpty = (value: object): boolean => Object.keys(value).length === 0;

/** Lines without their indent. */
export function plainYaml(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [scalar(value)];
  if (isEmpty(value)) return [Array.isArray(value) ? "[]" : "{}"];
  if (Array.isArray(value)) {
    return value.flatMap((item) => plainYaml(item).map((line, i) => `${i === 0 ? "- " : "  "}${line}`));
  }
  return Object.entries(value).flatMap(([key, item]: [string, unknown]) => {
    if (typeof item === "object" && item !== null && !isEmpty(item))
      return [`${scalar(key)}:`, ...plainYaml(item).map((line) => `  ${line}`)];
    if (typeof item === "string" && /^[^\n]+\n([^\n]+\n)*$/.test(item))
      return [
        `${scalar(key)}: |`,
        ...item
          .trimEnd()
          .split("\n")
          .map((line) => `  ${line}`),
      ];
    return [`${scalar(key)}: ${plainYaml(item)[0] ?? ""}`];
  });
}
