// A provider that speaks the real wire and repeats whatever it is sent: headers, addresses, keys.
import type { ServerResponse } from "node:http";
import { refuseWith, sse, startWire, textStream, toolStream, type Asked, type Wire } from "../../llm/wire.ts";

/** What the caller sent, as chatty servers put it into their answers. */
function echoOf({ path, headers }: Asked): string {
  const authorization = headers["authorization"] ?? "";
  const key = authorization.replace(/^Bearer /, "");
  return JSON.stringify({
    error: {
      message: `Incorrect API key provided: ${key}. You asked ${path} with ${JSON.stringify({ authorization })}, basic ${Buffer.from(`user:${key}`).toString("base64")}, hex ${Buffer.from(key).toString("hex")}, ${encodeURIComponent(key)}`,
      type: "invalid_request_error",
      param: authorization,
      code: "invalid_api_key",
      request: { path, headers },
    },
  });
}

/** Long enough that a cut falls into one of the keys. */
const echoLong = (asked: Asked): string =>
  JSON.stringify({ error: { message: Array.from({ length: 400 }, () => asked.headers["authorization"]).join(" "), type: "x" } });

function lastText({ body }: Asked): { readonly text: string; readonly role: string } {
  const messages = (body["messages"] ?? []) as readonly { role: string; content: unknown }[];
  const last = messages.at(-1);
  return { text: JSON.stringify(last?.content ?? ""), role: last?.role ?? "" };
}

/** Says something, and then fails with the caller's own words. */
function cut(response: ServerResponse, asked: Asked): void {
  sse(response);
  const whole = textStream(["half of an answer"]);
  response.write(whole.slice(0, whole.indexOf("data: ", whole.indexOf("half"))));
  response.end(`data: ${echoOf(asked)}\n\n`);
}

function good(response: ServerResponse, asked: Asked): void {
  const { text, role } = lastText(asked);
  const whole = (bytes: string): void => {
    sse(response);
    response.end(bytes);
  };
  if (role === "tool") return whole(textStream(["the tool has answered"]));
  if (text.includes("fail-500")) return void refuseWith(500, echoOf(asked))(response, asked);
  if (text.includes("fail-404"))
    return void refuseWith(404, `<html>Cannot POST http://${asked.headers.host}${asked.path}</html>`, { "content-type": "text/html" })(
      response,
      asked,
    );
  if (text.includes("fail-cut")) return cut(response, asked);
  const command = "vault say; vault bytes; vault base64; vault hex; vault fail; vault long; vault stderr; env; cat /proc/self/environ";
  if (text.includes("use-tool")) return whole(toolStream("exec", { command }));
  return whole(textStream(["fine"]));
}

/** Paths that begin with /bad refuse every key. */
export const startProvider = (): Promise<Wire> =>
  startWire((response, asked) => {
    if (!asked.path.startsWith("/bad")) return good(response, asked);
    const { text } = lastText(asked);
    return void refuseWith(401, text.includes("long") ? echoLong(asked) : echoOf(asked), {
      "www-authenticate": `Bearer realm="${String(asked.headers["authorization"])}"`,
    })(response, asked);
  });
