// Runs api/index.js inside the extension host of a real VS Code in which the
// package is installed. Usage: node api.mjs PACKAGE.vsix SAMPLES
import path from "node:path";
import { openEditor } from "./editor.mjs";
import { sampleFiles } from "./samples.mjs";

const [vsix, samples] = process.argv.slice(2);
const here = import.meta.dirname;

const editor = await openEditor({ vsix, files: sampleFiles(samples), testHost: true });
let code = 1;
try {
  const payload = [
    ["extensionDevelopmentPath", editor.remote(path.join(here, "api"))],
    ["extensionTestsPath", editor.remote(path.join(here, "api/index.js"))],
    ["skipWelcome", "true"],
  ];
  code = await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("the tests in the extension host did not end in 480 s")), 480_000).unref();
    editor
      .open(payload, async (page) => {
        // The window logs much of its own; only lines of checks are results.
        await page.exposeFunction("codeAutomationLog", (_type, args) => {
          const line = args.join(" ");
          (/^(ok|FAIL) /.test(line) ? console.log : console.error)(line);
        });
        await page.exposeFunction("codeAutomationExit", resolve);
      })
      .catch(reject);
  });
} catch (error) {
  console.log(`FAIL api: the extension host runs: ${error.message}`);
} finally {
  await editor.close();
}
process.exit(code);
