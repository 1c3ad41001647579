/** Runs the binary as a command, with bounds on time and on output. */

import { spawn } from "node:child_process";

/** Characters of output kept; an editor tab with more helps nobody. */
export const OUTPUT_LIMIT = 4 * 1024 * 1024;

export interface Outcome {
  /** Exit code; null when a signal ended it. */
  code: number | null;
  stdout: string;
  stderr: string;
  /** Whether output beyond the limit was left out. */
  cut: boolean;
}

/** Runs `file` with `args`. Rejects only when it cannot be started. */
export function run(file: string, args: string[], cwd: string | undefined, signal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      cwd,
      signal,
      env: { ...process.env, NO_COLOR: "1" },
      stdio: ["ignore", "pipe", "pipe"],
      windowsHide: true,
    });
    const out = collector();
    const err = collector();
    child.stdout.setEncoding("utf8").on("data", out.add);
    child.stderr.setEncoding("utf8").on("data", err.add);
    child.on("error", reject);
    child.on("close", (code) =>
      resolve({ code, stdout: out.text(), stderr: err.text(), cut: out.cut() || err.cut() }),
    );
  });
}

function collector() {
  const parts: string[] = [];
  let length = 0;
  let cut = false;
  return {
    add(part: string) {
      if (length >= OUTPUT_LIMIT) {
        cut = true;
        return;
      }
      parts.push(part);
      length += part.length;
    },
    text: () => parts.join(""),
    cut: () => cut,
  };
}

/** The text of a report tab: what was run, what it printed, how it ended. */
export function reportText(path: string, outcome: Outcome): string {
  const head = `trainwreck check ${path}\n\n`;
  const body = outcome.stdout.trim() === "" && outcome.code === 0 ? "Nothing found.\n" : outcome.stdout;
  const cut = outcome.cut ? "\n(The report is longer. Run the command above in a terminal to see all of it.)\n" : "";
  // Exit code 1 means "there are findings"; anything else is a failure.
  const failed = outcome.code === 0 || outcome.code === 1 ? "" : `\nIt did not finish (exit code ${outcome.code ?? "none"}).\n${outcome.stderr}`;
  return head + body + cut + failed;
}
