// Keeps the key of a provider out of the answers that repeat it: its text is starred out, and every length stays as it was.
import type { AssistantMessage, ChatEvent, ChatTarget } from "../core/chat.ts";
import type { RelayEvent } from "../core/road.ts";

const STAR = 42;
/** Shorter ones would hide half of any text; nor does a key begin with fewer in words that were cut. */
const LEAST = 8;

type Heard = ChatEvent | RelayEvent;

/** A key that is spread over several pieces of a stream passes: it is nobody's slip. */
export function veilOf({ apiKey }: Pick<ChatTarget, "apiKey">): (event: Heard) => Heard {
  if (apiKey === undefined || apiKey.length < LEAST) return (event) => event;
  const key = Buffer.from(apiKey);
  const stars = "*".repeat(apiKey.length);
  const veil = (text: string): string => text.replaceAll(apiKey, stars);
  const content = (message: AssistantMessage): AssistantMessage => {
    const text = JSON.stringify(message.content);
    const within = JSON.stringify(apiKey).slice(1, -1);
    if (!text.includes(within)) return message;
    return { ...message, content: JSON.parse(text.replaceAll(within, stars)) as AssistantMessage["content"] };
  };
  return (event) => {
    if (event.type === "wire") starred(event.bytes, key);
    else if ("delta" in event && event.delta.includes(apiKey)) return { ...event, delta: veil(event.delta) };
    else if ("content" in event && event.content.includes(apiKey)) return { ...event, content: veil(event.content) };
    else if ("toolCall" in event) {
      const [toolCall] = content({ content: [event.toolCall] } as unknown as AssistantMessage).content;
      return toolCall?.type === "toolCall" ? { ...event, toolCall } : event;
    } else if (event.type === "done" || event.type === "error") return { ...event, message: content(event.message) };
    return event;
  };
}

/** In place: the bytes are this answer's own. */
function starred(bytes: Uint8Array, key: Buffer): void {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = all.indexOf(key); at >= 0; at = all.indexOf(key, at + key.length)) all.fill(STAR, at, at + key.length);
}

/** Words without a part that must not be told, nor a beginning of it: they may have been cut in its middle. */
export function withoutPart(text: string, part: string): string {
  if (part.length <= LEAST) return text.replaceAll(part, "[secret]");
  const start = part.slice(0, LEAST);
  let [told, from] = ["", 0];
  for (let at = text.indexOf(start); at >= 0; at = text.indexOf(start, from)) {
    let size = LEAST;
    while (size < part.length && text[at + size] === part[size]) size += 1;
    told += `${text.slice(from, at)}[secret]`;
    from = at + size;
  }
  return told + text.slice(from);
}
