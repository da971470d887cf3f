// The operator's log: JSON lines in a bounded file, and on standard error where asked. Secrets are replaced before anything is written.
import { chmodSync, closeSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import pino from "pino";
import type { Fields, Log } from "../core/world.ts";

export interface LogOptions {
  /** Absolute path; absent: no file. */
  readonly file?: string;
  readonly level?: "debug" | "info" | "warn" | "error";
  readonly stderr?: boolean;
  readonly redact?: (text: string) => string;
  /** Size at which the file becomes FILE.1. */
  readonly rotateBytes?: number;
}

const ROTATE_BYTES = 32 * 1024 * 1024;
const TEXT_MAX = 16 * 1024;
const DEPTH_MAX = 5;
const ITEMS_MAX = 100;

/** A value as it may be written: bounded, and every string in it redacted. */
function clean(value: unknown, redact: (text: string) => string, depth: number): unknown {
  if (typeof value === "string") return redact(value).slice(0, TEXT_MAX);
  if (value instanceof Error) {
    const { name, message, stack } = value;
    const { code } = value as { code?: string | number };
    return clean({ name, message, stack, ...(code === undefined ? {} : { code }) }, redact, depth);
  }
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Uint8Array) return `[${value.length} bytes]`;
  if (typeof value !== "object" || value === null) return value;
  if (depth >= DEPTH_MAX) return "[deep]";
  if (Array.isArray(value)) return value.slice(0, ITEMS_MAX).map((item) => clean(item, redact, depth + 1));
  const entries = Object.entries(value).slice(0, ITEMS_MAX);
  return Object.fromEntries(entries.map(([key, item]) => [redact(key), clean(item, redact, depth + 1)]));
}

/** A file that never grows beyond two times its limit, and never throws: a full disk must not stop the gateway. */
function rotating(file: string, limit: number): { write(line: string): void; close(): void } {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const open = (): { fd: number; size: number } => {
    const fd = openSync(file, "a", 0o600);
    chmodSync(file, 0o600);
    return { fd, size: fstatSync(fd).size };
  };
  let out = open();
  const write = (line: string): void => {
    try {
      if (out.size > limit) {
        renameSync(file, `${file}.1`);
        closeSync(out.fd);
        out = open();
      }
      out.size += writeSync(out.fd, line);
    } catch {
      // Nowhere is left to say it.
    }
  };
  return { write, close: () => closeSync(out.fd) };
}

/** Standard error for as long as somebody reads it: a closed terminal or a reader that went must not end the gateway. */
function toStderr(): (line: string) => void {
  let open = true;
  process.stderr.on("error", () => {
    open = false;
  });
  return (line) => {
    if (open) process.stderr.write(line);
  };
}

export function createLog(options: LogOptions = {}): Log & { close(): void } {
  const redact = options.redact ?? ((text: string) => text);
  const file = options.file === undefined ? undefined : rotating(options.file, options.rotateBytes ?? ROTATE_BYTES);
  const stderr = options.stderr === true ? toStderr() : undefined;
  const write = (line: string): void => {
    file?.write(line);
    stderr?.(line);
  };
  const sink = pino(
    {
      level: options.level ?? "info",
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
    },
    { write },
  );
  const at =
    (level: "debug" | "info" | "warn" | "error") =>
    (message: string, fields?: Fields): void => {
      if (!sink.isLevelEnabled(level)) return;
      sink[level]((fields === undefined ? {} : clean(fields, redact, 0)) as object, redact(message).slice(0, TEXT_MAX));
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error"), close: () => file?.close() };
}
