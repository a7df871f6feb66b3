/**
 * Creates sandboxes with metadata, by which they can be found even if their ID was never learnt. A new
 * sandbox has a short life, because its worker may die before it runs anything. Each execution extends the
 * life.
 */
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import type { LeftBehind } from '@cofferdam/backend-remote'
import type { E2bConfig } from './config.ts'
import { madeNone, type ControlApi, type Created } from './control-api.ts'

/** A new sandbox lives for the longest start plus this time. The first execution then extends its life. */
const START_MARGIN_MS = 60_000

/** Metadata by which a sandbox is found. */
export const OWNER = 'cofferdam_owner'
export const SLOT = 'cofferdam_slot'

export interface SandboxParts {
  /** `left` remembers a sandbox that could not be killed. */
  api: ControlApi
  left: LeftBehind
  config: E2bConfig
  logger: BackendLogger
}

/** Creates a sandbox; finds and kills it after a lost answer. Throws as `ControlApi.create`. */
export async function createSandbox(
  { api, left, config, logger }: SandboxParts,
  metadata: Record<string, string> & { [SLOT]: string },
  signal: AbortSignal,
): Promise<Created> {
  const lifeMs = config.ready_timeout_ms + START_MARGIN_MS
  try {
    return await api.create({ template: config.template, lifeMs, metadata }, signal)
  } catch (error) {
    if (madeNone(error)) throw error
    const slot = metadata[SLOT]
    // The lost request may still create the sandbox after this search. By `untilMs` its life is over.
    const untilMs = Date.now() + lifeMs
    await left
      .end(slot, () => killBySlot(api, slot), { comesUntilMs: untilMs, endsAtMs: untilMs })
      .catch((cause: unknown) =>
        logger.warn(
          { err: cause, slot },
          'e2b: a sandbox whose creation failed may run on until its life ends',
        ),
      )
    throw error
  }
}

/** Kills every sandbox of a slot, even with an unknown ID; true if there was one. */
export async function killBySlot(api: ControlApi, slot: string): Promise<boolean> {
  const found = await api.list({ [SLOT]: slot })
  const killed = await Promise.all(found.map(({ sandboxID }) => api.kill(sandboxID)))
  return killed.includes(true)
}
