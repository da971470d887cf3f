// An image with this machine's own apt and dpkg and a folder of packages as their repository: real installs where no registry and no mirror are.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface TestPackage {
  readonly name: string;
  readonly version: string;
  /** Shell that runs as root when it is installed. */
  readonly postinst?: string;
}

export interface AptBase {
  readonly image: string;
  /** Puts other packages, or a newer base, under the same name. */
  remake(packages: readonly TestPackage[]): void;
  clean(): void;
}

const PROGRAMS = ["apt-get", "dpkg", "dpkg-deb", "dpkg-split", "dpkg-query", "tar", "xz", "rm", "diff", "ldconfig", "start-stop-daemon"];
const METHODS = ["file", "copy", "store"];
const docker = (...args: string[]): string => execFileSync("docker", args, { encoding: "utf8" });

function librariesOf(program: string): readonly string[] {
  try {
    const text = execFileSync("ldd", [program], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    return [...text.matchAll(/(\/\S+) \(0x/g)].map((match) => match[1] ?? "");
  } catch {
    return [];
  }
}

function put(root: string, from: string, to = from): void {
  // Through the links of a machine with all in /usr, as the image is made.
  const target = join(root, to.replace(/^\/(bin|sbin|lib|lib64)\//, "/usr/$1/"));
  mkdirSync(dirname(target), { recursive: true });
  cpSync(realpathSync(from), target);
}

function programs(root: string): void {
  const found = PROGRAMS.map((name) =>
    execFileSync("sh", ["-c", `PATH=$PATH:/usr/sbin:/sbin command -v ${name}`], { encoding: "utf8" }).trim(),
  );
  const all = [...found, ...METHODS.map((name) => `/usr/lib/apt/methods/${name}`)];
  for (const program of all) {
    put(root, program);
    for (const library of librariesOf(program)) put(root, library);
  }
  cpSync("/usr/share/dpkg", join(root, "usr/share/dpkg"), { recursive: true });
}

function addPackage(root: string, { name, version, postinst }: TestPackage): string {
  const folder = mkdtempSync(join(tmpdir(), "beige-deb-"));
  mkdirSync(join(folder, "DEBIAN"));
  mkdirSync(join(folder, "usr/bin"), { recursive: true });
  const control = `Package: ${name}\nVersion: ${version}\nArchitecture: all\nMaintainer: test <test@example.com>\nDescription: ${name}\n`;
  writeFileSync(join(folder, "DEBIAN/control"), control);
  if (postinst !== undefined) writeFileSync(join(folder, "DEBIAN/postinst"), `#!/bin/sh\n${postinst}\n`, { mode: 0o755 });
  writeFileSync(join(folder, "usr/bin", name), `#!/bin/sh\necho ${name} ${version}\n`, { mode: 0o755 });
  const file = `${name}_${version}.deb`;
  execFileSync("dpkg-deb", ["--root-owner-group", "-b", folder, join(root, "srv/packages", file)], { stdio: "ignore" });
  rmSync(folder, { recursive: true });
  const bytes = readFileSync(join(root, "srv/packages", file));
  const hash = createHash("sha256").update(bytes).digest("hex");
  return `${control}Filename: ./${file}\nSize: ${statSync(join(root, "srv/packages", file)).size}\nSHA256: ${hash}\n\n`;
}

function fill(root: string, packages: readonly TestPackage[]): void {
  programs(root);
  const folders = ["srv/packages", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/dpkg/dpkg.cfg.d", "var/lib/apt/lists/partial"];
  for (const folder of [
    ...folders,
    "var/cache/apt/archives/partial",
    "var/lib/dpkg/info",
    "var/lib/dpkg/updates",
    "var/lib/dpkg/triggers",
    "var/log/apt",
  ])
    mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, "var/lib/dpkg/status"), "");
  writeFileSync(join(root, "etc/apt/sources.list"), "deb [trusted=yes] file:/srv/packages ./\n");
  writeFileSync(join(root, "srv/packages/Packages"), packages.map((each) => addPackage(root, each)).join(""));
}

export function makeAptBase(packages: readonly TestPackage[]): AptBase {
  const image = `beige-test-apt:${randomBytes(5).toString("hex")}`;
  const remake = (wanted: readonly TestPackage[]): void => {
    const root = mkdtempSync(join(tmpdir(), "beige-apt-"));
    const id = docker("create", "beige-base:1", "true").trim();
    try {
      fill(root, wanted);
      const tar = join(tmpdir(), `${id}.tar`);
      execFileSync("tar", ["-C", root, "--owner=0", "--group=0", "-cf", tar, ...readdirSync(root)]);
      execFileSync("sh", ["-c", `docker cp - ${id}:/ <${tar}`]);
      rmSync(tar);
      const changes = ["ENV FROM_BASE=yes", "USER nobody", 'ENTRYPOINT ["/usr/bin/env"]', 'CMD ["true"]', "LABEL made.by=test"];
      docker("commit", ...changes.flatMap((change) => ["--change", change]), id, image);
    } finally {
      docker("rm", "-f", id);
      rmSync(root, { recursive: true });
    }
  };
  remake(packages);
  return { image, remake, clean: () => void execFileSync("sh", ["-c", `docker rmi ${image} >/dev/null 2>&1 || true`]) };
}
