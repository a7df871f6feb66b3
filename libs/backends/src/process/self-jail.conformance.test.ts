/** Conformance of the self-jail rung, on whatever namespaces this host gives it. */
import { newWorkerId } from '@cofferdam/contract'
import { exerciseBackend, POOL_THEMES, RUNG_THEMES } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

await exerciseBackend(
  'process',
  ...onRung('self', { needs: ['self-jail'], destroyUnderneath: killAgent, shortThemes: RUNG_THEMES }),
)

const warmOwner = newWorkerId('c0ffee000002')
await exerciseBackend(
  'process',
  ...onRung('self', {
    needs: ['self-jail'],
    destroyUnderneath: killAgent,
    warmOwner,
    shortThemes: POOL_THEMES,
  }),
)
