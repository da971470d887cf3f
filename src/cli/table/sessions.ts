// Verbs for the conversations of agents.
import type { Verb } from "../flags.ts";
import { namespace, output, yes } from "./flags.ts";

const of = (verb: "show" | "exported" | "remove" | "search" | "set" | "steer" | "abort" | "list") => async () =>
  (await import("../verbs/sessions.ts"))[verb];

export const SESSIONS: readonly Verb[] = [
  {
    name: "sessions",
    summary: "conversations, newest first",
    args: "[AGENT]",
    takes: [0, 1],
    flags: [namespace, output("text", "json")],
    examples: [["beige sessions travel", ""]],
    load: of("list"),
  },
  {
    name: "session show",
    summary: "what was said in a conversation",
    args: "AGENT [KEY]",
    takes: [1, 2],
    flags: [namespace, { name: "lines", value: "N", summary: "the last N (100)" }, output("text", "json")],
    examples: [["beige session show travel cli:default", ""]],
    load: of("show"),
  },
  {
    name: "session export",
    summary: "a conversation as a file",
    args: "AGENT [KEY]",
    takes: [1, 2],
    flags: [namespace, output("jsonl", "markdown")],
    examples: [["beige session export travel cli:default -o markdown > trip.md", ""]],
    load: of("exported"),
  },
  {
    name: "session search",
    summary: "find words in an agent's conversations",
    args: "AGENT TEXT...",
    takes: [2, Infinity],
    flags: [namespace, { name: "limit", value: "N", summary: "at most N (50)" }, output("text", "json")],
    examples: [["beige session search travel Graz", ""]],
    exits: "0 found  1 nothing found",
    load: of("search"),
  },
  {
    name: "session set",
    summary: "model, thinking and verbosity of one conversation",
    args: "AGENT [KEY]",
    takes: [1, 2],
    flags: [
      namespace,
      { name: "model", value: "NAME", summary: "PROVIDER/MODEL of the agent's own list, or default" },
      {
        name: "thinking",
        value: "LEVEL",
        choices: ["off", "minimal", "low", "medium", "high", "default"],
        summary: "off, minimal, low, medium, high, default",
      },
      { name: "verbose", value: "WHEN", choices: ["on", "off", "default"], summary: "on, off, default" },
      output("text", "json"),
    ],
    examples: [["beige session set travel telegram:42 --model openai/gpt-5 --verbose on", ""]],
    load: of("set"),
  },
  {
    name: "session steer",
    summary: "say something to a turn that runs",
    args: "AGENT KEY TEXT...",
    takes: [3, Infinity],
    flags: [namespace, { name: "follow-up", summary: "when it would end, not after the tools that run now" }],
    examples: [['beige session steer travel cli:default "only trains"', ""]],
    load: of("steer"),
  },
  {
    name: "session abort",
    summary: "end what runs and waits in a conversation",
    args: "AGENT [KEY]",
    takes: [1, 2],
    flags: [namespace],
    examples: [["beige session abort travel", ""]],
    load: of("abort"),
  },
  {
    name: "session delete",
    summary: "forget a conversation and its file",
    args: "AGENT KEY",
    takes: [2, 2],
    flags: [namespace, yes],
    examples: [["beige session delete travel telegram:42 --yes", ""]],
    load: of("remove"),
  },
];
