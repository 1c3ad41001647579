/**
 * Choosing the GPU and the task that model configs are measured against. The
 * server owns the commands and the choice; this shows its catalogue as a list
 * that can be searched, where the server alone would ask with a few buttons.
 */

import * as vscode from "vscode";
import { choices, type Card } from "./cards";

export const CHOOSE_GPU = "trainwreck.chooseGpu";
export const CHOOSE_TASK = "trainwreck.chooseTask";

/** Sends a command to the server. */
export type Send = (command: string, args: unknown[]) => unknown;

/** Runs a command of the server; asks the user first where it lacks its argument. */
export async function executeCommand(command: string, args: unknown[], send: Send): Promise<unknown> {
  if (args.length > 0 || (command !== CHOOSE_GPU && command !== CHOOSE_TASK)) {
    return send(command, args);
  }
  const chosen = command === CHOOSE_GPU ? await pickGpu(send) : await pickTask();
  return chosen === undefined ? undefined : send(command, [chosen]);
}

async function pickGpu(send: Send): Promise<string | undefined> {
  const cards = (await send("trainwreck.gpus", [])) as Card[];
  const picked = await vscode.window.showQuickPick(choices(cards), {
    title: "GPU for model configs",
    placeHolder: "Name, id or memory",
    matchOnDescription: true,
    matchOnDetail: true,
  });
  return picked?.id;
}

async function pickTask(): Promise<string | undefined> {
  const tasks = [
    { label: "Inference, QLoRA, LoRA and full fine-tuning", id: "all" },
    { label: "Inference", id: "inference" },
    { label: "QLoRA", id: "qlora" },
    { label: "LoRA", id: "lora" },
    { label: "Full fine-tuning", id: "full" },
  ];
  return (await vscode.window.showQuickPick(tasks, { title: "Task for model configs" }))?.id;
}
