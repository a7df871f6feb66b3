/**
 * Sandboxes by the metadata that they carry: made with it, and found by it, also when their id was never learnt.
 *
 * One is created with a short life: a worker that dies before it runs anything costs a minute. Each execution then asks for the life that it needs.
 */
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import type { LeftBehind } from '@cofferdam/backend-remote'
import type { E2bConfig } from './config.ts'
import { madeNone, type ControlApi, type Created } from './control-api.ts'

/** Beyond the longest start: the first execution then asks for the life that it needs. */
const START_MARGIN_MS = 60_000

/** Metadata by which a sandbox is found again. */
export const OWNER = 'cofferdam_owner'
export const SLOT = 'cofferdam_slot'

export interface SandboxParts {
  /** What it could not kill is left behind. */
  api: ControlApi
  left: LeftBehind
  config: E2bConfig
  logger: BackendLogger
}

/** Asks for one, and looks for it where the answer was lost: what was made must not be left running. Throws as `ControlApi.create`. */
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
    // It may be made after this look, and lives no longer than that.
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

/** Kills whatever was made for a slot, also when its id was never learnt; true when something was there. */
export async function killBySlot(api: ControlApi, slot: string): Promise<boolean> {
  const found = await api.list({ [SLOT]: slot })
  const killed = await Promise.all(found.map(({ sandboxID }) => api.kill(sandboxID)))
  return killed.includes(true)
}
