/** Conformance of the bwrap rung: real sandboxes, killed from outside with what /proc shows. */
import { newWorkerId } from '@cofferdam/contract'
import { exerciseBackend, POOL_THEMES } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

await exerciseBackend('process', ...onRung('bwrap', { needs: ['bwrap'], destroyUnderneath: killAgent }))

const warmOwner = newWorkerId('c0ffee000001')
await exerciseBackend(
  'process',
  ...onRung('bwrap', { needs: ['bwrap'], destroyUnderneath: killAgent, warmOwner, shortThemes: POOL_THEMES }),
)
