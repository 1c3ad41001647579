/**
 * VS Code hands no document to extensions when its text is longer than
 * 50 MiB: no server sees the file, and nothing is marked in it. Silence there
 * would read as "nothing found", so the user is told.
 */

import { stat } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { isLogPath } from "./names";

export const SYNC_LIMIT = 50 * 1024 * 1024;

/** Time for an open file to arrive here after its tab did. */
const ARRIVAL_MS = 2_000;

export function tooLargeMessage(file: string, bytes: number): string {
  const size = Math.round(bytes / (1024 * 1024));
  return (
    `${path.basename(file)} (${size} MiB) is larger than the 50 MiB that VS Code hands to extensions, ` +
    "so nothing is marked in it. trainwreck can read it from disk."
  );
}

/** Watches the tabs; offers `analyse` once for each log that is too large. */
export function watchLargeFiles(analyse: (uri: vscode.Uri) => void): vscode.Disposable {
  const told = new Set<string>();
  const timers = new Set<NodeJS.Timeout>();

  const look = (tab: vscode.Tab) => {
    const input = tab.input;
    if (!(input instanceof vscode.TabInputText) || input.uri.scheme !== "file" || !isLogPath(input.uri.path)) {
      return;
    }
    const key = input.uri.toString();
    if (told.has(key)) {
      return;
    }
    // The limit counts characters, the size counts bytes: a file above the
    // limit may still arrive, and only time tells.
    const timer = setTimeout(() => {
      timers.delete(timer);
      void tell(input.uri, key);
    }, ARRIVAL_MS);
    timers.add(timer);
  };

  const tell = async (uri: vscode.Uri, key: string) => {
    const bytes = await stat(uri.fsPath).then(
      (info) => info.size,
      () => 0,
    );
    const arrived = vscode.workspace.textDocuments.some((document) => document.uri.toString() === key);
    if (bytes <= SYNC_LIMIT || arrived || told.has(key)) {
      return;
    }
    told.add(key);
    const action = "Analyse on Disk";
    const answer = await vscode.window.showWarningMessage(tooLargeMessage(uri.fsPath, bytes), action);
    if (answer === action) {
      analyse(uri);
    }
  };

  for (const group of vscode.window.tabGroups.all) {
    group.tabs.forEach(look);
  }
  const listener = vscode.window.tabGroups.onDidChangeTabs((change) => change.opened.forEach(look));
  return new vscode.Disposable(() => {
    listener.dispose();
    timers.forEach(clearTimeout);
  });
}
