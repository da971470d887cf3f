// What a container engine and its machine cannot give to any sandbox, from what the engine says of itself. Pure.

/** Of the engine's answer to /info. */
export interface EngineSays {
  readonly SecurityOptions?: readonly string[] | null;
  readonly LiveRestoreEnabled?: boolean;
  readonly SwapLimit?: boolean;
  readonly MemoryLimit?: boolean;
  readonly PidsLimit?: boolean;
}

/** Whether the engine names this option: `name=seccomp,profile=default`. */
export const hasOption = (options: readonly string[] | null | undefined, name: string): boolean =>
  (options ?? []).some((each) => each === `name=${name}` || each.startsWith(`name=${name},`));

export function engineLacks(info: EngineSays): readonly string[] {
  const security = info.SecurityOptions;
  return [
    ...(hasOption(security, "apparmor") || hasOption(security, "selinux") ? [] : ["AppArmor or SELinux"]),
    ...(hasOption(security, "seccomp") ? [] : ["seccomp"]),
    ...(hasOption(security, "userns") || hasOption(security, "rootless") ? [] : ["user namespaces"]),
    ...(info.LiveRestoreEnabled === true ? [] : ["live-restore"]),
    ...(info.SwapLimit === false ? ["swap limit"] : []),
    ...(info.MemoryLimit === false ? ["memory limit"] : []),
    ...(info.PidsLimit === false ? ["process limit"] : []),
  ];
}
