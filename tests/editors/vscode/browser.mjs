// Opens logs as a user does and asserts what is on the screen: squiggles, the
// Problems list, hover text, hints, messages. Writes pictures to $VSCODE_OUT.
// Usage: node browser.mjs PACKAGE.vsix SAMPLES
import assert from "node:assert/strict";
import { closeSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import path from "node:path";
import { checks, openEditor } from "./editor.mjs";
import { sampleFiles } from "./samples.mjs";

const [vsix, samples] = process.argv.slice(2);
const out = process.env.VSCODE_OUT ?? ".";

// The hover box has two shapes, depending on the version of the editor.
const HOVER = ".monaco-resizable-hover .monaco-hover-content, .monaco-hover:not(.hidden) .monaco-hover-content";

const { check, failed } = checks("browser", async (name) => {
  await page?.screenshot({ path: path.join(out, `FAIL ${name.replaceAll(" ", "-")}.png`) });
});
let editor;
let page;
try {
  editor = await openEditor({ vsix, files: sampleFiles(samples) });
  await readsADeadRun();
  await takesThePicture();
  await leavesHarmlessAlone();
  await choosesAGpu();
  await explainsOnRequest();
  await saysWhenAFileIsTooLarge();
  await saysWhenTheServerDoesNotStart();
  await saysWhenThePackageIsOfAnotherPlatform();
} catch (error) {
  await check("the editor works", () => Promise.reject(error));
} finally {
  await editor?.close();
}
process.exit(failed() > 0 ? 1 : 0);

async function readsADeadRun() {
  page = await openFile("oom.log");
  await check("the fatal line has a squiggle", () => page.waitForSelector(".squiggly-error", { timeout: 90_000 }));
  await check("exactly one error is counted", () =>
    until(async () => {
      const label = await page.getAttribute("#status\\.problems", "aria-label");
      assert.match(label ?? "", /Errors: 1\b/);
    }),
  );
  await check("the verdict stands at the end of the line", () =>
    until(async () => assert.match(await shownText(page), /environment-variables\)\s*\S{0,2}\s*.*fragment/i)),
  );
  await check("hover on a number says what it counts", async () => {
    const text = await hoverText(page, "13.55 GiB", "GPU 1 has");
    assert.match(text, /13\.55 GiB/);
    await picture(page, "hover-number");
  });
  await check("hover on the message gives verdict, table and remedy", async () => {
    const text = await hoverText(page, "CUDA out of memory", "GPU 1 has");
    assert.match(text, /fragment/i);
    assert.match(text, /79\.25/);
    assert.match(text, /expandable_segments/);
    await picture(page, "hover-verdict");
  });
  await check("no Markdown or HTML is left in the hover", async () => {
    const text = await page.locator(HOVER).first().innerText();
    assert.doesNotMatch(text, /\*\*|^\s*\|.*\|\s*$|<[a-z]+>|&[a-z]+;/m);
  });
  await check("hover on a number behind an emoji", async () => {
    const text = await hoverText(page, "671.40 MiB", "❌");
    assert.match(text, /671\.40 MiB/);
    await picture(page, "hover-emoji");
  });
  await check("the page of the rule is offered", async () => {
    await command(page, "trainwreck: Show the Page of a Rule");
    await page.locator('.quick-input-widget input[placeholder="Rule"]').waitFor();
    await page.keyboard.press("Enter");
    await page.waitForSelector('.tab.active[aria-label*="Preview cuda"]', { timeout: 60_000 });
    await page.waitForTimeout(1_500);
    await picture(page, "rule-page");
    await page.keyboard.press("Control+F4");
  });
  await check("the Problems list leads with the root cause", async () => {
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+Shift+M");
    const rows = page.locator(".markers-panel .monaco-list-row");
    await until(async () => assert.ok((await rows.count()) >= 2));
    const texts = (await rows.allInnerTexts()).map(flat);
    assert.match(texts[0], /oom\.log/);
    assert.match(texts.slice(1).join("\n"), /2\.50 GiB/);
    await picture(page, "problems");
  });
  await page.close();
}

/**
 * The picture for the README: the run with more steps before its end, so that
 * the hover stands above the fatal line and hides neither it nor its hint.
 */
async function takesThePicture() {
  const steps = Array.from({ length: 18 }, (_, i) => {
    const loss = (2.61 - 0.0131 * i + 0.02 * Math.sin(i * 2.3)).toFixed(4);
    const norm = (0.93 + 0.04 * Math.cos(i * 1.7)).toFixed(4);
    return `{'loss': ${loss}, 'grad_norm': ${norm}, 'learning_rate': ${(2.4 - i * 0.02).toFixed(2)}e-05, 'epoch': ${(i / 200).toFixed(2)}}\n`;
  });
  const run = readFileSync(path.join(editor.folder, "oom.log"), "utf8");
  writeFileSync(path.join(editor.folder, "train.log"), steps.join("") + run);
  page = await openFile("train.log");
  await check("the hover can be drawn larger", async () => {
    await page.waitForSelector(".squiggly-error", { timeout: 90_000 });
    await page.keyboard.press("Control+B");
    await until(async () => assert.match(await shownText(page), /environment-variables\).*fragment/i));
    await hoverText(page, "CUDA out of memory", "GPU 1 has");
    const box = () => page.locator(".monaco-resizable-hover").first().boundingBox();
    const before = await box();
    const x = before.x + before.width / 2;
    // Into the box by the shortest way, or it closes; then to its upper edge.
    await page.mouse.move(before.x + 120, before.y + before.height - 20, { steps: 4 });
    await page.mouse.move(x, before.y + 60, { steps: 20 });
    await page.mouse.move(x, before.y + 2, { steps: 20 });
    await page.mouse.down();
    await page.mouse.move(x, 96, { steps: 20 });
    await page.mouse.up();
    await page.mouse.move(x, before.y + 60, { steps: 8 });
    await until(async () => assert.ok((await box()).height > before.height + 100));
    await page.waitForTimeout(1_000);
    await picture(page, "vscode");
  });
  await page.close();
}

async function leavesHarmlessAlone() {
  page = await openFile("harmless.log");
  await check("a harmless log shows no mark", async () => {
    await until(async () => assert.match(await shownText(page), /nanoGPT/));
    await page.waitForTimeout(2_500);
    assert.equal(await page.locator(".squiggly-error, .squiggly-warning, .squiggly-info").count(), 0);
  });
  await picture(page, "harmless");
  await page.close();
}

async function choosesAGpu() {
  page = await openFile("llama_config.json");
  const lenses = async () => flat((await page.locator(".codelens-decoration").allInnerTexts()).join(" / "));
  await check("lenses stand over a config", () =>
    until(async () => assert.match(await lenses(), /8\.03 B parameters.*fits 24 GB cards/), 90_000),
  );
  await page.waitForTimeout(1_000);
  await picture(page, "config");
  await check("a lens opens the list of GPUs", async () => {
    await page.locator(".codelens-decoration a", { hasText: "change GPU" }).click();
    const input = page.locator('.quick-input-widget input[placeholder="Name, id or memory"]');
    await input.waitFor();
    await input.fill("rtx-4090");
    await page.waitForTimeout(500);
    await picture(page, "config-gpus");
    await page.keyboard.press("Enter");
  });
  await check("the lenses go by the chosen GPU", () =>
    until(async () => assert.match(await lenses(), /on rtx-4090 · fits, .* left.*does not fit/)),
  );
  await page.waitForTimeout(1_000);
  await picture(page, "config-gpu");
  await page.close();
}

async function explainsOnRequest() {
  page = await openFile("notes.txt");
  await check("a text file is explained after the command", async () => {
    await until(async () => assert.match(await shownText(page), /Tried to allocate/));
    assert.equal(await page.locator(".squiggly-error").count(), 0);
    await command(page, "trainwreck: Explain This File as a Log");
    await page.waitForSelector(".squiggly-error", { timeout: 60_000 });
    assert.match(flat(await page.innerText("#status\\.editor\\.mode")), /Training Log/);
  });
  await page.close();
}

async function saysWhenAFileIsTooLarge() {
  const big = path.join(editor.folder, "big.log");
  writeLarge(big, path.join(editor.folder, "oom.log"));
  page = await openFile("big.log");
  await check("a log above the limit brings a notice", async () => {
    const notice = page.locator(".notification-list-item", { hasText: "nothing is marked" });
    await notice.waitFor({ timeout: 90_000 });
    assert.match(flat(await notice.innerText()), /big\.log \(5\d MiB\) is larger than the 50 MiB/);
    await picture(page, "too-large");
  });
  await check("the notice leads to the report", async () => {
    await page.getByRole("button", { name: "Analyse on Disk" }).click();
    await page.waitForSelector('.tab.active[aria-label*="(report)"]', { timeout: 90_000 });
    await until(async () => assert.match(await shownText(page), /out of memory/i));
    await picture(page, "report");
  });
  await page.close();
  rmSync(big);
}

async function saysWhenTheServerDoesNotStart() {
  const settings = path.join(editor.root, "user/User/settings.json");
  const before = readFileSync(settings, "utf8");
  writeFileSync(settings, JSON.stringify({ ...JSON.parse(before), "trainwreck.server.path": "/nowhere/trainwreck" }));
  page = await openFile("oom.log");
  await check("a server that does not start brings a message", async () => {
    const notice = page.locator(".notification-list-item", { hasText: "does not start" });
    await notice.waitFor({ timeout: 90_000 });
    assert.match(flat(await notice.innerText()), /no such file.*\/nowhere\/trainwreck/);
    await picture(page, "no-server");
  });
  await page.close();
  writeFileSync(settings, before);
}

async function saysWhenThePackageIsOfAnotherPlatform() {
  const extensions = path.join(editor.root, "extensions");
  const [folder] = readdirSync(extensions).filter((name) => name.startsWith("trainwreck-lsp."));
  const header = Buffer.alloc(64);
  header.write("\x7fELF\x02\x01\x01", "latin1");
  header.writeUInt16LE(process.arch === "arm64" ? 62 : 183, 18);
  const binary = path.join(extensions, folder, "server/trainwreck");
  rmSync(binary); // an old process may still run from it
  writeFileSync(binary, header, { mode: 0o755 });
  page = await openFile("oom.log");
  await check("a server of another platform brings a message", async () => {
    const notice = page.locator(".notification-list-item", { hasText: "does not start" });
    await notice.waitFor({ timeout: 90_000 });
    assert.match(flat(await notice.innerText()), /inside the extension .* built for linux (arm64|x64)\. Install it with/);
    await picture(page, "other-platform");
  });
  await page.close();
}

async function openFile(name) {
  return editor.open([
    ["openFile", editor.remote(path.join(editor.folder, name))],
    ["skipWelcome", "true"],
  ]);
}

/** Moves the mouse onto `needle`, the one nearest to `beside`; the hover's text. */
async function hoverText(page, needle, beside) {
  await page.keyboard.press("Escape");
  await page.mouse.move(5, 5);
  await page.waitForTimeout(600);
  const point = await until(async () => {
    const found = await page.evaluate(whereIs, [needle, beside]);
    assert.ok(found, `${needle} is not on the screen`);
    return found;
  });
  await page.mouse.move(point.x - 2, point.y - 2);
  await page.mouse.move(point.x, point.y, { steps: 3 });
  return until(async () => {
    const texts = await page.locator(HOVER).allInnerTexts();
    const text = texts.map(flat).join("\n");
    assert.ok(text.includes("GiB") && !text.includes("Loading..."), `hover: ${text}`);
    // The diagnostic comes at once, the server's text after it.
    await page.waitForTimeout(400);
    return (await page.locator(HOVER).allInnerTexts()).map(flat).join("\n");
  });
}

/**
 * Runs in the page: the first character of `needle` on the screen, of all its
 * places the one nearest to the text `beside`. A needle may lie across the
 * colours of a row, and across the rows of a wrapped line.
 */
function whereIs([needle, beside]) {
  const rows = [...document.querySelectorAll(".view-lines .view-line")].sort(
    (a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top,
  );
  let text = "";
  const nodes = [];
  for (const row of rows) {
    const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      nodes.push({ node, start: text.length });
      text += node.data.replace(/\u00a0/g, " ");
    }
  }
  const anchor = text.indexOf(beside);
  let best = -1;
  for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + 1)) {
    if (best < 0 || Math.abs(at - anchor) < Math.abs(best - anchor)) {
      best = at;
    }
  }
  if (anchor < 0 || best < 0) {
    return undefined;
  }
  const { node, start } = nodes.findLast((each) => each.start <= best);
  const range = document.createRange();
  range.setStart(node, best - start);
  range.setEnd(node, best - start + 1);
  const box = range.getBoundingClientRect();
  return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
}

/** All text on the screen, rows in their order from top to bottom. */
async function shownText(page) {
  const rows = await page.evaluate(() =>
    [...document.querySelectorAll(".view-lines .view-line")]
      .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
      .map((row) => row.textContent),
  );
  return flat(rows.join(""));
}

async function command(page, title) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input:visible").first().fill(`>${title}`);
  await page.waitForTimeout(500);
  await page.keyboard.press("Enter");
}

async function picture(page, name) {
  await page.screenshot({ path: path.join(out, `${name}.png`) });
}

/** Repeats `probe` until it does not throw; the last error after `ms`. */
async function until(probe, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    try {
      return await probe();
    } catch (error) {
      if (Date.now() > end) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }
}

function flat(text) {
  return text.replace(/[\s\u00a0]+/g, " ");
}

/** Writes 51 MiB of step lines, then the end of a dead run. */
function writeLarge(file, ending) {
  const line = "{'loss': 2.3174, 'grad_norm': 0.9112, 'learning_rate': 1.98e-05, 'epoch': 0.11}\n";
  const block = line.repeat(Math.ceil((1024 * 1024) / line.length));
  const handle = openSync(file, "w");
  for (let count = 0; count < 51; count += 1) {
    writeSync(handle, block);
  }
  writeSync(handle, readFileSync(ending));
  closeSync(handle);
}
