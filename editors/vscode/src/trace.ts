/**
 * Makes the setting `trainwreck.trace.server` work by itself. The client
 * library writes traces only when its output channel is at level Trace, which
 * a user sets elsewhere; here the setting stands for that level.
 */

import * as vscode from "vscode";

/** A view of `log` for the client's traces. The caller disposes of both. */
export function traceChannel(log: vscode.LogOutputChannel): vscode.LogOutputChannel {
  const levelChanged = new vscode.EventEmitter<vscode.LogLevel>();
  const listener = vscode.workspace.onDidChangeConfiguration((event) => {
    if (event.affectsConfiguration("trainwreck.trace.server")) {
      levelChanged.fire(level());
    }
  });
  return {
    name: log.name,
    get logLevel() {
      return level();
    },
    onDidChangeLogLevel: levelChanged.event,
    // At its own level the channel would swallow the message.
    trace: (message, ...more) => log.info(message, ...more),
    debug: (message, ...more) => log.debug(message, ...more),
    info: (message, ...more) => log.info(message, ...more),
    warn: (message, ...more) => log.warn(message, ...more),
    error: (message, ...more) => log.error(message, ...more),
    append: (value) => log.append(value),
    appendLine: (value) => log.appendLine(value),
    replace: (value) => log.replace(value),
    clear: () => log.clear(),
    show: () => log.show(),
    hide: () => log.hide(),
    dispose: () => {
      listener.dispose();
      levelChanged.dispose();
    },
  };
}

function level(): vscode.LogLevel {
  const setting = vscode.workspace.getConfiguration("trainwreck").get<string>("trace.server", "off");
  return setting === "off" ? vscode.LogLevel.Info : vscode.LogLevel.Trace;
}
