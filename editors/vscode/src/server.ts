/**
 * The life of the server process: found, started when the first file for it is
 * open, restarted, stopped. What it says about a file is its own matter.
 */

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions } from "vscode-languageclient/node";
import { candidates, here, INSTALL_COMMAND, locate, nothingStarts, type Found } from "./binary";
import { executeCommand } from "./choose";
import { documentSelector } from "./names";
import { shortenRelated } from "./related";
import { serverSettings } from "./settings";
import { traceChannel } from "./trace";

export interface Server {
  /** The binary for one-off commands; tells the user when there is none. */
  binary(): Promise<Found | undefined>;
  /** Starts the server unless it runs or is starting. */
  start(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
  log: vscode.LogOutputChannel;
}

const PLATFORM = `${process.platform} ${process.arch}`;

export function createServer(context: vscode.ExtensionContext): Server {
  const log = vscode.window.createOutputChannel("trainwreck", { log: true });
  const status = vscode.languages.createLanguageStatusItem("trainwreck.server", documentSelector());
  status.name = "trainwreck";
  status.command = { command: "trainwreck.restart", title: "Restart" };
  const trace = traceChannel(log);
  context.subscriptions.push(log, trace, status);

  let client: LanguageClient | undefined;
  let starting: Promise<void> | undefined;

  async function binary(): Promise<Found | undefined> {
    const setting = vscode.workspace.getConfiguration("trainwreck").get<string>("server.path", "");
    const { found, failures } = await locate(candidates(here(setting, context.extensionPath)));
    for (const failure of failures) {
      log.error(`${failure.file} does not start: ${failure.why}`);
    }
    if (found === undefined) {
      const message = nothingStarts(failures, PLATFORM);
      status.severity = vscode.LanguageStatusSeverity.Error;
      status.text = "trainwreck did not start";
      status.detail = message;
      log.error(message);
      // Who set a path needs that path mended, not another program.
      void offerWaysOut(message, setting.trim() === "");
      return undefined;
    }
    if (failures.length > 0) {
      void vscode.window.showWarningMessage(
        `The trainwreck server inside the extension does not start on this machine (${PLATFORM}): ` +
          `${failures[0]?.why}. ${found.file} from the PATH is used instead.`,
      );
    }
    log.info(`server ${found.version}: ${found.file} (${found.source})`);
    return found;
  }

  async function launch(): Promise<void> {
    status.busy = true;
    try {
      const found = await binary();
      if (found === undefined) {
        return;
      }
      client = newClient(found.file, log, trace);
      await client.start();
      void vscode.commands.executeCommand("setContext", "trainwreck.running", true);
      status.severity = vscode.LanguageStatusSeverity.Information;
      status.text = `trainwreck ${found.version}`;
      status.detail = found.source === "bundled" ? "server of the extension" : found.file;
    } catch (error) {
      const message = `The trainwreck server did not start: ${error instanceof Error ? error.message : String(error)}`;
      status.severity = vscode.LanguageStatusSeverity.Error;
      status.text = "trainwreck did not start";
      log.error(message);
      void offerWaysOut(message, false);
    } finally {
      status.busy = false;
    }
  }

  async function offerWaysOut(message: string, install: boolean): Promise<void> {
    const copy = "Copy Install Command";
    const settings = "Open Settings";
    const answer = await vscode.window.showErrorMessage(message, ...(install ? [copy] : []), settings);
    if (answer === copy) {
      await vscode.env.clipboard.writeText(INSTALL_COMMAND);
    } else if (answer === settings) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "trainwreck.server.path");
    }
  }

  // One start at a time, and none again after a failure until the user asks:
  // otherwise each opened log would bring the same message.
  function start(): Promise<void> {
    starting ??= launch();
    return starting;
  }

  async function stop(): Promise<void> {
    await starting;
    const running = client;
    client = undefined;
    starting = undefined;
    void vscode.commands.executeCommand("setContext", "trainwreck.running", false);
    // A server that died already cannot be stopped; that is no error here.
    await running?.dispose(5_000).catch((error: unknown) => log.warn(`stop: ${String(error)}`));
  }

  async function restart(): Promise<void> {
    await stop();
    await start();
  }

  return { binary, start, restart, stop, log };
}

function newClient(file: string, log: vscode.LogOutputChannel, trace: vscode.LogOutputChannel): LanguageClient {
  const settings = () => vscode.workspace.getConfiguration("trainwreck");
  const options: LanguageClientOptions = {
    documentSelector: documentSelector(),
    initializationOptions: serverSettings((name) => settings().get(name)),
    outputChannel: log,
    traceOutputChannel: trace,
    middleware: {
      executeCommand: (command, args, next) => executeCommand(command, args, next),
      handleDiagnostics: (uri, findings, next) => {
        shortenRelated(findings);
        next(uri, findings);
      },
      provideDiagnostics: async (document, previousResultId, token, next) => {
        const report = await next(document, previousResultId, token);
        if (report?.kind === "full") {
          shortenRelated(report.items);
        }
        return report;
      },
    },
  };
  // Changed settings and rule pages are not sent from here: the server asks
  // for both. Standard input and output are what the client library uses when no
  // transport is named; naming it would add an argument.
  const command = { command: file, args: ["lsp"] };
  return new LanguageClient("trainwreck", "trainwreck", command, options);
}
