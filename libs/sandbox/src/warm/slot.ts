/** Slots: sandboxes started before their program is known, and the key of what they fit. */
import { languageOf } from '../guest/index.ts'
import type {
  Language,
  Limits,
  SandboxId,
  SandboxRef,
  SandboxSpec,
  SessionScope,
  WorkerId,
} from '@cofferdam/contract'

/** Limits that are fixed at a sandbox's start. Slots with other limits never fit. */
export type SlotLimits = Pick<Limits, 'memory_mib' | 'cpus' | 'pids' | 'disk_mib'>

/** Properties of a slot that are fixed at its start. Program and environment come when it is bound. */
export interface SlotKind {
  /** The interpreter that waits; `none` for commands. */
  language: Language | 'none'
  /** Python modules that the waiting interpreter has imported. */
  preload: readonly string[]
  limits: SlotLimits
  /** For several runs of one trust domain (with a fork server), not for single use. */
  cell: boolean
}

export interface SlotSpec extends SlotKind {
  slotId: SandboxId
  /** The responsible worker. */
  owner: WorkerId
}

/** A started sandbox in which nothing has run. */
export interface Slot {
  readonly spec: SlotSpec
  /** What the sandbox's ref needs to find the sandbox again. Must not contain secrets. */
  readonly handle: SandboxRef['handle']
  /** Its name in the vendor's logs, not secret. Absent without a vendor. */
  readonly vendorRef?: string
  /** False once its channel has closed: it can only be destroyed. */
  readonly alive: boolean
  /** Calls `listener` once when the channel closes, or at once if it has. */
  onClosed(listener: () => void): void
  /** Destroys the sandbox and proves that it is gone. Idempotent. */
  destroy(): Promise<void>
}

/** A slot that can be cleaned between runs. */
export interface CellSlot extends Slot {
  /**
   * Kills and wipes all that runs left and that `keep` does not cover. Rejects if that is not proven before
   * the signal aborts. The caller must then destroy the cell.
   */
  clean(keep: SessionScope, signal: AbortSignal): Promise<void>
}

/** What a run in a session of this scope finds and leaves. */
export const runKeeps = (scope: SessionScope): { keepsInterpreter: boolean; keepsProcesses: boolean } => ({
  keepsInterpreter: scope === 'interpreter' || scope === 'processes',
  keepsProcesses: scope === 'processes',
})

/**
 * What `kill` needs to find the slot's sandbox. `id` is the ID of the execution's sandbox, or of the slot if
 * it has no execution.
 */
export const refOf = (
  backend: string,
  id: SandboxId,
  { handle, vendorRef }: Pick<Slot, 'handle' | 'vendorRef'>,
): SandboxRef => ({
  backend,
  id,
  handle: { ...handle },
  ...(vendorRef === undefined ? {} : { vendorRef }),
})

/** Modules of each preload set by name; `none` always exists and is empty. */
export type Preloads = Readonly<Record<string, readonly string[]>>

/** The kind of slot for an execution. Preload sets apply to Python only. */
export function kindOf(spec: SandboxSpec, preloads: Preloads): SlotKind {
  const language = languageOf(spec.program)
  const { memory_mib, cpus, pids, disk_mib } = spec.limits
  return {
    language,
    preload: language === 'python' && spec.preload !== null ? (preloads[spec.preload] ?? []) : [],
    limits: { memory_mib, cpus, pids, disk_mib },
    cell: spec.reuse !== 'job',
  }
}

/** Whether a slot of this kind may run Node.js. Later runs of a cell may be in any language. */
export const mayRunNode = ({ cell, language }: SlotKind): boolean =>
  cell || language === 'javascript' || language === 'typescript'

/** Slots with equal keys are interchangeable within one backend, whose image and runtime are fixed. */
export function keyOf({ language, preload, limits, cell }: SlotKind): string {
  const { memory_mib, cpus, pids, disk_mib } = limits
  return [language, preload.join('+'), memory_mib, cpus, pids, disk_mib, cell ? 'cell' : 'job'].join('/')
}

const MiB = 1024 * 1024
/**
 * Measured PSS of a waiting container with its shim: python 10 MiB, javascript 20, python with pandas 51,
 * bash less (runc; gVisor adds 15; bwrap has no shim).
 */
export function bytesOf({ language, preload }: SlotKind): number {
  if (preload.length > 0) return 56 * MiB
  return (language === 'javascript' || language === 'typescript' ? 24 : 12) * MiB
}
