// Keeps secrets that somebody wrote into a manifest out of what is said about it.

const PREFIX =
  /\b(?:sk[-_]|pk[-_]|rk[-_]|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|npm_|hf_|gsk_|xox[abeoprs]-|AKIA|ASIA|AIza|ya29\.|eyJ)[\w.-]{8,}/;
/** Longer ones are of no use to a person, and take their time to search. */
const LONGEST = 4096;
const KEYED =
  /(?:api[_-]?key|token|secret|password|passwd|passphrase|credentials?|authorization)["']?\s*[:=]\s*["']?([^\s"'{}[\],$#&*]{4,})/gi;

/** Whether a word is a secret by its looks, where a name is wanted. */
export const looksSecret = (word: string): boolean =>
  PREFIX.test(word) || (word.length >= 32 && /[0-9]/.test(word) && /[a-z]/i.test(word) && !/[-._][a-z]{3,}[-._]/i.test(word));

/** Whether a source line can be shown: no word of it is, or is named as, a secret in the clear. */
export function mayShow(line: string): boolean {
  if (line.length > LONGEST || PREFIX.test(line)) return false;
  for (const match of line.matchAll(KEYED)) {
    // {secret: NAME} is the reference that is wanted.
    const reference = /(?:^|[^\w-])secret["']?\s*[:=]\s*["']?$/i.test(match[0].slice(0, match[0].length - (match[1]?.length ?? 0)));
    if (!reference || looksSecret(match[1] ?? "")) return false;
  }
  return true;
}
