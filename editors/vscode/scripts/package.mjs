// Packages the extension with a server binary inside:
//
//   npm run package                      this machine's platform
//   npm run package -- linux-arm64       another one
//   npm run package -- none              no binary: setting or PATH at run time
//
// The binary is $TRAINWRECK_BINARY, or ../../target/release/trainwreck. The
// package is trainwreck-<target>-<version>.vsix in this folder, or $VSIX.
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";

const TARGETS = [
  "linux-x64", "linux-arm64", "alpine-x64", "alpine-arm64",
  "darwin-x64", "darwin-arm64", "win32-x64", "win32-arm64",
];

const target = process.argv[2] ?? `${process.platform}-${process.arch}`;
if (target !== "none" && !TARGETS.includes(target)) {
  fail(`unknown target ${target}; one of: ${TARGETS.join(" ")} none`);
}

rmSync("server", { recursive: true, force: true });
if (target !== "none") {
  const name = target.startsWith("win32") ? "trainwreck.exe" : "trainwreck";
  const binary = process.env.TRAINWRECK_BINARY || path.join("..", "..", "target", "release", name);
  if (!existsSync(binary)) {
    fail(`there is no binary at ${binary}; build it with "cargo build --release" or set TRAINWRECK_BINARY`);
  }
  mkdirSync("server");
  copyFileSync(binary, path.join("server", name));
  chmodSync(path.join("server", name), 0o755);
}

run("npm", ["run", "--silent", "check"]);
run("npm", ["run", "--silent", "bundle"]);

const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const output = process.env.VSIX || `trainwreck-${target === "none" ? "universal" : target}-${version}.vsix`;
run("npx", [
  "--no-install", "vsce", "package", "--no-dependencies",
  ...(target === "none" ? [] : ["--target", target]),
  "--out", output,
]);

function run(command, args) {
  const shell = process.platform === "win32"; // npm and npx are .cmd files there
  const result = spawnSync(command, args, { stdio: "inherit", shell });
  if (result.status !== 0) {
    fail(`${command} ${args.join(" ")} failed`);
  }
}

function fail(message) {
  console.error(`package: ${message}`);
  process.exit(1);
}
