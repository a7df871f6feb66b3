/** Faults that a test or a user can ask for: what goes wrong with a claim before it gets its pod. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeObject } from './object-store.ts'
import { ready } from './sandbox-pods.ts'
import type { RunningStranger } from './stranger.ts'

export interface ControllerFaults {
  /** Claims that first lose their spare to another (`AdoptionConflict`) and then get the next one. */
  lose_adoption: number
  /** Claims that are first ready with the address of a pod that is gone. */
  stale_pods: number
  /** Claims that end with this reason. */
  refuse_claims: number
  refuse_reason: string
}

export const noFaults = (): ControllerFaults => ({
  lose_adoption: 0,
  stale_pods: 0,
  refuse_claims: 0,
  refuse_reason: 'TemplateNotFound',
})

/** An address where nothing listens, and how long a claim shows it. */
const NOBODY = '127.1.255.254'
const STALE_MS = 200

/** Sets wrong conditions of a claim with `say`, as the faults ask, before it gets its pod. */
export async function misleadFirst(
  claim: KubeObject,
  faults: ControllerFaults,
  stranger: RunningStranger | null,
  say: (claim: KubeObject, condition: object, sandbox?: object) => void,
): Promise<void> {
  if (faults.lose_adoption > 0) {
    faults.lose_adoption -= 1
    say(claim, ready('False', 'AdoptionConflict'))
  }
  if (faults.stale_pods > 0) {
    faults.stale_pods -= 1
    say(claim, ready('True', 'DependenciesReady'), { name: `${claim.metadata.name}-gone`, podIPs: [NOBODY] })
    await sleep(STALE_MS)
    say(claim, ready('False', 'AdoptionConflict'), {})
  }
  if (stranger !== null) {
    const { ip, lost } = stranger
    say(claim, ready('True', 'DependenciesReady'), { name: `${claim.metadata.name}-lost`, podIPs: [ip] })
    await lost
    say(claim, ready('False', 'AdoptionConflict'), {})
  }
}
