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
  // What is compiled is kept, in a folder that only this user can write; no home is made for it.
  var home = process.env.BEIGE_HOME || path.join(require("os").homedir(), ".beige");
  if (fs.existsSync(home)) require("module").enableCompileCache(path.join(home, "cache"));
  // A clone runs its sources, so that an old build is never taken for them; a package has none.
  if (!fs.existsSync(source)) require(built);
  else
    import(require("url").pathToFileURL(source).href).catch(function (error) {
      console.error("error: beige cannot start: " + (error && error.stack ? error.stack : error));
      process.exitCode = 70;
    });
}
