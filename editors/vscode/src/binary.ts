/**
 * Finds the server binary and makes sure that it starts. A package built for
 * another platform installs without a word, so the file being there proves
 * nothing: each candidate is run once with `--version`.
 */

import { execFile } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";
import { otherPlatform } from "./platform";

export const INSTALL_COMMAND = "cargo install --locked --path trainwreck";

/** Where a binary was found: the setting, inside the extension, on the PATH. */
export type Source = "setting" | "bundled" | "path";

export interface Candidate {
  source: Source;
  file: string;
}

export interface Found extends Candidate {
  version: string;
}

export interface Failure extends Candidate {
  why: string;
}

export interface Place {
  setting: string;
  extensionFolder: string;
  platform: NodeJS.Platform;
  env: Record<string, string | undefined>;
  home: string;
  isExecutable: (file: string) => boolean;
}

/** This machine, for `candidates`. */
export function here(setting: string, extensionFolder: string): Place {
  return {
    setting,
    extensionFolder,
    platform: process.platform,
    env: process.env,
    home: homedir(),
    isExecutable,
  };
}

/**
 * The binaries to try, best first. A path in the settings is the only one: who
 * names a binary does not want another one instead.
 */
export function candidates(place: Place): Candidate[] {
  const name = place.platform === "win32" ? "trainwreck.exe" : "trainwreck";
  const setting = place.setting.trim();
  if (setting !== "") {
    return [{ source: "setting", file: resolveSetting(setting, place) }];
  }
  const list: Candidate[] = [];
  const bundled = path.join(place.extensionFolder, "server", name);
  if (place.isExecutable(bundled)) {
    list.push({ source: "bundled", file: bundled });
  }
  const onPath = findOnPath(name, place);
  if (onPath !== undefined) {
    list.push({ source: "path", file: onPath });
  }
  return list;
}

function resolveSetting(setting: string, place: Place): string {
  if (setting === "~" || /^~[/\\]/.test(setting)) {
    return path.join(place.home, setting.slice(1));
  }
  if (/[/\\]/.test(setting)) {
    return setting;
  }
  return findOnPath(setting, place) ?? setting;
}

function findOnPath(name: string, place: Place): string | undefined {
  const separator = place.platform === "win32" ? ";" : ":";
  const folders = (place.env["PATH"] ?? place.env["Path"] ?? "").split(separator);
  // A relative folder in PATH would mean another file in each project.
  return folders
    .filter((folder) => path.isAbsolute(folder))
    .map((folder) => path.join(folder, name))
    .find(place.isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Tries the candidates in order; the first that tells its version wins. */
export async function locate(
  list: Candidate[],
  probe: (file: string) => Promise<string> = askVersion,
): Promise<{ found?: Found; failures: Failure[] }> {
  const failures: Failure[] = [];
  for (const candidate of list) {
    try {
      return { found: { ...candidate, version: await probe(candidate.file) }, failures };
    } catch (error) {
      failures.push({ ...candidate, why: error instanceof Error ? error.message : String(error) });
    }
  }
  return { failures };
}

/** Runs `file --version`; the version, or an error that says why not. */
export function askVersion(file: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { timeout: 15_000, maxBuffer: 64 * 1024, windowsHide: true };
    const answer = (error: RunError | null, stdout: string, stderr: string) => {
      if (error !== null) {
        const other = otherPlatform(file, process.platform, process.arch);
        reject(new Error(other === undefined ? whyNot(error, stderr) : `it was built for ${other}`));
        return;
      }
      const match = /^trainwreck\s+v?(\d\S*)/.exec(stdout);
      if (match?.[1] === undefined) {
        reject(new Error("it is another program: it does not answer to --version as trainwreck does"));
        return;
      }
      resolve(match[1]);
    };
    try {
      execFile(file, ["--version"], options, answer);
    } catch (error) {
      // Node reports some failures (a binary of another platform) by throwing.
      answer(error as RunError, "", "");
    }
  });
}

interface RunError {
  code?: string | number | null;
  killed?: boolean;
  signal?: string | null;
  message: string;
}

/** Why a program did not start or did not end well, in plain words. */
export function whyNot(error: RunError, stderr: string): string {
  switch (error.code) {
    case "ENOENT":
      // Linux also says so when the file is there and its loader is not.
      return "there is no such file, or the system cannot load it";
    case "EACCES":
      return "it is not executable";
    case "ENOEXEC":
    case "EBADARCH":
    case "UNKNOWN":
      return "it was built for another platform";
  }
  if (error.killed === true) {
    return "it did not answer in time";
  }
  const firstLine = stderr.trim().split("\n")[0] ?? "";
  const ending = typeof error.signal === "string" ? `signal ${error.signal}` : `exit code ${String(error.code)}`;
  return firstLine === "" ? `it ended with ${ending}` : `it ended with ${ending}: ${firstLine.slice(0, 200)}`;
}

/** What the user reads when no candidate starts. */
export function nothingStarts(failures: Failure[], platform: string): string {
  const install = `Install it with "${INSTALL_COMMAND}", or set trainwreck.server.path.`;
  const first = failures[0];
  if (first === undefined) {
    return `The trainwreck server was not found: not in the extension, not on the PATH. ${install}`;
  }
  if (first.source === "setting") {
    return `The trainwreck server does not start: ${first.why} (trainwreck.server.path is ${first.file}).`;
  }
  const place = first.source === "bundled" ? "inside the extension" : `on the PATH (${first.file})`;
  return `The trainwreck server ${place} does not start on this machine (${platform}): ${first.why}. ${install}`;
}
