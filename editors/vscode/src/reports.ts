/**
 * Read-only tabs with what the command-line face prints: the check of a file
 * on disk, and the page of a rule.
 */

import * as path from "node:path";
import * as vscode from "vscode";
import { reportText, run } from "./run";
import type { Server } from "./server";

const SCHEME = "trainwreck-report";

export interface Reports extends vscode.Disposable {
  /** Runs `trainwreck check` on a file and shows what it prints. */
  checkFile(uri: vscode.Uri | undefined): Promise<void>;
  /** Shows the page of a rule, offered from the findings of the open file. */
  showRule(): Promise<void>;
}

export function createReports(server: Server): Reports {
  const texts = new Map<string, string>();
  const changed = new vscode.EventEmitter<vscode.Uri>();
  const registrations = vscode.Disposable.from(
    changed,
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      onDidChange: changed.event,
      provideTextDocumentContent: (uri) => texts.get(uri.toString()),
    }),
    vscode.workspace.onDidCloseTextDocument((document) => texts.delete(document.uri.toString())),
  );

  function publish(name: string, text: string): vscode.Uri {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: name.startsWith("/") ? name : `/${name}` });
    texts.set(uri.toString(), text);
    changed.fire(uri);
    return uri;
  }

  async function checkFile(uri: vscode.Uri | undefined): Promise<void> {
    if (uri === undefined || uri.scheme !== "file") {
      void vscode.window.showInformationMessage("There is no file on disk to analyse. Save it first.");
      return;
    }
    const found = await server.binary();
    if (found === undefined) {
      return;
    }
    const name = path.basename(uri.fsPath);
    const where = { location: vscode.ProgressLocation.Notification, title: `Analysing ${name}`, cancellable: true };
    await vscode.window.withProgress(where, async (_progress, token) => {
      const abort = new AbortController();
      token.onCancellationRequested(() => abort.abort());
      try {
        // User rule pages are looked up from the folder of the project.
        const cwd = vscode.workspace.getWorkspaceFolder(uri)?.uri.fsPath ?? path.dirname(uri.fsPath);
        const outcome = await run(found.file, ["check", uri.fsPath], cwd, abort.signal);
        const report = publish(`${uri.path} (report)`, reportText(uri.fsPath, outcome));
        await vscode.window.showTextDocument(report, { preview: false });
      } catch (error) {
        if (!abort.signal.aborted) {
          void vscode.window.showErrorMessage(`trainwreck could not analyse ${name}: ${String(error)}`);
        }
      }
    });
  }

  async function showRule(): Promise<void> {
    const rules = rulesOfActiveFile();
    const rule =
      rules.length === 0
        ? await vscode.window.showInputBox({ prompt: "Rule id, for example cuda-oom" })
        : await vscode.window.showQuickPick(rules, { placeHolder: "Rule" });
    const found = rule === undefined || rule.trim() === "" ? undefined : await server.binary();
    if (rule === undefined || found === undefined) {
      return;
    }
    const cwd = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
    const outcome = await run(found.file, ["explain", rule.trim()], cwd, AbortSignal.timeout(15_000));
    if (outcome.code !== 0) {
      void vscode.window.showErrorMessage(outcome.stderr.trim().slice(0, 500) || `There is no rule "${rule}".`);
      return;
    }
    await vscode.commands.executeCommand("markdown.showPreview", publish(`${rule.trim()}.md`, outcome.stdout));
  }

  return { checkFile, showRule, dispose: () => registrations.dispose() };
}

/** Rule ids found in the active file, those at the cursor first. */
function rulesOfActiveFile(): string[] {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    return [];
  }
  const line = editor.selection.active.line;
  const ids = vscode.languages
    .getDiagnostics(editor.document.uri)
    .filter((diagnostic) => diagnostic.source === "trainwreck")
    .map((diagnostic) => ({
      away: Math.abs(diagnostic.range.start.line - line),
      id: typeof diagnostic.code === "object" ? String(diagnostic.code.value) : String(diagnostic.code ?? ""),
    }))
    .sort((a, b) => a.away - b.away)
    .map(({ id }) => id)
    .filter((id) => id !== "");
  return [...new Set(ids)];
}
