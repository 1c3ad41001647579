// Runs the unit tests of the pure helpers with node's own runner. The sources
// are TypeScript, so they are bundled first.
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
rmSync("out", { recursive: true, force: true });
await build({
  entryPoints: tests.map((name) => `test/${name}`),
  outdir: "out",
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  logLevel: "warning",
});
const files = tests.map((name) => `out/${name.replace(/\.ts$/, ".js")}`);
const result = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit", timeout: 120_000 });
process.exit(result.status ?? 1);
