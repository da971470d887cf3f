// The public API of the package: what a kind, a plugin or a client is written against.
export { API_VERSION } from "./core/resource.ts";
export type { Agent, Condition, ObjectMeta, Plugin, Provider, Ref, Resource, Schedule, Status } from "./core/resource.ts";
export { defineKind } from "./core/kind.ts";
export type { Action, Column, Kind, Need, Plan, View, Want } from "./core/kind.ts";
export { BeigeError, ERRORS } from "./core/errors.ts";
export type { ErrorCode, Problem } from "./core/errors.ts";
export type { ApplyEvent, ObjectPlan, StackPlan, WatchEvent } from "./core/control.ts";
export type { TurnEvent } from "./core/turn.ts";
export type * from "./core/plugin.ts";
