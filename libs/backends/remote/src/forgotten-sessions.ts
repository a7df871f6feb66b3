/**
 * Ends sandboxes whose session the registry has lost, as happens when Redis loses its data. Nobody attaches
 * to them any more, and their vendor would let them run until their time is over.
 *
 *   listed ──named by an entry──▶ kept
 *      └──by none──▶ looked at again ──by none for `afterMs`──▶ ended
 *
 * An entry names its sandbox from before the sandbox is requested until it is proven gone. The worker of a
 * turn restores a lost entry within seconds. So a sandbox that no entry names, at every look for `afterMs`,
 * belongs to nobody.
 */
import type { SessionRegistry } from '@cofferdam/contract'
import { z } from 'zod'
import type { BackendLogger } from '@cofferdam/sandbox/backend'

/** The setting `forgotten_after_ms`, in milliseconds. */
export const forgottenAfterSchema = z.int().min(0).max(3_600_000).default(120_000)

/** A sandbox in a vendor's list: `id` is the vendor's, `name` is in the handle of its entry. */
export interface KeptSandbox {
  id: string
  name: string
}

export interface ForgottenParts<Kept extends KeptSandbox> {
  registry: SessionRegistry
  backend: string
  /** Field of a handle that holds the name. */
  field: string
  /** A sandbox that no entry has named for this long is ended. */
  afterMs: number
  /** Returns false if there was none. */
  end(kept: Kept): Promise<boolean>
  logger: BackendLogger
}

export interface ForgottenSessions<Kept extends KeptSandbox> {
  /**
   * Ends lost sandboxes among those of this fleet, from a fresh list. Never rejects: the next list retries.
   */
  endAmong(kept: readonly Kept[]): Promise<void>
}

export function createForgottenSessions<Kept extends KeptSandbox>(
  parts: ForgottenParts<Kept>,
): ForgottenSessions<Kept> {
  const { registry, backend, field, afterMs, logger } = parts
  /** By ID: when it was first seen without an entry (monotonic clock). */
  let namedByNone = new Map<string, number>()

  async function look(kept: readonly Kept[]): Promise<void> {
    const named = kept.length === 0 ? new Set() : await namesInUse(registry, backend, field)
    const before = namedByNone
    const nowMs = performance.now()
    const lost = kept.filter(({ name }) => !named.has(name))
    namedByNone = new Map(lost.map(({ id }) => [id, before.get(id) ?? nowMs]))
    // Never ends a sandbox at the first look.
    const old = lost.filter(({ id }) => (before.get(id) ?? Infinity) + afterMs <= nowMs)
    await Promise.all(old.map(end))
  }

  async function end(one: Kept): Promise<void> {
    // False: another worker ended it, or the vendor's list is late. Not worth a log line.
    if (await parts.end(one))
      logger.warn({ backend, sandbox: one.id }, 'ended a sandbox of a session that the registry has lost')
  }

  return {
    async endAmong(kept) {
      await look(kept).catch((error: unknown) =>
        logger.warn({ err: error, backend }, 'sessions that the registry has lost may run on'),
      )
    },
  }
}

/** The names of sandboxes in all entries of a backend. */
export async function namesInUse(
  registry: SessionRegistry,
  backend: string,
  field: string,
): Promise<Set<unknown>> {
  const names = new Set<unknown>()
  for await (const { handle } of registry.entries(backend)) names.add(handle[field])
  return names
}
