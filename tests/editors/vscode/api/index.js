// Tests inside the extension host, with the whole API of the editor. The
// editor turns a lone carriage return into a line end, so lines are looked up
// by their text, never by a number from the file.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");

const EXTENSION = "trainwreck-lsp.trainwreck";
const { Error: ERROR, Warning: WARNING } = vscode.DiagnosticSeverity;

const folder = () => vscode.workspace.workspaceFolders[0].uri;
const uriOf = (name) => vscode.Uri.joinPath(folder(), name);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what, probe, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await probe();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`not within ${ms} ms: ${what}`);
    }
    await sleep(50);
  }
}

async function open(name) {
  const document = await vscode.workspace.openTextDocument(uriOf(name));
  await vscode.window.showTextDocument(document, { preview: false });
  return document;
}

const ours = (uri) => vscode.languages.getDiagnostics(uri).filter((each) => each.source === "trainwreck");
const findings = (document, what = "findings") =>
  until(`${what} in ${path.basename(document.uri.path)}`, () => {
    const list = ours(document.uri);
    return list.length > 0 && list;
  });
const codeOf = (diagnostic) => (typeof diagnostic.code === "object" ? diagnostic.code.value : diagnostic.code);

/** The position of `needle` in the first line that holds both texts. */
function find(document, needle, alsoInLine = needle) {
  for (let line = 0; line < document.lineCount; line += 1) {
    const text = document.lineAt(line).text;
    if (text.includes(needle) && text.includes(alsoInLine)) {
      return new vscode.Position(line, text.indexOf(needle));
    }
  }
  throw new Error(`no line with ${needle} and ${alsoInLine}`);
}

async function hoverAt(document, position) {
  const hovers = await vscode.commands.executeCommand("vscode.executeHoverProvider", document.uri, position);
  return {
    text: hovers.flatMap((hover) => hover.contents.map((part) => part.value ?? part)).join("\n"),
    range: hovers[0]?.range,
  };
}

/** Waits long enough for findings to have come if there were any. */
async function staysSilent(document) {
  await sleep(1_500);
  assert.deepEqual(ours(document.uri).map((each) => each.message), []);
}

const tests = {
  async "the root cause is an error on its message"() {
    const document = await open("oom.log");
    const list = await findings(document);
    const errors = list.filter((each) => each.severity === ERROR);
    assert.equal(errors.length, 1, `errors: ${errors.map((each) => each.message).join(" | ")}`);
    assert.match(document.getText(errors[0].range), /out of memory/);
    assert.equal(errors[0].range.start.line, find(document, "GPU 1 has a total").line);
    assert.match(errors[0].message, /2\.50 GiB/);
  },

  async "the watchdog timeout after it is no error"() {
    const document = await open("oom.log");
    const line = find(document, "Watchdog caught").line;
    for (const each of await findings(document)) {
      assert.ok(each.range.start.line !== line || each.severity > WARNING, each.message);
    }
  },

  async "the bar in front of the message is not marked"() {
    const document = await open("oom.log");
    for (const each of await findings(document)) {
      assert.ok(!document.getText(each.range).includes("█"), each.message);
    }
  },

  async "hover on a number"() {
    const document = await open("oom.log");
    const { text, range } = await hoverAt(document, find(document, "13.55 GiB").translate(0, 2));
    assert.match(text, /13\.55 GiB/);
    assert.equal(range && document.getText(range), "13.55 GiB");
  },

  async "hover on a number behind an emoji"() {
    const document = await open("oom.log");
    const { text, range } = await hoverAt(document, find(document, "671.40 MiB", "❌").translate(0, 2));
    assert.match(text, /671\.40 MiB/);
    assert.equal(range && document.getText(range), "671.40 MiB");
  },

  async "hover elsewhere on the line gives the verdict"() {
    const document = await open("oom.log");
    const { text } = await hoverAt(document, find(document, "Tried to allocate", "GPU 1"));
    assert.match(text, /fragment/i);
    assert.match(text, /expandable_segments/);
  },

  async "inlay hint behind what is underlined of a long root-cause line"() {
    const document = await open("oom.log");
    await findings(document);
    const all = new vscode.Range(0, 0, document.lineCount, 0);
    const hints = await vscode.commands.executeCommand("vscode.executeInlayHintProvider", document.uri, all);
    const line = find(document, "GPU 1 has a total").line;
    const hint = hints.find((each) => each.position.line === line);
    assert.ok(hint, `hints: ${JSON.stringify(hints)}`);
    const label = typeof hint.label === "string" ? hint.label : hint.label.map((part) => part.value).join("");
    assert.match(label, /fragment/i);
    const marked = /Tried to allocate [\d.]+ GiB/.exec(document.lineAt(line).text);
    assert.equal(hint.position.character, marked.index + marked[0].length);
    // The editor cuts what is longer (editor.inlayHints.maximumLength).
    assert.ok(label.length <= 43, `${label.length} characters: ${label}`);
  },

  async "a harmless log stays silent"() {
    await staysSilent(await open("harmless.log"));
  },

  async "a Slurm file has the extension's own language"() {
    const document = await open("slurm-4242.out");
    assert.equal(document.languageId, "trainwreck-log");
    const list = await findings(document);
    assert.equal(list[0].range.start.line, 2);
  },

  async "the stderr of a job is a log"() {
    await findings(await open("job.err"));
  },

  async "a rank file keeps its language and is explained"() {
    const document = await open("rank1.txt");
    assert.equal(document.languageId, "plaintext");
    await findings(document);
  },

  async "another text file is explained only on request"() {
    const document = await open("notes.txt");
    await staysSilent(document);
    await vscode.commands.executeCommand("trainwreck.explainAsLog");
    const changed = await until("the language changes", () =>
      vscode.workspace.textDocuments.find((each) => each.fileName === document.fileName && each.languageId === "trainwreck-log"),
    );
    await findings(changed);
  },

  async "an untitled log is explained"() {
    const content = fs.readFileSync(uriOf("oom.log").fsPath, "utf8");
    const document = await vscode.workspace.openTextDocument({ language: "log", content });
    await findings(document);
  },

  async "JSON stays silent"() {
    await staysSilent(await open("config.json"));
    await staysSilent(await open("tsconfig.json"));
  },

  async "lenses over a config go by the chosen GPU"() {
    const document = await open("llama_config.json");
    const titles = async () =>
      (await vscode.commands.executeCommand("vscode.executeCodeLensProvider", document.uri, 99)).map((lens) => lens.command?.title);
    const shows = (what) => until(what, async () => (await titles()).some((title) => title.includes(what)));
    await shows("8.03 B parameters");
    await shows("fits 24 GB cards");
    await vscode.commands.executeCommand("trainwreck.chooseGpu", "rtx-4090");
    await shows("on rtx-4090 · fits");
    await vscode.commands.executeCommand("trainwreck.chooseTask", "full");
    await shows("would fit with");
    await vscode.commands.executeCommand("trainwreck.chooseTask", "all");
    await vscode.commands.executeCommand("trainwreck.chooseGpu", "none");
    await shows("fits 24 GB cards");
  },

  async "keys and values are completed in a config"() {
    const document = await open("llama_config.json");
    const at = find(document, "bfloat16").translate(0, 1);
    const labels = async () => {
      const list = await vscode.commands.executeCommand("vscode.executeCompletionItemProvider", document.uri, at);
      return list.items.map((item) => item.label.label ?? item.label);
    };
    await until("bfloat16 is offered", async () => (await labels()).includes("bfloat16"));
  },

  async "a mark on a config leads to its page"() {
    const document = await open("llama_config.json");
    const edit = new vscode.WorkspaceEdit();
    const width = find(document, "4096");
    edit.replace(document.uri, new vscode.Range(width, width.translate(0, 4)), "4100");
    await vscode.workspace.applyEdit(edit);
    const [mark] = await findings(document);
    assert.equal(codeOf(mark), "config-head-width");
    assert.match(String(mark.code.target), /pages\/config-head-width\.md$/);
    const { text } = await hoverAt(document, find(document, "32", "num_attention_heads"));
    assert.match(text, /What to do/);
  },

  async "an edit moves the findings"() {
    const document = await open("job.err");
    const before = (await findings(document)).find((each) => each.severity === ERROR).range.start.line;
    const edit = new vscode.WorkspaceEdit();
    edit.insert(document.uri, new vscode.Position(0, 0), "é 🚀 one more line\n");
    await vscode.workspace.applyEdit(edit);
    await until("the error is one line lower", () =>
      ours(document.uri).some((each) => each.severity === ERROR && each.range.start.line === before + 1),
    );
  },

  async "a log that grows on disk"() {
    const name = "growing.log";
    const [steps] = fs.readFileSync(uriOf("oom.log").fsPath, "utf8").split(" 12%");
    fs.writeFileSync(uriOf(name).fsPath, steps);
    const document = await open(name);
    await staysSilent(document);
    fs.appendFileSync(uriOf(name).fsPath, fs.readFileSync(uriOf("oom.log").fsPath, "utf8").slice(steps.length));
    await findings(document, "findings after growth");
  },

  async "a disabled rule is silent, and comes back"() {
    const document = await open("oom.log");
    const error = (await findings(document)).find((each) => each.severity === ERROR);
    const settings = vscode.workspace.getConfiguration("trainwreck");
    const code = codeOf(error);
    const shown = () => ours(document.uri).some((each) => codeOf(each) === code);
    await settings.update("rules.disabled", [code], vscode.ConfigurationTarget.Global);
    try {
      await until("the finding is gone", () => !shown());
    } finally {
      await settings.update("rules.disabled", undefined, vscode.ConfigurationTarget.Global);
    }
    await until("the finding is back", shown);
  },

  async "hints can be switched off"() {
    const document = await open("oom.log");
    const all = new vscode.Range(0, 0, document.lineCount, 0);
    const hints = async () =>
      (await vscode.commands.executeCommand("vscode.executeInlayHintProvider", document.uri, all)).length;
    const settings = vscode.workspace.getConfiguration("trainwreck");
    await settings.update("inlayHints.enabled", false, vscode.ConfigurationTarget.Global);
    try {
      await until("no hints", async () => (await hints()) === 0);
    } finally {
      await settings.update("inlayHints.enabled", undefined, vscode.ConfigurationTarget.Global);
    }
    await until("hints again", async () => (await hints()) > 0);
  },

  async "restart brings a new server and the findings back"() {
    const document = await open("oom.log");
    await findings(document);
    const before = serverProcesses();
    assert.equal(before.length, 1, `servers: ${before}`);
    await vscode.commands.executeCommand("trainwreck.restart");
    await until("another process", () => {
      const now = serverProcesses();
      return now.length === 1 && now[0] !== before[0];
    });
    await findings(document);
  },

  async "a killed server is started again"() {
    const document = await open("oom.log");
    await findings(document);
    const [before] = serverProcesses();
    process.kill(before, "SIGKILL");
    await until("another process", () => serverProcesses().some((pid) => pid !== before));
    await findings(document);
  },

  async "analysing a file on disk shows the report"() {
    await vscode.commands.executeCommand("trainwreck.explainFile", uriOf("oom.log"));
    const document = vscode.window.activeTextEditor.document;
    assert.equal(document.uri.scheme, "trainwreck-report");
    assert.match(document.getText(), /oom\.log/);
    assert.match(document.getText(), /out of memory/i);
    assert.doesNotMatch(document.getText(), /\u001b/);
  },
};

/** Closes every tab; a changed one is put back first, or the editor would ask. */
async function closeAll() {
  while (vscode.window.activeTextEditor?.document.isDirty) {
    await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
  }
  await vscode.commands.executeCommand("workbench.action.closeAllEditors");
}

/** Pids of the language server: children of this extension host. */
function serverProcesses() {
  const server = path.join(vscode.extensions.getExtension(EXTENSION).extensionPath, "server");
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const command = fs.readFileSync(`/proc/${pid}/cmdline`, "utf8");
        return command.includes(server) && command.split("\0").includes("lsp");
      } catch {
        return false; // it has just ended
      }
    })
    .map(Number);
}

exports.run = async () => {
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await Promise.race([test(), sleep(90_000).then(() => Promise.reject(new Error("not within 90 s")))]);
      console.log(`ok api: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL api: ${name}: ${String(error.message).replace(/\s+/g, " ").slice(0, 1500)}`);
    }
    await closeAll();
  }
  if (failed > 0) {
    throw new Error(`${failed} failed`);
  }
};

exports.activate = () => {};
