/**
 * The executor's ownership of one open sandbox. Disposing it destroys the sandbox and waits a bounded time
 * for the proof. A sandbox that is not proven gone is reported as leaked, and its worker keeps killing it by
 * its ref. Its memory counts as used until it is proven gone, for at most a minute.
 *
 *   held ──dispose──▶ destroying ──proof within `proofMs`──▶ gone
 *                         └──no proof, or dispose threw──▶ leaked (reported once)
 */
import { BOUNDS, type Outcome, type Sandbox, type SessionTurn } from '@cofferdam/contract'
import type { Attributes } from '@opentelemetry/api'
import { settlesWithin, type Clock } from './clock.ts'
import type { MemoryLease } from './memory-budget.ts'
import { ATTRIBUTE } from './spans.ts'

/**
 * Longer than a healthy backend needs (docker allows itself 15 s). On a busy disk, one `docker rm` of a
 * gVisor container whose processes were dead took 7 s. Meanwhile only the worker's slot and the memory lease
 * are held. The caller does not wait.
 */
export const DISPOSE_PROOF_MS = 20_000
/**
 * A sandbox outlives its owner by at most this (SPECIFICATION.md), so its memory counts as free afterwards.
 */
export const LEAK_HOLD_MS = 60_000

export interface HeldSandbox extends AsyncDisposable {
  readonly sandbox: Sandbox
  readonly openMs: number
  /** Starts to destroy it and resolves like dispose. Idempotent. Never rejects. */
  destroy(): Promise<void>
}

/** What an outcome says about where it ran. */
export type Place = Pick<Outcome, 'backend' | 'isolation' | 'warm' | 'interpreterId' | 'vendorRef' | 'openMs'>

/** Where `held` runs. If tenants have their own interpreters, the backend's handle names the interpreter. */
export function placeOf({ sandbox, openMs }: Pick<HeldSandbox, 'sandbox' | 'openMs'>): Place {
  const { ref, isolation, warm } = sandbox
  const { interpreter } = ref.handle
  const named = typeof interpreter === 'string' ? { interpreterId: interpreter } : {}
  const vendorRef = vendorRefOf(sandbox)
  const called = vendorRef === null ? {} : { vendorRef }
  return { backend: ref.backend, isolation, warm, ...named, ...called, openMs }
}

/** The name in the vendor's logs. Null if there is none, or none that can be stored. */
function vendorRefOf({ ref: { vendorRef } }: Pick<Sandbox, 'ref'>): string | null {
  const isSound =
    typeof vendorRef === 'string' &&
    vendorRef.length <= BOUNDS.vendorRefLength &&
    /^[\x21-\x7e]+$/.test(vendorRef)
  return isSound ? vendorRef : null
}

export function placeAttributes(sandbox: Sandbox): Attributes {
  const vendorRef = vendorRefOf(sandbox)
  return {
    [ATTRIBUTE.backend]: sandbox.ref.backend,
    [ATTRIBUTE.isolation]: sandbox.isolation,
    [ATTRIBUTE.warm]: sandbox.warm,
    ...(vendorRef === null ? {} : { [ATTRIBUTE.vendorRef]: vendorRef }),
  }
}

/** The session in an outcome. `interpreter` is set when a program reported it. */
export const turnOf = (
  { session }: Sandbox,
  interpreter: SessionTurn['interpreter'] = 'none',
): SessionTurn | null => (session === null ? null : { ...session, interpreter })

export interface HoldOptions {
  clock: Clock
  proofMs: number
  memory: MemoryLease
  openMs: number
  /**
   * Called at most once, if the sandbox is not proven gone in time. `ending` is its disposal, which may still
   * run.
   */
  onLeaked: (sandbox: Sandbox, why: unknown, ending: Promise<void>) => void
}

export function holdSandbox(sandbox: Sandbox, options: HoldOptions): HeldSandbox {
  let destroyed: Promise<void> | null = null
  const destroy = () => (destroyed ??= destroyProven(sandbox, options))
  return { sandbox, openMs: options.openMs, destroy, [Symbol.asyncDispose]: destroy }
}

async function destroyProven(sandbox: Sandbox, options: HoldOptions): Promise<void> {
  const { clock, proofMs, memory, onLeaked } = options
  const disposal = disposeOf(sandbox)
  // A disposal that throws proves nothing: the sandbox may still run.
  const gone = disposal.catch(() => new Promise<never>(() => {}))
  memory.holdUntil(settlesWithin(clock, LEAK_HOLD_MS, gone))
  if (!(await settlesWithin(clock, proofMs, disposal))) {
    onLeaked(sandbox, new Error(`its disposal gave no proof within ${proofMs} ms`), disposal)
    return
  }
  await disposal.catch((error: unknown) => onLeaked(sandbox, error, disposal))
}

async function disposeOf(sandbox: Sandbox): Promise<void> {
  await sandbox[Symbol.asyncDispose]()
}
