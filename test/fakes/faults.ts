// Failures on demand: every effect of the fake world asks here first, and may be told to fail before or after it lands.
import { BeigeError } from "../../src/core/errors.ts";

export interface Fault {
  /** Counts effects from the moment it is set; 1 is the next. */
  readonly nth: number;
  readonly when: "before" | "after";
  readonly error?: () => Error;
}

export class Faults {
  /** Effects that were asked for, in order. */
  readonly asked: string[] = [];
  /** Called before each effect, with its name: invariants look here. */
  onEffect: (name: string) => void = () => undefined;
  #fault: (Fault & { left: number }) | undefined;
  /** Whether the fault that was set has struck. */
  struck = false;

  set(fault: Fault): void {
    this.#fault = { ...fault, left: fault.nth };
    this.struck = false;
  }

  clear(): void {
    this.#fault = undefined;
  }

  /** Runs an effect, or fails before or after it. */
  effect<T>(name: string, land: () => T): T {
    this.asked.push(name);
    this.onEffect(name);
    const fault = this.#fault;
    if (fault !== undefined) fault.left -= 1;
    if (fault === undefined || fault.left !== 0) return land();
    this.#fault = undefined;
    this.struck = true;
    if (fault.when === "after") land();
    throw fault.error?.() ?? new BeigeError("unavailable", `${name} failed on purpose, ${fault.when} it landed`);
  }
}
