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
  files["llama_config.json"] = `{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "hidden_size": 4096,
  "intermediate_size": 14336,
  "num_hidden_layers": 32,
  "num_attention_heads": 32,
  "num_key_value_heads": 8,
  "max_position_embeddings": 131072,
  "vocab_size": 128256,
  "torch_dtype": "bfloat16"
}
`;
  return files;
}
