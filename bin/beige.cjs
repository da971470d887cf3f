#!/usr/bin/env node
// The program's door: readable by any Node. Says what to do on one that is too old, or hands over to the Node 24 of a clone.
"use strict";
var fs = require("fs");
var path = require("path");

var root = path.join(__dirname, "..");
var source = path.join(root, "src", "cli", "main.ts");
var built = path.join(root, "dist", "cli.cjs");
var major = Number(process.versions.node.split(".")[0]);

function handOver(node) {
  var child;
  // Before the start, so that no signal falls between: they are told to this program in a later turn only.
  ["SIGINT", "SIGTERM", "SIGHUP"].forEach(function (name) {
    process.on(name, function () {
      // A terminal gives Ctrl-C to both: passing it on would make it two.
      if (name !== "SIGINT" || !process.stdin.isTTY) child.kill(name);
    });
  });
  child = require("child_process").spawn(node, [__filename].concat(process.argv.slice(2)), { stdio: "inherit" });
  child.on("error", function (error) {
    console.error("error: cannot run " + node + ": " + error.message);
    process.exitCode = 2;
  });
  child.on("exit", function (code, signal) {
    process.exitCode = code === null ? 128 + (require("os").constants.signals[signal] || 0) : code;
  });
}

if (major < 24) {
  var local = path.join(root, "node_modules", "node", "bin", "node");
  if (fs.existsSync(local)) handOver(local);
  else {
    console.error("error: beige needs Node 24 or newer (this is " + process.versions.node + ")");
    console.error(
      "fix:   npm install -g node@24, mise use -g node@24, or https://nodejs.org" +
        (fs.existsSync(source) ? "; in a clone: npm run quickstart" : ""),
    );
    process.exitCode = 2;
  }
} else {
  var kept = keeping(process.env.BEIGE_HOME || path.join(require("os").homedir(), ".beige"));
  // A clone runs its sources, so that an old build is never taken for them; a package has none.
  if (!fs.existsSync(source)) run(kept);
  else {
    keepModules(kept);
    import(require("url").pathToFileURL(source).href).catch(function (error) {
      console.error("error: beige cannot start: " + (error && error.stack ? error.stack : error));
      process.exitCode = 70;
    });
  }
}

/** The folder where what is compiled is kept, "" for none: what is found there is run, so nobody else may write it. No home is made for it. */
function keeping(home) {
  var folder = path.join(home, "cache");
  try {
    if (!ours(home)) return "";
    if (!fs.existsSync(folder)) fs.mkdirSync(folder, { mode: 448 });
    return ours(folder) ? folder : "";
    // eslint-disable-next-line no-unused-vars -- old Nodes do not read it without the name
  } catch (error) {
    return "";
  }
}

function ours(folder) {
  var found = fs.statSync(folder);
  return found.isDirectory() && (!process.getuid || (found.uid === process.getuid() && (found.mode & 18) === 0));
}

/** Node's own cache, of modules. Making it ready takes longer than it saves where nearly all that runs is kept in another way. */
function keepModules(folder) {
  if (folder !== "") require("module").enableCompileCache(folder);
}

/** Runs the built program. Node itself keeps what is compiled before a file runs; for a frequent verb all is kept that it needed. */
function run(folder) {
  var verb = /^(apply|describe|diff|events|get|logs|status|wait)$/.exec(process.argv[2] || "");
  var text = verb === null || folder === "" ? "" : fs.readFileSync(built, "utf8");
  // The build's own digest: what was compiled from another text is never run as this one.
  var digest = /^\/\/ ([0-9a-f]{64})\n/.exec(text.slice(0, 80));
  if (digest === null) {
    keepModules(folder);
    require(built);
    return;
  }
  // It alone loads more modules, for manifests that nobody has applied.
  if (verb[1] === "diff") keepModules(folder);
  var vm = require("vm");
  var file = path.join(folder, "cli-" + verb[1]);
  var mark = Buffer.from([digest[1], process.version, process.arch, built].join(" ") + "\n");
  var data = read(file, mark);
  var script = new vm.Script("(function (exports, require, module, __filename, __dirname) {" + text + "\n})", {
    filename: built,
    cachedData: data,
  });
  if (data === undefined || script.cachedDataRejected)
    process.on("exit", function () {
      write(file, Buffer.concat([mark, script.createCachedData(), mark]));
    });
  // What is compiled here cannot import by itself.
  var ownImport = function (name) {
    return import(name.charAt(0) === "." ? require("url").pathToFileURL(path.join(path.dirname(built), name)).href : name);
  };
  var made = { exports: {}, ownImport: ownImport };
  script.runInThisContext()(made.exports, require("module").createRequire(built), made, built, path.dirname(built));
}

/** Marked at both ends: whatever cut it, a part is not taken for it. */
function read(file, mark) {
  try {
    var bytes = fs.readFileSync(file);
    var end = bytes.length - mark.length;
    var whole = end > mark.length && bytes.subarray(0, mark.length).equals(mark) && bytes.subarray(end).equals(mark);
    return whole ? bytes.subarray(mark.length, end) : undefined;
    // eslint-disable-next-line no-unused-vars -- old Nodes do not read it without the name
  } catch (error) {
    return undefined;
  }
}

/** Whole or not at all, also after a power cut: the engine does not look for holes. A disk that takes nothing costs a few milliseconds the next time. */
function write(file, bytes) {
  var fresh = file + "." + process.pid;
  try {
    fs.writeFileSync(fresh, bytes, { mode: 384, flag: "wx", flush: true });
    fs.renameSync(fresh, file);
    // eslint-disable-next-line no-unused-vars -- old Nodes do not read it without the name
  } catch (error) {
    fs.rmSync(fresh, { force: true });
  }
}
