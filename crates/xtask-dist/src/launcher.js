#!/usr/bin/env node
// Starts the binary that npm installed for this machine, with the same arguments.
"use strict";

const { spawn } = require("child_process");
const { optionalDependencies } = require("../package.json");

function fail(reason) {
  console.error(`dalsegno: ${reason}`);
  process.exit(1);
}

const sources = "build it from the sources, with `cargo install --path crates/dalsegno-cli`";
const name = `dalsegno-${process.platform}-${process.arch}`;
if (!(name in optionalDependencies)) {
  fail(`there is no package for ${process.platform} on ${process.arch}: ${sources}`);
}
// The version of glibc that this process runs on; musl has none.
const glibc = process.report.getReport().header.glibcVersionRuntime;
if (!glibc) {
  fail(`there is no package for a Linux with musl: ${sources}`);
}

let program, needed;
try {
  program = require.resolve(`${name}/bin/dalsegno`);
  needed = require(`${name}/package.json`).glibc;
} catch {
  fail(`the package \`${name}\` is missing: run \`npm install --include=optional\``);
}
const [major, minor] = glibc.split(".").map(Number);
const [least, below] = needed.split(".").map(Number);
if (major < least || (major === least && minor < below)) {
  fail(`the package needs glibc ${needed}, and this system has ${glibc}: ${sources}`);
}

const rest = process.argv.slice(2);
if (process.execve) {
  // The process becomes the binary: signals, terminal and exit code are its own.
  process.execve(program, [program, ...rest], process.env);
}
const child = spawn(program, rest, { stdio: "inherit" });
// A terminal sends an interrupt to the child as well, which takes a second one for more than that.
const terminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
process.on("SIGINT", () => terminal || child.kill("SIGINT"));
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => fail(error.message));
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
