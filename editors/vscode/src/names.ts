/**
 * Which files the server is asked about. The server looks at the content too
 * and stays silent on a file that is neither a log nor a model config, so the
 * lists may be wide; they are kept narrow where a wide name would start a
 * server in every project (`tsconfig.json`).
 */

/** The extension's own language, for logs that no other language claims. */
export const OWN_LANGUAGE = "trainwreck-log";

/** File names of logs. `*` is any run of characters, `?` is one. */
export const LOG_NAMES = ["*.log", "*.log.?", "*.out", "*.err", "stdout.*", "stderr.*", "rank*.txt"];

/** File names of model configs, as model repositories write them. */
export const CONFIG_NAMES = [
  "config.json",
  "*_config.json",
  "*-config.json",
  "params.json",
  "*.safetensors.index.json",
  "trainer_state.json",
  "ds_*.json",
];

/** A document filter in the form that both VS Code and the protocol use. */
export interface Filter {
  scheme: "file" | "untitled";
  language?: string;
  pattern?: string;
}

/**
 * The document selector. Schemes are listed one by one: the Output panel and
 * the two sides of a diff also carry the language `log`, and are left alone.
 */
export function documentSelector(): Filter[] {
  const byLanguage = ["log", OWN_LANGUAGE].flatMap((language): Filter[] => [
    { scheme: "file", language },
    { scheme: "untitled", language },
  ]);
  const byName = LOG_NAMES.map((name): Filter => ({ scheme: "file", pattern: `**/${name}` }));
  const configs = CONFIG_NAMES.flatMap((name) =>
    ["json", "jsonc"].map((language): Filter => ({ scheme: "file", language, pattern: `**/${name}` })),
  );
  return [...byLanguage, ...byName, ...configs];
}

/** Whether a path (either slash) names a log, by its last part alone. */
export function isLogPath(path: string): boolean {
  const name = path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1);
  return LOG_NAMES.some((pattern) => nameToRegExp(pattern).test(name));
}

function nameToRegExp(name: string): RegExp {
  const source = name
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*/g, ".*")
    .replace(/\?/g, ".");
  return new RegExp(`^${source}$`, "i");
}
