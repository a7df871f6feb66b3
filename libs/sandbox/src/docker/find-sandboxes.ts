/** Sandboxes by their labels: what a worker owns, and who owns anything here. */
import type { SandboxId, WorkerId } from '@cofferdam/contract'
import { LABELS } from './container-options.ts'
import type { Daemon } from './daemon.ts'

export interface FoundSandbox {
  slotId: SandboxId
  owner: WorkerId
}

/** All containers with our labels, running or not; those of one owner when it is given. */
export async function findSandboxes(daemon: Daemon, owner?: WorkerId): Promise<FoundSandbox[]> {
  const label = [LABELS.sandbox, owner === undefined ? LABELS.owner : `${LABELS.owner}=${owner}`]
  const containers = await daemon.call('list', (abortSignal) =>
    daemon.docker.listContainers({ all: true, filters: { label }, abortSignal }),
  )
  return containers.flatMap(({ Labels: labels }) => {
    const slotId = labels[LABELS.sandbox]
    const owned = labels[LABELS.owner]
    return isSandboxId(slotId) && owned?.startsWith('wrk_') === true
      ? [{ slotId, owner: owned as WorkerId }]
      : []
  })
}

/** True for the text form of a sandbox id. */
export const isSandboxId = (text: unknown): text is SandboxId =>
  typeof text === 'string' && /^sbx_[0-9a-f]{32}$/.test(text)
