// What a request may use at most, and what it has used where nobody told. Pure.
import { priced } from "./usage.ts";
import type { Usage } from "./chat.ts";
import type { ModelCost } from "../../schemas/types.ts";

/** Fewer than is usual: a reservation must not be too small. */
const BYTES_PER_TOKEN = 3;
/** As is usual, for what came. */
const TEXT_BYTES_PER_TOKEN = 4;
/** Of a provider's own stream, where each token comes in an event of its own: fewer than any format's framing takes. */
const STREAM_BYTES_PER_TOKEN = 100;

/** Images are paid by their size in tiles, not by their bytes: each weighs about this many tokens at every provider. */
const IMAGE_TOKENS = 1600;
/** Parts that are an image in some format: ours and Anthropic's, OpenAI's two. Text elsewhere that looks like one is text. */
const IMAGES: ReadonlySet<unknown> = new Set(["image", "image_url", "input_image"]);

/** About the length of a value as JSON, without making the text; each image at what it costs. */
export function jsonBytes(value: unknown): number {
  let bytes = 0;
  // A list of its own instead of a recursion: nobody bounds how deep a client nests.
  const left: unknown[] = [value];
  while (left.length > 0) {
    const one = left.pop();
    if (typeof one === "string") bytes += Buffer.byteLength(one) + 2;
    else if (typeof one === "number") bytes += String(one).length;
    else if (Array.isArray(one)) {
      bytes += one.length + 1;
      for (const inner of one as readonly unknown[]) left.push(inner);
    } else if (isImage(one)) bytes += IMAGE_TOKENS * BYTES_PER_TOKEN;
    else if (typeof one === "object" && one !== null) {
      bytes += 2;
      for (const [key, inner] of Object.entries(one)) {
        bytes += key.length + 4;
        left.push(inner);
      }
    } else bytes += 5;
  }
  return bytes;
}

const isImage = (value: unknown): boolean => typeof value === "object" && value !== null && "type" in value && IMAGES.has(value.type);

export const inputTokens = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN);
export const textTokens = (bytes: number): number => Math.ceil(bytes / TEXT_BYTES_PER_TOKEN);
export const streamTokens = (bytes: number): number => Math.ceil(bytes / STREAM_BYTES_PER_TOKEN);

export interface Guess {
  readonly input: number;
  readonly output: number;
}

/** The upper guess that a budget is asked for; no dollars without a price. Input may cost what writing it into a cache does. */
export function reserved(guess: Guess, price: ModelCost | undefined): { readonly tokens: number; readonly usd?: number } {
  const tokens = guess.input + guess.output;
  if (price === undefined) return { tokens };
  return { tokens, usd: (guess.input * Math.max(price.input, price.cacheWrite) + guess.output * price.output) / 1_000_000 };
}

/** What was told, and the guess for what was not. */
export function guessed(told: Usage, guess: Guess, price: ModelCost | undefined): Usage {
  const heard = told.input + told.cacheRead + told.cacheWrite > 0;
  const { cacheRead, cacheWrite } = told;
  const input = heard ? told.input : guess.input;
  return priced({ input, output: Math.max(told.output, guess.output), cacheRead, cacheWrite, totalTokens: 0 }, price);
}
