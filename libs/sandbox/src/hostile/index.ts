/**
 * The `hostile` backend: wraps another backend (by default a fake) and is late, lies and dies by its script,
 * to test the layers above backends. Without tricks it passes the conformance suite.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, type Backend, type SandboxRef, type SandboxSpec } from '@cofferdam/contract'
import type { BackendDeps } from '../deps.ts'
import { createFakeBackend } from '../fake/index.ts'
import type { HostileConfig, HostileTricks } from './config.ts'
import { HostileSandbox } from './sandbox.ts'

export type { HostileTricks } from './config.ts'

export interface HostileOptions {
  /** The wrapped backend, disposed with this one. Default: a new fake. */
  inner?: Backend
  /** Tricks of the nth sandbox (from 0): a list that is repeated, or a function. Default: none. */
  tricks?: readonly HostileTricks[] | ((nth: number, spec: SandboxSpec) => HostileTricks)
  probe?: HostileConfig['probe']
  /** The backend's name. Default: hostile. */
  name?: string
}

/** `opened` counts the requested sandboxes. */
export function createHostileBackend(options: HostileOptions = {}): Backend & { readonly opened: number } {
  const name = options.name ?? 'hostile'
  const inner = options.inner ?? createFakeBackend({}, name)
  let opened = 0

  const tricksFor = (nth: number, spec: SandboxSpec): HostileTricks => {
    const { tricks = [] } = options
    if (typeof tricks === 'function') return tricks(nth, spec)
    return tricks[nth % Math.max(1, tricks.length)] ?? {}
  }
  const innerRef = (ref: SandboxRef): SandboxRef => ({ ...ref, backend: inner.name })

  return {
    name,
    isolation: inner.isolation,
    capabilities: inner.capabilities,
    get opened() {
      return opened
    },

    async probe(signal) {
      if (options.probe === 'fails')
        return { ok: false, why: 'hostile: told to fail', fix: 'Remove `probe: fails`.' }
      if (options.probe === 'throws') throw new Error('hostile: probe broke')
      if (options.probe === 'hangs') await untilAborted(signal)
      return inner.probe(signal)
    },

    async open(spec, signal) {
      signal.throwIfAborted()
      const tricks = tricksFor(opened, spec)
      opened += 1
      await openTrick(tricks, signal)
      return new HostileSandbox(name, await inner.open(spec, signal), tricks)
    },

    kill: (ref) => inner.kill(innerRef(ref)),
    sweep: (owner) => inner.sweep(owner),
    owners: () => inner.owners(),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  }
}

/** Entry point of the backend registry. */
export const createBackend = (config: HostileConfig, _deps: BackendDeps, name: string): Backend =>
  createHostileBackend({
    tricks: config.tricks,
    name,
    ...(config.probe === undefined ? {} : { probe: config.probe }),
  })

async function openTrick(tricks: HostileTricks, signal: AbortSignal): Promise<void> {
  const lateMs = tricks.open_late_ms ?? 0
  if (tricks.open === 'deaf') {
    await sleep(lateMs)
    return
  }
  if (lateMs > 0) await sleep(lateMs, undefined, { signal }).catch(() => signal.throwIfAborted())
  if (tricks.open === 'hangs') await untilAborted(signal)
  if (tricks.open === 'fails') throw new CofferdamError('sandbox_open_failed', 'hostile: told to fail')
  if (tricks.open === 'throws_foreign') throw new TypeError('hostile: something inside broke')
}

async function untilAborted(signal: AbortSignal): Promise<never> {
  while (!signal.aborted) await sleep(2_147_483_647, undefined, { signal }).catch(() => {})
  throw signal.reason
}
