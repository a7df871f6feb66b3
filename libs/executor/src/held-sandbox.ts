/**
 * The executor's ownership of one open sandbox. Disposing it destroys the sandbox and waits for the proof, but only
 * so long: a sandbox that is not proven gone is reported as leaked (its worker kills it by its ref, again and again) and goes on
 * holding its memory until it is gone after all, or for a minute.
 *
 *   held ──dispose──▶ destroying ──proof within `proofMs`──▶ gone
 *                         └──no proof, or dispose threw──▶ leaked (reported once)
 */
import { BOUNDS, type Outcome, type Sandbox, type SessionTurn } from '@cofferdam/contract'
import { settlesWithin, type Clock } from './clock.ts'
import type { MemoryLease } from './memory-budget.ts'

/**
 * Longer than a backend that is well gives itself (docker: 15 s): beyond this it hangs. On a busy disk one `docker rm` of a gVisor container whose
 * processes had been killed before took 7 s. The caller has its answer; slot and lease wait.
 */
export const DISPOSE_PROOF_MS = 20_000
/** No sandbox outlives its owner's care by more than a minute (DESIGN §10.6): then its memory counts as free. */
export const LEAK_HOLD_MS = 60_000

export interface HeldSandbox extends AsyncDisposable {
  readonly sandbox: Sandbox
  readonly openMs: number
  /** Starts to destroy it now and resolves like dispose. Idempotent; never rejects. */
  destroy(): Promise<void>
}

/** What an outcome says of where it ran. */
export type Place = Pick<Outcome, 'backend' | 'isolation' | 'warm' | 'interpreterId' | 'vendorRef' | 'openMs'>

/** The place of `held`; backends whose tenants have interpreters of their own name them in the handle. */
export function placeOf({ sandbox, openMs }: Pick<HeldSandbox, 'sandbox' | 'openMs'>): Place {
  const { ref, isolation, warm } = sandbox
  const { interpreter } = ref.handle
  const named = typeof interpreter === 'string' ? { interpreterId: interpreter } : {}
  const vendorRef = vendorRefOf(sandbox)
  const called = vendorRef === null ? {} : { vendorRef }
  return { backend: ref.backend, isolation, warm, ...named, ...called, openMs }
}

/** What its vendor's logs call it; null where there is none, or none that could be stored. */
export function vendorRefOf({ ref: { vendorRef } }: Pick<Sandbox, 'ref'>): string | null {
  const isSound =
    typeof vendorRef === 'string' &&
    vendorRef.length <= BOUNDS.vendorRefLength &&
    /^[\x21-\x7e]+$/.test(vendorRef)
  return isSound ? vendorRef : null
}

/** What an outcome says of the session; `interpreter` where a program told. */
export const turnOf = (
  { session }: Sandbox,
  interpreter: SessionTurn['interpreter'] = 'none',
): SessionTurn | null => (session === null ? null : { ...session, interpreter })

export interface HoldOptions {
  clock: Clock
  proofMs: number
  memory: MemoryLease
  openMs: number
  /** Called at most once, when the sandbox is not proven gone; `ending` is its disposal, which may still be under way. */
  onLeaked: (sandbox: Sandbox, why: unknown, ending: Promise<void>) => void
}

/** Takes ownership of `sandbox`. */
export function holdSandbox(sandbox: Sandbox, options: HoldOptions): HeldSandbox {
  let destroyed: Promise<void> | null = null
  const destroy = () => (destroyed ??= destroyProven(sandbox, options))
  return { sandbox, openMs: options.openMs, destroy, [Symbol.asyncDispose]: destroy }
}

async function destroyProven(sandbox: Sandbox, options: HoldOptions): Promise<void> {
  const { clock, proofMs, memory, onLeaked } = options
  const disposal = disposeOf(sandbox)
  memory.holdUntil(settlesWithin(clock, LEAK_HOLD_MS, disposal))
  if (!(await settlesWithin(clock, proofMs, disposal))) {
    onLeaked(sandbox, new Error(`its disposal gave no proof within ${proofMs} ms`), disposal)
    return
  }
  await disposal.catch((error: unknown) => onLeaked(sandbox, error, disposal))
}

async function disposeOf(sandbox: Sandbox): Promise<void> {
  await sandbox[Symbol.asyncDispose]()
}
