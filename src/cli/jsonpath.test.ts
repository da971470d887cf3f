import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonPath } from "./jsonpath.ts";

/** The input of goldens that were taken from kubectl 1.33.1. */
const config = {
  apiVersion: "v1",
  kind: "Config",
  clusters: [
    { cluster: { server: "https://1" }, name: "c1" },
    { cluster: { "insecure-skip-tls-verify": true, server: "https://2" }, name: "c2" },
  ],
  contexts: [
    { context: { cluster: "c1", namespace: "a.b", user: "u1" }, name: "dev" },
    { context: { cluster: "c2", user: "u2" }, name: "prod" },
  ],
  users: [
    { name: "u1", user: { username: "admin", password: "pw" } },
    { name: "u2", user: {} },
  ],
};

const GOLDENS: readonly (readonly [string, string])[] = [
  ["{.kind}", "Config"],
  ["{$.kind}", "Config"],
  ["{@.kind}", "Config"],
  [".kind", ".kind"],
  ["text {.kind} end", "text Config end"],
  ['{"a"}{.kind}{"b\\n"}', "aConfigb\n"],
  ["{.contexts[*].name}", "dev prod"],
  ["{.contexts[-1].name}", "prod"],
  ["{.contexts[-1:].name}", "prod"],
  ["{.contexts[0:1].name}", "dev"],
  ["{.contexts[::2].name}", "dev"],
  ["{.contexts[0,1].name}", "dev prod"],
  ["{.nope}", ""],
  ["{range .nope[*]}{.x}{end}", ""],
  ['{range .contexts[*]}{.name}{"\\t"}{.context.user}{"\\n"}{end}', "dev\tu1\nprod\tu2\n"],
  ['{.users[?(@.name=="u1")].user.password}', "pw"],
  ["{.users[?(@.name=='u1')].user.password}", "pw"],
  ['{.users[?(@.name=="zz")].user}', ""],
  ['{.contexts[?(@.name!="dev")].name}', "prod"],
  ["{.clusters[?(@.cluster.insecure-skip-tls-verify==true)].name}", "c2"],
  ["{.clusters[?(@.cluster.insecure-skip-tls-verify)].name}", "c2"],
  ["{.contexts[?(@.context.namespace)].name}", "dev"],
  ["{.users[0].user}", '{"password":"pw","username":"admin"}'],
  ["{.users[*].user}", '{"password":"pw","username":"admin"} {}'],
  ["{.contexts[*]['name','context.user']}", "dev prod u1 u2"],
];

test.each(GOLDENS)("%s answers as kubectl does", (template, expected) => {
  expect(jsonPath(template, config)).toBe(expected);
});

test.each([
  ["{.contexts[9].name}", /array index out of bounds: index 9, length 2/],
  ['{.contexts[*]["name"]}', /invalid array index/],
  ["{.contexts[*].name", /unclosed action/],
  ['{.users[?(@.name=~"u")].name}', /unrecognized character in action/],
  ['{.users[?(@.name=="a" && @.name=="b")].name}', /unrecognized character in action/],
  ["{.contexts[(@.length-1)]}", /invalid array index/],
  ["{range .contexts[*]}{.name}", /unclosed range/],
  ["{end}", /nothing to end/],
])("%s is refused in kubectl's words", (template, message) => {
  expect(() => jsonPath(template, config)).toThrow(message);
});

test("prototype names are fields like any other", () => {
  expect(jsonPath("{.__proto__}{.constructor}{.toString}", config)).toBe("");
});

test("any template either answers or is refused, and never hangs", () => {
  const letters = fc.string({ unit: fc.constantFrom(..."{}[]().*?@$'\"\\,:=!<>-0a kindrangeend".split("")), maxLength: 60 });
  fc.assert(
    fc.property(letters, (template) => {
      try {
        expect(typeof jsonPath(template, config)).toBe("string");
      } catch (error) {
        expect((error as Error).name).toBe("BeigeError");
      }
    }),
    { numRuns: 3000 },
  );
});
