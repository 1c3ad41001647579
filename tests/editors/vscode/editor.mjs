// A real VS Code without a desktop: its server half as a process of ours, its
// workbench in a headless Chromium. Everything lives in one temporary folder
// and ends with `close`, also when the tests fail or are told to stop.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

const CACHE = process.env.VSCODE_CACHE;
const MAIN = path.join(CACHE, "node_modules/code-server/lib/vscode/out/server-main.js");
const { chromium } = createRequire(path.join(CACHE, "package.json"))("playwright-core");

// Makes the picture the same on each run, and keeps the editor off the network.
const USER_SETTINGS = {
  "workbench.startupEditor": "none",
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.colorTheme": "Default Dark Modern",
  "telemetry.telemetryLevel": "off",
  "extensions.autoUpdate": false,
  "extensions.autoCheckUpdates": false,
  "extensions.ignoreRecommendations": true,
  "security.workspace.trust.enabled": false,
  "chat.disableAIFeatures": true,
  "git.enabled": false,
  "editor.wordWrap": "on",
  "editor.minimap.enabled": false,
  "editor.accessibilitySupport": "off",
};

/**
 * Starts VS Code with the package `vsix` installed and `files` (name -> text)
 * in its folder. `testHost` allows tests inside the extension host; it also keeps
 * messages from popping up, so it is off where a user's view is tested.
 */
export async function openEditor({ vsix, files, testHost = false }) {
  const root = mkdtempSync(path.join(tmpdir(), "trainwreck-vscode-"));
  const folder = path.join(root, "run");
  const dataFolder = path.join(root, "user");
  for (const each of [folder, path.join(dataFolder, "User"), path.join(root, "server"), path.join(root, "extensions")]) {
    mkdirSync(each, { recursive: true });
  }
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(path.join(folder, name), text);
  }
  writeFileSync(path.join(dataFolder, "User/settings.json"), JSON.stringify(USER_SETTINGS));

  const port = await freePort();
  const args = [
    MAIN,
    "--host", "127.0.0.1",
    "--port", String(port),
    "--without-connection-token",
    "--accept-server-license-terms",
    "--disable-telemetry",
    "--server-data-dir", path.join(root, "server"),
    "--user-data-dir", dataFolder,
    "--extensions-dir", path.join(root, "extensions"),
  ];
  const env = { ...process.env, EXTENSIONS_GALLERY: '{"serviceUrl":""}' };
  const installed = spawnSync(process.execPath, [...args, "--install-extension", vsix], {
    env,
    encoding: "utf8",
    timeout: 120_000,
  });
  if (installed.status !== 0) {
    rmSync(root, { recursive: true, force: true });
    throw new Error(`the package does not install: ${installed.stdout}${installed.stderr}`);
  }

  // Its own process group, so that extension hosts and language servers end too.
  const server = spawn(process.execPath, [...args, ...(testHost ? ["--enable-smoke-test-driver"] : [])], {
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const ready = new Promise((resolve, reject) => {
    const add = (part) => {
      output += part;
      if (output.includes("Extension host agent listening")) {
        resolve();
      }
    };
    server.stdout.on("data", add);
    server.stderr.on("data", add);
    server.on("exit", (code) => reject(new Error(`VS Code ended with ${code}: ${output.slice(-2000)}`)));
    setTimeout(() => reject(new Error(`VS Code is not ready: ${output.slice(-2000)}`)), 120_000).unref();
  });

  let browser;
  let closed = false;
  const close = async () => {
    if (closed) {
      return;
    }
    closed = true;
    await browser?.close().catch(() => {});
    killGroup(server.pid);
    // The folder is busy until the last process has gone.
    await new Promise((resolve) => setTimeout(resolve, 500));
    rmSync(root, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  };
  const stop = async () => {
    await close();
    process.exit(1);
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);

  try {
    await ready;
    browser = await chromium.launchPersistentContext(path.join(root, "browser"), {
      executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
      viewport: { width: 1280, height: 800 },
      timeout: 120_000,
      args: [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
      ],
    });
  } catch (error) {
    await close();
    throw error;
  }

  const remote = (file) => `vscode-remote://127.0.0.1:${port}${file}`;
  /** Opens a window on the folder with a workbench payload. */
  const open = async (payload, prepare = async () => {}) => {
    const page = await browser.newPage();
    page.setDefaultTimeout(60_000);
    await prepare(page);
    const query = new URLSearchParams({ folder, payload: JSON.stringify(payload) });
    await page.goto(`http://127.0.0.1:${port}/?${query}`, { timeout: 120_000 });
    return page;
  };
  return { root, folder, remote, open, close, log: () => output };
}

function killGroup(pid) {
  for (const signal of ["SIGTERM", "SIGKILL"]) {
    try {
      process.kill(-pid, signal);
    } catch {
      return; // gone already
    }
    spawnSync("sleep", ["1"]);
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Named checks of one `group`, one after another; each prints a line. */
export function checks(group, onFailure) {
  let failed = 0;
  return {
    async check(name, action) {
      try {
        await action();
        console.log(`ok ${group}: ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAIL ${group}: ${name}: ${String(error?.message ?? error).replace(/\s+/g, " ").slice(0, 1500)}`);
        await onFailure(name).catch(() => {});
      }
    },
    failed: () => failed,
  };
}
