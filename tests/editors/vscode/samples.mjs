// The files of the test folder: the shared samples, and what is derived from them.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

export function sampleFiles(folder) {
  const files = {};
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(".")) {
      files[name] = readFileSync(path.join(folder, name), "utf8");
    }
  }
  // The same run under names that say less, and under one that says nothing.
  files["rank1.txt"] = files["oom.log"];
  files["job.err"] = files["oom.log"];
  files["notes.txt"] = files["oom.log"];
  files["config.json"] = '{\n  "model_type": "llama",\n  "hidden_size": 4096\n}\n';
  files["tsconfig.json"] = "{}\n";
  return files;
}
