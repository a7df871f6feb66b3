/** In-memory slots for tests of pools and cells. The test decides when they start and end. */
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type SandboxRef,
  type SandboxSpec,
  type SessionScope,
} from '@cofferdam/contract'
import { warmConfigSchema, type WarmConfig } from './config.ts'
import { createRefillGate } from './refill-gate.ts'
import type { CellSlot, SlotSpec } from './slot.ts'
import type { WarmDeps, WarmEvent } from './warm-deps.ts'

export const OWNER = newWorkerId('0123456789ab')

/** A slot that lives until the test ends it. */
export class MemorySlot implements CellSlot {
  alive = true
  isDestroyed = false
  /** The scope that each turn kept. */
  readonly cleaned: string[] = []
  /** Set to make the next clean fail. */
  unclean: Error | null = null
  /** Set to make destroys fail. */
  stuck: Error | null = null
  readonly spec: SlotSpec
  readonly handle: { slot: string }
  readonly #listeners: (() => void)[] = []
  constructor(spec: SlotSpec) {
    this.spec = spec
    this.handle = { slot: spec.slotId }
  }
  onClosed(listener: () => void): void {
    if (this.alive) this.#listeners.push(listener)
    else listener()
  }
  /** Closes its channel. */
  die(): void {
    if (!this.alive) return
    this.alive = false
    for (const listener of this.#listeners.splice(0)) listener()
  }
  async destroy(): Promise<void> {
    this.die()
    if (this.stuck !== null) throw this.stuck
    this.isDestroyed = true
  }
  async clean(keep: string): Promise<void> {
    this.cleaned.push(keep)
    if (this.unclean !== null) throw this.unclean
  }
}

/** A start that the test ends. */
export interface Start {
  spec: SlotSpec
  ready(): MemorySlot
  fail(error: Error): void
}

export interface Stage {
  deps: WarmDeps
  start: (spec: SlotSpec, signal: AbortSignal) => Promise<MemorySlot>
  /** Starts in progress, oldest first. */
  starting: Start[]
  /** Every slot that became ready. */
  slots: MemorySlot[]
  events: WarmEvent[]
  /** Sandboxes that the worker was told to kill, each with the answer that the test gives. */
  left: { ref: SandboxRef; answer(isGone: boolean): void }[]
  onLeft: (ref: SandboxRef) => Promise<boolean>
  /** Bytes held now. */
  held(): number
  /** Simulates an execution that waits for memory. */
  press(bytes: number): void
}

/** A pool's surroundings: memory of `budget` bytes, a gate, events. `instant`: starts end by themselves. */
export function stage(
  change: {
    config?: Parameters<typeof warmConfigSchema.parse>[0]
    budget?: number
    cores?: number
    instant?: boolean
  } = {},
): Stage {
  const config: WarmConfig = warmConfigSchema.parse(change.config ?? {})
  const events: WarmEvent[] = []
  const starting: Start[] = []
  const slots: MemorySlot[] = []
  const left: Stage['left'] = []
  const listeners: ((bytes: number) => void)[] = []
  let held = 0
  return {
    starting,
    slots,
    events,
    left,
    onLeft(ref) {
      const { promise, resolve } = Promise.withResolvers<boolean>()
      left.push({ ref, answer: resolve })
      return promise
    },
    held: () => held,
    press: (bytes) => listeners.forEach((listener) => listener(bytes)),
    start(spec, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<MemorySlot>()
      const leave = (): void => {
        const at = starting.indexOf(entry)
        if (at >= 0) starting.splice(at, 1)
      }
      const entry: Start = {
        spec,
        ready() {
          leave()
          const slot = new MemorySlot(spec)
          slots.push(slot)
          resolve(slot)
          return slot
        },
        fail(error) {
          leave()
          reject(error)
        },
      }
      starting.push(entry)
      signal.addEventListener('abort', () => entry.fail(signal.reason as Error), { once: true })
      if (change.instant === true) entry.ready()
      return promise
    },
    deps: {
      owner: OWNER,
      config,
      refillGate: createRefillGate(change.cores ?? 64),
      observe: (event) => events.push(event),
      memory: {
        tryAcquire(bytes) {
          if (held + bytes > (change.budget ?? Number.POSITIVE_INFINITY)) return null
          held += bytes
          let isHeld = true
          return {
            [Symbol.dispose]() {
              if (isHeld) held -= bytes
              isHeld = false
            },
          }
        },
        onPressure: (listener) => listeners.push(listener),
      },
    },
  }
}

/** An execution's request. */
export const spec = (change: Partial<SandboxSpec> = {}): SandboxSpec => ({
  sandboxId: newSandboxId(),
  executionId: newExecutionId(),
  attempt: 1,
  tenantId: 'acme',
  owner: OWNER,
  program: { type: 'script', language: 'python', source: '' },
  limits: DEFAULT_LIMITS,
  network: 'none',
  env: {},
  preload: null,
  reuse: 'job',
  session: null,
  ...change,
})

export const inSession = (
  key: string,
  scope: SessionScope = 'files',
  change: Partial<SandboxSpec> = {},
): SandboxSpec => spec({ reuse: 'session', session: { key, scope, idleMs: null }, ...change })

/** Waits until all promises that can settle have settled. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve()
}

export const never = new AbortController().signal
