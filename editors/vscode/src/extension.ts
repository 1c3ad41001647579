/** Entry point: commands, and the server started when a file for it is open. */

import * as path from "node:path";
import * as vscode from "vscode";
import { documentSelector, OWN_LANGUAGE } from "./names";
import { createReports } from "./reports";
import { createServer, type Server } from "./server";
import { watchLargeFiles } from "./tooLarge";

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const running = createServer(context);
  server = running;
  const reports = createReports(running);
  const command = (name: string, action: (...args: never[]) => unknown) =>
    vscode.commands.registerCommand(`trainwreck.${name}`, action);

  context.subscriptions.push(
    reports,
    command("restart", () => running.restart()),
    command("showLog", () => running.log.show()),
    command("explainAsLog", explainAsLog),
    command("explainFile", (uri?: vscode.Uri) => reports.checkFile(uri ?? activeFile())),
    command("showRule", () => reports.showRule()),
    watchLargeFiles((uri) => void reports.checkFile(uri)),
    vscode.workspace.onDidOpenTextDocument((document) => startFor(running, document)),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("trainwreck.server.path")) {
        void running.restart();
      }
    }),
  );
  vscode.workspace.textDocuments.forEach((document) => startFor(running, document));
}

export function deactivate(): Promise<void> | undefined {
  return server?.stop();
}

const selector = documentSelector();

function startFor(running: Server, document: vscode.TextDocument): void {
  if (vscode.languages.match(selector, document) > 0) {
    void running.start();
  }
}

/** The file of the active tab; an editor object does not exist for huge files. */
function activeFile(): vscode.Uri | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputText ? input.uri : undefined;
}

async function explainAsLog(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (document !== undefined) {
    await vscode.languages.setTextDocumentLanguage(document, OWN_LANGUAGE);
    return;
  }
  const uri = activeFile();
  void vscode.window.showInformationMessage(
    uri === undefined
      ? "Open a file first."
      : `VS Code does not hand ${path.basename(uri.path)} to extensions. Use "trainwreck: Analyse This File on Disk".`,
  );
}
