// Bundles the extension into one file, and gathers the licences of what went
// into it. `external: vscode` is the editor's own module.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build } from "esbuild";

const result = await build({
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["vscode"],
  minify: true,
  metafile: true,
  logLevel: "warning",
});

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)(?:.*\/node_modules\/((?:@[^/]+\/)?[^/]+))?/.exec(input);
  if (found !== null) {
    packages.add(found[2] === undefined ? found[1] : input.slice(13, input.lastIndexOf(found[2]) + found[2].length));
  }
}
const notices = [...packages].sort().map((name) => {
  const folder = path.join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[sc]e/i.test(entry));
  if (file === undefined || !existsSync(path.join(folder, file))) {
    throw new Error(`${name} has no licence file`);
  }
  return `${name} ${version} (${license})\n\n${readFileSync(path.join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(
  "dist/third-party-notices.txt",
  `The file extension.js contains parts of these packages.\n\n${notices.join(`\n${"-".repeat(72)}\n\n`)}`,
);
