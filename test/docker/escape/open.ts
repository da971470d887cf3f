// What a sandbox with the network open reaches by its nature, and what must stay shut even so.

/** Told as it is found on this host: a firewall of the host's may shut some of it. */
export const OPEN: readonly { readonly what: string; readonly script: string; readonly reached: RegExp }[] = [
  { what: "the host's listeners on every address", script: "nc -w 2 HOST PORT </dev/null", reached: /a port of the host/ },
  { what: "the same by the bridge's gateway", script: "nc -w 2 BRIDGE PORT </dev/null", reached: /a port of the host/ },
  { what: "another container on the bridge", script: "nc -w 2 OTHER 7777 </dev/null", reached: /secret-of-the-other/ },
  {
    what: "the metadata address",
    script: "nc -w 2 169.254.169.254 80 </dev/null && echo answered",
    reached: /answered/,
  },
  { what: "a route to the world", script: "ip route", reached: /default via/ },
];

export const SHUT: readonly { readonly what: string; readonly script: string; readonly layer: string }[] = [
  { what: "reach a listener on the host's loopback", script: "nc -w 2 127.0.0.1 INNER </dev/null", layer: "loopback of its own" },
  { what: "reach it by the bridge's gateway", script: "nc -w 2 BRIDGE INNER </dev/null", layer: "listener's own address" },
  { what: "reach it by the host's address", script: "nc -w 2 HOST INNER </dev/null", layer: "listener's own address" },
  {
    what: "reach it by a route through the host",
    script: "ip route add 127.0.0.2/32 via BRIDGE; ip addr del 127.0.0.1/8 dev lo; nc -w 2 127.0.0.2 INNER </dev/null",
    layer: "no capability",
  },
  { what: "reach the host's loopback by version 6", script: "nc -w 2 ::1 INNER </dev/null", layer: "loopback of its own" },
  { what: "reach a nameless socket of the host", script: "probe say @beige-escape-PORT </dev/null", layer: "network namespace of its own" },
];
