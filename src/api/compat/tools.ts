// Tools that a client brings: which of them the model may see, and that a choice which cannot be forced is refused.
import type { ChatContext } from "../../core/chat.ts";
import type { Unknowns } from "../fields.ts";
import { list, object, OTHER_MODEL, string, unfit } from "./fields.ts";

export type Tools = NonNullable<ChatContext["tools"]>;

const NOTHING = { type: "object", properties: {} };

/** Name, description and schema under the names that a format has for them. */
export function tool(from: Unknowns, where: string, schema: "parameters" | "input_schema"): Tools[number] {
  const parameters = from[schema];
  return {
    name: string(from["name"], `${where}.name`),
    description: typeof from["description"] === "string" ? from["description"] : "",
    parameters: parameters === undefined || parameters === null ? NOTHING : object(parameters, `${where}.${schema}`),
  };
}

/** `wanted` is how the format says whether a tool must be called. */
export function offered(tools: Tools, wanted: unknown): { readonly tools?: Tools } {
  const kind = typeof wanted === "object" && wanted !== null ? (wanted as Unknowns)["type"] : wanted;
  if (kind !== undefined && kind !== null && kind !== "auto" && kind !== "none")
    throw unfit("tool_choice", "a tool call cannot be forced when the request is translated", OTHER_MODEL);
  return tools.length === 0 || kind === "none" ? {} : { tools };
}

/** Whether the client brings tools, and so runs the loop itself. */
export const brings = (body: Unknowns): boolean => Array.isArray(body["tools"]) && body["tools"].length > 0;

/** Tools of a list whose entries may also be of the provider's own making. */
export function toolsOf(value: unknown, read: (entry: Unknowns, where: string) => Tools[number] | undefined): Tools {
  if (value === undefined || value === null) return [];
  return list(value, "tools").map((raw, at) => {
    const where = `tools[${at}]`;
    const entry = object(raw, where);
    const found = read(entry, where);
    if (found === undefined) throw unfit(`${where}.type`, `${JSON.stringify(entry["type"])} is a tool of one provider's own`, OTHER_MODEL);
    return found;
  });
}
