/** The settings as the server gets them, at start and on request. */

export interface ServerSettings {
  maxFindings: number;
  rules: { disabled: string[] };
  inlayHints: { enabled: boolean };
  gpu: string;
  task: string;
  gpus: number;
  sequenceLength: number;
}

/**
 * Reads the settings through `get` (a name without the prefix `trainwreck.`).
 * A value of the wrong type counts as not set: the settings file is edited by
 * hand, and a slip in it must not keep the server from starting.
 */
export function serverSettings(get: (name: string) => unknown): ServerSettings {
  const max = get("maxFindings");
  const disabled = get("rules.disabled");
  const hints = get("inlayHints.enabled");
  const gpu = get("gpu");
  const task = get("task");
  // 0 stands for the server's own choice.
  const whole = (value: unknown) => (typeof value === "number" && value >= 1 ? Math.floor(value) : 0);
  return {
    maxFindings: typeof max === "number" && max >= 1 ? Math.floor(max) : 200,
    rules: { disabled: Array.isArray(disabled) ? disabled.filter((id) => typeof id === "string") : [] },
    inlayHints: { enabled: typeof hints === "boolean" ? hints : true },
    gpu: typeof gpu === "string" ? gpu : "",
    task: typeof task === "string" && task !== "" ? task : "all",
    gpus: whole(get("gpus")),
    sequenceLength: whole(get("sequenceLength")),
  };
}
