import { expect, test } from "vitest";
import { parseKubeListen, parseListen } from "./listen.ts";

test("none, a port and loopback names are understood", () => {
  expect([undefined, "", "none", "0", "[::1]:80", "localhost:7"].map(parseListen)).toEqual([
    {},
    {},
    { port: "none" },
    { port: 0 },
    { host: "::1", port: 80 },
    { host: "localhost", port: 7 },
  ]);
  expect([undefined, "", "none", "7443", "127.0.0.1:0"].map(parseKubeListen)).toEqual([{}, {}, {}, { kubePort: 7443 }, { kubePort: 0 }]);
});

test.each(["0.0.0.0:1", "65536", "-1", "1.5", "host:1", ":1", "7443x"])("%s is refused", (text) => {
  expect(() => parseListen(text)).toThrow(/cannot listen/);
  expect(() => parseKubeListen(text)).toThrow(/cannot listen for kubectl/);
});
